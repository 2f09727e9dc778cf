"""KernelEmbedding: a kernel representation from unlabelled data, in one pass over it.

    f(x) = A^T k_x + gamma = W^T phi(x) + gamma            [krepes, section 3]

rows -> views -> Nyström features -> moments -> solver(loss) -> W, gamma. Cost O(n (m d + m r + r^2)) for the
pass, whatever the loss; then O(r^3) or O(r^2 h) per step, whatever n. Memory O(m^2) beyond one block of rows.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from krepes import model_file
from krepes.components import NamedParts, resolve
from krepes.embedding_file import read_embedding, write_embedding
from krepes.embedding_inputs import check_same_input
from krepes.embedding_passes import check_negatives, map_rows, open_samples, open_sources, sum_moments
from krepes.embedding_setup import check_parameters, prepare
from krepes.kernels import Kernel
from krepes.landmarks import LandmarkSelector
from krepes.losses import Loss, as_loss
from krepes.moments import Moments
from krepes.solvers import Callback, Solution, Solver, choose_solver
from krepes.views import Image, Paired, Views

logger = logging.getLogger("krepes")


class KernelEmbedding(NamedParts, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn a kernel representation of unlabelled rows, images or objects.

    Parameters
    ----------
    n_components : int, default=64
        h, the width of the representation.
    kernel : str, Kernel or callable k(X, Y) -> (n, m), default="gaussian"
    loss : str, Loss or callable f(Z1, Z2), default="spectral_contrastive"
        The default has a closed form and no parameter of its own.
    views : "auto", str, Views or None, default="auto"
        Augmentations: image views for (n, h, w[, c]) arrays and image folders, tabular views for vectors and
        tables, none for kernel PCA. "auto" draws more of them where rows are few: 8 views below 5000 rows, 2
        above 20 000.
    landmarks : str, LandmarkSelector, array of points or of row indices, default="pivoted_cholesky"
    n_landmarks : int, default=1000
        m; ignored where landmarks are given.
    solver : "auto", str or Solver, default="auto"
        The closed form where the loss has one, else descent on the moments, else training on samples.
    regularization : float, default=0.01
        lambda = regularization * tr(S) / r multiplies |W|^2: dimensionless, the same for every kernel scale.
    feature_noise : float or "auto", default="auto"
        Noise added to every view in the kernel's feature space, as a share of the features' mean variance. It is
        an augmentation that is exact for every kernel, and keeps weak directions from being blown up. "auto" is
        0.1, and 0 for images and for pairs, which have views enough.
    preprocess : "auto", "table", "normalize", None, TableEncoder or Normalize, default="auto"
        Frames, CSV and Parquet go through a TableEncoder; arrays are used as given, integer pixels / 255.
        "table" standardises the columns of an array, "normalize" the channels of images.
    device : str, default="auto"
        "auto" takes a GPU where there is one.
    dtype : "float32" or "float64", default="float32"
        Of kernel values and features. Moments are float64.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows progress on a terminal.

    Attributes
    ----------
    coefficients_ : ndarray of shape (m, h)
        A.
    intercept_ : ndarray of shape (h,)
        gamma.
    landmarks_ : Tensor of shape (m, ...) or list of m objects
        In the model's input space.
    landmark_indices_ : ndarray of shape (m,) or None
        Rows of the training data that the landmarks are.
    rank_ : int
        r, the number of Nyström features kept.
    moments_ : Moments
    kernel_, loss_, views_, solver_ : the objects used
    loss_parameters_ : dict of ndarrays
        What the loss has trained of its own, such as BYOL's predictor.
    views_per_landmark_ : int
        p; with p > 1 there are m p landmarks, ordered by view.
    history_ : list of dict
        Value of every term of the loss, by step; by epoch, where the loss is trained on samples.
    n_iter_ : int
        Steps, or epochs.
    best_epoch_ : int or None
        Where epochs are judged on held-out rows, the one whose coefficients were taken, counted from 1.
    n_features_in_ : int
    n_samples_seen_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = KernelEmbedding(n_components=4, n_landmarks=50, random_state=0).fit(X)
    >>> model.transform(X).shape
    (150, 4)
    """

    moments_: Moments | None
    _solution: Solution | None

    component_kinds = {
        "kernel": Kernel,
        "loss": Loss,
        "views": Views,
        "landmarks": LandmarkSelector,
        "solver": Solver,
    }

    def __init__(
        self,
        n_components: int = 64,
        *,
        kernel: Any = "gaussian",
        loss: Any = "spectral_contrastive",
        views: Any = "auto",
        landmarks: Any = "pivoted_cholesky",
        n_landmarks: int = 1000,
        solver: Any = "auto",
        regularization: float = 0.01,
        feature_noise: Any = "auto",
        preprocess: Any = "auto",
        device: str = "auto",
        dtype: str = "float32",
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.loss = loss
        self.views = views
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.solver = solver
        self.regularization = regularization
        self.feature_noise = feature_noise
        self.preprocess = preprocess
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **params: Any) -> KernelEmbedding:
        """Set parameters; `solver__max_epochs=...` with solver="auto" is for the solver that the loss gets."""
        nested = any(key.startswith("solver__") for key in params)
        if nested and params.get("solver", self.solver) == "auto":
            params.pop("solver", None)
            if "loss" in params:
                super().set_params(loss=params.pop("loss"))
            self.solver = choose_solver(as_loss(self.loss))
        return super().set_params(**params)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # the `dtype` parameter decides
        return tags

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        positives: Any = None,
        negatives: Any = None,
        checkpoint: str | os.PathLike | None = None,
        callback: Callback | None = None,
    ) -> KernelEmbedding:
        """Learn from X: an array, tensor, frame, memory map, list of objects, source, or one path.

        `positives` (and `negatives`) give a second view (and a different sample) for every row of X, in the
        same form as X; views are then not drawn. `y` is ignored. With `checkpoint`, a file of that name keeps
        the state of a long fit: the same call after an interruption goes on from there (give `random_state`).
        `callback(step, values)` is called after every epoch, or step of a descent on moments, with what `history_`
        gets; what it raises ends the fit.
        """
        check_parameters(self)
        if checkpoint is not None and self.random_state is None:
            raise ValueError(
                "checkpoint= needs a fixed random_state: without it, a second run is another fit."
            )
        solver = self._chosen_solver()
        self._prepare(X, positives, negatives)
        if solver.data == "samples":
            self._train(solver, X, positives, negatives, checkpoint, callback)
        else:
            self._accumulate(X, positives, negatives, checkpoint=checkpoint)
            self._solve(callback)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        positives: Any = None,
        negatives: Any = None,
        first_row: int | None = None,
    ) -> KernelEmbedding:
        """Add rows. The first call fixes preprocessing, kernel parameters, landmarks and views.

        The solve waits until the representation is asked for. `first_row` is the global index of the first
        row of X, which keys its random views: workers that share a data set give it.
        """
        if not hasattr(self, "landmarks_"):
            check_parameters(self)
            self._check_solver_adds()
            self._prepare(X, positives, negatives)
        else:
            self._check_has_moments()
            check_same_input(self, X)
        self._accumulate(X, positives, negatives, first_row)
        self._solution = None
        return self

    def _prepare(self, X: Any, positives: Any = None, negatives: Any = None) -> None:
        prepare(self, X, positives, negatives)

    def _chosen_solver(self) -> Solver:
        loss = as_loss(self.loss)
        return choose_solver(loss) if self.solver == "auto" else resolve(Solver, self.solver)

    def _check_solver_adds(self) -> None:
        if self._chosen_solver().data == "samples":
            raise ValueError(
                f"{as_loss(self.loss)} with solver={self._chosen_solver().name!r} is trained on the samples "
                "themselves: it cannot be continued with more rows, merged or refitted from moments. Call fit with "
                "all rows, or choose a loss of moments, such as spectral_contrastive or barlow_twins."
            )

    def _accumulate(
        self,
        X: Any,
        positives: Any,
        negatives: Any,
        first_row: int | None = None,
        checkpoint: str | os.PathLike | None = None,
    ) -> None:
        """Add the moments of X to those of the rows seen before."""
        check_negatives(self.loss_, positives, negatives)
        sources = open_sources(self, X, positives, negatives)
        offset = self.n_samples_seen_ if first_row is None else first_row
        part = sum_moments(self, sources, offset, checkpoint)
        self.moments_ = part if self.moments_ is None else self.moments_ + part
        self.n_samples_seen_ += sources[0].n_rows  # type: ignore[union-attr]

    def _train(
        self,
        solver: Solver,
        X: Any,
        positives: Any,
        negatives: Any,
        checkpoint: str | os.PathLike | None,
        callback: Callback | None,
    ) -> None:
        """Minimise the loss over the samples."""
        check_negatives(self.loss_, positives, negatives)
        self.solver_, self.exact_views_ = solver, False  # every batch draws its views
        sources = open_sources(self, X, positives, negatives)
        samples = open_samples(self, sources, checkpoint)
        if self.loss_.views_needed > 1:
            samples.noise_variance = self._feature_noise() * samples.mean_eigenvalue
        self._finish(samples, self.regularization * samples.mean_eigenvalue, self.rank_, callback)
        if samples.checkpoint is not None:
            samples.checkpoint.remove()
        self.n_samples_seen_ = samples.n_rows

    # Solving

    def _solve(self, callback: Callback | None = None) -> Solution:
        """Minimise the loss over the moments."""
        moments = self.moments_
        if moments is None:
            raise ValueError("This model has seen no rows yet: call partial_fit or merge first.")
        self.loss_, self.solver_ = as_loss(self.loss), self._chosen_solver()
        lam = self.regularization * moments.S.trace().item() / moments.rank
        if self.loss_.views_needed > 1:
            moments = moments.with_feature_noise(self._feature_noise())
        return self._finish(moments, lam, moments.rank, callback)

    def _finish(self, data: Any, lam: float, rank: int, callback: Callback | None) -> Solution:
        """Solve, from moments or from samples, and keep the solution."""
        generator = torch.Generator().manual_seed(self.seed_)
        start = time.perf_counter()
        solution = self.solver_.solve(self.loss_, data, self.n_components, lam, generator, callback)
        logger.info("%s: %.1f s, %d iterations", self.solver_, time.perf_counter() - start, solution.n_iter)
        if solution.W.shape[1] < self.n_components:
            warnings.warn(
                f"n_components={self.n_components}, but only {solution.W.shape[1]} of them are left: the "
                f"features have rank {rank} and regularization={self.regularization:g} cuts weak ones.",
                UserWarning,
                stacklevel=4,
            )
        A = solution.coefficients
        self._solution = solution
        self._coefficients = self.features_.coefficients(solution.W) if A is None else A
        self._intercept = solution.gamma.to(self._coefficients)
        return solution

    def _feature_noise(self) -> float:
        if self.feature_noise != "auto":
            return float(self.feature_noise)
        return 0.0 if isinstance(self.views_, Image | Paired) else 0.1

    def _solved(self) -> Solution:
        if "_solution" not in vars(self):
            raise AttributeError("This KernelEmbedding is not fitted yet: call fit first.")
        return self._solution if self._solution is not None else self._solve()

    @property
    def coefficients_(self) -> np.ndarray:
        self._solved()
        return self._coefficients.cpu().numpy()

    @property
    def intercept_(self) -> np.ndarray:
        self._solved()
        return self._intercept.cpu().numpy()

    @property
    def loss_parameters_(self) -> dict[str, np.ndarray]:
        return {name: value.cpu().numpy() for name, value in self._solved().parameters.items()}

    @property
    def history_(self) -> list[dict[str, float]]:
        return self._solved().history

    @property
    def n_iter_(self) -> int:
        return self._solved().n_iter

    @property
    def best_epoch_(self) -> int | None:
        return self._solved().best_epoch

    @property
    def _n_features_out(self) -> int:
        return len(self.intercept_)

    def refit(self, **params: Any) -> KernelEmbedding:
        """A new model from the same moments: another loss, width, regularization or solver, without data."""
        self._check_has_moments()
        allowed = {"loss", "n_components", "regularization", "feature_noise", "solver", "verbose"}
        fixed = sorted({key.split("__")[0] for key in params} - allowed)
        if fixed:
            raise ValueError(
                f"{', '.join(fixed)} cannot change without the data: moments depend on it. "
                f"refit takes {', '.join(sorted(allowed))}; for the rest call fit."
            )
        copy = self.empty_copy().set_params(**params)
        check_parameters(copy)
        copy._check_solver_adds()
        copy.moments_, copy.n_samples_seen_ = self.moments_, self.n_samples_seen_
        copy._solve()
        return copy

    def empty_copy(self) -> KernelEmbedding:
        """The same preprocessing, kernel, landmarks and views, with no rows seen: for another worker."""
        check_is_fitted(self, "landmarks_")
        copy = clone(self)
        vars(copy).update({name: value for name, value in vars(self).items() if name.endswith("_")})
        copy.moments_, copy.n_samples_seen_, copy._solution = None, 0, None
        return copy

    def merge(self, other: KernelEmbedding) -> KernelEmbedding:
        """Add the rows that another model has seen; both must share everything that moments depend on."""
        if not isinstance(other, KernelEmbedding):
            raise TypeError(f"merge takes another KernelEmbedding; got {type(other).__name__}.")
        self._check_has_moments()
        other._check_has_moments()
        mine, theirs = self.fingerprint(), other.fingerprint()
        different = [part for part in mine if mine[part] != theirs[part]]
        if different:
            raise ValueError(
                f"These models cannot be merged: they differ in {', '.join(different)}. Start the parts from "
                "one model's empty_copy()."
            )
        if other.moments_ is not None:
            self.moments_ = other.moments_ if self.moments_ is None else self.moments_ + other.moments_
            self.n_samples_seen_ += other.n_samples_seen_
            self._solution = None
        return self

    def _check_has_moments(self) -> None:
        check_is_fitted(self, "landmarks_")
        self._check_solver_adds()
        if self.moments_ is None and self._solution is not None:
            raise ValueError(
                "This model was saved without moments: it can transform, but not be refitted, continued or "
                "merged. Save with moments=True to keep them."
            )

    def fingerprint(self) -> dict[str, str]:
        """A hash of each part that moments depend on."""
        parts = {
            "preprocessing": self.input_space_,
            "kernel": self.kernel_,
            "landmarks": self.landmarks_,
            "views": self.views_,
            "dtype": self.dtype,
        }
        return {name: model_file.digest(part) for name, part in parts.items()}

    # Using

    def transform(self, X: Any) -> np.ndarray:
        """The representation of every row, shape (n, h)."""
        check_is_fitted(self, "landmarks_")
        check_same_input(self, X)
        return np.concatenate(list(self.iter_transform(X)))

    def iter_transform(self, X: Any, batch_rows: int | None = None) -> Iterator[np.ndarray]:
        """The representation in batches: memory stays bounded whatever n is."""
        check_is_fitted(self, "landmarks_")
        self._solved()
        A = self._coefficients.to(self.precision_.dtype)
        gamma = self._intercept.to(self.precision_.dtype)
        for Z in map_rows(
            self, lambda X: self.features_.kernel_block(X).to(A.dtype) @ A + gamma, X, batch_rows
        ):
            yield Z.cpu().numpy()

    def coverage(self, X: Any) -> np.ndarray:
        """|phi(x)|^2 / k(x, x) in [0, 1]: 1 = spanned by the landmarks, small = unlike anything seen."""
        return self._mapped("coverage", X)

    def residual(self, X: Any) -> np.ndarray:
        """k(x, x) - |phi(x)|^2: the part of every row that the landmarks do not span."""
        return self._mapped("residual", X)

    def _mapped(self, method: str, X: Any) -> np.ndarray:
        check_is_fitted(self, "landmarks_")
        check_same_input(self, X)
        function = getattr(self.features_, method)
        return np.concatenate([values.cpu().numpy() for values in map_rows(self, function, X, None)])

    # Files

    def save(self, path: str | os.PathLike, *, moments: bool = True, overwrite: bool = False) -> None:
        """Write one safetensors file: landmarks (real rows of the data), coefficients and, with `moments`,
        what `refit`, `partial_fit` and `merge` need."""
        check_is_fitted(self, "landmarks_")
        write_embedding(self, path, moments, overwrite)


def load(path: str | os.PathLike, *, kernel: Any = None, device: str = "auto") -> KernelEmbedding:
    """Read a model file. `kernel` gives back a user's kernel function, which a file cannot hold."""
    return read_embedding(KernelEmbedding, path, kernel, device)
