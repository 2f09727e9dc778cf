"""Codings: how a sample is expressed by the others. One file each; adding one is a file here and a line below."""

from krepes.clustering.codings.coding import Coding
from krepes.clustering.codings.elastic_net import ElasticNet
from krepes.clustering.codings.least_squares import LeastSquares
from krepes.clustering.codings.matching_pursuit import MatchingPursuit
from krepes.clustering.codings.ridge import Ridge

__all__ = ["Coding", "ElasticNet", "LeastSquares", "MatchingPursuit", "Ridge"]
