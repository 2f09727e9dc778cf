"""Clusters on subspaces and manifolds: rows that can be expressed by one another, in a metric learned for this."""

from krepes.clustering.agreement import clustering_error
from krepes.clustering.codings import Coding, ElasticNet, LeastSquares, MatchingPursuit, Ridge
from krepes.clustering.estimator import SubspaceClustering
from krepes.clustering.figures import plot_iterations, plot_selection, within_share
from krepes.clustering.neighbours import Neighbours, SelfTuning
from krepes.clustering.projections import Covariance, Filter, Inverse, Precision, Projection
from krepes.clustering.subspaces import Subspace

__all__ = [
    "Coding",
    "Covariance",
    "ElasticNet",
    "Filter",
    "Inverse",
    "LeastSquares",
    "MatchingPursuit",
    "Neighbours",
    "Precision",
    "Projection",
    "Ridge",
    "SelfTuning",
    "Subspace",
    "SubspaceClustering",
    "clustering_error",
    "plot_iterations",
    "plot_selection",
    "within_share",
]
