"""OnePassEstimator: an accumulator and a solve, made into a model.

    rows -> FeatureSpace -> Accumulator -> value -> solve -> model

Whoever writes the two hooks, `_accumulator(space)` and `_solve(value)`, has an estimator that reads arrays, frames,
files and objects, in memory or out of core; shows progress; continues after an interruption with the same bits; takes
sample weights; adds rows with `partial_fit`, models with `merge`; and is saved and loaded. See
`examples/discriminant.py` for one in a page. The trunk that it stands on: `krepes.features.prepare` fixes the space,
`krepes.tally.total` is the pass, and `krepes.tally.Fit` is what both give, a value.
"""

from __future__ import annotations

import copyreg
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, SupportsIndex, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_random_state
from torch import Tensor

from krepes.base.accumulator import Accumulator, T
from krepes.base.blocks import Placement
from krepes.base.components import Component, External, named_parts
from krepes.base.display import documentation_page, model_html, model_repr, short
from krepes.base.reporting import display
from krepes.base.rows import Rows
from krepes.base.split import Key
from krepes.base.storage import model_file, packing
from krepes.base.storage.checkpoint import remove_checkpoint
from krepes.base.storage.codec import State, decode, decode_part, encode
from krepes.base.storage.packing import digest
from krepes.base.validation import check_count
from krepes.engines import Engine, WrittenFolder, as_engine, write_partitions
from krepes.engines.partitioned_output import ROWS_PER_FILE
from krepes.features import FeatureSpace, FitData, Run, Spec, opener_of, prepare
from krepes.features.choices import landmark_count
from krepes.features.kernel_choice import KernelChoice
from krepes.features.user_kernels import missing_functions
from krepes.kernels import Kernel, as_kernel
from krepes.kernels.automatic import is_precomputed
from krepes.landmarks import LandmarkSelector
from krepes.landmarks.nystrom import NystromMap
from krepes.preprocessing import TableEncoder
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import RECORD, Preprocess, check_same_input, input_record
from krepes.results import kept_columns
from krepes.sources import TableSource, open_objects, open_source
from krepes.tally import Fit, RowRanges, Tally, total
from krepes.tally.fit import check_checkpoint, check_first_row, half_life_of, merged, with_groups, with_rows
from krepes.tally.forgetting import check_does_not_age, check_weight_of, forgotten
from krepes.views import Views

R = TypeVar("R")  # what a solve gives
Kernels = str | Kernel | Callable | Sequence[str | Kernel | Callable]

# Constructor arguments that no file holds: where a model computes, and a space that the fitted state has already.
NOT_SAVED = {"engine", "space"}

ROW_METHODS = (
    "transform",
    "coverage",
    "predict",
    "predict_proba",
    "decision_function",
    "score_samples",
    "p_values",
)


def check_no_gradients(X: Any) -> None:
    """Refuse a tensor whose gradients would be lost."""
    if isinstance(X, Tensor) and X.requires_grad and torch.is_grad_enabled():
        raise TypeError(
            "X requires gradients, and results of models have none: give X.detach(), or call model.as_module()(X), "
            "through which gradients flow."
        )


@dataclass(frozen=True)
class StoredModel:
    """What a model file says besides its feature space and its sums."""

    parameters: dict[str, Any]
    n_features_in: int | None
    feature_names_in: list[str] | None
    group_column: str | None


