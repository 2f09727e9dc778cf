"""LabelledMachine: a one-pass model of rows with targets.

    rows, y -> targets -> kernel from a sample of rows and targets -> FeatureSpace -> sums -> solve

What every machine with a y needs beside the pass: targets that are an array or a column of the data, encoded once and
consistently thereafter; a kernel chosen by rows and targets, before the landmarks; scores f(x) = A^T k_x + b; and the
targets in the model's file. A machine writes `_targets_of` and `_search`, and the two hooks of `OnePassEstimator`.

    rows -> kernel and landmarks -> plan: landmarks, cells or both -> sums, and in cells all rows -> cells

A machine that may be in cells says so with `_asked_cells`, builds a `CellSolver` and says what the solved cells are to
it; the plan, the rows, predictions and files are here, by the value `_held`.
"""

from __future__ import annotations

import inspect
import os
import re
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.utils import Tags
from torch import Tensor

from krepes.base.accumulator import T
from krepes.base.reporting import display
from krepes.base.rows import Rows, as_sparse
from krepes.base.storage.codec import State, decode, decode_entry, encode
from krepes.base.validation import check_count
from krepes.engines import Local
from krepes.features import ChosenKernel, FeatureSpace, FitData, Spec, prepare
from krepes.features.choices import AUTO_LANDMARKS, landmark_count
from krepes.kernels.vectors import Lengthscale
from krepes.landmarks import LandmarkSelector
from krepes.machines.cells.asked_cells import AskedCells
from krepes.machines.cells.cell_model import CellModel
from krepes.machines.cells.choosing import without_landmarks
from krepes.machines.cells.held_cells import QUERY_ROWS, HeldCells, score_in_cells
from krepes.machines.cells.local_plan import LocalPlan
from krepes.machines.kept_rows import SumsAndRows
from krepes.machines.kernel_search import Kernels, KernelSearch, Labelled
from krepes.machines.targets import Classes, Quantities, Targets, checked_predictions, targets_in, without
from krepes.one_pass import OnePassEstimator, check_no_gradients
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates, Preprocess
from krepes.preprocessing.table_encoder import TableEncoder
from krepes.sources import Source, TableSource
from krepes.sources.rows_in_sequence import one_after_other
from krepes.tally import Fit

EXACT_ROWS = 20_000  # up to which features are double precision


class KernelExpansion(Protocol):
    """What a machine is solved to: at least f(x) = A^T k_x + b, and cells where it is in cells."""

    @property
    def A(self) -> Tensor: ...  # shape: (m, c)

    @property
    def b(self) -> Tensor: ...  # shape: (c,)

    @property
    def cells(self) -> CellModel | None: ...


S = TypeVar("S", bound=KernelExpansion)


