"""Clusters of rows that can be expressed by one another: the estimator."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.components import named_parts
from krepes.base.display import documentation_page
from krepes.base.reporting import warn
from krepes.base.storage import model_file
from krepes.base.storage.codec import decode, encode
from krepes.base.validation import check_squares, estimator_rows
from krepes.clustering.affinity import BLOCK_BYTES, cut, linked, shares
from krepes.clustering.codings import Coding
from krepes.clustering.metric import precomputed, settings_for, tries_family
from krepes.clustering.normalization import basis_of
from krepes.clustering.projections import Projection
from krepes.clustering.search import (
    Found,
    best_of_family,
    feature_basis,
    one_method,
    picture_shape,
    spread_affinity,
)
from krepes.clustering.stored import StoredClusters, stored_of
from krepes.clustering.subspaces import subspaces_of
from krepes.kernels import Kernel


@dataclass(eq=False, repr=False)
class SubspaceClustering(ClusterMixin, BaseEstimator):
    """Find clusters of rows that can be expressed by one another.

    By default a family of codings is tried, from neighbour graphs to affine subspaces, with and without a metric that
    is learned, and the one whose graph falls apart best is used (`krepes.clustering.family`). A kernel, coding,
    regularization, truncation, normalization, selection, number of landmarks or filter that is given asks for one
    method with it:

        c_i = argmin |phi(x_i) - phi(X_-i) c|^2 + lam |c|^2,    W = |C| + |C|^T                     [zou, Alg. 1]

    whose mean local covariance gives a projection of the data; both steps are repeated. Spectral clustering cuts W.

    Parameters
    ----------
    n_clusters : int or None, default=None
        None estimates it (`krepes.clustering.counting`), or, with one method, takes the eigengap of the affinity.
    kernel : "auto", "precomputed", Kernel, name or callable, default="auto"
        "precomputed": X is a matrix of kernel values, (n, n), or (b, n) for new rows. With one method "auto" is a
        Gaussian of 1.5 median distances, computed again after every projection, and a projection needs a function of
        |x - y| or of x.y.
    n_iterations : int, default=8
        The largest number of projections. 0, or `projection=None`, is KTRR [zhen].
    regularization : float or "auto", default="auto"
        The ridge lam, relative to the mean of k(x, x); 1 with one method.
    projection : "precision", "covariance", "inverse", Projection, function or None, default="precision"
        How the local covariance changes the data. `projection__filter` is its second regularisation, relative to
        the largest eigenvalue. A function is a filter of the eigenvalues, given as shares of the largest.
    truncation : int, "auto" or None, default="auto"
        How many of its largest coefficients a row keeps; 7 with one method.
    normalization : "auto", "unit", "global", "affine" or "none", default="auto"
        How rows are scaled after every projection. With one method every row has unit length, or, for kernels of x.y,
        all rows are divided by one number. "affine" adds a column of ones, and no metric is learned then.
    selection : "auto", "eigengap" or "last", default="auto"
        Which iteration's affinity is cut: the one with the largest relative eigengap, or the last, as published.
    coding : "auto", "ridge", "least_squares", "matching_pursuit", "elastic_net", "neighbours", "self_tuning" or Coding
        What gives the coefficients. The others act on the data as given (`projection=None`), or in the metric that the
        ridge regressions have learned.
    n_landmarks : int, "auto" or None, default="auto"
        Nyström features for the regressions of one method; None computes with the n x n kernel matrix. "auto" takes
        them where the kernel has fewer features than there are rows, and 500 for more than 4096 rows.
    n_init : int, default=10
        How many times K-means starts.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    labels_ : array of shape (n,)
    memberships_ : array of shape (n, k)
        Soft assignments: the share of every cluster in a row's affinity.
    affinity_matrix_ : array, or sparse array with a truncation, of shape (n, n)
    selection_ : list of dict
        The candidates, the one chosen first: name, world, ratio (small is good), rows, chosen. Empty for one method.
    count_ : Count or None
        Where the number of clusters was looked for: candidates with scores, `sure`, `structure`.
    subspaces_ : list of Subspace
        Mean, basis and dimension of every cluster, in the features of X.
    projection_ : array of shape (d, r)
        Rows (or features of pictures) times this, normalised, are the data in the metric found.
    kernel_ : Kernel
        The kernel used, with numbers for its parameters.
    n_clusters_ : int
    n_iter_ : int
        The number of projections.
    history_ : list of dict
        For every iteration of Algorithm 1 that was tried: iteration, and ratio, or gap, n_clusters and eigenvalues.
    n_features_in_ : int

    Examples
    --------
    Two lines through the origin in the plane; with unit rows and a quadratic kernel, opposite points are equal:

    >>> t = np.array([-2.0, -1.0, 1.0, 2.0, 3.0])[:, None]
    >>> X = np.vstack([t * [1.0, 0.1], t * [0.1, 1.0]])
    >>> model = SubspaceClustering(2, kernel="polynomial", truncation=3, random_state=0)
    >>> labels = model.set_params(kernel__degree=2, kernel__offset=0.0).fit_predict(X)
    >>> len(set(labels[:5])), len(set(labels[5:])), bool(labels[0] != labels[5])
    (1, 1, True)
    """

    _doc_link_module = "krepes"
    _doc_link_template = property(documentation_page)
    component_kinds = {"kernel": Kernel, "projection": Projection, "coding": Coding}
    n_features_in_: int = field(init=False)
    feature_names_in_: np.ndarray = field(init=False)

    n_clusters: int | None = None
    _: KW_ONLY
    kernel: str | Kernel | Callable[[Any, Any], ArrayLike | Tensor] = "auto"
    n_iterations: int = 8
    regularization: float | str = "auto"
    projection: str | Projection | Callable[[Tensor], Tensor] | None = "precision"
    truncation: int | str | None = "auto"
    normalization: str = "auto"
    selection: str = "auto"
    coding: str | Coding = "auto"
    n_landmarks: int | str | None = "auto"
    n_init: int = 10
    random_state: int | np.random.RandomState | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = precomputed(self)
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `kernel__lengthscale=...` is for a part of the model, also if it was given by name."""
        return super().set_params(**named_parts(self, self.component_kinds, params))

    @torch.no_grad()
    def fit(self, X: Any, y: Any = None) -> SubspaceClustering:
        """Choose a coding and a metric, and find the clusters of the rows; y is ignored."""
        rows = self._rows(X, reset=True)
        # A zero row has no direction: it takes no part, and gets its label at the end.
        lit = (rows != 0).any(dim=1)
        if int(lit.sum()) < 2:
            raise ValueError(
                f"{int((~lit).sum())} of {len(rows)} rows are zero: there is nothing to cluster by."
            )
        settings = settings_for(self, len(rows), int(lit.sum()), rows.shape[1])
        if settings.normalization == "none":
            check_squares(rows.numpy(), "X")
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        basis = feature_basis(rows) if precomputed(self) else basis_of(rows[lit])
        if tries_family(self):
            found = best_of_family(rows[lit], basis, picture_shape(X), settings, self._seed)
        else:
            inner = rows[lit] if basis is None else rows[lit] @ basis
            judged = (
                settings.projection is not None and settings.n_iterations > 0 and self.selection != "last"
            )
            found = Found(*one_method(inner, settings, self._seed, judged), basis=basis)
        self._remember(found)
        self.history_, self.count_ = found.history, found.choice.count if found.choice else None
        self._cluster(found, rows[lit])
        if not lit.all():
            self._add_dark(lit.numpy())
        found.kept.slim()
        whole = rows @ basis if precomputed(self) and basis is not None else rows
        self.subspaces_ = subspaces_of(whole.numpy(), self.labels_, self.n_clusters_)
        return self

    def _remember(self, found: Found) -> None:
        self._found, self._kept = found, found.kept
        self.kernel_, self.n_iter_ = found.kept.kernel, found.kept.index
        self.projection_ = found.projection.numpy()
        self.selection_ = found.choice.table if found.choice else []

    def _cluster(self, found: Found, rows: Tensor) -> None:
        """Labels and affinity of the rows that are not zero."""
        kept, generator = found.kept, np.random.default_rng(self._seed)
        n, k = len(rows), kept.n_clusters
        self.n_clusters_ = k
        if self.n_clusters is None and k == 1:
            warn("These rows show only one cluster; set n_clusters to ask for more.")
        elif self.count_ is not None and not self.count_.sure:
            candidates = ", ".join(f"{k} ({score:.2f})" for k, score in self.count_.scores.items())
            warn(f"The number of clusters is not sure. Candidates with scores: {candidates}. Set n_clusters.")
        elif bool((kept.X[0] == kept.X).all()):
            warn("All rows are the same: their clusters are arbitrary.")
        W = kept.affinity if found.place is None else spread_affinity(found, rows, found.place)
        if k == 1 or k == n:
            self.labels_ = np.zeros(n, dtype=np.int32) if k == 1 else np.arange(n, dtype=np.int32)
        else:
            W = linked(W, kept.coefficients, k) if found.place is None else W
            self.labels_ = cut(W, k, self.n_init, generator)
        self.affinity_matrix_ = W
        self._kept_labels = self.labels_ if found.place is None else self.labels_[found.place]
        self.memberships_ = shares(W @ np.eye(k)[self.labels_], np.eye(k)[self.labels_])

    def _add_dark(self, lit: np.ndarray) -> None:
        """Give rows of zeros a label, that of c(0), and empty rows in the affinity."""
        labels = np.empty(len(lit), dtype=self.labels_.dtype)
        labels[lit] = self.labels_
        dark = self._votes(torch.zeros(1, self._kept.X.shape[1]).double())
        labels[~lit] = dark.argmax(1)[0]
        memberships = np.repeat(dark, len(lit), axis=0)
        memberships[lit] = self.memberships_
        place = scipy.sparse.eye_array(len(lit), format="csc")[:, np.flatnonzero(lit)]
        W = place @ self.affinity_matrix_ @ place.T
        self.affinity_matrix_ = W.tocsr() if scipy.sparse.issparse(W) else W
        self.labels_, self.memberships_ = labels, memberships

    @torch.no_grad()
    def predict(self, X: Any) -> np.ndarray:
        """Labels of new rows: the cluster with most of the coefficients of c(x), cut as in fit.  [zou, Eq. 4]

        A row of the training data is expressed by itself as well, so its label is almost always that of `labels_`.
        """
        return self.predict_proba(X).argmax(1).astype(self.labels_.dtype)

    @torch.no_grad()
    def predict_proba(self, X: Any) -> np.ndarray:
        """Soft assignments of new rows: the share of every cluster in the coefficients of c(x), shape (n, k)."""
        check_is_fitted(self, "labels_")
        return self._votes(torch.from_numpy(self.project(X)))

    def to_onnx(self, path: str | os.PathLike, *, overwrite: bool = False) -> None:
        """Write `predict` as an ONNX file, which holds the projected rows of the fit; needs the extra `onnx`."""
        program = import_module("krepes.export.cluster_formulas").program_of_clusters(self)
        import_module("krepes.export.onnx_file").write_onnx(program, path, overwrite)

    def _votes(self, Y: Tensor) -> np.ndarray:
        """Shares of the clusters for projected rows; the clusters' sizes where every coefficient is zero."""
        indicators = np.eye(self.n_clusters_)[self._kept_labels]
        t = min(self._kept.settings.truncation or len(indicators), len(indicators))
        found = np.empty((len(Y), self.n_clusters_))
        for block in row_blocks(len(Y), rows_within(BLOCK_BYTES, 16 * len(indicators))):
            top = self._kept.new_rows(Y[block]).abs().topk(t, dim=1)
            votes = (top.values.double()[:, :, None].numpy() * indicators[top.indices.numpy()]).sum(1)
            found[block] = shares(votes, indicators.mean(0))
        return found

    def project(self, X: Any) -> np.ndarray:
        """Rows in the metric found, normalised, shape (n, r)."""
        check_is_fitted(self, "projection_")
        return self._found.project(self._rows(X, reset=False)).numpy()

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a model file, from which `load` makes a model that predicts."""
        check_is_fitted(self, "labels_")
        state = encode(stored_of(self, self._found, self._kept_labels, self._seed))
        model_file.write(path, type(self).__name__, state, overwrite)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, kernel: Kernel | Callable | None = None, device: str = "cpu"
    ) -> Self:
        """Read a model file. `kernel` gives back a function of a user, which a file cannot hold."""
        stored = decode(StoredClusters, model_file.read(path, cls.__name__)[1])
        model = cls(**stored.parameters)
        model._remember(stored.found(kernel))
        model.selection_, model.subspaces_ = stored.selection, stored.subspaces
        model.n_clusters_ = stored.n_clusters
        model.labels_, model._kept_labels = stored.labels, stored.kept_labels
        model.memberships_, model._seed = stored.memberships, stored.seed
        model.history_, model.count_ = [], None
        model.n_features_in_ = stored.n_features_in
        if stored.feature_names_in is not None:
            model.feature_names_in_ = np.asarray(stored.feature_names_in, dtype=object)
        return model

    def _rows(self, X: Any, reset: bool) -> Tensor:
        """X as float64 rows, checked."""
        array = estimator_rows(self, X, reset=reset, allow_nd=True, ensure_min_samples=2 if reset else 1)
        return torch.from_numpy(np.array(array.reshape(len(array), -1), dtype=np.float64))
