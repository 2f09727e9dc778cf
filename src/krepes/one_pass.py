"""OnePassEstimator: an accumulator and a solve, made into a model.

    rows -> FeatureSpace -> Accumulator -> value -> solve -> model

Whoever writes the two hooks, `_accumulator(space)` and `_solve(value)`, has an estimator that reads arrays, frames,
files and objects, in memory or out of core; shows progress; continues after an interruption with the same bits; takes
sample weights; adds rows with `partial_fit`, models with `merge`; and is saved and loaded. See
`examples/discriminant.py` for one in a page.
"""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from torch import Tensor

from krepes.base import model_file
from krepes.base.accumulator import Accumulator, T
from krepes.base.checkpoint import remove_checkpoint
from krepes.base.components import Component, NamedParts
from krepes.base.dtype_and_device import Placement
from krepes.base.external import External
from krepes.base.files import same_file
from krepes.base.limits import check_count
from krepes.base.model_file import State
from krepes.base.progress import display
from krepes.base.rows import Rows
from krepes.base.schema import check_entries
from krepes.engines import Engine, WrittenFolder, as_engine, write_partitions
from krepes.engines.partitioned_output import ROWS_PER_FILE, MethodResults
from krepes.features import FeatureSpace, FitData, NystromMap
from krepes.features.stored_kernels import missing_functions
from krepes.kernels import Kernel, as_kernel
from krepes.kernels.precomputed import is_precomputed
from krepes.landmarks import LandmarkSelector
from krepes.preprocessing import InputSpace
from krepes.preprocessing.input_record import RecordsInput
from krepes.preprocessing.preparing import Preprocess
from krepes.results import kept_columns
from krepes.sources import Source, open_objects, open_source
from krepes.sources.arrays.kernel_matrices import fitted_matrix
from krepes.views import Views

R = TypeVar("R")  # what a solve gives

# What a model file says besides its feature space, and of which type it must be.
STATE = {
    "parameters": dict[str, Any],
    "n_samples_seen": int,
    "n_features_in": int | None,
    "feature_names_in": list[str] | None,
}

ROW_METHODS = (
    "transform",
    "coverage",
    "predict",
    "predict_proba",
    "decision_function",
    "score_samples",
    "p_values",
)
MOST_ROWS = 2**62  # that have an index

# The estimators that `load` knows, and where they are; imported when a file needs them.
SAVED = {
    "GaussianProcessClassifier": "krepes.machines",
    "GaussianProcessRegressor": "krepes.machines",
    "KernelAutoencoder": "krepes.autoencoder",
    "KernelEmbedding": "krepes.embedding",
    "KernelRidgeClassifier": "krepes.machines",
    "KernelRidgeRegressor": "krepes.machines",
    "NoveltyDetector": "krepes.machines",
}


