"""LabelledMachine: a one-pass model of rows with targets.

    rows, y -> targets -> kernel from a sample of rows and targets -> FeatureSpace -> sums -> solve

What every machine with a y needs, beside the pass: targets that are an array or a column of the data, encoded once and
alike for ever; a kernel that may be learned from rows and targets before the landmarks are chosen; and the targets in
the model's file. A machine writes `_targets_of` and `_learned_kernel`, and the two hooks of `OnePassEstimator`.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from krepes.base.accumulator import T
from krepes.base.dtype_and_device import Placement
from krepes.base.limits import check_count
from krepes.base.model_file import State
from krepes.base.progress import display
from krepes.base.schema import check_entries
from krepes.engines import as_engine
from krepes.features import FeatureSpace, FitData
from krepes.features.fit_data import as_weights
from krepes.kernels import Kernel
from krepes.labelled import labels_of
from krepes.landmarks import LandmarkSelector
from krepes.machines.targets import Targets
from krepes.one_pass import OnePassEstimator, R
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.labels import missing_values
from krepes.preprocessing.preparing import Candidates, Preprocess
from krepes.preprocessing.table_encoder import TableEncoder
from krepes.sources import Source, TableSource, open_source
from krepes.sources.joined_rows import one_after_other

AUTO_LANDMARKS = 2000
EXACT_ROWS = 20_000  # up to which features are double precision


class LabelledMachine(OnePassEstimator[T, R]):
    """The base of machines that learn targets: ridge machines and Gaussian processes."""

    targets_: Targets
    label_: str | None  # the column that the targets were, where they were one
    of_targets: ClassVar[tuple[str, ...]] = (
        "label_",
        "targets_",
    )  # attributes that a fit sets before its pass

    # What a subclass writes

    @abstractmethod
    def _targets_of(self, y: Any, classes: ArrayLike | None = None) -> Targets:
        """How these targets become numbers."""

    @abstractmethod
    def _first_kernel(self) -> Kernel:
        """The kernel as far as it is known before the rows are."""

    @abstractmethod
    def _learned_kernel(self, data: FitData, candidates: Candidates, inputs: InputSpace, seed: int) -> Kernel:
        """The kernel, from a sample of the rows, whose targets are in the data."""

    def _weighted(self, y: np.ndarray, weight: ArrayLike | None) -> ArrayLike | None:
        """Weights of rows, times those of classes where they are known beforehand; y is encoded."""
        return weight

    def _sample_rows(self) -> int:
        """How many labelled rows the kernel is learned from, at most."""
        return AUTO_LANDMARKS

    def _decomposes(self, m: int) -> bool:
        """Whether features of m landmarks are needed, so that their kernel matrix is decomposed."""
        return True

    # Targets

    @contextmanager
    def _restored_on_failure(self) -> Iterator[None]:
        """The model stays as it was where a fit fails."""
        before = {name: getattr(self, name) for name in self.of_targets if hasattr(self, name)}
        try:
            yield
        except BaseException:
            for name, value in before.items():
                setattr(self, name, value)
            raise

    def _started(
        self, X: Any, y: Any, sample_weight: Any, classes: ArrayLike | None = None
    ) -> tuple[np.ndarray, ArrayLike | None]:
        """Encoded targets and weights of the first rows."""
        self.label_ = y if isinstance(y, str) else None
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
        if self.dtype not in ("auto", "float32", "float64"):
            raise ValueError(f"dtype={self.dtype!r}: expected 'auto', 'float32' or 'float64'.")

    # Preparation

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
        asked: Any = self.n_landmarks
        m: int = {"auto": min(n, AUTO_LANDMARKS), None: n}.get(asked, asked)
        by_rule = isinstance(self.landmarks, str | LandmarkSelector | type)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        placement = Placement.of(dtype, self.device)

        def learned(candidates: Candidates, inputs: InputSpace) -> Kernel:
            if labelled is not None:
                some = np.sort(np.random.default_rng(seed).permutation(labelled)[: self._sample_rows()])
                candidates = Candidates(data.reader(inputs, placement).take(some).inputs[0], some)
            return self._learned_kernel(data, candidates, inputs, seed)

        return FeatureSpace.prepare(
            rows,
            kernel=self._first_kernel(),
            landmarks=self.landmarks,
            n_landmarks=m,
            preprocess=self._preprocess(data),
            placement=placement,
            seed=seed,
            engine=as_engine(self.engine),
            progress=display(self.verbose),
            prefer=labelled,
            learn_kernel=learned,
            decompose=self._decomposes(m if by_rule else len(self.landmarks)),
        )

    def _preprocess(self, data: FitData) -> Preprocess:
        """With the column of targets, which is no feature, left out."""
        if self.label_ is None or not isinstance(data.sources[0], TableSource):
            return self.preprocess
        encoder = self.preprocess if isinstance(self.preprocess, TableEncoder) else TableEncoder()
        return clone(encoder).set_params(label=self.label_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    # Files and copies

    def empty_copy(self) -> Self:
        copy = super().empty_copy()
        copy.targets_, copy.label_ = self.targets_, self.label_
        return copy

    def fingerprint(self) -> dict[str, str]:
        return super().fingerprint() | self._accumulator(self.space_).fingerprint()

    def _state(self, total: bool = True) -> State:
        state = super()._state(total and self.total_ is not None)
        return state | {"targets": self.targets_.state(), "label": self.label_}

    def _restore(self, state: State) -> None:
        self._check_parameters()
        check_entries("The model", state, {"targets": dict, "label": str | None}, optional=set())
        self.targets_, self.label_ = Targets.from_state(state["targets"]), state["label"]


def _without(missing: np.ndarray | None, sample_weight: Any) -> ArrayLike | None:
    """Weights that are zero where the target is missing."""
    if missing is None:
        return sample_weight
    weight = as_weights(sample_weight, len(missing))
    return np.where(missing, 0.0, 1.0 if weight is None else weight)
