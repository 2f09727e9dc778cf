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
from typing import Any, Self

import numpy as np
import torch
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
from krepes.base.split import ByFold, Key, Parts
from krepes.engines import Engine, as_engine
from krepes.features import FeatureSpace, FitData
from krepes.features.fit_data import as_weights
from krepes.features.space import LEAST_FOLDS
from krepes.kernels import Automatic, Gaussian, Kernel, Laplacian, as_kernel
from krepes.kernels.automatic import MOST_COLUMNS
from krepes.kernels.radial import Lengthscale, RadialKernel
from krepes.kernels.vectors import as_rows
from krepes.labelled import labels_of
from krepes.landmarks import LandmarkSelector
from krepes.machines.kernel_ridge.bandwidth import Bandwidth, diagnosed
from krepes.machines.kernel_ridge.conjugate_solver import (
    DIRECT_LANDMARKS,
    SOLVERS,
    KernelProducts,
    iterated,
)
from krepes.machines.kernel_ridge.kept_rows import KeepRows, KeptRows
from krepes.machines.kernel_ridge.normal_sums import NormalSums
from krepes.machines.kernel_ridge.penalty_choice import (
    FoldErrors,
    PenaltyErrors,
    fold_solutions,
    penalty_grid,
    searched,
    walked,
)
from krepes.machines.kernel_ridge.ridge_pass import RidgePass, RidgeTotal
from krepes.machines.kernel_ridge.solution import (
    Fits,
    HeldOut,
    RidgeSolution,
    features_of,
    folds_of,
    predictions_by_folds,
)
from krepes.machines.kernel_ridge.space_choice import METRICS, MOST_ROWS, Sample, SpaceChoice, choose_space
from krepes.machines.kernel_ridge.targets import Targets
from krepes.machines.leave_one_out import LeaveOneOut
from krepes.one_pass import OnePassEstimator
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.labels import missing_values
from krepes.preprocessing.preparing import Candidates, Preprocess
from krepes.preprocessing.table_encoder import TableEncoder
from krepes.sources import Source, TableSource, open_source
from krepes.sources.joined_rows import joined