@dataclass(kw_only=True, eq=False, repr=False)
class LabelledMachine(OnePassEstimator[T, S]):
    """The base of machines that learn targets: ridge machines and Gaussian processes.

    What is said here of parameters and attributes stands in the docstrings of all machines.

    Parameters
    ----------
    landmarks : str, LandmarkSelector, array of points or of row indices, default="pivoted_cholesky"
        How landmarks, the rows that all others are compared with, are chosen.
    n_landmarks : int, "auto" or None, default="auto"
        Number m of landmarks; more are better, and slower. "auto" is 2000, None is all rows. With no more rows than
        landmarks the solution is exact.
    preprocess : "auto", "table", "series", "normalize", None, TableEncoder or Normalize, default="auto"
        As in KernelEmbedding. With "auto" the columns of an array are used as given or standardised, whichever
        predicts better; kernels without a lengthscale to choose, such as Gaussian(2.0), take them as given.
    engine, device, random_state, verbose : as in KernelEmbedding
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of kernel values and features; "auto" is float64 up to 20 000 rows.

    Attributes
    ----------
    choice_ : KernelChoice or None
        The kernels, lengthscales and metrics that were tried; print it. It is not saved.
    dual_coef_ : ndarray of shape (m, c)
        Coefficients A of f(x) = A^T k_x + b.
    intercept_ : ndarray of shape (c,)
    space_ : FeatureSpace
        Encoder, kernel with its metric, and landmarks: for `KernelEmbedding.fit(X, space=machine.space_)`.
    n_samples_seen_ : int
    """

    kernel: Kernels = "auto"
    lengthscale: Lengthscale = "auto"
    input_metric: str | None = "diagonal"
    n_landmarks: int | str | None = "auto"

    targets_: Targets = field(init=False)
    label_: str | None = field(init=False)  # the column that the targets were, if they were one
    _held: HeldCells = field(default=HeldCells(), init=False)

    def __init_subclass__(cls) -> None:
        """Put the parameters and attributes that classes above describe into a docstring that asks for them."""
        super().__init_subclass__()
        above = [sections(base.__doc__) for base in cls.__mro__[1:] if issubclass(base, LabelledMachine)]
        text = inspect.cleandoc(cls.__doc__ or "")
        for name in ("parameters", "attributes"):
            text = text.replace(f"{{{name}}}", "\n".join(each[name] for each in above if name in each))
        cls.__doc__ = text

    # What a subclass writes

    @abstractmethod
    def _targets_of(self, y: Any, classes: ArrayLike | None = None, weight: Any = None) -> Targets:
        """How these targets become numbers."""

    @property
    @abstractmethod
    def _search(self) -> KernelSearch:
        """The search for the kernel that the parameters ask for."""

    def _weighted(self, y: np.ndarray, weight: ArrayLike | None) -> ArrayLike | None:
        """Weights of rows, times class weights if these are known beforehand; y is encoded."""
        return weight

    def _balanced(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Weights of rows, times class weights that follow from all rows; y is encoded."""
        return weight

    @property
    def _asked_cells(self) -> AskedCells | None:
        """What the parameters ask of cells; None for landmarks."""
        return None

    def _decomposes(self, m: int) -> bool:
        """Whether features of m landmarks are needed, so that their kernel matrix is decomposed."""
        return True

    # Targets

    def _opened(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        space: FeatureSpace | None = None,
        y: Any = None,
        weight: Any = None,
        classes: ArrayLike | None = None,
        **given: Any,
    ) -> FitData:
        """The first rows, which fix how targets become numbers."""
        asked = self._asked_cells
        if asked is not None:
            asked.check_space(space)
        values, missing = targets_in(X, y, type(self).__name__)
        targets = self._targets_of(values, classes, without(missing, weight))
        self._label(targets, y if isinstance(y, str) else None)
        data = super()._opened(X, groups, space, **self._encoded(values, missing, weight), **given)
        self._held, self._solution = HeldCells(), None  # of a fit before
        return data

    def _reopened(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        y: Any = None,
        weight: Any = None,
        classes: ArrayLike | None = None,
        **given: Any,
    ) -> FitData:
        found = self._encoded(*targets_in(X, y, type(self).__name__), weight)
        return super()._reopened(X, groups, **found, **given)

    def _encoded(self, values: Any, missing: np.ndarray | None, sample_weight: Any) -> dict[str, Any]:
        """Encoded targets, and weights that are zero if the target is missing."""
        encoded = self.targets_.encoded(values)
        return {"y": encoded, "weight": self._weighted(encoded, without(missing, sample_weight))}

    @contextmanager
    def _unchanged_by_failure(self) -> Iterator[None]:
        """If what follows fails, the model stays as it was."""
        before = copy(self)
        try:
            yield
        except BaseException:
            self._held = before._held
            if before._fitted is not None:
                self._label(before.targets_, before.label_)._own(before._fitted, before._solution)
            raise

    def _label(self, targets: Targets, label: str | None) -> Self:
        """Learn these targets, from a column if it has a name."""
        self.targets_, self.label_ = targets, label
        return self

    def _scored(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[Any, ArrayLike | None]:
        """Targets and weights for `score`: y may be the name of a column, whose missing values do not count."""
        values, missing = targets_in(X, y, type(self).__name__)
        return values, without(missing, sample_weight)

    def _check_parameters(self) -> None:
        if self.n_landmarks not in ("auto", None):
            check_count("n_landmarks", self.n_landmarks)

    def _auto_dtype(self, n_rows: int) -> str:
        return "float64" if n_rows <= EXACT_ROWS else "float32"

    # Preparation

    def prepare(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> FeatureSpace:
        """Preprocessing, kernel, metric and landmarks from X and y, before the long pass: for `fit(space=...)`."""
        machine = clone(self)
        machine._check_parameters()
        if machine._asked_cells is not None:
            machine.set_params(local=False)
        return machine._prepared(machine._opened(X, y=y, weight=sample_weight))

    def _learn(
        self, X: Any, data: FitData, space: FeatureSpace | None, checkpoint: str | os.PathLike | None
    ) -> Self:
        self._held = replace(self._held, checkpoint=checkpoint)
        try:
            return super()._learn(X, data, space, checkpoint)
        finally:
            self._held = replace(self._held, checkpoint=None)

    def _chosen_kernel(
        self, data: FitData, candidates: Candidates, inputs: InputSpace, seed: int
    ) -> ChosenKernel:
        """The kernel, from a sample of the rows, whose targets are in the data."""
        assert data.y is not None
        m = landmark_count(self.n_landmarks, data.n_rows)
        labelled = Labelled(data.y, data.weight, self.targets_, m)
        with display(self.verbose).stage("Choosing the kernel"):
            return self._search.choose(candidates, inputs, seed, labelled)

    @property
    def metric_(self) -> str | None:
        return self._fit().space.metric

    def _prepared(self, data: FitData, unlabelled: Source | None = None) -> FeatureSpace:
        """A space of rows with targets; columns are scaled by unlabelled ones too, which may become landmarks."""
        asked = self._asked_cells
        if asked is None:
            return self._with_landmarks(data, unlabelled)
        asked.check_possible(asked.against)
        space = self._with_landmarks(data, unlabelled)
        assert data.y is not None
        counting = data.counting_rows
        n, weighed = data.n_rows if counting is None else len(counting), self._balanced(data.y, data.weight)
        reader = replace(data, weight=weighed).reader(space.inputs, space.placement, data.first_row)
        plan = asked.plan(n, space, reader, self.targets_, self._run_in(space), self._search)
        self._held = replace(self._held, plan=plan)
        return space if plan is None or plan.uses_landmarks else without_landmarks(space, plan)

    def _with_landmarks(self, data: FitData, unlabelled: Source | None) -> FeatureSpace:
        """A space whose landmarks stay, or are what cells are compared with."""
        run, rows, labelled = self._run(data.n_rows), data, None
        if unlabelled is not None:
            weight = data.weight
            if weight is not None:
                weight = np.concatenate([weight, np.ones(unlabelled.n_rows)])
            rows = FitData((one_after_other(data.sources[0], unlabelled),), weight=weight)
            labelled = np.arange(data.n_rows) if data.counting_rows is None else data.counting_rows

        def chosen(candidates: Candidates, inputs: InputSpace) -> ChosenKernel:
            if labelled is not None:
                some = np.sort(np.random.default_rng(run.seed).permutation(labelled)[:AUTO_LANDMARKS])
                candidates = Candidates(data.reader(inputs, run.placement).take(some).inputs[0], some)
            return self._chosen_kernel(data, candidates, inputs, run.seed)

        return prepare(rows, replace(self._spec(data), prefer=labelled), run, chosen)

    def _spec(self, data: FitData) -> Spec:
        m = landmark_count(self.n_landmarks, data.n_rows)
        by_rule = isinstance(self.landmarks, str | LandmarkSelector | type)
        asked = self._asked_cells
        return Spec(
            self._search.first(),
            self.landmarks,
            m if asked is None else asked.enough_landmarks(m),
            preprocess=self._preprocess(data),
            decompose=self._decomposes(m if by_rule else len(as_sparse(self.landmarks))),
        )

    def _preprocess(self, data: FitData) -> Preprocess:
        """With the columns of targets and groups, which are not features, left out."""
        preprocess = super()._preprocess(data)
        if self.label_ is None or not isinstance(data.sources[0], TableSource):
            return preprocess
        encoder = preprocess if isinstance(preprocess, TableEncoder) else TableEncoder()
        return clone(encoder).set_params(label=self.label_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        asked = self._asked_cells
        tags.target_tags.required = True
        tags.input_tags.sparse &= asked is None or asked.compares
        return tags

    # Rows taken back

    def _check_holds(self, total: T, gone: T) -> None:
        if isinstance(total, SumsAndRows) and isinstance(gone, SumsAndRows):
            total.check_holds(gone)
        super()._check_holds(total, gone)

    def _still_dependent(self) -> list[str]:
        quantities = isinstance(self.targets_, Quantities)
        return [
            *super()._still_dependent(),
            "the unit of the targets" if quantities else "the list of classes",
            *([] if self._cell_plan is None else ["how cells are split, and the penalty"]),
        ]

    def _kernel_given(self) -> bool:
        return self._search.is_given(self.space_.kernel)

    # Cells

    @property
    def _cell_plan(self) -> LocalPlan | None:
        """The plan, if the machine is in cells."""
        return self._held.cell_plan

    @property
    def local_(self) -> LocalPlan | None:
        """How the machine is built, and what was compared; None where nothing but landmarks came into question."""
        self._fit()
        return self._held.plan

    def may_be_in_cells(self, n_rows: int) -> bool:
        """Whether a fit of this many rows compares cells, or is in cells."""
        asked = self._asked_cells
        return asked is not None and asked.may_serve(n_rows)

    def cell_bytes(self, n_rows: int, width: int, itemsize: int, n_outputs: int) -> int:
        """About how much a model of this many encoded rows takes in cells, in memory and with its sums in a file."""
        asked = self._asked_cells
        return 0 if asked is None else asked.bytes_of(n_rows, width, itemsize, n_outputs)

    def _cells(self) -> tuple[CellModel, LocalPlan, Tensor]:
        """Solved cells, their plan, and all rows or centres, of a machine in cells."""
        found, plan, total = self._solved().cells, self._held.plan, self.total_
        assert found is not None
        assert plan is not None
        if found.inputs is not None:
            return found, plan, found.inputs
        assert isinstance(total, SumsAndRows)
        assert total.rows is not None
        return found, plan, total.rows.inputs

    def _own(self, fit: Fit[T], solution: S | None = None) -> Self:
        if self._solution is not None and self._solution.cells is not None:
            self._held = replace(self._held, before=self._solution.cells)
        super()._own(fit, solution)
        if solution is not None:
            total = self.total_
            rows = total.rows if isinstance(total, SumsAndRows) else None
            self._held.check(solution.cells, rows, self.targets_.n_outputs)
        return self

    # Using

    def _scores(self, X: Any) -> np.ndarray:
        """f(x) in the units of the encoded targets, (n, c)."""
        self.check_input(X)
        return checked_predictions(np.concatenate(list(self._score_blocks(X))))

    def _score_blocks(self, X: Any, batch_rows: int | None = None) -> Iterator[np.ndarray]:
        found, space = self._solved(), self.space_
        if found.cells is not None:
            check_no_gradients(X)
            cells, plan, inputs = self._cells()
            score = score_in_cells(plan, cells, inputs, space, found.A, found.b)
            rows_at_once = batch_rows or QUERY_ROWS
            for Z in space.map(score, X, Local(QUERY_ROWS), display(self.verbose), rows_at_once):
                yield Z.numpy()
            return
        A, b, kernel_block = found.A.to(space.dtype), found.b.to(space.dtype), space.features.kernel_block

        def by_landmarks(rows: Rows) -> Tensor:
            return kernel_block(rows).to(space.dtype) @ A + b

        for Z in self.map_rows(by_landmarks, X, batch_rows):
            yield Z.double().cpu().numpy()

    @property
    def dual_coef_(self) -> np.ndarray:
        """A, the coefficients of k(., landmarks), (m, c), in the units of the encoded targets."""
        if self._cell_plan is not None:
            raise AttributeError(
                "A machine in cells has coefficients for every row of its cells: see row_weights(X)."
            )
        return self._solved().A.cpu().numpy()

    @property
    def intercept_(self) -> np.ndarray:
        """b, (c,), in the units of the encoded targets."""
        return self._solved().b.cpu().numpy()

    # Files and copies

    def empty_copy(self) -> Self:
        copy = super().empty_copy()._label(self.targets_, self.label_)
        copy._held = HeldCells(self._held.plan)
        return copy

    def fingerprint(self) -> dict[str, str]:
        return super().fingerprint() | self._accumulator(self.space_).fingerprint()

    def _state(self, total: bool = True) -> State:
        plan = self._cell_plan
        named = {
            "targets": encode(self.targets_),
            "label": self.label_,
            "local_plan": encode(self._held.plan),
        }
        if plan is None or (plan.centres is not None and self.total_ is None):
            return super()._state(total) | named
        if total or plan.centres is None:
            return super()._state(True) | named  # it is its rows
        cells, _, inputs = self._cells()  # whose centres are enough
        alone: Any = replace(self._solved(), cells=cells.centres_alone(inputs))  # type: ignore[type-var]
        return super()._state(False) | named | {"solution": encode(alone)}

    def _restore(self, state: State) -> None:
        self._check_parameters()
        plan = decode_entry({"local_plan": None} | state, "local_plan", LocalPlan | None)
        self._held = HeldCells(plan)
        self._label(decode(Targets, state["targets"]), decode_entry(state, "label", str | None))
        super()._restore(state)

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | {"c": self.targets_.n_outputs}


def sections(docstring: str | None) -> dict[str, str]:
    """The sections of a docstring, by name.

    >>> sections("Ridge.\\n\\nParameters\\n----------\\npenalty : float\\n\\nNotes\\n-----\\nNone.")
    {'parameters': 'penalty : float', 'notes': 'None.'}
    """
    found = re.findall(r"^(\w+)\n-+\n((?:.+\n?)+)", inspect.cleandoc(docstring or ""), re.MULTILINE)
    return {name.lower(): text.rstrip("\n") for name, text in found}


class QuantityMachine(RegressorMixin, LabelledMachine[T, S]):
    """A machine whose targets are real numbers."""

    fit_intercept: bool
    targets_: Quantities

    def _targets_of(self, y: Any, classes: ArrayLike | None = None, weight: Any = None) -> Targets:
        return Quantities.of(y, shift=self.fit_intercept, weight=weight)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """R^2. y may be the name of a column of X; rows without a target do not count."""
        return super().score(X, *self._scored(X, y, sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class ClassMachine(ClassifierMixin, LabelledMachine[T, S]):
    """A machine whose targets are classes."""

    targets_: Classes

    def _targets_of(self, y: Any, classes: ArrayLike | None = None, weight: Any = None) -> Targets:
        return Classes.of(y) if classes is None else Classes.given(classes)

    @property
    def classes_(self) -> np.ndarray:
        self._fit()
        return self.targets_.values

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy. y may be the name of a column of X; rows without a target do not count."""
        return super().score(X, *self._scored(X, y, sample_weight))
