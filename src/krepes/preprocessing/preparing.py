"""The input space of a model and a uniform sample of its rows, in at most one scan of the data.

One sample of candidate rows serves everything that precedes the pass over all rows: the kernel's parameters, the
scale of the views, and the landmarks, which are chosen among them. For tables it is drawn during the scan that finds
the columns' moments and levels. Estimators remember the number and the names of features, as scikit-learn asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import validate_data
from torch import Tensor

from krepes.base.blocks import Placement
from krepes.base.column_scale import column_scale
from krepes.base.reporting import Progress, Silent, named_few, warn
from krepes.base.rows import Rows, dense
from krepes.base.validation import writable
from krepes.engines import Engine, Local, engine_for
from krepes.preprocessing.channels import Normalize, check_series_source
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.table_encoder import TableEncoder
from krepes.sources import Source, TableSource, reservoir
from krepes.sources.row_sampling import PickedRows, RawReader, sampled_indices
from krepes.sources.source import check_unique, is_pandas
from krepes.sources.tables.vectors_as_table import VectorsTable

FAR = 1e3  # deviations from zero, beyond which float32 loses digits that matter
FAR_FOR_PRODUCTS = 300  # beyond which it loses them in products x.y, which grow with the square

_SINGLE = (torch.float32, torch.float16, torch.bfloat16)
TableColumns = tuple[list[str], list[str]]  # encoded, and as they are
Preprocess = str | TableEncoder | Normalize | None  # as an estimator takes it
RECORD = (
    "n_features_in_",
    "feature_names_in_",
)  # what an estimator remembers of its input, as in scikit-learn


@dataclass(frozen=True, eq=False)
class Candidates:
    """A uniform sample of rows in the model's input space, with their global indices."""

    rows: Rows
    indices: np.ndarray


def prepare_inputs(
    source: Source,
    preprocess: Preprocess,
    draw: Sampling,
    placement: Placement,
    may_shift: bool = False,
    table_columns: Callable[[Sequence[str]], TableColumns | None] | None = None,
    tokens: bool = False,
) -> tuple[InputSpace, Candidates]:
    """Fit the input space and draw the candidates.

    `may_shift`: whether vectors may be moved all together, because kernel and views do not see where zero is.
    `tokens`: whether numbers are names of tokens, which have no spread to lose.
    `table_columns`: chooses the columns that a kernel compares, from a table's columns: `Kernel.table_columns`.
    """
    encoder = None if is_series(preprocess) else choose_encoder(preprocess, source)
    if isinstance(encoder, TableEncoder):
        space, sample, indices = _of_table(source, encoder, table_columns, draw)
    elif is_series(preprocess):
        check_series_source(source)
        sample, indices = draw.rows(source)
        space = InputSpace.of_series(sample)
    else:
        sample, indices = draw.rows(source)
        space = InputSpace.of(source, sample)
        if space.kind == "vectors" and not tokens and placement.dtype == torch.float32:
            _keep_spread(space, sample, may_shift)
        if encoder is not None:
            space.set_params(normalize=encoder.fitted(dense(space.tensor(sample, torch.float64))))
    rows = space.tensor_from(source, indices, sample, placement.dtype, placement.device)
    return space, Candidates(rows, indices)


@dataclass(frozen=True, eq=False)
class Sampling:
    """How candidates are drawn."""

    size: int
    seed: int
    engine: Engine = field(default_factory=Local)
    progress: Progress = field(default_factory=Silent)

    def rows(self, source: Source) -> tuple[Rows, np.ndarray]:
        """A uniform sample, read by its indices where that is cheap, and else in one pass."""
        if source.random_access or isinstance(self.engine, Local):
            with self.progress.stage("Preparing", None):
                return reservoir(source, self.size, self.seed)
        indices = sampled_indices(source.n_rows, self.size, self.seed)
        rows = engine_for(source, self.engine).reduce(
            PickedRows(indices), RawReader(source), progress=self.progress, name="Preparing"
        )
        return rows, indices


def _of_table(
    source: Source,
    encoder: TableEncoder,
    table_columns: Callable[[Sequence[str]], TableColumns | None] | None,
    draw: Sampling,
) -> tuple[InputSpace, Rows, np.ndarray]:
    """The space of a table: encoded columns, or records where a kernel compares some columns as they are."""
    table = source if isinstance(source, TableSource) else VectorsTable(source)
    names = table.column_names
    chosen = None if table_columns is None else table_columns(names)
    encoded, raw = (names, []) if chosen is None else chosen
    encoder = clone(encoder) if chosen is None else _of_columns(encoder, encoded, raw, names)
    if not encoded:
        return InputSpace.of_records(None, raw, names), *draw.rows(table.select(raw))
    sample, indices = encoder.fit_source(
        source, seed=draw.seed, n_candidates=draw.size, engine=draw.engine, progress=draw.progress, along=raw
    )
    space = InputSpace.of_records(encoder, raw, names) if raw else InputSpace("table", encoder=encoder)
    return space, sample, indices


