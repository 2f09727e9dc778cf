"""OnePassEstimator: an accumulator and a solve, made into a model.

    rows -> FeatureSpace -> Accumulator -> value -> solve -> model

Whoever writes the two hooks, `_accumulator(space)` and `_solve(value)`, has an estimator that reads arrays, frames,
files and objects, in memory or out of core; shows progress; continues after an interruption with the same bits; takes
sample weights; adds rows with `partial_fit`, models with `merge`; and is saved and loaded. See
`examples/discriminant.py` for one in a page.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Tags, check_random_state
from torch import Tensor

from krepes.base import model_file, packing
from krepes.base.accumulator import Accumulator, T
from krepes.base.checkpoint import remove_checkpoint
from krepes.base.codec import State, encode
from krepes.base.components import Component, NamedParts
from krepes.base.display import ShowsFacts, short
from krepes.base.dtype_and_device import Placement
from krepes.base.external import External
from krepes.base.files import same_file
from krepes.base.limits import check_count
from krepes.base.packing import digest
from krepes.base.progress import display
from krepes.base.rows import Rows
from krepes.base.schema import check_entries
from krepes.base.split import ROUNDING, Split, by_group
from krepes.engines import Engine, WrittenFolder, as_engine, write_partitions
from krepes.engines.partitioned_output import ROWS_PER_FILE, MethodResults
from krepes.features import FeatureSpace, FitData
from krepes.features.has_space import HasSpace
from krepes.features.stored_kernels import missing_functions
from krepes.kernels import Kernel, as_kernel
from krepes.kernels.precomputed import is_precomputed
from krepes.landmarks import LandmarkSelector
from krepes.preprocessing import TableEncoder
from krepes.preprocessing.input_record import RecordsInput
from krepes.preprocessing.preparing import Preprocess
from krepes.results import kept_columns
from krepes.sources import Source, TableSource, open_objects, open_source
from krepes.sources.arrays.kernel_matrices import fitted_matrix
from krepes.tally import RowRanges, Tally
from krepes.tally.decay import check_half_life, row_weights
from krepes.tally.grouping import by_groups
from krepes.tally.numbered_rows import Numbered, row_numbers
from krepes.tally.tallied import Tallied
from krepes.tally.tally import MOST_ROWS
from krepes.views import Views

R = TypeVar("R")  # what a solve gives

# What a model file says besides its feature space, and of which type it must be.
STATE = {
    "parameters": dict[str, Any],
    "n_features_in": int | None,
    "feature_names_in": list[str] | None,
    "group_column": str | None,
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


class OnePassEstimator(ShowsFacts, NamedParts, RecordsInput, HasSpace, Tallied[T], ABC, Generic[T, R]):
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
        How many rows the sums hold.
    next_row_ : int
        The global index of the next row, which keys its random draws.
    rows_seen_ : RowRanges or None
        Which rows the sums hold, where that is known.
    groups_ : dict
        Rows by group, where sums are kept by group.
    half_life_ : float or None
    kernel_, views_, landmarks_, landmark_indices_, features_, rank_, input_space_, seed_ : parts of the space
    """

    component_kinds: ClassVar[dict[str, type[Component]]] = {"kernel": Kernel, "landmarks": LandmarkSelector}
    total_name: ClassVar[str] = "total"  # of the sums, in a model file
    views: str | Views | None = None

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
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
        checkpoint: str | os.PathLike | None = None,
        space: FeatureSpace | None = None,
    ) -> Self:
        """Learn from X: an array, tensor, frame, memory map, list of objects, source, or one path.

        Rows count `sample_weight` times; those of weight zero are left out. With `groups`, one for every row or the
        name of a column, sums are kept by group: see `only` and `without`. With `checkpoint`, a file of that name
        keeps the state of a long pass: after an interruption the same call continues from there (give `random_state`).
        `space` is a feature space to use as it is, from `prepare` or another model's `space_`.
        """
        self._check_parameters()
        data = FitData.open(X, y=y, weight=sample_weight, opener=self._opener(space))
        data = self._with_groups(data, X, groups, space)
        self._check_checkpoint(checkpoint, data)
        space = self._prepared(data) if space is None else space.decomposed()
        space, tally = self._read(space, data, checkpoint)
        self._start(space, data.group_column)
        self._record_input(X, space.inputs)
        self.tally_ = tally
        assert tally.total is not None
        self._solution = self._solve(tally.total)
        if checkpoint is not None:
            remove_checkpoint(checkpoint)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
        first_row: int | None = None,
        half_life: float | None = None,
    ) -> Self:
        """Add rows. The first call fixes preprocessing, kernel parameters, landmarks and views.

        The solve waits until it is needed. `first_row` is the global index of the first row of X, which keys its
        random draws: workers that share a data set give it. `groups` as in `fit`. With `half_life`, in rows, a row
        counts half as much when so many have come after it; give it from the first call on.
        """
        return self._add_rows(X, first_row, half_life, groups, y=y, weight=sample_weight)

    def _add_rows(
        self,
        X: Any,
        first_row: int | None,
        half_life: float | None = None,
        groups: ArrayLike | None = None,
        views_needed: int = 1,
        **given: Any,
    ) -> Self:
        """Open data, the first or more of them, and add their sums."""
        if first_row is not None and not (
            isinstance(first_row, int | np.integer) and 0 <= first_row < MOST_ROWS
        ):
            raise ValueError(f"first_row={first_row!r}: expected the index of a row, an integer >= 0.")
        half_life = self._half_life(half_life, groups)
        if not hasattr(self, "space_"):
            self._check_parameters()
            data = replace(FitData.open(X, **given, opener=self._opener()), first_row=first_row or 0)
            data = self._with_groups(data, X, groups)
            space = self._prepared(data, views_needed)
            if first_row and space.landmark_rows is not None:
                space = replace(space, landmark_rows=space.landmark_rows + first_row)
            tally = self._aged(space, data, first_row or 0, 0, half_life)
            self._start(space, data.group_column)
            self._record_input(X, space.inputs)
        else:
            self._check_has_total()
            self._check_same_input(X, self.space_.inputs)
            data = self._with_groups(self.space_.open(X, **given), X, groups, self.space_, self.tally_)
            offset = self.next_row_ if first_row is None else int(first_row)
            tally = self._aged(self.space_, data, offset, self.next_row_, half_life)
            self.group_column_ = data.group_column or self.group_column_
        self._count(tally)
        return self

    def _half_life(self, given: float | None, groups: ArrayLike | None) -> float | None:
        """The half-life of a stream: what was given, or that of the rows before; an error where they differ."""
        check_half_life(given)
        seen = vars(self).get("tally_", Tally())
        if given is not None and groups is not None:
            raise ValueError(
                "half_life= and groups= do not go together: rows of one group would weigh more or less by their age."
            )
        if seen.n_rows == 0:
            return given
        if given is not None and given != seen.half_life:
            before = "without a half-life" if seen.half_life is None else f"with half_life={seen.half_life:g}"
            raise ValueError(
                f"half_life={given:g}: this model has seen rows {before}. A stream has one half-life, from its first "
                "row on: start again from empty_copy()."
            )
        return seen.half_life

    def _aged(
        self, space: FeatureSpace, data: FitData, first_row: int, clock: int, half_life: float | None
    ) -> Tally[T]:
        """The sums of more rows, whose weights follow from their age where there is a half-life."""
        if half_life is None:
            return self._summed(space, data, first_row)
        clock = max(clock, first_row + data.n_rows)
        weight = row_weights(first_row, data.n_rows, clock, half_life)
        if data.weight is not None:
            weight = weight * data.weight
        if not (weight > 0).any():  # all of them are too old to count
            tally: Tally[T] = Tally(None, data.n_rows, clock, RowRanges.of(first_row, data.n_rows))
        else:
            tally = self._summed(space, replace(data, weight=weight), first_row)
        return replace(tally, next_row=clock, half_life=half_life)

    def prepare(self, X: Any, *, sample_weight: Any = None) -> FeatureSpace:
        """Preprocessing, kernel parameters, landmarks and views from X, before the long pass: for `fit(space=...)`."""
        self._check_parameters()
        return self._prepared(FitData.open(X, weight=sample_weight, opener=self._opener()))

    def _opener(self, space: FeatureSpace | None = None) -> Callable[[Any], Source]:
        """How the rows of a fit are opened; a kernel matrix has rows that know which column is theirs."""
        opener = opener_of(space, self.kernel)
        given = is_precomputed(self.kernel) if space is None else space.inputs.kind == "precomputed"
        return fitted_matrix if given else opener

    def __sklearn_tags__(self) -> Tags:
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
            preprocess=self._preprocess(data),
            placement=self._placement(),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            engine=as_engine(self.engine),
            progress=display(self.verbose),
        )

    def _preprocess(self, data: FitData) -> Preprocess:
        """With the column of groups, which is not a feature, left out."""
        if data.group_column is None or not isinstance(data.sources[0], TableSource):
            return self.preprocess
        encoder = self.preprocess if isinstance(self.preprocess, TableEncoder) else TableEncoder()
        return clone(encoder).set_params(exclude=[*encoder.exclude, data.group_column])

    def _placement(self) -> Placement:
        """dtype="auto" is float32, and float64 where all points are landmarks."""
        chosen = "float64" if self.n_landmarks is None else "float32"
        return Placement.of(chosen if self.dtype == "auto" else self.dtype, self.device)

    def _summed(
        self, space: FeatureSpace, data: FitData, first_row: int, checkpoint: str | os.PathLike | None = None
    ) -> Tally[T]:
        """The sums over some rows: the one expensive pass."""
        reader = data.reader(space.inputs, space.placement, first_row)
        value = as_engine(self.engine).reduce(
            self._pass(space, data), reader, checkpoint=checkpoint, progress=display(self.verbose)
        )
        return Tally.of(value, RowRanges.of(first_row, data.n_rows), data.group)

    def _pass(self, space: FeatureSpace, data: FitData) -> Accumulator[Any, Any]:
        """What is summed: the accumulator, or one for every group."""
        accumulator = self._accumulator(space)
        return accumulator if data.group is None else by_groups(accumulator, data.group)

    def _read(
        self, space: FeatureSpace, data: FitData, checkpoint: str | os.PathLike | None
    ) -> tuple[FeatureSpace, Tally[T]]:
        """The pass of a fit: the space it ends with, and the sums."""
        return space, self._summed(space, data, 0, checkpoint)

    def _start(self, space: FeatureSpace, group_column: str | None = None) -> None:
        """Be a model of this space that has seen no rows."""
        self.space_, self.tally_, self._solution = space, Tally(), None
        self.group_column_ = group_column

    def _count(self, tally: Tally[T]) -> None:
        """Add sums over rows; what was solved before is out of date."""
        total = self.tally_ + tally
        self._solution = None
        self.tally_ = total

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
        copy._start(self.space_, self.group_column_)
        copy._copy_record(self)
        return copy

    def merge(self, other: Self) -> Self:
        """Add the rows that another model has seen; both must share everything that the sums depend on.

        Aged sums (`half_life`) need a common clock: the rows of both must be numbered by one count (`first_row`).
        """
        self.check_mergeable(other)
        self._check_common_clock(other)
        self._count(other.tally_)
        return self

    def check_mergeable(self, other: Self) -> None:
        """Refuse a model whose sums do not go with these, naming what differs."""
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

    def _check_common_clock(self, other: Self) -> None:
        """Refuse aged sums whose rows were counted apart: how old the rows of one are for the other is not known."""
        mine, theirs = self.tally_, other.tally_
        if not mine.n_rows or not theirs.n_rows or (mine.half_life is None and theirs.half_life is None):
            return
        common = None if mine.rows is None or theirs.rows is None else mine.rows & theirs.rows
        if common is None or len(common):
            what = "which rows they hold is not known" if common is None else f"both count rows {common}"
            raise ValueError(
                f"These streams have no common clock: {what}. The weight of a row follows from how many came after it, "
                "in both. Number the rows of all streams by one count, and give it with partial_fit(first_row=...)."
            )

    # Rows taken back

    def forget(
        self,
        X: Any,
        y: Any = None,
        *,
        rows: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
    ) -> list[str]:
        """Take rows back: the model becomes that of the other rows, to rounding, without reading them again.

        It is not a guarantee of erasure: what the first rows of the model have fixed stays. If nothing may depend on a
        row, fit a new model without it.

        Parameters
        ----------
        X, y, groups, sample_weight : as they were given when the rows were added
        rows : integers of shape (n,)
            The index of each of the rows: its place in the data of `fit`, or `first_row` and its place in those of
            `partial_fit`.

        Returns
        -------
        list of str
            What may still depend on the rows: landmarks, kernel, columns' scales, views.

        Notes
        -----
        Landmarks cannot be forgotten, nor rows that were not added, nor rows of aged sums (`half_life`). Nothing
        changes then.
        """
        return self._forget_rows(X, rows, groups, y=y, weight=sample_weight)

    def _forget_rows(
        self, X: Any, rows: ArrayLike, groups: ArrayLike | None = None, **given: Any
    ) -> list[str]:
        """Open the rows again, and take their sums away."""
        self._check_has_total()
        self._check_same_input(X, self.space_.inputs)
        if self.half_life_ is not None:
            raise ValueError(
                f"The rows of this model have aged (half_life={self.half_life_:g}), and what is left of each is not "
                "known exactly enough to be taken away. They fade by themselves; a window forgets (krepes.streams)."
            )
        data = self._with_groups(self.space_.open(X, **given), X, groups, self.space_, self.tally_)
        numbers = row_numbers(rows, data.n_rows, self.space_, self.rows_seen_)
        if self.total_ is None or data.n_rows >= self.n_samples_seen_:
            raise ValueError(
                f"Asked to forget {data.n_rows:,} rows of a model that has seen {self.n_samples_seen_:,}: some must be "
                "left."
            )
        reader = Numbered(data.reader(self.space_.inputs, self.space_.placement), numbers)
        value = as_engine(self.engine).reduce(
            self._pass(self.space_, data), reader, progress=display(self.verbose)
        )
        gone: Tally[T] = Tally.of(value, RowRanges.of_rows(numbers), data.group)
        assert gone.total is not None
        self._check_holds(self.total_, gone.total)
        left = self.tally_ - gone
        self._solution = None
        self.tally_ = left
        return self._still_dependent()

    def _check_holds(self, total: T, gone: T) -> None:
        """Refuse rows that cannot all be in the sums."""
        if gone.n > (1 + ROUNDING) * total.n:
            raise ValueError(
                "These rows cannot all have been added: the model has fewer rows, by weight. Check rows= and "
                "sample_weight=."
            )

    def _still_dependent(self) -> list[str]:
        """What forgetting leaves as it was: all that the first rows have fixed."""
        space = self._fitted_space()
        inputs = space.inputs
        given = self.views if isinstance(self.views, Views) else None
        parts = {
            "which rows are landmarks": space.landmark_rows is not None,
            "the kernel, its lengthscale and metric": not self._kernel_given(),
            "the scales and levels of columns": not (
                inputs.encoder is None and inputs.normalize is None and inputs.shift_ is None
            ),
            "the strength of the views": space.views.n_views > 1
            and (given is None or digest(given) != digest(space.views)),
        }
        return [name for name, depends in parts.items() if depends]

    def _kernel_given(self) -> bool:
        """Whether the kernel is as the user gave it, without a number from the data."""
        return digest(as_kernel(self.kernel)) == digest(self.space_.kernel)

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
        return {"model": packing.digest(state | {"parameters": params})}

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
            "group_column": self.group_column_,
            **self.tally_.state(total),
            **self._record_state(),
            **self.space_.state(factors=total),
        }
        by_group = self.tally_.groups is not None  # whose sums are in the file already
        whole = None if self.total_ is None or by_group else encode(self.total_)
        return state | ({self.total_name: whole} if total else {})

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
        model._start(space, state["group_column"])
        model._restore_record(state)
        model.tally_ = Tally.from_state(state)
        model._restore(state)
        check_entries("The model", state, {cls.total_name: dict | None}, optional={cls.total_name})
        if state.get("groups") is not None:
            parts = Split(model._accumulator(space), by_group).value_from(state["groups"]["parts"])
            model.tally_ = model.tally_.with_groups(parts, state["groups"])
        elif state.get(cls.total_name) is not None:
            total = model._accumulator(space).value_from(state[cls.total_name])
            model.tally_ = replace(model.tally_, total=total)
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

    def _facts(self) -> dict[str, str]:
        """What was learned, for a notebook."""
        if "space_" not in vars(self):
            return {}
        return {
            "rows seen": f"{self.n_samples_seen_:,}",
            "input": self.input_space_.kind,
            "kernel": short(self.kernel_),
            "landmarks": f"{len(self.landmarks_):,}, rank {self.rank_:,}",
        }


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