class OnePassEstimator(NamedParts, RecordsInput, ABC, Generic[T, R]):
    """The base of every model that one pass over the data gives.

    Parameters
    ----------
    kernel : str, Kernel or callable k(X, Y) -> (n, m), default="gaussian"
    landmarks : str, LandmarkSelector, array of points or of row indices, default="pivoted_cholesky"
    n_landmarks : int or None, default=1000
        None: every point that the model is fitted on is a landmark.
    preprocess : "auto", "table", "series", "normalize", None, TableEncoder or Normalize, default="auto"
    engine : None, "dask", the address of a scheduler, or Engine, default=None
        Where passes over the data run: in this process; in a Dask cluster, of this machine or at the address; or where
        the engine says. It is not saved.
    device, dtype, random_state, verbose : as in KernelEmbedding

    Attributes
    ----------
    space_ : FeatureSpace
        All that was fixed before the first kernel value.
    total_ : value of the accumulator, or None
        The sums over all rows seen; None where a file came without them.
    n_samples_seen_ : int
    kernel_, views_, landmarks_, landmark_indices_, features_, rank_, input_space_, seed_ : parts of the space
    """

    component_kinds: ClassVar[dict[str, type[Component]]] = {"kernel": Kernel, "landmarks": LandmarkSelector}
    total_name: ClassVar[str] = "total"  # of the sums, in a model file
    views: str | Views | None = None

    space_: FeatureSpace
    total_: T | None
    n_samples_seen_: int
    _solution: R | None

    def __init__(
        self,
        *,
        kernel: str | Kernel | Callable = "gaussian",
        landmarks: Any = "pivoted_cholesky",
        n_landmarks: int | None = 1000,
        preprocess: Preprocess = "auto",
        engine: Engine | str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.kernel = kernel
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.preprocess = preprocess
        self.engine = engine
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    # What a subclass writes

    @abstractmethod
    def _accumulator(self, space: FeatureSpace) -> Accumulator[Any, T]:
        """The sum over rows that the model is solved from."""

    @abstractmethod
    def _solve(self, value: T) -> R:
        """What the model needs beyond the sums; kept as `_solution`, which `_solved()` gives."""

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense."""
        if self.n_landmarks is not None:
            check_count("n_landmarks", self.n_landmarks)

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        checkpoint: str | os.PathLike | None = None,
        space: FeatureSpace | None = None,
    ) -> Self:
        """Learn from X: an array, tensor, frame, memory map, list of objects, source, or one path.

        Rows count `sample_weight` times; those of weight zero are left out. With `checkpoint`, a file of that name
        keeps the state of a long pass: after an interruption the same call continues from there (give `random_state`).
        `space` is a feature space to use as it is, from `prepare` or another model's `space_`.
        """
        self._check_parameters()
        data = FitData.open(X, y=y, weight=sample_weight, opener=self._opener(space))
        self._check_checkpoint(checkpoint, data)
        space = self._prepared(data) if space is None else space.decomposed()
        space, total = self._read(space, data, checkpoint)
        self._start(space)
        self._record_input(X, space.inputs)
        self._count(total, data.n_rows)
        self._solution = self._solve(total)
        if checkpoint is not None:
            remove_checkpoint(checkpoint)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, first_row: int | None = None
    ) -> Self:
        """Add rows. The first call fixes preprocessing, kernel parameters, landmarks and views.

        The solve waits until it is needed. `first_row` is the global index of the first row of X, which keys its
        random draws: workers that share a data set give it.
        """
        return self._add_rows(X, first_row, y=y, weight=sample_weight)

    def _add_rows(self, X: Any, first_row: int | None, views_needed: int = 1, **given: Any) -> Self:
        """Open data, the first or more of them, and add their sums."""
        if first_row is not None and not (
            isinstance(first_row, int | np.integer) and 0 <= first_row < MOST_ROWS
        ):
            raise ValueError(f"first_row={first_row!r}: expected the index of a row, an integer >= 0.")
        if not hasattr(self, "space_"):
            self._check_parameters()
            data = replace(FitData.open(X, **given, opener=self._opener()), first_row=first_row or 0)
            space = self._prepared(data, views_needed)
            if first_row and space.landmark_rows is not None:
                space = replace(space, landmark_rows=space.landmark_rows + first_row)
            total = self._summed(space, data, first_row or 0)
            self._start(space)
            self._record_input(X, space.inputs)
        else:
            self._check_has_total()
            self._check_same_input(X, self.space_.inputs)
            data = self.space_.open(X, **given)
            offset = self.n_samples_seen_ if first_row is None else first_row
            total = self._summed(self.space_, data, offset)
        self._count(total, data.n_rows)
        return self

    def prepare(self, X: Any, *, sample_weight: Any = None) -> FeatureSpace:
        """Preprocessing, kernel parameters, landmarks and views from X, before the long pass: for `fit(space=...)`."""
        self._check_parameters()
        return self._prepared(FitData.open(X, weight=sample_weight, opener=self._opener()))

    def _opener(self, space: FeatureSpace | None = None) -> Callable[[Any], Source]:
        """How the rows of a fit are opened; a kernel matrix has rows that know which column is theirs."""
        opener = opener_of(space, self.kernel)
        given = is_precomputed(self.kernel) if space is None else space.inputs.kind == "precomputed"
        return fitted_matrix if given else opener

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.sparse = not tags.input_tags.pairwise  # by most kernels; the others say so
        return tags

    def _prepared(self, data: FitData, views_needed: int = 1) -> FeatureSpace:
        """A feature space; `views_needed` of every sample will be compared."""
        return FeatureSpace.prepare(
            data,
            kernel=as_kernel(self.kernel),
            landmarks=self.landmarks,
            n_landmarks=self.n_landmarks,
            views=self.views,
            views_needed=views_needed,
            preprocess=self.preprocess,
            placement=self._placement(),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            engine=as_engine(self.engine),
            progress=display(self.verbose),
        )

    def _placement(self) -> Placement:
        """dtype="auto" is float32, and float64 where all points are landmarks."""
        chosen = "float64" if self.n_landmarks is None else "float32"
        return Placement.of(chosen if self.dtype == "auto" else self.dtype, self.device)

    def _summed(
        self, space: FeatureSpace, data: FitData, first_row: int, checkpoint: str | os.PathLike | None = None
    ) -> T:
        """The sums over some rows: the one expensive pass."""
        reader = data.reader(space.inputs, space.placement, first_row)
        return as_engine(self.engine).reduce(
            self._accumulator(space), reader, checkpoint=checkpoint, progress=display(self.verbose)
        )

    def _read(
        self, space: FeatureSpace, data: FitData, checkpoint: str | os.PathLike | None
    ) -> tuple[FeatureSpace, T]:
        """The pass of a fit: the space it ends with, and the sums."""
        return space, self._summed(space, data, 0, checkpoint)

    def _start(self, space: FeatureSpace) -> None:
        """Be a model of this space that has seen no rows."""
        self.space_, self.total_, self.n_samples_seen_, self._solution = space, None, 0, None

    def _count(self, total: T, n_rows: int) -> None:
        """Add sums over rows; what was solved before is out of date."""
        self.total_ = total if self.total_ is None else self.total_ + total
        self.n_samples_seen_ += n_rows
        self._solution = None

    def _solved(self) -> R:
        """What `_solve` gives for all rows seen so far; solved now if rows were added since."""
        self._fitted_space()
        if self._solution is None:
            if self.total_ is None:
                raise ValueError("This model has seen no rows yet: call partial_fit or merge first.")
            self._solution = self._solve(self.total_)
        return self._solution

    def _check_checkpoint(self, checkpoint: str | os.PathLike | None, data: FitData) -> None:
        if checkpoint is None:
            return
        if self.random_state is None:
            raise ValueError(
                "checkpoint= needs a fixed random_state: without it, a second run is another fit."
            )
        for path in (path for source in data.sources for path in source.paths):
            if same_file(checkpoint, path):
                raise ValueError(
                    f"checkpoint={str(checkpoint)!r} is a file of the data ({path}), and would be overwritten: name "
                    "another file."
                )

    # Parts that add up

    def empty_copy(self) -> Self:
        """The same preprocessing, kernel, landmarks and views, with no rows seen: for another worker."""
        self._fitted_space()
        copy = clone(self)
        copy._start(self.space_)
        copy._copy_record(self)
        return copy

    def merge(self, other: Self) -> Self:
        """Add the rows that another model has seen; both must share everything that the sums depend on."""
        if not isinstance(other, type(self)) and not isinstance(self, type(other)):
            raise TypeError(f"merge takes another {type(self).__name__}; got {type(other).__name__}.")
        self._check_has_total()
        other._check_has_total()
        mine, theirs = self.fingerprint(), other.fingerprint()
        different = [part for part in mine if mine[part] != theirs[part]]
        if different:
            raise ValueError(
                f"These models cannot be merged: they differ in {', '.join(different)}. Start the parts from "
                "one model's empty_copy()."
            )
        if other.total_ is not None:
            self._count(other.total_, other.n_samples_seen_)
        return self

    def _check_has_total(self) -> None:
        self._fitted_space()
        if self.total_ is None and self._solution is not None:
            raise ValueError(
                f"This model was saved without {self.total_name}: it can be used, but not be refitted, continued or "
                f"merged. Save with {self.total_name}=True to keep them."
            )

    def fingerprint(self) -> dict[str, str]:
        """A hash of each part that the sums depend on."""
        return self._fitted_space().fingerprint()

    # Using

    def map_rows(
        self, function: Callable[[Rows], Tensor], X: Any, batch_rows: int | None = None
    ) -> Iterator[Tensor]:
        """A function of rows in the model's input space, block by block: memory stays bounded whatever n is."""
        return self._fitted_space().map(
            function, X, as_engine(self.engine), display(self.verbose), batch_rows
        )

    def check_input(self, X: Any) -> None:
        """Refuse a model that is not fitted, and frames with other columns than it was fitted on."""
        self._check_same_input(X, self._fitted_space().inputs)

    def coverage(self, X: Any) -> np.ndarray:
        """|phi(x)|^2 / k(x, x) in [0, 1]: the share of a row, in the kernel's space, that the landmarks represent.

        For kernels that fall with the distance (Gaussian, Laplacian, Matérn) a row unlike anything seen has a coverage
        near 0. Linear, polynomial and arc-cosine kernels grow with the row instead: far away it may still be 1.
        """
        return self._mapped(self.features_.coverage, X)

    def write(
        self,
        X: Any,
        folder: str | os.PathLike,
        method: str = "transform",
        *,
        keep: Sequence[str] = (),
        rows_per_file: int = ROWS_PER_FILE,
        overwrite: bool = False,
    ) -> WrittenFolder:
        """Write what a method says of every row of X as a folder of Parquet files, part by part, where `engine` says.

        `method` is "transform", "coverage", "predict", "predict_proba", ...; `keep` names columns of a table to carry
        over. A call that was interrupted goes on: files that are there are not written again. See
        `krepes.engines.partitioned_output`.
        """
        self.check_input(X)
        self._solved()
        if not callable(getattr(self, method, None)):
            known = [name for name in ROW_METHODS if hasattr(self, name)]
            raise ValueError(f"method={method!r}: a {type(self).__name__} has {', '.join(map(repr, known))}.")
        source = opener_of(None, self.kernel_)(X)
        return write_partitions(
            folder,
            MethodResults(self.without_engine(), method),
            source,
            self.identity() | {"method": method},
            engine=as_engine(self.engine),
            keep=kept_columns(source, list(keep), folder),
            rows_per_file=rows_per_file,
            overwrite=overwrite,
            progress=display(self.verbose),
        )

    def without_engine(self) -> Self:
        """The same model as a worker uses it: alone."""
        worker = copy(self)
        worker.engine, worker.verbose = None, 0
        return worker

    def identity(self) -> dict[str, str]:
        """A hash of all that the model's output depends on."""
        state = self._state(total=False)
        params = {name: v for name, v in state["parameters"].items() if name not in ("verbose", "device")}
        return {"model": model_file.digest(state | {"parameters": params})}

    def _mapped(self, function: Callable[[Rows], Tensor], X: Any) -> np.ndarray:
        """The function of all rows."""
        self.check_input(X)
        return np.concatenate([values.cpu().numpy() for values in self.map_rows(function, X)])

    # Files

    def save(self, path: str | os.PathLike, *, overwrite: bool = False) -> None:
        """Write one safetensors file. It holds the landmarks, which are real rows of the data."""
        model_file.write(path, type(self).__name__, self._state(), overwrite)

    @classmethod
    def load(
        cls, path: str | os.PathLike, *, kernel: Kernel | Callable | None = None, device: str = "auto"
    ) -> Self:
        """Read a file that `save` wrote. `kernel` gives back a user's kernel function, which a file cannot hold."""
        _, state = model_file.read(path, cls.__name__)
        try:
            return cls._from_state(state, kernel, device)
        except (KeyError, AttributeError, IndexError, TypeError) as error:
            raise ValueError(f"{path} is damaged: {error!r}. Save or copy it again.") from error

    def _state(self, total: bool = True) -> State:
        """What a file keeps; without `total`, the model can be used but not continued."""
        self._fitted_space()
        state = {
            "parameters": self._stored_parameters(),
            "n_samples_seen": self.n_samples_seen_,
            **self._record_state(),
            **self.space_.state(factors=total),
        }
        return state | (
            {self.total_name: None if self.total_ is None else self.total_.state()} if total else {}
        )

    @classmethod
    def _from_state(cls, state: State, kernel: Kernel | Callable | None, device: str) -> Self:
        check_entries("The model", state, STATE, optional=set())
        unknown = sorted(set(state["parameters"]) - set(cls._get_param_names()))
        if unknown:
            raise ValueError(f"The model has parameters that {cls.__name__} does not: {', '.join(unknown)}.")
        parameters = state["parameters"] | {"device": device}
        space = FeatureSpace.from_state(state, Placement.of(parameters["dtype"], device), kernel)
        written = parameters["kernel"]
        if isinstance(written, External) or (isinstance(written, Kernel) and any(missing_functions(written))):
            parameters["kernel"] = space.kernel
        model = cls(**parameters)
        model._start(space)
        model._restore_record(state)
        model.n_samples_seen_ = state["n_samples_seen"]
        model._restore(state)
        check_entries("The model", state, {cls.total_name: dict | None}, optional={cls.total_name})
        if state.get(cls.total_name) is not None:
            model.total_ = model._accumulator(space).value_from(state[cls.total_name])
        return model

    def _restore(self, state: State) -> None:
        """Take from a file what a subclass adds to `_state`; the space is there already, the sums are not."""

    def _stored_parameters(self) -> State:
        """Constructor arguments; arrays of landmarks and random states are kept in the fitted state alone."""
        params = self.get_params(deep=False)
        params.pop("engine", None)
        params.pop("space", None)  # it is in the fitted state
        params["dtype"] = str(self.space_.dtype).removeprefix("torch.")
        if not isinstance(params["landmarks"], str | Component):
            params["landmarks"] = "pivoted_cholesky"
        if not isinstance(params["random_state"], int | None):
            params["random_state"] = None
        return params

    # Parts of the space, under the names that fitted attributes have

    def _fitted_space(self) -> FeatureSpace:
        """The feature space, or an error where there is none; cheaper than scikit-learn's own check."""
        if "space_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit first.")
        return self.space_

    @property
    def input_space_(self) -> InputSpace:
        return self._fitted_space().inputs

    @property
    def kernel_(self) -> Kernel:
        return self._fitted_space().kernel

    @property
    def views_(self) -> Views:
        return self._fitted_space().views

    @property
    def landmarks_(self) -> Rows:
        return self._fitted_space().landmarks

    @property
    def landmark_indices_(self) -> np.ndarray | None:
        return self._fitted_space().landmark_rows

    @property
    def views_per_landmark_(self) -> int:
        return self._fitted_space().views_per_landmark

    @property
    def features_(self) -> NystromMap:
        return self._fitted_space().features

    @property
    def rank_(self) -> int:
        return self._fitted_space().rank

    @property
    def exact_views_(self) -> bool:
        return self._fitted_space().exact_views

    @property
    def seed_(self) -> int:
        return self._fitted_space().seed


