"""KernelEmbedding: a kernel representation from unlabelled data, in one pass over it.

    f(x) = A^T k_x + gamma = W^T phi(x) + gamma            [krepes, section 3]

rows -> views -> Nyström features -> moments -> solver(loss) -> W, gamma. Cost O(n (m d + m r + r^2)) for the
pass, whatever the loss; then O(r^3) or O(r^2 h) per step, whatever n. Memory O(m^2) beyond one block of rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from krepes.base.accumulator import Accumulator
from krepes.base.components import resolve
from krepes.base.reporting import display, warn
from krepes.base.rows import is_tensor
from krepes.base.split import ByFold, Parts, Split
from krepes.base.storage.checkpoint import remove_checkpoint
from krepes.base.storage.codec import State, decode_entry, encode
from krepes.base.storage.packing import digest
from krepes.base.validation import (
    as_row_indices,
    check_choice,
    check_count,
    check_number,
    is_integer,
    is_number,
)
from krepes.engines import Local, as_engine
from krepes.features import FeatureSpace, FitData, MomentPass, held_out, opener_of, prepare
from krepes.features.held_out import HeldOut
from krepes.features.space import LEAST_FOLDS
from krepes.features.task import SCALES, LinearMap, Task
from krepes.kernels import Kernel
from krepes.landmarks import LandmarkSelector
from krepes.losses import Loss, as_loss
from krepes.moments import Moments
from krepes.one_pass import Kernels
from krepes.preimages.invertible import Invertible
from krepes.preprocessing.targets import labelled_rows
from krepes.regression.ridge import Comparison, compare_by_labels
from krepes.solvers import Callback, Solver, choose_solver
from krepes.tally import Fit, RowRanges, Tally, total
from krepes.tally.fit import check_checkpoint, unsummed
from krepes.views import Views

REFITTED = {
    "loss",
    "n_components",
    "regularization",
    "feature_noise",
    "scale",
    "solver",
    "verbose",
}  # need no data


@dataclass(eq=False, repr=False)
class KernelEmbedding(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, Invertible[Moments | Parts[Moments]]
):
    """Learn a kernel representation of unlabelled rows, images or objects.

    Parameters
    ----------
    n_components : int or "auto", default=64
        Width h of the representation. "auto" is the smallest width, up to 128, that keeps 99 % of what the views of
        held-out rows have in common in the kernel's space; it keeps moments by fold, see `n_folds`.
    kernel : str, Kernel or callable k(X, Y) -> (n, m), default="auto"
        How rows are compared. "auto" is an L1-Laplacian kernel for tables and arrays of up to 128 columns, a Gaussian
        kernel for series and wider arrays, random warping for series of different lengths, the cosine for sparse rows.
        For images it compares a Gaussian kernel of pixels with `Patches(256)` by views of a sample, and takes patches
        where they are clearly better: `choice_`.
    loss : str, Loss or callable f(Z1, Z2), default="spectral_contrastive"
        What is learned. The default has a closed form and no parameters.
    views : "auto", str, Views or None, default="auto"
        Small random changes of a row that should not alter its meaning. "auto" is image views for (n, h, w[, c])
        arrays and image folders, series views with preprocess="series", tabular views for vectors and tables, sparse
        views for sparse rows, none for kernel PCA; it draws more of them where rows are few: 8 views below 5000 rows, 2
        above 20 000 and for patches.
    landmarks : str, LandmarkSelector, array of points or of row indices, default="pivoted_cholesky"
        How landmarks, the rows that all others are compared with, are chosen.
    n_landmarks : int or None, default=1000
        Number m of landmarks; more are better, and slower. Ignored where landmarks are given. None makes every point a
        landmark: each row and its positive and negative, or each drawn view of it. The fit is then exact, without an
        approximation of the kernel; it is for a few thousand points.
    solver : "auto", str or Solver, default="auto"
        How the loss is minimised. "auto" takes the closed form where the loss has one, else descent on the
        moments, else training on samples: on random batches, or with n_landmarks=None on all of them at once.
    regularization : float, default=1e-5
        How strongly the representation is smoothed; larger is smoother. lambda = regularization * v multiplies
        |W|^2, where v is the variance of the data in the kernel's space. The same number means the same for every
        scale of the kernel, precision and number of landmarks.
    feature_noise : float or "auto", default="auto"
        Noise added to every view in every direction of the kernel's feature space, its variance as a share of v. It
        is an augmentation that is exact for every kernel, and keeps weak directions from being blown up. "auto" is
        0.001, and 0 for images and for pairs, which have views enough.
    scale : "kernel", "orthonormal", "unit" or "loss", default="kernel"
        The scale of the components. "kernel" divides each by its norm in the kernel's space, so that smooth
        directions are larger than wiggly ones: what a classifier with few labels needs. With "orthonormal", ridge
        regression on the components is kernel ridge regression within their span. "unit" gives variance 1, and
        "loss" what the loss minimised. A StandardScaler behind the model undoes the first two.
    n_folds : int or None, default=None
        Keep the moments of this many random folds of the rows apart, at least 3, for `held_out_loss` and
        `held_out_correlations`. The fold of a row follows from its index alone. The moments then take k times their
        memory, also in the model file: k * 16 r^2 bytes, up to twice that for pairs. A fit warns if nothing that it
        learned holds for held-out rows, which costs k more solutions. None is 5 folds for n_components="auto".
    preprocess : "auto", "table", "series", "normalize", None, TableEncoder or Normalize, default="auto"
        Frames, CSV and Parquet go through a TableEncoder; arrays are used as given, integer pixels / 255.
        "table" standardises the columns of an array, "normalize" the channels of images. "series" reads arrays (n, t)
        or (n, t, c) and lists of arrays (t, c) as time series, and standardises their channels. None uses arrays as
        given, without a warning of columns that outweigh the others.
    space : FeatureSpace or None, default=None
        Another model's `space_`, such as one whose metric a kernel machine has learned: encoder, kernel and landmarks
        are taken from it, and must not be given as well. Views and seed are the model's own.
    engine : None, "dask", the address of a scheduler, or Engine, default=None
        Where passes over the data run: in this process; in a Dask cluster, of this machine or at the address; or where
        the engine says. It is not saved.
    device : str, default="auto"
        Where to compute: auto, cpu, cuda, cuda:1, ...; auto takes a GPU, if the machine has one.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of kernel values and features; float64 is more exact, and slower. "auto" is float32, and float64 with
        n_landmarks=None. Moments are float64.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows progress on a terminal.

    Attributes
    ----------
    coefficients_ : ndarray of shape (m, h)
        A.
    intercept_ : ndarray of shape (h,)
        gamma.
    n_components_ : int
        h, the number of components: those that "auto" chose, or that the regularization left.
    landmarks_ : Tensor of shape (m, ...) or list of m objects
        In the model's input space: encoded, and shifted where `input_space_` shifts columns that are far from zero.
    landmark_indices_ : ndarray of shape (m,) or None
        Rows of the training data that the landmarks are.
    rank_ : int
        r, the number of Nyström features kept.
    space_ : FeatureSpace
        What was fixed before the pass over all rows; shared with copies and refits.
    moments_ : Moments or None
        None where the loss was trained on samples, or a file came without them.
    kernel_, loss_, views_, solver_ : the objects used
    loss_parameters_ : dict of ndarrays
        Parameters of the loss that were trained, such as BYOL's predictor.
    views_per_landmark_ : int
        p; with p > 1 there are m p landmarks, ordered by view.
    history_ : list of dict
        Value of every term of the loss, by step; by epoch, where the loss is trained on samples.
    n_iter_ : int
        Steps, or epochs.
    best_epoch_ : int or None
        Where epochs are judged on held-out rows, the one whose coefficients were taken, counted from 1.
    choice_ : KernelChoice or None
        What kernel="auto" compared for images; print it. It is not saved, the kernel is.
    selection_ : Comparison
        Of a model that `select` has chosen: what was compared. It is not saved.
    n_features_in_ : int
    n_samples_seen_ : int
        How many rows the moments hold.
    next_row_ : int
        The global index of the next row that is added.
    rows_seen_ : RowRanges or None
        Which rows the moments hold, where that is known.
    groups_ : dict
        Rows by group, where moments are kept by group.
    half_life_ : float or None
        In how many rows the weight of a row falls by half.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = KernelEmbedding(n_components=4, n_landmarks=50, random_state=0).fit(X)
    >>> model.transform(X).shape
    (150, 4)
    """

    n_components: int | str = 64
    _: KW_ONLY
    kernel: Kernels = "auto"
    loss: str | Loss | Callable = "spectral_contrastive"
    views: str | Views | None = "auto"
    n_landmarks: int | None = 1000
    solver: str | Solver = "auto"
    regularization: float = 1e-5
    feature_noise: float | str = "auto"
    scale: str = "kernel"
    n_folds: int | None = None
    space: FeatureSpace | None = None

    loss_: Loss = field(init=False)
    solver_: Solver = field(init=False)
    selection_: Comparison = field(init=False)

    component_kinds = {
        "kernel": Kernel,
        "loss": Loss,
        "views": Views,
        "landmarks": LandmarkSelector,
        "solver": Solver,
    }
    total_name = "moments"
    solution_type = LinearMap

    def set_params(self, **params: Any) -> KernelEmbedding:
        """Set parameters; `solver__max_epochs=...` with solver="auto" is for the solver that the loss gets."""
        nested = any(key.startswith("solver__") for key in params)
        if nested and params.get("solver", self.solver) == "auto":
            params.pop("solver", None)
            if "loss" in params:
                super().set_params(loss=params.pop("loss"))
            self.solver = choose_solver(as_loss(self.loss), exact=self.n_landmarks is None)
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Tags:
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
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
        checkpoint: str | os.PathLike | None = None,
        callback: Callback | None = None,
        space: FeatureSpace | None = None,
    ) -> KernelEmbedding:
        """Learn from X: an array, tensor, frame, memory map, list of objects, source, or one path.

        `positives` (and `negatives`) give a second view (and a different sample) for every row of X, in the
        same form as X; views are then not drawn. `y` is ignored. A row counts `sample_weight` times in the moments;
        rows of weight zero are left out. With `groups`, one for every row or the name of a column of X, which is then
        not a feature, moments are kept by group: see `only` and `without`. With `checkpoint`, a file of that name keeps
        the state of a long fit: after an interruption the same call continues from there (give `random_state`).
        `callback(step, values)` is called after every epoch, or step of a descent on moments, with what `history_`
        gets; what it raises ends the fit. `space` is a feature space to use as it is, from `prepare` or another
        model's `space_`.
        """
        self._check_parameters()
        task = self._task()
        given = {"positives": positives, "negatives": negatives, "weight": sample_weight}
        data = self._opened_for(task, X, groups, space or self.space, **given)
        check_checkpoint(checkpoint, data, self.random_state)
        space = self._space_for(task, data) if space is None else self._by_folds(space)
        if task.of_samples:
            space = replace(space, exact_views=False)  # every batch draws its views
            tally: Tally[Moments | Parts[Moments]] = unsummed(data.n_rows)
            reader = data.reader(space.inputs, space.placement)
            solution = task.trained(space, reader, checkpoint, callback, display(self.verbose))
            data.check_unchanged()
        else:
            tally = total(self._accumulator(space), data, space, self._run_in(space), checkpoint)
            assert tally.total is not None
            solution = _minimised(task, space, tally.total, callback)
            if isinstance(tally.total, Parts):
                held_out.check_learned(task, space, tally.total, solution)
        self._own(Fit(space, tally, data.group_column), solution)._use(task)
        self._record_input(X, space.inputs)
        if checkpoint is not None:
            remove_checkpoint(checkpoint)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        positives: Any = None,
        negatives: Any = None,
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
        first_row: int | None = None,
        half_life: float | None = None,
    ) -> KernelEmbedding:
        """Add rows. The first call fixes preprocessing, kernel parameters, landmarks and views.

        The model is solved when the representation is first needed. `first_row` is the global index of the first
        row of X, which keys its random views: workers that share a data set give it. `groups` as in `fit`. With
        `half_life`, in rows, a row counts half as much when this many have come after it, 2^(-age / half_life); give it
        from the first call on. How the rows are divided among calls does not matter.
        """
        task = self._task()
        task.check_adds()
        given = {"positives": positives, "negatives": negatives, "weight": sample_weight}
        self._add_rows(X, first_row, half_life, groups, **given)
        _warn_of_unused(negatives, task.loss)
        return self._use(task)

    def forget(
        self,
        X: Any,
        y: Any = None,
        *,
        rows: ArrayLike,
        positives: Any = None,
        negatives: Any = None,
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
    ) -> list[str]:
        """Take rows back: the model becomes that of the other rows, to rounding, without reading them again.

        It equals a fit of the other rows in the same `space_`. It is not a guarantee of erasure: what the first rows of
        the model have fixed stays. If nothing may depend on a row, fit a new model without it.

        Parameters
        ----------
        X, positives, negatives, groups, sample_weight : as they were given when the rows were added
        y : ignored
        rows : integers of shape (n,)
            The index of each of the rows: its place in the data of `fit`, or `first_row` and its place in the rows of
            `partial_fit`. It keys the random views that are taken away.

        Returns
        -------
        list of str
            What may still depend on the rows: landmarks, kernel, columns' scales, views.

        Notes
        -----
        Landmarks cannot be forgotten, nor rows that were not added, nor rows of aged sums (`half_life`). Nothing
        changes then. That X is what was added under these indices cannot be checked.
        """
        given = {"positives": positives, "negatives": negatives, "weight": sample_weight}
        return self._forget_rows(X, rows, groups, **given)

    def prepare(
        self, X: Any, *, positives: Any = None, negatives: Any = None, sample_weight: Any = None
    ) -> FeatureSpace:
        """Preprocessing, kernel parameters, landmarks and views from X, before the long pass: for `fit(space=...)`."""
        self._check_parameters()
        given = {"positives": positives, "negatives": negatives, "weight": sample_weight}
        task = self._task()
        return self._space_for(task, self._opened_for(task, X, None, self.space, **given))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_components != "auto" and not is_integer(self.n_components, least=1):
            raise ValueError(f"n_components={self.n_components!r:.60}: expected an integer >= 1 or 'auto'.")
        if self.n_folds is not None:
            check_count("n_folds", self.n_folds, LEAST_FOLDS)
        check_number("regularization", self.regularization, least=0)
        if self.feature_noise != "auto" and not is_number(self.feature_noise, least=0):
            raise ValueError(f"feature_noise={self.feature_noise!r}: expected a number >= 0 or 'auto'.")
        check_choice("scale", self.scale, SCALES)
        if self.space is not None:
            opener_of(self.kernel, self.space)  # refuses what is not a space
            defaults = {"kernel": "auto", "landmarks": "pivoted_cholesky", "preprocess": "auto"}
            given = [name for name, value in defaults.items() if not _is(getattr(self, name), value)]
            if given:
                raise ValueError(
                    f"space= brings its own {' and '.join(given)}: leave {'it' if len(given) == 1 else 'them'} out."
                )

    def _task(self) -> Task:
        """What is minimised, and how: the one place where loss and solver are resolved."""
        loss = as_loss(self.loss)
        exact = self.n_landmarks is None
        solver = choose_solver(loss, exact) if self.solver == "auto" else resolve(Solver, self.solver)
        return Task(loss, solver, self.n_components, self.regularization, self.feature_noise, self.scale)

    def _use(self, task: Task) -> KernelEmbedding:
        """Be a model of this loss and solver."""
        self.loss_, self.solver_ = task.loss, task.solver
        return self

    def _opened_for(
        self, task: Task, X: Any, groups: ArrayLike | None, space: FeatureSpace | None, **given: Any
    ) -> FitData:
        """The rows of a fit; what a loss of samples cannot use is refused."""
        if task.of_samples:
            self._check_samples(task, groups, given["weight"])
        data = self._opened(X, groups, space, **given)  # errors before warnings
        _warn_of_unused(given["negatives"], task.loss)
        return data

    def _check_samples(self, task: Task, groups: ArrayLike | None, sample_weight: object) -> None:
        """Refuse what needs sums, for a loss that is trained on samples."""
        folds = "n_folds" if self.n_folds is not None else "n_components='auto'"
        refused = {
            "sample_weight": sample_weight is not None,
            folds: self.folds_kept is not None,
            "groups": groups is not None,
        }
        named = [name for name, given in refused.items() if given]
        if named:
            raise ValueError(
                f"{task.loss} is trained on batches of samples, which have no weights, and keeps no sums by fold or "
                f"group: leave {' and '.join(named)} out, or choose a loss of moments, such as spectral_contrastive or "
                "barlow_twins."
            )
        if not isinstance(as_engine(self.engine), Local):
            raise ValueError(
                f"{task.loss} is trained on the samples themselves, which runs in this process only: leave out "
                f"engine={self.engine!r} (engine=None), or choose a loss of moments, such as spectral_contrastive."
            )

    @property
    def folds_kept(self) -> int | None:
        """By how many folds a fit keeps its moments apart; None where it does not."""
        return held_out.AUTO_FOLDS if self.n_folds is None and self.n_components == "auto" else self.n_folds

    def _prepared(self, data: FitData) -> FeatureSpace:
        return self._space_for(self._task(), data)

    def _space_for(self, task: Task, data: FitData) -> FeatureSpace:
        """A feature space with the views that the loss needs; the one that was given, with other views."""
        run, needed = self._run(data.n_rows), task.loss.views_for(self.views)
        if self.space is not None:
            return self._by_folds(self.space.with_views(data, self.views, needed, run.seed))
        return self._by_folds(prepare(data, replace(self._spec(data), views_needed=needed), run))

    def _by_folds(self, space: FeatureSpace) -> FeatureSpace:
        return space if space.n_folds == self.folds_kept else replace(space, n_folds=self.folds_kept)

    def _accumulator(self, space: FeatureSpace) -> Accumulator[Any, Moments | Parts[Moments]]:
        moments = MomentPass(space)
        return moments if space.n_folds is None else Split(moments, ByFold(space.n_folds), space.n_folds)  # type: ignore[return-value]

    # Solving

    def _solve(self, value: Moments | Parts[Moments]) -> LinearMap:
        """Minimise the loss, as it is set now, over the moments."""
        task = self._task()
        found = _minimised(task, self.space_, value)
        self._use(task)
        return found

    @property
    def moments_(self) -> Moments | None:
        self._fit()
        return self.total_.total if isinstance(self.total_, Parts) else self.total_

    @property
    def coefficients_(self) -> np.ndarray:
        return self._solved().A.cpu().numpy()

    @property
    def intercept_(self) -> np.ndarray:
        return self._solved().gamma.cpu().numpy()

    @property
    def n_components_(self) -> int:
        return len(self._solved().gamma)

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
        return self.n_components_

    def refit(self, **params: Any) -> KernelEmbedding:
        """A new model from the same moments: another loss, width, regularization or solver, without data."""
        copy = self._changed(params, "refit")
        copy._solved()
        return copy

    def without_rows(
        self,
        X: Any,
        rows: Any,
        *,
        positives: Any = None,
        negatives: Any = None,
        sample_weight: Any = None,
    ) -> KernelEmbedding:
        """A new model of all rows but some: their moments are subtracted, and the loss is minimised again.

        It equals a fit of the other rows in the same `space_`, to rounding. What the first rows have fixed stays:
        preprocessing, kernel parameters and landmarks, also where one of the rows is a landmark.

        Parameters
        ----------
        X, positives, negatives, sample_weight : as they were given to `fit`
        rows : integers of shape (k,)
            Which rows to leave out: places in the data of `fit`.
        """
        copy = self._changed({}, "without_rows")
        if self.half_life_ is not None:
            raise ValueError(
                "The rows of this model have aged: what is left of one of them cannot be subtracted."
            )
        given = {"positives": positives, "negatives": negatives, "sample_weight": sample_weight}
        parts = list(self.row_moments(X, rows, **given))
        gone: Tally[Moments | Parts[Moments]] = Tally(
            sum(parts[1:], start=parts[0]), len(parts), 0, RowRanges.of_rows(np.unique(rows))
        )
        left = replace(self.tally_, total=self.moments_, groups=None) - gone
        space = self.space_
        if isinstance(self.n_components, str) or self.folds_kept is not None:  # the sums by fold are gone
            copy.set_params(n_components=self.n_components_, n_folds=None)
            space = copy._by_folds(space)
        copy._own(replace(self._fit(), space=space, tally=left))._solved()
        return copy

    def row_moments(
        self,
        X: Any,
        rows: Any,
        *,
        positives: Any = None,
        negatives: Any = None,
        sample_weight: Any = None,
    ) -> Iterator[Moments]:
        """What single rows of the data of `fit` have added to the moments, one after the other.

        Their views are drawn as in `fit`: draws are keyed by the index of a row.
        """
        self._check_has_total()
        data = self.space_.open(X, positives=positives, negatives=negatives, weight=sample_weight)
        numbers = as_row_indices(rows, data.n_rows)
        reader = data.reader(self.space_.inputs, self.space_.placement)
        for number in numbers:
            accumulator = MomentPass(self.space_)
            accumulator.add(reader.take(np.array([number])))
            accumulator.flush()
            yield accumulator.result()

    def select(
        self, X: Any, y: Any, *, candidates: Sequence[Mapping[str, Any]] | None = None
    ) -> KernelEmbedding:
        """A new model from the same moments, chosen by the labels of some rows; `selection_` says what was compared.

        Every candidate is a `refit` and needs no data but the labelled rows; the one with the smallest exact
        leave-one-out error of ridge regression is taken (`krepes.regression.ridge`).

        Parameters
        ----------
        X : labelled rows, in any form that `transform` takes
        y : array of labels
            Classes, or numbers for a quantity. Rows whose label is missing are left out; of more than 5000 labels, 5000
            are drawn.
        candidates : sequence of dicts of what `refit` takes, optional
            By default: the model as it is, other feature noise, kernel PCA, and these with a quarter of the components.
        """
        self._check_has_total()
        self.check_input(X)
        reader = self.space_.reader(X)
        rows, targets = labelled_rows(y, reader.n_rows, self.seed_)
        labelled = reader.take(rows).inputs[0]
        K = self.features_.kernel_block(labelled).double()
        given = self._candidates() if candidates is None else [dict(each) for each in candidates]
        models = [self.refit(**parameters) for parameters in given]
        solved = [model._solved() for model in models]
        Z = [(K @ found.A.double() + found.gamma.double()).cpu().numpy() for found in solved]
        # Objects have no columns, and sparse rows too many.
        raw = labelled.flatten(1).double().cpu().numpy() if is_tensor(labelled) else None
        comparison = compare_by_labels(given, Z, targets, raw)
        return models[comparison.chosen.place]._chosen_by(comparison)

    def _chosen_by(self, comparison: Comparison) -> KernelEmbedding:
        self.selection_ = comparison
        return self

    def _candidates(self) -> list[dict[str, Any]]:
        """What `select` compares where nothing is given."""
        moments = self.moments_
        found: list[dict[str, Any]] = [{}]
        if moments is not None and moments.paired and self.loss_.views_needed > 1:
            now = self._task().noise_with(self.views_)
            found += [{"feature_noise": noise} for noise in (0.0, 0.001, 0.1) if noise != now]
            found += [{"loss": "kernel_pca"}]
        if self.n_components_ >= 8:
            fewer = self.n_components_ // 4
            found += [each | {"n_components": fewer} for each in found if each.keys() <= {"loss"}]
        return found

    def held_out_loss(self, **params: Any) -> HeldOut[float]:
        """The loss on rows that were not learned from, with its standard error; takes what `refit` takes.

        Two folds are held out at a time, the loss is minimised over the others in the same feature space, and its value
        on the two is taken; see `krepes.features.held_out`. The model needs `n_folds`. Values under other views,
        kernels, landmarks or losses cannot be compared.
        """
        return held_out.held_out_loss(*self._by_fold(params, "held_out_loss"))

    def held_out_correlations(self, **params: Any) -> HeldOut[np.ndarray]:
        """The correlation between the views by component, on rows that were not learned from; takes what `refit` takes.

        For every fold, the loss is minimised over the other folds. Components have no names, so components of different
        folds are matched by their order: where the loss allows a rotation, by decreasing variance. The mean at
        position j is that of the component with the j-th largest variance. It is one and the same component only where
        variances differ clearly; among nearly equal ones neighbours may change places.
        """
        return held_out.held_out_correlations(*self._by_fold(params, "held_out_correlations"))

    def _by_fold(self, params: dict[str, Any], method: str) -> tuple[Task, FeatureSpace, Parts[Moments]]:
        copy = self._changed(params, method)
        if not isinstance(copy.total_, Parts):
            raise ValueError(
                f"{method} needs moments by fold, which this model does not have: "
                + ("it has seen no rows yet." if copy.total_ is None else "fit it with n_folds=5.")
            )
        return copy._task(), copy.space_, copy.total_

    def _changed(self, params: dict[str, Any], method: str) -> KernelEmbedding:
        """A model with the same sums and other parameters."""
        self._check_has_total()
        fixed = sorted({key.split("__")[0] for key in params} - REFITTED)
        if fixed:
            raise ValueError(
                f"{', '.join(fixed)} cannot change without the data: moments depend on it. "
                f"{method} takes {', '.join(sorted(REFITTED))}; for the rest call fit."
            )
        copy = self.empty_copy().set_params(**params)
        copy._check_parameters()
        copy._task().check_adds()
        return copy._own(self._fit())

    def rescaled(self, scale: str) -> KernelEmbedding:
        """A new model whose components have another scale ("kernel", "orthonormal", "unit" or "loss"), without data."""
        found = self._solved().scaled(scale, self.loss_)
        copy = self.empty_copy().set_params(scale=scale)
        return copy._use(replace(self._task(), loss=self.loss_, solver=self.solver_))._own(self._fit(), found)

    def empty_copy(self) -> KernelEmbedding:
        """The same preprocessing, kernel, landmarks and views, with no rows seen: for another worker."""
        copy = super().empty_copy()
        return copy._use(copy._task())

    def fingerprint(self) -> dict[str, str]:
        """A hash of each part that the moments depend on."""
        return super().fingerprint() | {"n_folds": digest(self.space_.n_folds)}

    def _check_has_total(self) -> None:
        self._fit()
        self._task().check_adds()
        super()._check_has_total()

    # Using

    def transform(self, X: Any) -> np.ndarray:
        """The representation of every row, shape (n, h)."""
        self.check_input(X)
        return np.concatenate(list(self.iter_transform(X)))

    def iter_transform(self, X: Any, batch_rows: int | None = None) -> Iterator[np.ndarray]:
        """The representation in batches: memory stays bounded whatever n is."""
        found, dtype, kernel_block = self._solved(), self.space_.dtype, self.features_.kernel_block
        A, gamma = found.A.to(dtype), found.gamma.to(dtype)
        for Z in self.map_rows(lambda rows: kernel_block(rows).to(dtype) @ A + gamma, X, batch_rows):
            yield Z.cpu().numpy()

    def residual(self, X: Any) -> np.ndarray:
        """k(x, x) - |phi(x)|^2: the part of every row that the landmarks do not span."""
        return self._mapped(self.features_.residual, X)

    # Files

    def save(  # type: ignore[override]  # its sums are moments
        self, path: str | os.PathLike, *, moments: bool = True, overwrite: bool = False
    ) -> None:
        """Write one safetensors file: landmarks (real rows of the data), coefficients and, with `moments`,
        what `refit`, `partial_fit` and `merge` need."""
        super().save(path, sums=moments, overwrite=overwrite)

    def _state(self, total: bool = True) -> State:
        state = super()._state(total) | {"loss": self.loss_}
        if self._solution is None:
            return state
        solution = encode(self._solution.in_precision(self.space_.dtype))
        return state | {"solution": solution, "solver": self.solver_} | self._inverse_state()

    def _restore(self, state: State) -> None:
        solved = "solution" in state
        self.loss_ = decode_entry(state, "loss", Loss)
        super()._restore(state)
        if solved:
            self.solver_ = decode_entry(state, "solver", Solver)
            self._restore_inverse(state)


def _minimised(
    task: Task, space: FeatureSpace, sums: Moments | Parts[Moments], callback: Callback | None = None
) -> LinearMap:
    """The minimum over moments; n_components="auto" is chosen from the folds' moments."""
    if isinstance(sums, Moments):
        return task.minimised(space, sums, callback)
    return held_out.settled(task, sums).minimised(space, sums.total, callback)


def _is(value: Any, default: str) -> bool:
    return isinstance(value, str) and value == default


def _warn_of_unused(negatives: Any, loss: Loss) -> None:
    if negatives is not None and not loss.uses_negatives:
        warn(
            f"{loss} does not look at negatives=. loss='simple_contrastive' does, and so may a class of your "
            "own with uses_negatives = True.",
        )
