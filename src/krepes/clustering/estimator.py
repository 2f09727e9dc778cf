"""Clusters of rows that can be expressed by one another: the estimator."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from krepes.base import model_file
from krepes.base.blocks import row_blocks, rows_within
from krepes.base.codec import decode, encode
from krepes.base.components import named_parts
from krepes.base.reporting import warn
from krepes.base.validation import check_squares, estimator_rows
from krepes.clustering.affinity import BLOCK_BYTES, Affinity, assign, components, leading_eigenpairs, linked
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
from krepes.clustering.stored import StoredClusters, stored_parameters
from krepes.clustering.subspaces import subspaces_of
from krepes.kernels import Kernel


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

    component_kinds = {"kernel": Kernel, "projection": Projection, "coding": Coding}

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        kernel: str | Kernel | Callable[[Any, Any], ArrayLike | Tensor] = "auto",
        n_iterations: int = 8,
        regularization: float | str = "auto",
        projection: str | Projection | Callable[[Tensor], Tensor] | None = "precision",
        truncation: int | str | None = "auto",
        normalization: str = "auto",
        selection: str = "auto",
        coding: str | Coding = "auto",
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
            judged = settings.projection is not None and settings.n_iterations > 0 and self.selection != "last"
            found = Found(*one_method(inner, settings, self._seed, judged), basis=basis)
        self._remember(found)
        self.history_, self.count_ = found.history, found.choice.count if found.choice else None
        self._cluster(found, rows[lit])
        if not lit.all():
            self._add_dark(lit.numpy())
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
            warn("The affinity's eigenvalues show only one cluster; set n_clusters to ask for more.")
        elif bool((kept.X[0] == kept.X).all()):
            warn("All rows are the same: their clusters are arbitrary.")
        W = kept.affinity if found.place is None else spread_affinity(found, rows, found.place)
        if k == 1 or k == n:
            self.labels_ = np.zeros(n, dtype=np.int32) if k == 1 else np.arange(n, dtype=np.int32)
        else:
            W = linked(W, kept.coefficients, k) if found.place is None else W
            self.labels_ = self._cut(W, k, generator)
        self.affinity_matrix_ = W
        self._kept_labels = self.labels_ if found.place is None else self.labels_[found.place]
        self.memberships_ = self._shares(W @ np.eye(k)[self.labels_], self.labels_)

    def _cut(self, W: Affinity, k: int, generator: np.random.Generator) -> np.ndarray:
        if not W.sum() > 0:
            raise ValueError(
                "No row is expressed by others, so that there is nothing to cluster by. Try kernel='gaussian'."
            )
        count, _ = components(W)
        if count > k:
            warn(f"The affinity has {count} components for {k} clusters: the smallest are put together.")
        _, vectors = leading_eigenpairs(W, max(k, count), generator)
        return assign(vectors, k, self.n_init, generator)

    def _shares(self, votes: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Votes as shares; a row without votes belongs to its label."""
        total = votes.sum(1, keepdims=True)
        own = np.eye(votes.shape[1])[labels]
        return np.where(total > 0, votes / np.where(total > 0, total, 1), own)

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

    def _votes(self, Y: Tensor) -> np.ndarray:
        """Shares of the clusters for projected rows; the clusters' sizes where every coefficient is zero."""
        settings = self._kept.settings
        indicators = np.eye(self.n_clusters_)[self._kept_labels]
        t = min(settings.truncation or len(indicators), len(indicators))
        found = np.empty((len(Y), self.n_clusters_))
        for block in row_blocks(len(Y), rows_within(BLOCK_BYTES, 16 * len(indicators))):
            top = self._kept.new_rows(Y[block]).abs().topk(t, dim=1)
            weights = (top.values.double() ** settings.power)[:, :, None].numpy()
            votes = (weights * indicators[top.indices.numpy()]).sum(1)
            total = votes.sum(1, keepdims=True)
            found[block] = np.where(total > 0, votes / np.where(total > 0, total, 1), indicators.mean(0))
        return found

    def project(self, X: Any) -> np.ndarray:
        """Rows in the metric found, normalised, shape (n, r)."""
        check_is_fitted(self, "projection_")
        return self._found.project(self._rows(X, reset=False)).numpy()

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a model file, from which `load` makes a model that predicts."""
        check_is_fitted(self, "labels_")
        kept, settings = self._kept, self._kept.settings
        names = vars(self).get("feature_names_in_")
        stored = StoredClusters(
            parameters=stored_parameters(self.get_params(deep=False)),
            n_features_in=self.n_features_in_,
            feature_names_in=None if names is None else [str(name) for name in names],
            labels=self.labels_,
            kept_labels=self._kept_labels,
            memberships=self.memberships_,
            rows=kept.X,
            projection=self._found.projection,
            patches=self._found.patches,
            kernel=kept.kernel,
            coding=settings.coding,
            normalization=settings.normalization,
            scale=kept.scale,
            regularization=settings.regularization,
            truncation=settings.truncation,
            power=settings.power,
            n_landmarks=settings.n_landmarks,
            n_clusters=self.n_clusters_,
            iteration=kept.index,
            seed=self._seed,
            subspaces=self.subspaces_,
            selection=self.selection_,
        )
        model_file.write(path, type(self).__name__, encode(stored), overwrite)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, kernel: Kernel | Callable | None = None, device: str = "cpu"
    ) -> Self:
        """Read a model file. `kernel` gives back a function of a user, which a file cannot hold."""
        stored = decode(StoredClusters, model_file.read(path, cls.__name__)[1])
        model = cls(**stored.parameters)
        model._remember(stored.found(kernel))
        model.selection_, model.subspaces_, model.n_clusters_ = stored.selection, stored.subspaces, stored.n_clusters
        model.labels_, model._kept_labels = stored.labels, stored.kept_labels
        model.memberships_, model._seed = stored.memberships, stored.seed
        model.n_features_in_ = stored.n_features_in
        if stored.feature_names_in is not None:
            model.feature_names_in_ = np.asarray(stored.feature_names_in, dtype=object)
        return model

    def _rows(self, X: Any, reset: bool) -> Tensor:
        """X as float64 rows, checked."""
        array = estimator_rows(self, X, reset=reset, allow_nd=True, ensure_min_samples=2 if reset else 1)
        return torch.from_numpy(np.array(array.reshape(len(array), -1), dtype=np.float64))