def opener_of(
    space: FeatureSpace | None, kernel: str | Kernel | Callable | list | tuple = "auto"
) -> Callable[[Any], Source]:
    """How the rows of a fit are opened: as those of the space that was given, where one was, or as the kernel asks."""
    if space is None:
        kernels = kernel if isinstance(kernel, list | tuple) else [kernel]
        return open_objects if any(as_kernel(k).only_objects for k in kernels) else open_source
    if not isinstance(space, FeatureSpace):
        raise TypeError(
            f"space= takes a FeatureSpace, from prepare(X) or another model's space_; got {type(space).__name__}."
        )
    return space.inputs.open


def load(
    path: str | os.PathLike, *, kernel: Kernel | Callable | None = None, device: str = "auto"
) -> OnePassEstimator:
    """Read a model file, whichever of krepes's estimators wrote it.

    `kernel` gives back a user's kernel function, which a file cannot hold. An estimator class of your own reads its
    files with `YourClass.load(path)`.
    """
    kind = model_file.kind_of(path)
    if kind == "Checkpoint":
        raise ValueError(
            f"{path} is the checkpoint of a fit that has not ended: call the same fit again with checkpoint=that file, "
            "and it continues."
        )
    if kind not in SAVED:
        raise ValueError(
            f"{path} holds a {kind}, which is not an estimator of krepes. If that is a class of your own, "
            f"call {kind}.load(path)."
        )
    return getattr(importlib.import_module(SAVED[kind]), kind).load(path, kernel=kernel, device=device)