AUTO_LANDMARKS = 2000
FEW_ROWS = 2000  # up to which single rows are left out instead of folds
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

    # What a subclass writes

    @abstractmethod
    def _targets_of(self, y: Any, classes: Any = None) -> Targets:
        """How these targets become numbers."""

    def _class_weight(self, total: RidgeTotal) -> np.ndarray | None:
        """The weight of every class, (c,), where sums are by class."""
        return None

    def _weighted(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Weights of rows, times those of classes where they are known beforehand; y is encoded."""
        return weight

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
        y, weight = self._started(X, y, sample_weight, None)
        if space is None and (X_unlabelled is not None or self._may_iterate):
            unlabelled = None if X_unlabelled is None else open_source(X_unlabelled)
            space = self._prepared(FitData.open(X, y=y, weight=weight), unlabelled=unlabelled)
        if space is not None and self._iterates(len(space.landmarks)):
            return self._fit_by_iterations(X, y, weight, space, checkpoint)
        return super().fit(X, y, sample_weight=weight, checkpoint=checkpoint, space=space)

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
        data = FitData.open(X, y=y, weight=self._balanced(y, given), opener=space.inputs.open)
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
        held = HeldOut(kept.rows, places, kept.y, kept.weight, predictions, predictions)
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
        Phi = features_of(space.with_few_landmarks(AUTO_LANDMARKS), kept)
        Y, weight = self.targets_.matrix(kept.y).to(Phi), kept.weight.to(Phi)
        inside = {int(key): torch.from_numpy(folds == key).to(Phi.device) for key in np.unique(folds)}
        sums: dict[Key, NormalSums] = {
            key: NormalSums.of_rows(Phi[i], Y[i], weight[i]) for key, i in inside.items()
        }
        left_out = None
        if len(Phi) <= FEW_ROWS or len(sums) < 2:
            left_out = LeaveOneOut.of_features(Phi, Y, weight, self.fit_intercept)
        return self._penalty_errors(Parts(sums), left_out)

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

    def _added(self, X: Any, y: Any, sample_weight: Any, first_row: int | None, classes: Any = None) -> Self:
        if hasattr(self, "space_"):
            y, missing = self._read_targets(X, y)
            encoded = self.targets_.encoded(y)
            weight = self._weighted(encoded, _without(missing, sample_weight))
        else:
            self._check_parameters()
            encoded, weight = self._started(X, y, sample_weight, classes)
        return self._add_rows(X, first_row, y=encoded, weight=weight)

    def _started(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> tuple[np.ndarray, Any]:
        """Encoded targets and weights of the first rows."""
        self.label_ = y if isinstance(y, str) else None
        self.choice_ = None
        y, missing = self._read_targets(X, y)
        self.targets_ = self._targets_of(y, classes)
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
        check_count("n_kept", self.n_kept)
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
            rows = FitData((joined(data.sources[0], unlabelled),), weight=weight)
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
            kernels = self._given_kernels()
        if isinstance(self.lengthscale, str) and self.lengthscale == "auto":
            return kernels
        return [
            clone(k).set_params(lengthscale=self.lengthscale) if isinstance(k, RadialKernel) else k
            for k in kernels
        ]

    def _learned_kernel(self, data: FitData, candidates: Candidates, inputs: InputSpace, seed: int) -> Kernel:
        """Kernel, lengthscale and metric, from a sample of the candidates and their targets."""
        if not isinstance(candidates.rows, Tensor):
            return self._given_kernels()[0].fitted(candidates.rows, torch.Generator().manual_seed(seed))
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
                search_lengthscale=isinstance(self.lengthscale, str) and self.lengthscale == "auto",
                metric=self.input_metric,
                standardise=inputs.kind == "vectors" and inputs.encoder is None,
                groups=inputs.groups,
            )
        return self.choice_.chosen.kernel

    def _accumulator(self, space: FeatureSpace) -> RidgePass:
        return RidgePass(space, self.targets_, self.n_folds, self.n_kept, self._by_class)

    def _solve(self, value: RidgeTotal) -> RidgeSolution:
        space, kept = self.space_, value.kept
        class_weight, weight = self._class_weight(value), kept.weight
        if class_weight is not None:
            weight = weight * torch.from_numpy(class_weight[kept.y])
        Phi, of_row = features_of(space, kept), folds_of(space, kept, self.n_folds)
        fits = self._fits_of_rows(Phi, kept.y, weight, of_row)
        if fits is None:
            fits = self._ridge_fits(value.by_fold(class_weight), Phi, kept, weight)
        places = fits.places(of_row)
        by_folds = torch.empty(len(Phi), len(fits.b), dtype=torch.float64)
        for place, (fold_W, fold_b) in enumerate(fits.without.values()):
            inside = places == place
            by_folds[inside] = (Phi[inside.to(Phi.device)] @ fold_W + fold_b).cpu()
        F, single = space.features.F, by_folds if fits.left_out is None else fits.left_out
        return RidgeSolution(
            F @ fits.W,
            fits.b,
            fits.errors.best,
            fits.errors,
            list(fits.without),
            torch.stack([F @ fold_W for fold_W, _ in fits.without.values()]),
            torch.stack([fold_b for _, fold_b in fits.without.values()]),
            HeldOut(kept.rows, places, kept.y, weight, single, by_folds),
        )

    def _fits_of_rows(self, Phi: Tensor, y: np.ndarray, weight: Tensor, folds: np.ndarray) -> Fits | None:
        """Fits to the kept rows, for losses that sums do not give; None for the squared loss."""
        return None

    def _ridge_fits(self, folds: Parts[NormalSums], Phi: Tensor, kept: KeptRows, weight: Tensor) -> Fits:
        intercept, left_out = self.fit_intercept, None
        if kept.complete and (len(Phi) <= FEW_ROWS or len(folds) < 2):
            Y = self.targets_.matrix(kept.y).to(Phi)
            left_out = LeaveOneOut.of_features(Phi, Y, weight.to(Phi), intercept)
        errors = self._penalty_errors(folds, left_out)
        W, b = folds.total.solution(errors.best, intercept)
        without = {0: (W, b)}
        if len(folds) > 1:
            solved = fold_solutions(folds, errors.best, intercept)
            without = {int(key): fit for key, fit in solved.items()}
        single = None if left_out is None else left_out.predictions(errors.best).cpu()
        return Fits(errors, W, b, without, single)

    def _penalty_errors(self, folds: Parts[NormalSums], left_out: LeaveOneOut | None) -> PenaltyErrors:
        given = self.penalty != "auto"
        penalties = np.array([float(self.penalty)]) if given else penalty_grid(folds.total)
        if left_out is not None:
            return PenaltyErrors.of(penalties, searched(left_out.error, penalties), "leave one out")
        errors = FoldErrors(folds, self.fit_intercept)
        return PenaltyErrors.of(penalties, walked(errors, penalties), "folds")

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
        copy.targets_, copy.label_, copy.choice_ = self.targets_, self.label_, None
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
        }
        if self.total_ is not None or self._solution is not None:
            state["solution"] = self._solved().state()
        return state

    def _restore(self, state: State) -> None:
        check_entries(
            "The model",
            state,
            {"targets": dict, "label": str | None, "solution": dict},
            optional={"solution"},
        )
        self.targets_, self.label_, self.choice_ = Targets.from_state(state["targets"]), state["label"], None
        if "solution" in state:
            self._solution = RidgeSolution.from_state(state["solution"], self.space_, self.targets_.n_outputs)


def _without(missing: np.ndarray | None, sample_weight: Any) -> Any:
    """Weights that are zero where the target is missing."""
    if missing is None:
        return sample_weight
    weight = np.ones(len(missing)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    return np.where(missing, 0.0, weight)
