"""Subspace clustering that learns its own metric [zou]: the estimator."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.components import named_parts
from krepes.base.display import documentation_page
from krepes.base.reporting import warn
from krepes.base.validation import check_squares, estimator_rows
from krepes.clustering.affinity import assign, components, leading_eigenpairs, linked
from krepes.clustering.codings import Coding
from krepes.clustering.metric import (
    LARGEST_DUAL,
    Iterate,
    Settings,
    basis_of,
    iterates,
    normalized,
    settings_for,
)
from krepes.clustering.projections import Projection
from krepes.kernels import Kernel

BLOCK_BYTES = 128 * 2**20


class SubspaceClustering(ClusterMixin, BaseEstimator):
    """Find clusters of rows that can be expressed by one another, in a metric that is learned for this.

    Every row is predicted from the others by kernel ridge regression. The mean local covariance of these regressions
    gives a projection of the data, and both steps are repeated. The coefficients make an affinity matrix, which
    spectral clustering cuts into clusters.

        c_i = argmin |phi(x_i) - phi(X_-i) c|^2 + lam |c|^2,    W = |C| + |C|^T                     [zou, Alg. 1]

    Parameters
    ----------
    n_clusters : int or None, default=None
        None estimates it from the eigengap of the affinity (at most 50).
    kernel : "auto", Kernel, name or callable, default="auto"
        "auto" is a Gaussian kernel whose lengthscale is 1.5 median distances, computed again after every projection.
        With a projection the kernel must be a function of |x - y| or of x.y.
    n_iterations : int, default=8
        The largest number of projections. 0, or `projection=None`, is KTRR [zhen].
    regularization : float, default=1.0
        The ridge lam, relative to the mean of k(x, x).
    projection : "precision", "covariance", "inverse", Projection, function or None, default="precision"
        How the local covariance changes the data. `projection__filter` is its second regularisation, relative to
        the largest eigenvalue. A function is a filter of the eigenvalues, given as shares of the largest.
    truncation : int or None, default=7
        How many of its largest coefficients a row keeps.
    normalization : "auto", "unit", "global" or "none", default="auto"
        How rows are scaled after every projection. auto gives every row unit length, or, for kernels of x.y, divides
        all rows by one number.
    selection : "eigengap" or "last", default="eigengap"
        Which iteration's affinity is cut: the one with the largest relative eigengap, or the last, as published.
    coding : "ridge", "least_squares", "matching_pursuit", "elastic_net" or Coding, default="ridge"
        What gives the coefficients; the others are baselines (use them with `projection=None`), or act on the data
        in the metric that the ridge regressions have learned.
    n_landmarks : int, "auto" or None, default="auto"
        Nyström features for the regressions; None computes with the n x n kernel matrix. "auto" takes landmarks where
        the kernel has fewer features than there are rows (then nothing is approximated), and 500 for more than 4096
        rows.
    n_init : int, default=10
        How many times K-means starts.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    labels_ : array of shape (n,)
    affinity_matrix_ : array, or sparse array with a truncation, of shape (n, n)
    projection_ : array of shape (d, r)
        Rows times this, normalised, are the data in the metric found; the identity if none was learned.
    kernel_ : Kernel
        The kernel used, with numbers for its parameters.
    n_clusters_ : int
    n_iter_ : int
        The iteration chosen.
    history_ : list of dict
        For every iteration: iteration, gap, n_clusters, eigenvalues.
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

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        kernel: str | Kernel | Callable[[Any, Any], ArrayLike | Tensor] = "auto",
        n_iterations: int = 8,
        regularization: float = 1.0,
        projection: str | Projection | Callable[[Tensor], Tensor] | None = "precision",
        truncation: int | None = 7,
        normalization: str = "auto",
        selection: str = "eigengap",
        coding: str | Coding = "ridge",
        n_landmarks: int | str | None = "auto",
        n_init: int = 10,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.n_iterations = n_iterations
        self.regularization = regularization
        self.projection = projection
        self.truncation = truncation
        self.normalization = normalization
        self.selection = selection
        self.coding = coding
        self.n_landmarks = n_landmarks
        self.n_init = n_init
        self.random_state = random_state

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `kernel__lengthscale=...` is for a part of the model, also if it was given by name."""
        return super().set_params(**named_parts(self, self.component_kinds, params))

    @torch.no_grad()
    def fit(self, X: Any, y: Any = None) -> SubspaceClustering:
        """Learn the metric and the clusters of the rows; images are flattened, y is ignored."""
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
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        basis = basis_of(rows[lit])
        kept, self.history_ = self._search(rows[lit] if basis is None else rows[lit] @ basis, settings, seed)
        self._kept, self.kernel_, self.n_iter_ = kept, kept.kernel, kept.index
        M = torch.eye(rows.shape[1]).to(rows) if basis is None else basis
        self.projection_ = (M if kept.M is None else M @ kept.M).numpy()
        self._cluster(kept, np.random.default_rng(seed))
        if not lit.all():
            self._add_dark(lit.numpy())
        return self

    def _search(self, rows: Tensor, settings: Settings, seed: int) -> tuple[Iterate, list[dict[str, Any]]]:
        """The iterate to use, and the history of all; found on a part of the rows if there are very many."""
        if len(rows) > LARGEST_DUAL:
            some = np.random.default_rng(seed).choice(len(rows), LARGEST_DUAL, replace=False)
            found, history = self._search(rows[torch.from_numpy(np.sort(some))], settings, seed)
            settings = replace(settings, n_clusters=found.n_clusters)
            return Iterate(rows, found.M, found.index, settings, seed), history
        kept: Iterate | None = None
        history = []
        learned = settings.projection is not None and settings.n_iterations > 0
        judged = learned and self.selection == "eigengap"
        for iterate in iterates(rows, settings, seed):
            entry: dict[str, Any] = {"iteration": iterate.index}
            if judged:
                entry |= {"gap": iterate.gap, "n_clusters": iterate.n_clusters}
                entry["eigenvalues"] = iterate.spectrum
            history.append(entry)
            if kept is None or not judged or iterate.gap > kept.gap:
                kept = iterate
        assert kept is not None  # because the rows as given are always there
        return kept, history

    def _cluster(self, kept: Iterate, generator: np.random.Generator) -> None:
        n, k = len(kept.X), kept.n_clusters
        self.n_clusters_ = k
        if self.n_clusters is None and k == 1:
            warn("The affinity's eigenvalues show only one cluster; set n_clusters to ask for more.")
        elif bool((kept.X[0] == kept.X).all()):
            warn("All rows are the same: their clusters are arbitrary.")
        if k == 1 or k == n:
            self.affinity_matrix_ = kept.affinity
            self.labels_ = np.zeros(n, dtype=np.int32) if k == 1 else np.arange(n, dtype=np.int32)
            self._kept_labels = self.labels_
            return
        W = self.affinity_matrix_ = linked(kept.affinity, kept.coefficients, k)
        if not W.sum() > 0:
            raise ValueError(
                "No row is expressed by others, so that there is nothing to cluster by. Try kernel='gaussian'."
            )
        count, _ = components(W)
        if count > k:
            warn(f"The affinity has {count} components for {k} clusters: the smallest are put together.")
        _, vectors = leading_eigenpairs(W, max(k, count), generator)
        self.labels_ = self._kept_labels = assign(vectors, k, self.n_init, generator)

    def _add_dark(self, lit: np.ndarray) -> None:
        """Give rows of zeros a label, that of c(0), and empty rows in the affinity."""
        labels = np.empty(len(lit), dtype=self.labels_.dtype)
        labels[lit] = self.labels_
        labels[~lit] = self._vote(torch.zeros(1, self._kept.X.shape[1]).double())[0]
        place = scipy.sparse.eye_array(len(lit), format="csc")[:, np.flatnonzero(lit)]
        W = place @ self.affinity_matrix_ @ place.T
        self.labels_, self.affinity_matrix_ = labels, W.tocsr() if scipy.sparse.issparse(W) else W

    @torch.no_grad()
    def predict(self, X: Any) -> np.ndarray:
        """Labels of new rows: the cluster with most of the coefficients of c(x), cut as in fit.  [zou, Eq. 4]

        A row of the training data is expressed by itself as well, so its label is almost always that of `labels_`.
        """
        check_is_fitted(self, "labels_")
        return self._vote(torch.from_numpy(self.project(X)))

    def to_onnx(self, path: str | os.PathLike, *, overwrite: bool = False) -> None:
        """Write `predict` as an ONNX file, which holds the projected rows of the fit; needs the extra `onnx`."""
        program = import_module("krepes.export.cluster_formulas").program_of_clusters(self)
        import_module("krepes.export.onnx_file").write_onnx(program, path, overwrite)

    def _vote(self, Y: Tensor) -> np.ndarray:
        """Labels of projected rows; the largest cluster where every coefficient is zero."""
        indicators = torch.from_numpy(np.eye(self.n_clusters_)[self._kept_labels])
        t = len(indicators) if self.truncation is None else min(self.truncation, len(indicators))
        labels = np.empty(len(Y), dtype=self.labels_.dtype)
        sizes = indicators.sum(0)
        for block in row_blocks(len(Y), rows_within(BLOCK_BYTES, 16 * len(indicators))):
            found = self._kept.expression.coefficients_of(Y[block]).abs().topk(t, dim=1)
            votes = (found.values.double()[:, :, None] * indicators[found.indices]).sum(1)
            labels[block] = torch.where((votes > 0).any(1), votes.argmax(1), sizes.argmax()).numpy()
        return labels

    def project(self, X: Any) -> np.ndarray:
        """Rows in the metric found, normalised, shape (n, r)."""
        check_is_fitted(self, "projection_")
        rows = self._rows(X, reset=False) @ torch.from_numpy(self.projection_)
        return normalized(rows, self._kept.scale).numpy()

    def _rows(self, X: Any, reset: bool) -> Tensor:
        """X as float64 rows, checked."""
        array = estimator_rows(self, X, reset=reset, allow_nd=True, ensure_min_samples=2 if reset else 1)
        return torch.from_numpy(np.array(array.reshape(len(array), -1), dtype=np.float64))