def is_series(preprocess: Preprocess) -> bool:
    return isinstance(preprocess, str) and preprocess == "series"


def _of_columns(
    encoder: TableEncoder, encoded: Sequence[str], raw: Sequence[str], names: Sequence[str]
) -> TableEncoder:
    """An encoder of only some columns, to fit."""
    unused = [*encoder.exclude, *([] if encoder.label is None else [encoder.label])]
    both = [name for name in unused if name in {*encoded, *raw}]
    if both:
        raise ValueError(
            f"The kernel compares {', '.join(map(repr, both))}, which is excluded or the label: name it in one place."
        )
    excluded = [name for name in names if name not in encoded and name != encoder.label]
    return clone(encoder).set_params(exclude=excluded)


def _keep_spread(space: InputSpace, sample: Rows, may_shift: bool) -> None:
    """Shift columns whose spread is small beside their size before they are rounded to float32, or warn of the loss.

    Rounding moves a value x by up to 6e-8 |x|. Ordinary columns are left alone, to the bit.
    """
    if not isinstance(sample, Tensor):
        array = np.asarray(sample)
        if array.dtype.kind not in "iuf":
            return
        sample = torch.from_numpy(writable(array))
    center, scale = column_scale(sample)
    distance = torch.where(scale > 0, center.abs() / scale, 0.0)
    if may_shift:
        if bool((distance > FAR).any()) and sample.dtype not in _SINGLE:
            space.shift_ = torch.where(distance > FAR, center, 0.0)
    elif bool((far := distance > FAR_FOR_PRODUCTS).any()):
        warn(
            f"The values of {named_few('column', far.nonzero()[:, 0].tolist())} are more than {FAR_FOR_PRODUCTS} times "
            "as large as their spread, much of which is lost in single precision. Subtract their means first, use "
            "dtype='float64', or a kernel of distances."
        )


def choose_encoder(preprocess: Preprocess, source: Source) -> TableEncoder | Normalize | None:
    """The preprocessing to fit, if there is any."""
    table = source.kind == "table"
    if isinstance(preprocess, str) and preprocess in ("auto", "none", "normalize", "table"):
        encoded = preprocess == "table" or (preprocess == "auto" and table)
        preprocess = TableEncoder() if encoded else Normalize() if preprocess == "normalize" else None
    if isinstance(preprocess, Normalize) and source.kind != "images":
        raise ValueError(f"preprocess='normalize' is for images; this is {source.describe()}.")
    if isinstance(preprocess, TableEncoder) and source.kind not in ("table", "vectors"):
        raise ValueError(f"A TableEncoder encodes tables and 2-D arrays; this is {source.describe()}.")
    if preprocess is None and table:
        raise ValueError("preprocess=None is for arrays; a table has to be encoded: use preprocess='auto'.")
    if preprocess is None or isinstance(preprocess, TableEncoder | Normalize):
        return preprocess
    raise ValueError(
        f"preprocess={preprocess!r}: expected 'auto', 'table', 'series', 'normalize', None or a TableEncoder."
    )


def input_record(X: Any, inputs: InputSpace) -> dict[str, Any]:
    """`n_features_in_` and, of a frame, `feature_names_in_`: what scikit-learn's estimators remember of their input."""
    if is_pandas(X):
        found = BaseEstimator()
        validate_data(found, used_columns(X, inputs), reset=True, skip_check_array=True)
        return vars(found)
    return {} if inputs.n_features is None else {"n_features_in_": inputs.n_features}


def check_same_input(estimator: BaseEstimator, X: Any, inputs: InputSpace) -> None:
    """Frames must have the columns, in the order, of the frame that was fitted, as in scikit-learn.

    A model that was fitted on a file finds its columns by name, in any order.
    """
    if not hasattr(estimator, "feature_names_in_"):
        return
    if is_pandas(X):
        check_unique(list(map(str, X.columns)), "X")
        validate_data(estimator, used_columns(X, inputs), reset=False, skip_check_array=True)
    elif hasattr(X, "__array__") and getattr(X, "ndim", 0) == 2:
        validate_data(estimator, X, reset=False, skip_check_array=True)


def used_columns(X: Any, inputs: InputSpace) -> Any:
    """A frame without the columns that the encoder does not use: labels, excluded ones, those it left out."""
    encoder = inputs.encoder
    if encoder is None:
        return X
    unused = {column.name for column in encoder.left_out_} - set(inputs.raw_)
    return X.loc[:, [column for column in X.columns if column not in unused]] if unused else X
