"""Kernel ridge regression as a one-pass model: what regressor and classifier share.

    min over f of  sum_i w_i |y_i - f(x_i)|^2 + penalty |f|^2,        f(x) = A^T k_x + b         [lecture; tang, ch. 3]

rows -> kernel, lengthscale and metric from a sample -> Nyström features -> normal equations by fold -> penalty ->
A, b. One read of the data after the preparation, O(n (m d + m r + r^2 + r c)), then O(r^3) per fold and penalty.
Where there are no more rows than landmarks, every row is a landmark and f is the exact solution (K + penalty I)^-1 y.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import Tensor

from krepes.base import model_file
from krepes.base.accumulator import Accumulator, T
from krepes.base.dtype_and_device import Placement
from krepes.base.limits import check_count, is_number
from krepes.base.model_file import State
from krepes.base.progress import display
from krepes.base.rows import Rows
from krepes.base.schema import check_entries
from krepes.base.side_by_side import SideBySide
from krepes.base.split import ByFold, Key, Parts
from krepes.engines import Engine, as_engine
from krepes.features import FeatureSpace, FitData
from krepes.features.fit_data import as_weights
from krepes.features.space import LEAST_FOLDS
from krepes.kernels import Automatic, Gaussian, Kernel, Laplacian, Reweighted, as_kernel
from krepes.kernels.automatic import MOST_COLUMNS
from krepes.kernels.precomputed import is_precomputed
from krepes.kernels.radial import Lengthscale, RadialKernel
from krepes.kernels.vectors import as_rows
from krepes.labelled import labels_of
from krepes.landmarks import LandmarkSelector
from krepes.machines.kernel_ridge.bandwidth import Bandwidth, diagnosed
from krepes.machines.kernel_ridge.column_importance import ColumnImportances, importances
from krepes.machines.kernel_ridge.conjugate_solver import (
    DIRECT_LANDMARKS,
    SOLVERS,
    KernelProducts,
    iterated,
)
from krepes.machines.kernel_ridge.forgetting import Numbered, row_numbers, still_dependent, without
from krepes.machines.kernel_ridge.held_out_score import HeldOutScore, held_out_score
from krepes.machines.kernel_ridge.kept_rows import KeepRows, KeptRows
from krepes.machines.kernel_ridge.normal_sums import NormalSums
from krepes.machines.kernel_ridge.penalty_choice import PenaltyErrors
from krepes.machines.kernel_ridge.ridge_pass import RidgePass, RidgeTotal
from krepes.machines.kernel_ridge.solution import (
    Fits,
    HeldOutPredictions,
    RidgeSolution,
    folds_of,
    kept_features,
    predictions_by_folds,
)
from krepes.machines.kernel_ridge.solving import FEW_ROWS, penalty_errors, ridge_fits, solution_of
from krepes.machines.kernel_ridge.space_choice import METRICS, MOST_ROWS, Sample, SpaceChoice, choose_space
from krepes.machines.kernel_ridge.targets import Targets
from krepes.machines.leave_one_out import LeaveOneOut
from krepes.one_pass import OnePassEstimator
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.labels import missing_values
from krepes.preprocessing.preparing import Candidates, Preprocess
from krepes.preprocessing.table_encoder import TableEncoder
from krepes.sources import Source, TableSource, open_source
from krepes.sources.joined_rows import one_after_other

AUTO_LANDMARKS = 2000
MOST_FOLDS = 1000
EXACT_ROWS = 20_000  # up to which features are double precision

NO_SUMS = (
    "Conjugate gradients read the rows many times and keep no sums, which partial_fit, merge and forget add to: give "
    "solver='direct', or up to 6000 landmarks."
)

Kernels = str | Kernel | Callable | Sequence[str | Kernel | Callable]


class RidgeMachine(OnePassEstimator[RidgeTotal, RidgeSolution]):
    """The base of `KernelRidgeRegressor` and `KernelRidgeClassifier`, which say what the parameters mean."""

    total_name = "sums"
    targets_: Targets
    choice_: SpaceChoice | None
    metric_: str | None

    def __init__(
        self,
        *,
        kernel: Kernels = "auto",
        lengthscale: Lengthscale = "auto",
        input_metric: str | None = "diagonal",
        penalty: float | str = "auto",
        fit_intercept: bool = True,
        solver: str = "auto",
        landmarks: Any = "pivoted_cholesky",
        n_landmarks: int | str | None = "auto",
        n_folds: int = 5,
        n_kept: int = 20_000,
        n_spaces: int = 1,
        preprocess: Preprocess = "auto",
        engine: Engine | None = None,
        device: str = "auto",
        dtype: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        super().__init__(
            kernel=kernel,  # type: ignore[arg-type]
            landmarks=landmarks,
            n_landmarks=n_landmarks,  # type: ignore[arg-type]
            preprocess=preprocess,
            engine=engine,
            device=device,
            dtype=dtype,
            random_state=random_state,
            verbose=verbose,
        )
        self.lengthscale = lengthscale
        self.input_metric = input_metric
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_folds = n_folds
        self.n_kept = n_kept
        self.n_spaces = n_spaces

    # What a subclass writes

    @abstractmethod
    def _targets_of(self, y: Any, classes: ArrayLike | None = None) -> Targets:
        """How these targets become numbers."""

    def _class_weight(self, total: RidgeTotal) -> np.ndarray | None:
        """The weight of every class, (c,), where sums are by class."""
        return None

    def _weighted(self, y: np.ndarray, weight: ArrayLike | None) -> ArrayLike | None:
        """Weights of rows, times those of classes where they are known beforehand; y is encoded."""
        return weight

    def _take_unlabelled(self, X: Any) -> None:
        """Learn from rows without targets, after the fit."""

    @property
    def _by_class(self) -> bool:
        return False

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        X_unlabelled: Any = None,
        checkpoint: str | os.PathLike | None = None,
        space: FeatureSpace | None = None,
    ) -> Self:
        """Learn to predict y from X: an array, tensor, frame, memory map, list of objects, source, or one path.

        `y` has one target for every row; or it is the name of a column of X, where X is a table, or of an array beside
        X in an .npz file. Such a column is never a feature, and rows in which it is missing are left out. Rows count
        `sample_weight` times. `X_unlabelled` are further rows, in the form of X, whose targets are not known: columns
        are scaled by them too, and they may become landmarks where there are more of these than labelled rows.
        `checkpoint` and `space` as in `KernelEmbedding.fit`.
        """
        self._check_parameters()
        before = {
            name: getattr(self, name)
            for name in ("label_", "choice_", "metric_", "targets_")
            if hasattr(self, name)
        }
        try:
            encoded, weight = self._started(X, y, sample_weight, None)
            choice = self.__dict__.pop("_prepared_choice", None)
            if space is not None and choice is not None and choice.chosen.kernel is space.kernel:
                self.choice_, self.metric_ = choice, choice.chosen.metric
            if space is None and (X_unlabelled is not None or self._may_iterate):
                if X_unlabelled is not None and is_precomputed(self.kernel):
                    raise ValueError(
                        "X_unlabelled= takes rows, and kernel='precomputed' knows none: leave it out."
                    )
                unlabelled = None if X_unlabelled is None else open_source(X_unlabelled)
                space = self._prepared(
                    FitData.open(X, y=encoded, weight=weight, opener=self._opener()), unlabelled=unlabelled
                )
            if space is not None and self._iterates(len(space.landmarks)):
                return self._fit_by_iterations(X, encoded, weight, space, checkpoint)
            super().fit(X, encoded, sample_weight=weight, checkpoint=checkpoint, space=space)
            if X_unlabelled is not None:
                self._take_unlabelled(X_unlabelled)
            return self
        except BaseException:  # the model stays as it was
            for name, value in before.items():
                setattr(self, name, value)
            raise

    def prepare(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> FeatureSpace:
        """Preprocessing, kernel, metric and landmarks from X and y, before the long pass: for `fit(space=...)`."""
        machine = clone(self)
        machine._check_parameters()
        encoded, weight = machine._started(X, y, sample_weight, None)
        space = machine._prepared(FitData.open(X, y=encoded, weight=weight, opener=self._opener()))
        self._prepared_choice = machine.choice_  # becomes `choice_` in a fit with this space
        return space

    # Many landmarks

    @property
    def _may_iterate(self) -> bool:
        """Whether the number of landmarks may ask for conjugate gradients."""
        m = self.n_landmarks
        given = not isinstance(self.landmarks, str | LandmarkSelector | type)
        many = given or m is None or (m != "auto" and int(m) > DIRECT_LANDMARKS)
        return self.solver == "conjugate_gradients" or (self.solver == "auto" and many)

    def _iterates(self, m: int) -> bool:
        """Whether m landmarks are solved by conjugate gradients."""
        return self.solver == "conjugate_gradients" or (self.solver == "auto" and m > DIRECT_LANDMARKS)

    def _fit_by_iterations(
        self, X: Any, y: np.ndarray, weight: Any, space: FeatureSpace, checkpoint: str | os.PathLike | None
    ) -> Self:
        if checkpoint is not None:
            raise ValueError(
                "checkpoint= is for one pass over the data; conjugate gradients make many. Give solver='direct'."
            )
        given = as_weights(weight, len(y))
        data = FitData.open(X, y=y, weight=self._balanced(y, given), opener=self._opener(space))
        reader, progress = data.reader(space.inputs, space.placement), display(self.verbose)

        def reduced(accumulator: Accumulator[Any, T], name: str) -> T:
            return as_engine(self.engine).reduce(accumulator, reader, progress=progress, name=name)

        kept = reduced(KeepRows(self.n_kept, space.seed), "Keeping rows")
        folds, of_row = ByFold(self.n_folds, space.seed), folds_of(space, kept, self.n_folds)
        keys = [int(key) for key in np.unique(of_row)]
        keys = keys if len(keys) > 1 else []
        errors = self._sample_errors(space, kept, of_row) if self.penalty == "auto" else None
        penalty = float(self.penalty) if errors is None else errors.best
        products = KernelProducts(space, self.targets_, folds, keys)
        found = iterated(products, reduced, kept, penalty, self.fit_intercept)
        fold_A, fold_b = (found.A[1:], found.b[1:]) if keys else (found.A, found.b)
        keys = keys or [0]
        places = torch.from_numpy(np.searchsorted(keys, of_row)).clamp(max=len(keys) - 1)
        predictions = predictions_by_folds(space, kept, fold_A, fold_b, places)
        if errors is None:
            misses = (self.targets_.matrix(kept.y) - predictions).square().sum(1)
            error = (kept.weight @ misses / kept.weight.sum()).item()
            errors = PenaltyErrors.of(np.array([penalty]), np.array([error]), "folds")
        held = HeldOutPredictions(kept.rows, places, kept.y, kept.weight, predictions, predictions)
        solution = RidgeSolution(
            found.A[0], found.b[0], penalty, errors, keys, fold_A, fold_b, held, found.iterations
        )
        self._start(space)
        self._record_input(X, space.inputs)
        self.n_samples_seen_, self._solution = data.n_rows, solution
        return self

    def _balanced(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Weights of rows, times those of classes that follow from all rows; y is encoded."""
        return weight

    def _sample_errors(self, space: FeatureSpace, kept: KeptRows, folds: np.ndarray) -> PenaltyErrors:
        """Errors of penalties on the kept rows, with at most AUTO_LANDMARKS of the landmarks."""
        Phi = kept_features(space.with_few_landmarks(AUTO_LANDMARKS), kept)
        Y, weight = self.targets_.matrix(kept.y).to(Phi), kept.weight.to(Phi)
        inside = {int(key): torch.from_numpy(folds == key).to(Phi.device) for key in np.unique(folds)}
        sums: dict[Key, NormalSums] = {
            key: NormalSums.of_rows(Phi[i], Y[i], weight[i]) for key, i in inside.items()
        }
        left_out = None
        if len(Phi) <= FEW_ROWS or len(sums) < 2:
            left_out = LeaveOneOut.of_features(Phi, Y, weight, self.fit_intercept)
        return penalty_errors(Parts(sums), left_out, self.penalty, space.dtype, self.fit_intercept)

    def _summed(
        self, space: FeatureSpace, data: FitData, first_row: int, checkpoint: str | os.PathLike | None = None
    ) -> RidgeTotal:
        if self._iterates(len(space.landmarks)):
            raise ValueError(NO_SUMS)
        return super()._summed(space, data, first_row, checkpoint)

    def _check_has_total(self) -> None:
        if self._iterates(len(self._fitted_space().landmarks)):
            raise ValueError(NO_SUMS)
        super()._check_has_total()

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        first_row: int | None = None,
    ) -> Self:
        """Add rows. The first call fixes preprocessing, kernel, metric, landmarks, and the unit of the targets.

        The machine is solved when it is first needed. `first_row` is the global index of the first row of X, which
        decides its fold: workers that share a data set give it.
        """
        return self._added(X, y, sample_weight, first_row)

    def _added(
        self, X: Any, y: Any, sample_weight: Any, first_row: int | None, classes: ArrayLike | None = None
    ) -> Self:
        if hasattr(self, "space_"):
            encoded, weight = self._encoded_targets(X, y, sample_weight)
            if first_row is None and self.total_ is not None:
                first_row = self.n_samples_seen_ + self.total_.kept.forgotten
        else:
            self._check_parameters()
            encoded, weight = self._started(X, y, sample_weight, classes)
        return self._add_rows(X, first_row, y=encoded, weight=weight)

    def _started(
        self, X: Any, y: Any, sample_weight: Any, classes: ArrayLike | None
    ) -> tuple[np.ndarray, ArrayLike | None]:
        """Encoded targets and weights of the first rows."""
        self.label_ = y if isinstance(y, str) else None
        self.choice_ = self.metric_ = None
        y, missing = self._read_targets(X, y)
        self.targets_ = self._targets_of(y, classes)
        encoded = self.targets_.encoded(y)
        return encoded, self._weighted(encoded, _without(missing, sample_weight))

    def _encoded_targets(self, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, ArrayLike | None]:
        """Encoded targets and weights of more rows."""
        y, missing = self._read_targets(X, y)
        encoded = self.targets_.encoded(y)
        return encoded, self._weighted(encoded, _without(missing, sample_weight))

    def _read_targets(self, X: Any, y: Any) -> tuple[Any, np.ndarray | None]:
        """Targets, by name where y is one, and which of them are missing."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. Give targets, or the name "
                "of a column of X."
            )
        if not isinstance(y, str):
            return y, None
        values = labels_of(open_source(X), X if isinstance(X, str | os.PathLike) else "X", y)[0]
        missing = missing_values(values)
        if not missing.any():
            return values, None
        if missing.all():
            raise ValueError(f"The column {y!r} has no value in any row: there is nothing to learn from.")
        filled = values.copy()
        filled[missing] = values[~missing][0]
        return filled, missing

    def _check_parameters(self) -> None:
        if self.n_landmarks not in ("auto", None):
            check_count("n_landmarks", self.n_landmarks)
        check_count("n_folds", self.n_folds, LEAST_FOLDS)
        if self.n_folds > MOST_FOLDS:
            raise ValueError(f"n_folds={self.n_folds:,}: expected at most {MOST_FOLDS:,}.")
        check_count("n_kept", self.n_kept)
        check_count("n_spaces", self.n_spaces)
        if self.penalty != "auto" and not is_number(self.penalty, above=0):
            raise ValueError(f"penalty={self.penalty!r}: expected a number > 0 or 'auto'.")
        if self.input_metric not in METRICS:
            raise ValueError(
                f"input_metric={self.input_metric!r}: expected None, 'diagonal', 'full' or 'auto'."
            )
        if self.solver not in SOLVERS:
            raise ValueError(f"solver={self.solver!r}: expected one of {', '.join(map(repr, SOLVERS))}.")
        if self.dtype not in ("auto", "float32", "float64"):
            raise ValueError(f"dtype={self.dtype!r}: expected 'auto', 'float32' or 'float64'.")

    def _prepared(
        self, data: FitData, views_needed: int = 1, unlabelled: Source | None = None
    ) -> FeatureSpace:
        n, rows, labelled = data.n_rows, data, None
        if unlabelled is not None:
            weight = data.weight
            if weight is not None:
                weight = np.concatenate([weight, np.ones(unlabelled.n_rows)])
            rows = FitData((one_after_other(data.sources[0], unlabelled),), weight=weight)
            labelled = np.arange(n) if data.counting_rows is None else data.counting_rows
        dtype = ("float64" if n <= EXACT_ROWS else "float32") if self.dtype == "auto" else self.dtype
        m = {"auto": min(n, AUTO_LANDMARKS), None: n}.get(self.n_landmarks, self.n_landmarks)  # type: ignore[call-overload]
        by_rule = isinstance(self.landmarks, str | LandmarkSelector | type)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        kernels = None if self._automatic() else self._given_kernels()
        placement = Placement.of(dtype, self.device)

        def learned(candidates: Candidates, inputs: InputSpace) -> Kernel:
            if labelled is not None:
                some = np.sort(np.random.default_rng(seed).permutation(labelled)[:MOST_ROWS])
                candidates = Candidates(data.reader(inputs, placement).take(some).inputs[0], some)
            return self._learned_kernel(data, candidates, inputs, seed)

        return FeatureSpace.prepare(
            rows,
            kernel=Automatic() if kernels is None else kernels[0],
            landmarks=self.landmarks,
            n_landmarks=m,
            preprocess=self._preprocess(data),
            placement=placement,
            seed=seed,
            engine=as_engine(self.engine),
            progress=display(self.verbose),
            prefer=labelled,
            learn_kernel=learned,
            decompose=not self._iterates(m if by_rule else len(self.landmarks)),
        )

    def _preprocess(self, data: FitData) -> Preprocess:
        """With the column of targets, which is no feature, left out."""
        if self.label_ is None or not isinstance(data.sources[0], TableSource):
            return self.preprocess
        encoder = self.preprocess if isinstance(self.preprocess, TableEncoder) else TableEncoder()
        return clone(encoder).set_params(label=self.label_)

    def _automatic(self) -> bool:
        return (isinstance(self.kernel, str) and self.kernel == "auto") or isinstance(self.kernel, Automatic)

    @property
    def _searches_lengthscale(self) -> bool:
        return isinstance(self.lengthscale, str) and self.lengthscale == "auto"

    def _standardises(self, inputs: InputSpace) -> bool:
        """Whether columns divided by their spread compete with those as given."""
        return inputs.kind == "vectors" and inputs.encoder is None and self.preprocess == "auto"

    def _given_kernels(self) -> list[Kernel]:
        several = isinstance(self.kernel, list | tuple)
        kernels = [as_kernel(k) for k in (self.kernel if several else [self.kernel])]  # type: ignore[union-attr]
        if not kernels:
            raise ValueError("kernel=[]: name at least one kernel.")
        return kernels

    def _kernels(self, inputs: InputSpace, width: int) -> list[Kernel]:
        """The kernels that compete, with the lengthscale that was asked for."""
        if self._automatic():
            narrow = inputs.kind in ("table", "vectors") and width <= MOST_COLUMNS
            kernels: list[Kernel] = [Laplacian(norm=1)] if narrow else []
            kernels += [Gaussian(), Laplacian()]
        else:
            kernels = [k if isinstance(k, Automatic) else k.suited(inputs) for k in self._given_kernels()]
        if self._searches_lengthscale:
            return kernels
        return [
            clone(k).set_params(lengthscale=self.lengthscale) if isinstance(k, RadialKernel) else k
            for k in kernels
        ]

    def _learned_kernel(self, data: FitData, candidates: Candidates, inputs: InputSpace, seed: int) -> Kernel:
        """Kernel, lengthscale and metric, from a sample of the candidates and their targets."""
        if inputs.kind == "precomputed":
            return self._given_kernels()[0]
        if not isinstance(candidates.rows, Tensor):
            suited = self._given_kernels()[0].suited(inputs)
            return suited.fitted(candidates.rows, torch.Generator().manual_seed(seed))
        rows = as_rows(candidates.rows)
        kernels = self._kernels(inputs, rows.shape[1])
        places = np.random.default_rng(seed).permutation(len(rows))[:MOST_ROWS]
        chosen = candidates.indices[places]
        assert data.y is not None
        weight = None if data.weight is None else torch.from_numpy(data.weight[chosen]).to(rows.device)
        Y = self.targets_.matrix(data.y[chosen]).to(rows.device)
        sample = Sample(
            rows[torch.from_numpy(places).to(rows.device)].double(), Y, weight, self.fit_intercept, seed
        )
        with display(self.verbose).stage("Choosing the kernel"):
            self.choice_ = choose_space(
                sample,
                kernels,
                search_lengthscale=self._searches_lengthscale,
                metric=self.input_metric,
                standardise=self._standardises(inputs),
                groups=inputs.groups,
            )
        self.metric_ = self.choice_.chosen.metric
        return self.choice_.chosen.kernel

    def _read(
        self, space: FeatureSpace, data: FitData, checkpoint: str | os.PathLike | None
    ) -> tuple[FeatureSpace, RidgeTotal]:
        """With several spaces: sum all of them in one read, and take the one with the lowest fold error."""
        rivals = [] if self.choice_ is None else self.choice_.shortlist(self.n_spaces)
        if self.choice_ is None or len(rivals) < 2 or rivals[0].kernel is not space.kernel:
            return super()._read(space, data, checkpoint)
        spaces = [space, *(space.with_kernel(rival.kernel) for rival in rivals[1:])]
        totals = as_engine(self.engine).reduce(
            SideBySide([self._accumulator(each) for each in spaces]),
            data.reader(space.inputs, space.placement),
            checkpoint=checkpoint,
            progress=display(self.verbose),
        )
        errors = [self._fold_errors(total, each) for total, each in zip(totals, spaces)]
        best = int(np.argmin(errors))
        self.space_errors_ = np.array(errors)
        self.choice_ = replace(self.choice_, chosen=rivals[best])
        self.metric_ = rivals[best].metric
        return spaces[best], totals[best]

    def _fold_errors(self, total: RidgeTotal, space: FeatureSpace) -> float:
        """The lowest fold error of all penalties."""
        folds = total.by_fold(self._class_weight(total))
        return float(penalty_errors(folds, None, self.penalty, space.dtype, self.fit_intercept).errors.min())

    def _accumulator(self, space: FeatureSpace) -> RidgePass:
        return RidgePass(space, self.targets_, self.n_folds, self.n_kept, self._by_class)

    def _solve(self, value: RidgeTotal) -> RidgeSolution:
        space, kept = self.space_, value.kept
        class_weight, weight = self._class_weight(value), kept.weight
        if class_weight is not None:
            weight = weight * torch.from_numpy(class_weight[kept.y])
        Phi, of_row = kept_features(space, kept), folds_of(space, kept, self.n_folds)
        fits = self._fits_of_rows(Phi, kept.y, weight, of_row)
        if fits is None:
            folds, Y = value.by_fold(class_weight), self.targets_.matrix(kept.y)
            settings = self.penalty, space.dtype, self.fit_intercept
            fits = ridge_fits(folds, Phi, Y, weight, kept.complete, *settings)
        return solution_of(fits, space, kept, Phi, weight, of_row)

    def _fits_of_rows(self, Phi: Tensor, y: np.ndarray, weight: Tensor, folds: np.ndarray) -> Fits | None:
        """Fits to the kept rows, for losses that sums do not give; None for the squared loss."""
        return None

    # Using

    def _scores(self, X: Any) -> np.ndarray:
        """f(x) in the units of the encoded targets, (n, c)."""
        self.check_input(X)
        return np.concatenate(list(self._score_blocks(X)))

    def _score_blocks(self, X: Any, batch_rows: int | None = None) -> Iterator[np.ndarray]:
        found, space = self._solved(), self._fitted_space()
        A, b, kernel_block = found.A.to(space.dtype), found.b.to(space.dtype), space.features.kernel_block

        def score(rows: Rows) -> Tensor:
            return kernel_block(rows).to(space.dtype) @ A + b

        for Z in self.map_rows(score, X, batch_rows):
            yield Z.double().cpu().numpy()

    @property
    def penalty_(self) -> float:
        return self._solved().penalty

    @property
    def n_iter_(self) -> int | None:
        """Iterations of conjugate gradients; None where it was solved directly."""
        return self._solved().iterations

    @property
    def penalty_errors_(self) -> PenaltyErrors:
        return self._solved().errors

    @property
    def held_out_(self) -> HeldOutPredictions:
        """Predictions of the rows kept with the model by fits that have not seen them, encoded."""
        return self._solved().held_out

    @property
    def held_out_score_(self) -> HeldOutScore:
        """Accuracy or R^2 on rows that were left out; print it."""
        return held_out_score(self._solved(), self.targets_)

    def column_importances(self, n_folds: int = 5) -> ColumnImportances:
        """How much each column of the table counts in the learned metric, in shares that sum to 1.

        The metric is also learned without each of `n_folds` folds of a sample of the rows, which gives the
        shares an error; 0 leaves that out. It needs the rows that are kept with the sums.
        """
        kernel, inputs = self.kernel_, self.input_space_
        self._check_has_total()
        if n_folds != 0:
            check_count("n_folds", n_folds, 2)
        if not isinstance(kernel, Reweighted) or self.metric_ in (None, "as given", "standardised"):
            raise ValueError(
                "This machine has learned no metric, so that it has no importances of columns: either none was asked "
                "for (input_metric=None), or none predicted rows that were left out better."
            )
        assert self.total_ is not None
        kept = self.total_.kept.take(np.arange(min(MOST_ROWS, len(self.total_.kept.rows))))
        assert isinstance(kept.inputs, Tensor)
        rows = as_rows(kept.inputs).double()
        return importances(
            Sample(rows, self.targets_.matrix(kept.y), kept.weight, self.fit_intercept, self.seed_),
            kernel,
            self._column_names(rows.shape[1]),
            n_folds,
            search_lengthscale=self._searches_lengthscale,
            standardise=self._standardises(inputs),
            groups=inputs.groups,
        )

    def _column_names(self, width: int) -> list[str]:
        """Of the columns of the table; x0, x1, ... where they have no names."""
        if self.input_space_.encoder is not None:
            return list(self.input_space_.encoder.used_columns_)
        return [str(name) for name in vars(self).get("feature_names_in_", [f"x{j}" for j in range(width)])]

    @property
    def dual_coef_(self) -> np.ndarray:
        """A, the coefficients of k(., landmarks), (m, c), in the units of the encoded targets."""
        return self._solved().A.cpu().numpy()

    @property
    def intercept_(self) -> np.ndarray:
        """b, (c,), in the units of the encoded targets."""
        return self._solved().b.cpu().numpy()

    def bandwidth(self, X: Any = None) -> Bandwidth:
        """Whether the lengthscale is too short, too long or fine for rows X; by default for the kept rows; print it.

        At most `n_kept` rows of X are looked at.
        """
        found, space = self._solved(), self._fitted_space()
        kept = None if self.total_ is None else self.total_.kept
        if X is not None:
            self.check_input(X)
            reader = space.reader(X)
            order = np.random.default_rng(space.seed).permutation(reader.n_rows)[: self.n_kept]
            inputs = reader.take(np.sort(order)).inputs[0]
        elif kept is not None:
            inputs = kept.inputs
        else:
            raise ValueError("This model keeps no rows: give some, bandwidth(X).")
        sample = None
        Y, weight = self.targets_.matrix(found.held_out.y), found.held_out.weight
        if kept is not None and isinstance(kept.inputs, Tensor):
            rows = as_rows(kept.inputs[:MOST_ROWS]).double().to(space.device)
            first, counts = Y[: len(rows)].to(space.device), weight[: len(rows)].to(space.device)
            sample = Sample(rows, first, counts, self.fit_intercept, space.seed)
        mean = weight / weight.sum() @ Y
        spread = (weight / weight.sum() @ (Y - mean).square()).sum().sqrt().item()
        return diagnosed(space, found, inputs, spread, X is None, sample)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    # Files and copies

    def empty_copy(self) -> Self:
        copy = super().empty_copy()
        copy.targets_, copy.label_, copy.choice_, copy.metric_ = (
            self.targets_, self.label_, None, self.metric_,
        )  # fmt: skip
        return copy

    def fingerprint(self) -> dict[str, str]:
        return super().fingerprint() | self._accumulator(self.space_).fingerprint()

    def save(self, path: str | os.PathLike, *, sums: bool = True, overwrite: bool = False) -> None:
        """Write one safetensors file. It holds landmarks and, with `sums`, up to `n_kept` rows: real rows of the data.

        Without `sums` the machine predicts, with probabilities and intervals, but `partial_fit`, `merge` and `forget`
        need them.
        """
        model_file.write(path, type(self).__name__, self._state(sums), overwrite)

    def _state(self, total: bool = True) -> State:
        state = super()._state(total and self.total_ is not None) | {
            "targets": self.targets_.state(),
            "label": self.label_,
            "metric": self.metric_,
        }
        if self.total_ is not None or self._solution is not None:
            state["solution"] = self._solved().state()
        return state

    def _restore(self, state: State) -> None:
        self._check_parameters()
        check_entries(
            "The model",
            state,
            {"targets": dict, "label": str | None, "metric": str | None, "solution": dict},
            optional={"solution"},
        )
        self.targets_, self.label_, self.choice_ = Targets.from_state(state["targets"]), state["label"], None
        self.metric_ = state["metric"]
        if "solution" in state:
            self._solution = RidgeSolution.from_state(state["solution"], self.space_, self.targets_)

    # Conformal prediction

    @property
    def held_out_rows_(self) -> np.ndarray:
        """Global indices of the rows that are kept with the model, (k,); `held_out_predictions_` are theirs."""
        return self._solved().held_out.rows.numpy()

    # Forgetting

    def forget(self, X: Any, y: Any = None, *, rows: ArrayLike, sample_weight: Any = None) -> list[str]:
        """Take rows back: the model becomes that of the other rows, to rounding, without reading them again.

        Sums, kept rows and `n_samples_seen_` lose the rows, and penalty, temperature and coefficients follow from what
        is left, as in a fit of the other rows in the same `space_`. It is no guarantee of erasure: what the first rows
        of the model have fixed stays. If nothing may depend on a row, fit a new model without it.

        Parameters
        ----------
        X, y, sample_weight : as they were given when the rows were added
        rows : integers of shape (n,)
            The index of each of the rows: its place in the data of `fit`, or `first_row` and its place in those of
            `partial_fit`.

        Returns
        -------
        list of str
            What may still depend on the rows: landmarks, kernel, columns' scales, unit of the targets.

        Notes
        -----
        Landmarks cannot be forgotten, nor rows that were not added, as far as that can be known: kept rows are
        compared, and the weights of folds. Nothing changes then. A model of more than `n_kept` rows keeps fewer of them
        afterwards, because others are not known any more.
        """
        self._check_has_total()
        self._check_same_input(X, self.space_.inputs)
        encoded, weight = self._encoded_targets(X, y, sample_weight)
        data = self.space_.open(X, y=encoded, weight=weight)
        numbers = row_numbers(rows, data.n_rows, self.space_)
        if self.total_ is None or data.n_rows >= self.n_samples_seen_:
            raise ValueError(
                f"Asked to forget {data.n_rows:,} rows of a model that has seen {self.n_samples_seen_:,}: some must be "
                "left."
            )
        reader = Numbered(data.reader(self.space_.inputs, self.space_.placement), numbers)
        gone = as_engine(self.engine).reduce(
            self._accumulator(self.space_), reader, progress=display(self.verbose)
        )
        self.total_ = without(self.total_, gone, data.n_rows)
        self.n_samples_seen_ -= data.n_rows
        self._solution = None
        return still_dependent(self.space_, self.targets_, self._kernel_given())

    def _kernel_given(self) -> bool:
        """Whether the kernel is as the user gave it, without a number from the data."""
        given = [] if self._automatic() else self._given_kernels()
        return len(given) == 1 and model_file.digest(given[0]) == model_file.digest(self.space_.kernel)


def _without(missing: np.ndarray | None, sample_weight: Any) -> ArrayLike | None:
    """Weights that are zero where the target is missing."""
    if missing is None:
        return sample_weight
    weight = as_weights(sample_weight, len(missing))
    return np.where(missing, 0.0, 1.0 if weight is None else weight)