@dataclass(kw_only=True, eq=False, repr=False)
class OnePassEstimator(BaseEstimator, ABC, Generic[T, R]):
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
        What was fixed before the pass over all rows.
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
    total_name: ClassVar[str] = "sums"  # in a model file
    solution_type: ClassVar[type | None] = None  # of the solution, if a model file keeps it

    kernel: Kernels = "gaussian"
    landmarks: Any = "pivoted_cholesky"
    n_landmarks: int | str | None = 1000
    preprocess: Preprocess = "auto"
    engine: Engine | str | None = None
    device: str = "auto"
    dtype: str = "auto"
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0
    views: str | Views | None = field(default=None, init=False)

    _fitted: Fit[T] | None = field(default=None, init=False)
    _solution: R | None = field(default=None, init=False)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `kernel__lengthscale=...` is for a part of the model, also if it was given by name."""
        return super().set_params(**named_parts(self, self.component_kinds, params))

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.sparse = not tags.input_tags.pairwise  # by most kernels; the others say so
        return tags

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

    def _auto_dtype(self, n_rows: int) -> str:
        """What dtype="auto" means."""
        return "float64" if self.n_landmarks is None else "float32"

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

        Rows count `sample_weight` times; rows of weight zero are left out. With `groups`, one for every row or the
        name of a column, sums are kept by group: see `only` and `without`. With `checkpoint`, a file of that name
        keeps the state of a long pass: after an interruption the same call continues from there (give `random_state`).
        `space` is a feature space to use as it is, from `prepare` or another model's `space_`.
        """
        self._check_parameters()
        data = self._opened(X, groups, space, y=y, weight=sample_weight)
        return self._learn(X, data, space, checkpoint)

    def _learn(
        self, X: Any, data: FitData, space: FeatureSpace | None, checkpoint: str | os.PathLike | None
    ) -> Self:
        """Prepare the space, unless it is given, sum all rows, and solve."""
        check_checkpoint(checkpoint, data, self.random_state)
        space = self._prepared(data) if space is None else space.decomposed()
        tally = total(self._accumulator(space), data, space, self._run_in(space), checkpoint)
        self._own(Fit(space, tally, data.group_column))
        self._record_input(X, space.inputs)
        self._solved()
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
        counts half as much when that many have come after it; give it from the first call on.
        """
        return self._add_rows(X, first_row, half_life, groups, y=y, weight=sample_weight)

    def _add_rows(
        self,
        X: Any,
        first_row: int | None,
        half_life: float | None = None,
        groups: ArrayLike | None = None,
        **given: Any,
    ) -> Self:
        """Open data, the first or more of them, and add their sums."""
        fit, first_rows = self._fitted, self._fitted is None
        check_first_row(first_row)
        half_life = half_life_of(fit, half_life, groups)
        if fit is None:
            self._check_parameters()
            data = replace(self._opened(X, groups, **given), first_row=first_row or 0)
            space = self._prepared(data)
            if first_row and space.landmark_rows is not None:
                space = replace(space, landmark_rows=space.landmark_rows + first_row)
            fit = Fit(space)
        else:
            self._check_has_total()
            data = self._reopened(X, groups, **given)
        run = self._run_in(fit.space)
        self._own(with_rows(fit, self._accumulator(fit.space), data, run, first_row, half_life))
        if first_rows:
            self._record_input(X, fit.space.inputs)
        return self

    def prepare(self, X: Any, *, sample_weight: Any = None) -> FeatureSpace:
        """Preprocessing, kernel parameters and landmarks from X, before the long pass: for `fit(space=...)`."""
        self._check_parameters()
        return self._prepared(self._opened(X, weight=sample_weight))

    def _opened(
        self, X: Any, groups: ArrayLike | None = None, space: FeatureSpace | None = None, **given: Any
    ) -> FitData:
        """The rows of a fit."""
        data = FitData.open(X, **given, opener=opener_of(self.kernel, space))
        return with_groups(data, X, groups, space)

    def _reopened(self, X: Any, groups: ArrayLike | None = None, **given: Any) -> FitData:
        """More rows of a fitted model."""
        fit = self._fit()
        check_same_input(self, X, fit.space.inputs)
        return with_groups(fit.space.open(X, **given), X, groups, fit.space, fit)

    def _prepared(self, data: FitData) -> FeatureSpace:
        """A feature space for these rows."""
        return prepare(data, self._spec(data), self._run(data.n_rows))

    def _spec(self, data: FitData) -> Spec:
        """What the model asks of its feature space."""
        m = None if self.n_landmarks is None else landmark_count(self.n_landmarks, data.n_rows)
        kernel: Any = self.kernel
        return Spec(as_kernel(kernel), self.landmarks, m, self.views, preprocess=self._preprocess(data))

    def _preprocess(self, data: FitData) -> Preprocess:
        """With the column of groups, which is not a feature, left out."""
        if data.group_column is None or not isinstance(data.sources[0], TableSource):
            return self.preprocess
        encoder = self.preprocess if isinstance(self.preprocess, TableEncoder) else TableEncoder()
        return clone(encoder).set_params(exclude=[*encoder.exclude, data.group_column])

    def _run(self, n_rows: int) -> Run:
        """How a fit of this many rows runs, with a new seed."""
        dtype = self._auto_dtype(n_rows) if self.dtype == "auto" else self.dtype
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        placement = Placement.of(dtype, self.device)
        return Run(as_engine(self.engine), display(self.verbose), placement, seed)

    def _run_in(self, space: FeatureSpace) -> Run:
        """How a pass in this space runs."""
        return Run(as_engine(self.engine), display(self.verbose), space.placement, space.seed)

    def _own(self, fit: Fit[T], solution: R | None = None) -> Self:
        """Be the model of a fit; what was solved before is out of date."""
        self._fitted, self._solution = fit, solution
        return self

    def _solved(self) -> R:
        """What `_solve` gives for all rows seen so far; solved now if rows were added since."""
        value = self._fit().tally.total
        if self._solution is None:
            if value is None:
                raise ValueError("This model has seen no rows yet: call partial_fit or merge first.")
            self._solution = self._solve(value)
        return self._solution

    # Parts that add up

    def empty_copy(self) -> Self:
        """The same preprocessing, kernel, landmarks and views, with no rows seen: for another worker."""
        fit = self._fit()
        return clone(self)._own(fit.empty())._remember(self._record())

    def merge(self, other: Self) -> Self:
        """Add the rows that another model has seen; both must share everything that the sums depend on.

        Aged sums (`half_life`) need a common clock: the rows of both must be numbered by one count (`first_row`).
        """
        self.check_mergeable(other)
        return self._own(merged(self._fit(), other._fit()))

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

    def fingerprint(self) -> dict[str, str]:
        """A hash of each part that the sums depend on."""
        return self.space_.fingerprint()

    def with_files(self, files: Mapping[str, dict[str, Any]]) -> Self:
        """The same model, which knows of these files that its rows came from them; see `krepes.streams.follow`."""
        fit = self._fit()
        return copy(self)._own(replace(fit, tally=replace(fit.tally, files=files)), self._solution)

    def only(self, groups: Key | Iterable[Key]) -> Self:
        """A new model of some groups alone, without data.

        It is the model that a fit of their rows in the same `space_` gives: scales, kernel and landmarks stay.

        Parameters
        ----------
        groups : one of `groups_`, or several
        """
        self._check_has_total()
        return self.empty_copy()._own(self._fit().only(groups))

    def without(self, groups: Key | Iterable[Key]) -> Self:
        """A new model of all groups but these, without data; see `only`.

        Parameters
        ----------
        groups : one of `groups_`, or several
        """
        self._check_has_total()
        return self.empty_copy()._own(self._fit().without(groups))

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
            The index of each of the rows: its place in the data of `fit`, or `first_row` and its place in the rows of
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
        fit = self._fit()
        check_does_not_age(fit.tally.half_life)
        data, run = self._reopened(X, groups, **given), self._run_in(fit.space)
        self._own(forgotten(fit, self._accumulator(fit.space), data, rows, run, self._check_holds))
        return self._still_dependent()

    def forget_groups(self, groups: Key | Iterable[Key]) -> list[str]:
        """Take groups back, as `forget` does for rows; returns what may still depend on them."""
        self._check_has_total()
        self._own(self._fit().without(groups))
        return self._still_dependent()

    def _check_holds(self, total: T, gone: T) -> None:
        """Refuse rows that cannot all be in the sums."""
        check_weight_of(total, gone)

    def _still_dependent(self) -> list[str]:
        """What forgetting leaves as it was: everything that the first rows have fixed."""
        space = self.space_
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
        kernel: Any = self.kernel
        return digest(as_kernel(kernel)) == digest(self.space_.kernel)

    def _check_has_total(self) -> None:
        """Refuse a model without sums."""
        if self._fit().tally.total is None and self._solution is not None:
            raise ValueError(
                f"This model was saved without {self.total_name}: it can be used, but not be refitted, continued or "
                f"merged. Save with {self.total_name}=True to keep them."
            )

    # Using

    def map_rows(
        self, function: Callable[[Rows], Tensor], X: Any, batch_rows: int | None = None
    ) -> Iterator[Tensor]:
        """A function of rows in the model's input space, block by block: memory stays bounded whatever n is."""
        check_no_gradients(X)
        return self.space_.map(function, X, as_engine(self.engine), display(self.verbose), batch_rows)

    def check_input(self, X: Any) -> None:
        """Refuse a model that is not fitted, and frames with other columns than it was fitted on."""
        check_same_input(self, X, self.space_.inputs)

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
        source = (open_objects if self.kernel_.only_objects else open_source)(X)
        return write_partitions(
            folder,
            getattr(self.without_engine(), method),
            source,
            self.identity() | {"method": method},
            engine=as_engine(self.engine),
            keep=kept_columns(source, list(keep), folder),
            rows_per_file=rows_per_file,
            overwrite=overwrite,
            progress=display(self.verbose),
        )

    # Without krepes

    def as_module(
        self, output: str | None = None, *, dtype: str | None = None, decoder: bool = False
    ) -> torch.nn.Module:
        """One output of the fitted model as a `torch.nn.Module`, whose gradients flow into its input.

        Rows are a tensor as `fit` had them: pixels from 0 to 255 where the model was fitted on integers, which the
        module cannot check. Rows of a table are encoded (`model.input_space_.encoder.transform(X)`).
        `output` is "embedding", "prediction", "deviation", "probabilities", "score" or "reconstruction", as far as the
        model has it; `dtype` is "float32" or "float64", by default as the model computes. `decoder` starts from the
        representation of a `KernelAutoencoder`.
        """
        export = import_module("krepes.export")
        program = export.program_of(self, encoded=True, dtype=dtype, decoder=decoder)
        main = "reconstruction" if decoder else export.model_formulas.MAIN[type(self).__name__]
        return import_module("krepes.export.torch_module").KernelModule(program, output or main)

    def to_onnx(
        self,
        path: str | os.PathLike,
        *,
        confidence: float | None = None,
        dtype: str | None = None,
        data: Any = None,
        decoder: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Write the fitted model as an ONNX file, the encoder of tables included; needs the extra `onnx`.

        With `confidence`, intervals or sets of classes are outputs, too. `data`, the rows of the fit, list rare values
        of categories, which the model knows by their hashes alone. `dtype` and `decoder` as in `as_module`.
        """
        program = import_module("krepes.export").program_of(
            self, confidence=confidence, dtype=dtype, data=data, decoder=decoder
        )
        import_module("krepes.export.onnx_file").write_onnx(program, path, overwrite)

    def without_engine(self) -> Self:
        """The same model as a worker uses it: alone."""
        return copy(self).set_params(engine=None, verbose=0)

    def identity(self) -> dict[str, str]:
        """A hash of everything that the model's output depends on."""
        state = self._state(total=False)
        params = {name: v for name, v in state["parameters"].items() if name not in ("verbose", "device")}
        return {"model": packing.digest(state | {"parameters": params})}

    def _mapped(self, function: Callable[[Rows], Tensor], X: Any) -> np.ndarray:
        """The function of all rows."""
        self.check_input(X)
        return np.concatenate([values.cpu().numpy() for values in self.map_rows(function, X)])

    # Files

    def save(self, path: str | os.PathLike, *, sums: bool = True, overwrite: bool = False) -> None:
        """Write one safetensors file. It holds landmarks and, with `sums`, rows that are kept: real rows of the data.

        Without `sums` the model can be used as before, but `partial_fit`, `merge` and `forget` need them.
        """
        model_file.write(path, type(self).__name__, self._state(sums), overwrite)

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
        fit, kind = self._fit(), self.solution_type
        seen = fit.tally.total is not None or self._solution is not None
        keeps = (total or kind is None) and (fit.tally.total is not None or not seen)
        n_columns, names = vars(self).get("n_features_in_"), vars(self).get("feature_names_in_")
        state = {"parameters": self._stored_parameters(), "n_features_in": n_columns}
        state |= {"feature_names_in": None if names is None else [str(name) for name in names]}
        state |= fit.state(self.total_name, keeps)
        return state | {"solution": encode(self._solved())} if seen and kind is not None else state

    @classmethod
    def _from_state(cls, state: State, kernel: Kernel | Callable | None, device: str) -> Self:
        stored = decode_part(StoredModel, state)
        unknown = sorted(set(stored.parameters) - (set(cls._get_param_names()) - NOT_SAVED))
        if unknown:
            raise ValueError(
                f"The file sets parameters that no file of {cls.__name__} has: {', '.join(unknown)}."
            )
        parameters = stored.parameters | {"device": device}
        space = FeatureSpace.from_state(state, Placement.of(parameters["dtype"], device), kernel)
        written = parameters["kernel"]
        if isinstance(written, External) or (isinstance(written, Kernel) and any(missing_functions(written))):
            parameters["kernel"] = space.kernel
        model = cls(**parameters)._own(Fit(space, Tally.from_state(state), stored.group_column))
        record: dict[str, Any] = {"n_features_in_": stored.n_features_in}
        if stored.feature_names_in is not None:
            record["feature_names_in_"] = np.asarray(stored.feature_names_in, dtype=object)
        model._remember({name: value for name, value in record.items() if value is not None})
        model._restore(state)
        return model._own(model._fit().with_sums(state, cls.total_name, model._accumulator), model._solution)

    def _restore(self, state: State) -> None:
        """Take from a file what `_state` adds to the fit; the space is there already, the sums are not."""
        if self.solution_type is not None and "solution" in state:
            self._solution = decode(
                self.solution_type, state["solution"], self.space_.device, **self._sizes()
            )

    def _sizes(self) -> dict[str, int]:
        """Sizes of named axes in a solution."""
        return {"m": len(self.landmarks_), "r": self.rank_}

    def _stored_parameters(self) -> State:
        """Constructor arguments; arrays of landmarks and random states are kept in the fitted state alone."""
        params = {name: v for name, v in self.get_params(deep=False).items() if name not in NOT_SAVED}
        params["dtype"] = str(self.space_.dtype).removeprefix("torch.")
        if not isinstance(params["landmarks"], str | Component):
            params["landmarks"] = "pivoted_cholesky"
        if not isinstance(params["random_state"], int | None):
            params["random_state"] = None
        return params

    # States: pickle and copies take attributes as they are; who asks for plain values, as skops does, gets a model file

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self),), super().__getstate__()  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        """What `save` writes, as bytes; of a model that is not fitted, its parameters."""
        if self._fitted is None:
            return super().__getstate__()
        with tempfile.TemporaryDirectory() as folder:
            OnePassEstimator.save(self, path := Path(folder, "model"))
            return {"model_file": path.read_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From a state of either kind; a model file is checked as `load` checks it, and runs no code."""
        if "model_file" not in state:
            return super().__setstate__(state)
        with tempfile.TemporaryDirectory() as folder:
            (path := Path(folder, "model")).write_bytes(state["model_file"])
            vars(self).update(vars(type(self).load(path)))

    # What scikit-learn's estimators remember of their input

    def _record_input(self, X: Any, inputs: InputSpace) -> None:
        self._remember(input_record(X, inputs))

    def _record(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name in RECORD}

    def _remember(self, record: Mapping[str, Any]) -> Self:
        for name in self._record():
            delattr(self, name)
        for name, value in record.items():
            setattr(self, name, value)
        return self

    # Showing

    _doc_link_module = "krepes"
    _doc_link_template = property(documentation_page)

    def _facts(self) -> dict[str, str]:
        """What was learned, for a notebook."""
        if self._fitted is None:
            return {}
        return {
            "rows seen": f"{self.n_samples_seen_:,}",
            "input": self.input_space_.kind,
            "kernel": short(self.kernel_),
            "landmarks": f"{len(self.landmarks_):,}, rank {self.rank_:,}",
        }

    def _repr_html_(self) -> str:
        return model_html(self, self._facts())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        plain = {"text/plain": repr(self)}
        return plain | {"text/html": self._repr_html_()} if get_config()["display"] == "diagram" else plain

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return model_repr(self, N_CHAR_MAX)

    # Parts of the fit

    def _fit(self) -> Fit[T]:
        """The fit, or an error if there is none; cheaper than scikit-learn's own check."""
        if self._fitted is None:
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit first.")
        return self._fitted

    @property
    def space_(self) -> FeatureSpace:
        return self._fit().space

    @property
    def tally_(self) -> Tally[T]:
        return self._fit().tally

    @property
    def total_(self) -> T | None:
        """The sums over all rows seen; None if a file came without them."""
        return self._fit().tally.total

    @property
    def n_samples_seen_(self) -> int:
        """Rows that the sums hold."""
        return self._fit().tally.n_rows

    @property
    def next_row_(self) -> int:
        """The global index of the next row that is added: no random draw is ever used twice."""
        return self._fit().tally.next_row

    @property
    def rows_seen_(self) -> RowRanges | None:
        """Which rows the sums hold; None if that is not known."""
        return self._fit().tally.rows

    @property
    def half_life_(self) -> float | None:
        """Rows in which the weight of a row falls by half; None if rows do not age."""
        return self._fit().tally.half_life

    @property
    def groups_(self) -> dict[Key, int]:
        """The number of rows of every group; empty if sums are not kept by group."""
        groups = self._fit().tally.groups
        return {} if groups is None else dict(groups.rows)

    @property
    def input_space_(self) -> InputSpace:
        return self._fit().space.inputs

    @property
    def kernel_(self) -> Kernel:
        return self._fit().space.kernel

    @property
    def choice_(self) -> KernelChoice | None:
        """What was compared before the kernel was chosen; None if it was given, or the model comes from a file."""
        return self._fit().space.choice

    @property
    def views_(self) -> Views:
        return self._fit().space.views

    @property
    def landmarks_(self) -> Rows:
        return self._fit().space.landmarks

    @property
    def landmark_indices_(self) -> np.ndarray | None:
        return self._fit().space.landmark_rows

    @property
    def views_per_landmark_(self) -> int:
        return self._fit().space.views_per_landmark

    @property
    def features_(self) -> NystromMap:
        return self._fit().space.features

    @property
    def rank_(self) -> int:
        return self._fit().space.rank

    @property
    def exact_views_(self) -> bool:
        return self._fit().space.exact_views

    @property
    def seed_(self) -> int:
        return self._fit().space.seed
