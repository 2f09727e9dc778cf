"""TableEncoder: a table's columns as numbers that kernels can compare.

    number      (x - mean) / deviation, population moments of the values that are there, without wild cells;
                of ranks instead of values where these have a heavy tail (`columns.number`)
    date        years, standardised; time of day, day of week and day of year as points on circles
    category    one-hot
    text        groups of characters, hashed

Two rows of a standardised column are at squared distance 2 on average, and two different levels of a one-hot
column are at squared distance 2: a category weighs as much as a number, so one-hot columns are not scaled.
One scan of the table, O(n d); its results do not depend on how the rows are batched, because moments are taken
in chunks of fixed size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from krepes.base.blocks import dtype_name
from krepes.base.components import Component
from krepes.base.reporting import Progress, warn
from krepes.base.rows import EncodedColumn, take_rows
from krepes.base.validation import as_matrix, check_choice, check_columns, check_count
from krepes.engines import Engine, engine_for
from krepes.preprocessing.column_choice import KINDS, TARGET_NAMES, ColumnChoice, readable_columns
from krepes.preprocessing.column_scan import ColumnScan, TableScan
from krepes.preprocessing.column_values import family, first_values
from krepes.preprocessing.columns import Column, LeftOut
from krepes.preprocessing.columns.number import TAILS, infinite
from krepes.sources import Rows, Source, TableSource, open_source
from krepes.sources.row_sampling import RawReader, sampled_indices
from krepes.sources.source import is_pandas, is_polars
from krepes.sources.tables.vectors_as_table import VectorsTable, is_matrix, matrix_table, numbered_names

_CHUNK_CELLS, _CHUNK_ROWS = 1 << 22, 1 << 16  # of the scan
_MEDIAN_CELLS, _MEDIAN_ROWS = 1 << 21, 50_000  # of the sample that medians are taken from
_MOST_BYTES = 1 << 28  # of either


def empty_table(X: Any) -> list[str] | None:
    """The columns of a frame or table without rows; None for everything else."""
    if isinstance(X, Mapping):
        lengths = [len(v) if hasattr(v, "__len__") and not isinstance(v, str) else 1 for v in X.values()]
        return list(X) if lengths and not any(lengths) else None
    if isinstance(X, pa.Table | pa.RecordBatch):
        return X.schema.names if X.num_rows == 0 else None
    return list(map(str, X.columns)) if (is_pandas(X) or is_polars(X)) and len(X) == 0 else None


@dataclass(eq=False, repr=False)
class TableEncoder(TransformerMixin, Component):
    """Standardise, impute and one-hot encode the columns of a table.

    Numbers (integers, floats, decimals, true/false) are standardised; where they have a heavy tail, such as incomes or
    counts that are mostly zero, their ranks are (`tails`). Where values were missing, an indicator column is added; a
    missing value becomes the median, also in columns that had none missing when fitted.
    Text that is numbers, dates or two words for yes and no is read as such; the form (decimal comma, day first) is
    decided by the whole column, and `roles_` says it. Dates become years, and the time of day, day of week and day of
    year as sine and cosine, as far as the column spans them.
    Other text and categoricals become one column per level, most frequent first; values below `min_frequency` or
    beyond `max_levels` share a level "rare", missing values have a level if there were any, and values never
    seen in fitting have the level "unseen" (so do missing ones where there were none). Near-unique text (more distinct
    values than half the rows) of four words or more becomes groups of characters, hashed into 128 columns. Ids, other
    near-unique text, nested and empty columns are left out; `roles_` says why.

    Parameters
    ----------
    exclude : sequence of str, default=()
        Columns that are never features.
    label : str, default=None
        The column of labels, never a feature either.
    min_frequency : "auto", int or float, default="auto"
        Levels with fewer rows (int) or a smaller share of the rows (float) are rare. "auto" is 10 rows, but at
        most 1 % of them.
    max_levels : int, default=100
        Levels per column, not counting rare, missing and unseen.
    dtype : "float32" or "float64", default="float32"
        The dtype of the output.
    columns : dict of str by column, default=None
        What columns are, where the rules would get it wrong: "number", "decimal point", "decimal comma", "date", "day
        first", "month first", "boolean", "category" or "text". Cells that are not of that kind are missing.
    missing : sequence of str, default=None
        Words that mean a missing value, instead of the usual ones (NA, NaN, null, n/a, ...; in columns of numbers and
        dates also "-", "?", "unknown" and the like). "NA" is kept among codes of two capitals, such as countries. A
        number, such as "-999", is missing in columns of numbers. Empty cells always are.
    tails : "ranks", "squash" or "plain", default="ranks"
        "ranks" takes the share of values below a number, and half of those equal to it, in columns with a kurtosis
        above 5; numbers outside the range that was fitted are moved to its ends. "squash" takes z / sqrt(1 + (z/3)^2)
        in every column, z by median and quartiles. "plain" takes numbers as they are.

    Attributes
    ----------
    columns_ : list of Column
        The columns that are used: `Number`, `YesNo`, `Date`, `Category` or `Text`, with what they have learned.
    left_out_ : list of LeftOut
        The other columns, with the reason.
    roles_ : list of dict
        column, role ("numeric", "date", "category", "text", "left out", "label", "excluded"), detail, n_outputs; in
        the order of the columns.
    groups_ : list of lists of int
        The output columns that belong to one input column.
    examples_ : dict of str
        A value of every column that was read, as text. Not stored in files.
    n_features_in_, n_features_out_ : int

    Notes
    -----
    Medians and ranks are exact up to 50,000 rows (and about 2 million cells), and beyond that come from a uniform
    sample of that size. Ranks go through at most 256 values, with straight lines between them. Where at most two
    values in a thousand lie very far out (`krepes.base.column_scale`) and make the deviation more than five times as
    large, mean and deviation leave them out; `roles_` says so. Infinite values are an error: a mean and a deviation
    of them do not exist.

    Examples
    --------
    >>> table = {"age": [20.0, 40.0, None, 60.0], "sex": ["f", "m", "f", "f"]}
    >>> encoder = TableEncoder(dtype="float64").fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age (missing)', 'sex=f', 'sex=m', 'sex=(unseen)']
    >>> encoder.transform({"age": [40.0, None], "sex": ["m", "x"]})  # mean 40, median 40
    array([[0., 0., 0., 1., 0.],
           [0., 1., 0., 0., 1.]])
    >>> encoder.inverse_transform([[1.0, 0.0, 0.2, 0.7, 0.1]]).to_pylist()  # deviation 16.3
    [{'age': 56.3..., 'sex': 'm'}]
    """

    exclude: Sequence[str] = ()
    label: str | None = None
    min_frequency: str | int | float = "auto"
    max_levels: int = 100
    dtype: str = "float32"
    columns: dict[str, str] | None = None
    missing: Sequence[str] | None = None
    tails: str = "ranks"

    columns_: list[Column] = field(init=False)
    left_out_: list[Column] = field(init=False)  # of the class LeftOut
    input_columns_: list[str] = field(init=False)
    n_features_in_: int = field(init=False)
    named_: bool = field(init=False)

    def check_restored(self) -> None:
        columns = [*getattr(self, "columns_", []), *getattr(self, "left_out_", [])]
        if not {column.name for column in columns} <= set(getattr(self, "input_columns_", [])):
            raise ValueError("TableEncoder.columns_ has columns that are not in input_columns_.")
        if hasattr(self, "columns_"):
            if not hasattr(self, "left_out_"):
                raise ValueError("TableEncoder.columns_ is there, but left_out_ is not.")
            self._place_outputs()

    def _place_outputs(self) -> None:
        """Find where the outputs of every column are."""
        edges = accumulate((column.width for column in self.columns_), initial=0)
        self._parts = [slice(start, stop) for start, stop in pairwise(edges)]

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn the columns of a frame, pyarrow table, mapping of columns, 2-D array or path."""
        self.fit_source(self._source(X), n_candidates=1)
        self.named_ = self.named_ and not isinstance(X, np.ndarray)
        return self

    def fit_source(
        self,
        source: Source,
        *,
        seed: int = 0,
        n_candidates: int = 10_000,
        batch_rows: int | None = None,
        engine: Engine | None = None,
        progress: Progress | None = None,
        along: Sequence[str] = (),
    ) -> tuple[Rows, np.ndarray]:
        """Learn the columns of a source in one scan that also draws a uniform sample of rows.

        Parameters
        ----------
        source : Source of kind "table" or "vectors".
        seed : int, of the sample.
        n_candidates : rows in the sample.
        batch_rows : rows to read at once; changes no result.
        engine : who scans the rows; by default, and for rows in memory, this process.
        progress : what shows how far the scan is.
        along : columns that the sample has besides, which need not be features.

        Returns
        -------
        rows, indices : the sample (raw, only the columns that could be features) and its global row indices, as
            `krepes.sources.reservoir(source, n_candidates, seed)` would draw it.
        """
        self._check_parameters()
        usable = self._usable(source)
        # Nested and binary columns are left out by their type and never read.
        table_source, as_text = self._readable(usable)
        n_columns, most_rows = len(table_source.schema), _MOST_BYTES // table_source.row_bytes()
        chunk_rows = max(64, min(_CHUNK_CELLS // n_columns, _CHUNK_ROWS, most_rows))
        median_rows = max(1000, min(_MEDIAN_CELLS // n_columns, _MEDIAN_ROWS, most_rows))
        scan = ColumnScan(table_source.schema, as_text, self.missing)
        scanned = table_source.column_names
        if along:
            whole = source if isinstance(source, TableSource) else VectorsTable(source)
            table_source = whole.select([*dict.fromkeys([*scanned, *along])]).as_text(as_text)
        seen_rows = sampled_indices(source.n_rows, max(n_candidates, median_rows), seed)
        scan, sample = engine_for(table_source, engine).reduce(
            TableScan(scan, scanned, seen_rows, chunk_rows),
            RawReader(table_source, chunk_rows=chunk_rows, read_rows=batch_rows),
            progress=progress,
            name="Preparing",
        )
        if scan.infinite:
            raise infinite(sorted(scan.infinite))
        choose = ColumnChoice(
            self.min_frequency, self.max_levels, self.named_, self.columns or {}, self.tails
        )
        seen = sample.select(scanned)
        self._keep(choose(usable.schema, scan, seen))
        self._examples = {name: str(value) for name, value in first_values(seen).items()}
        indices = sampled_indices(source.n_rows, n_candidates, seed)
        return take_rows(sample, np.searchsorted(seen_rows, indices)), indices

    def layout(self) -> tuple[EncodedColumn, ...]:
        """Where the numbers of every column are in an encoded row."""
        return tuple(column.placed(part) for column, part in zip(self.columns_, self._parts))

    def transform(self, X: Any) -> np.ndarray:  # shape: (n, n_features_out_)
        """Encode rows. Columns are found by name, in any order; columns that are not needed are ignored."""
        check_is_fitted(self, "columns_")
        if (names := empty_table(X)) is not None:
            check_columns(self.used_columns_, names, "the table")
            return np.zeros((0, self.n_features_out_), dtype=dtype_name(self.dtype))
        source = self._source(X, self.input_columns_)
        check_columns(self.used_columns_, source.column_names, "the table")
        source = source.select(self.used_columns_).as_text(self.written_columns_)
        out = np.zeros((source.n_rows, self.n_features_out_), dtype=dtype_name(self.dtype))
        for start, table in source.batches(1 << 16):
            self._encode_into(out[start : start + table.num_rows], table)
        return out

    def encode(self, batch: Rows) -> np.ndarray:  # shape: (n, n_features_out_)
        """Encode a batch of a source: like `transform`, for rows that a source has checked."""
        if not isinstance(batch, pa.Table) and is_matrix(batch):
            names = self._array_columns(batch.shape[1], self.input_columns_)
            batch = matrix_table(batch, names, self.used_columns_)
        if not isinstance(batch, pa.Table):
            return self.transform(batch)
        check_columns(self.used_columns_, batch.column_names, "the table")
        out = np.zeros((batch.num_rows, self.n_features_out_), dtype=dtype_name(self.dtype))
        self._encode_into(out, batch)
        return out

    def _encode_into(self, out: np.ndarray, table: pa.Table) -> None:
        for column, part in zip(self.columns_, self._parts):
            cells = table.column(column.name)
            if not column.accepts(cells.type) and family(cells.type) != "empty":
                such = f"{first_values(table.select([column.name])).get(column.name)!r:.60}"
                raise ValueError(
                    f"Column {column.name!r} held {column.held} when the encoder was fitted; now it holds {cells.type} "
                    f"such as {such}. Convert the column, or fit again."
                )
            column.encode(cells, out[:, part])
            if not np.isfinite(out[:, part]).all():
                raise ValueError(
                    f"Column {column.name!r} has values that are too large for {out.dtype} in the units of the rows "
                    "that the encoder was fitted on. Correct them, or fit again with dtype='float64'."
                )

    def inverse_transform(self, X: Any) -> np.ndarray | pa.Table:
        """Columns from encoded rows (n, n_features_out_), which need not be exact encodings.

        A number is unscaled, and missing where its indicator is above 1/2. A date is known by how late it is, a time
        of day by its place on the circle, yes and no by which is nearer. Running text is not recovered (None). A
        category is the largest of its levels, the first of equally large ones: "(rare)" for rare ones, missing (None)
        for the level of missing values; the level "unseen" is never chosen. An encoder that was fitted on an array
        gives an array, with NaN in columns that were left out; others give a pyarrow Table of the columns that are used
        (`.to_pandas()` makes it a frame).
        """
        check_is_fitted(self, "columns_")
        encoded = as_matrix(X).astype(np.float64)
        width, expected = encoded.shape[1], self.n_features_out_
        if width != expected:
            raise ValueError(f"X has {width} columns, but this encoder gives {expected}; give encoded rows.")
        parts = [(column, encoded[:, part]) for column, part in zip(self.columns_, self._parts)]
        if self.named_:
            return pa.table({column.name: column.decoded_cells(part) for column, part in parts})
        numbers = all(pa.types.is_floating(column.decoded_type) for column in self.columns_)
        missing, dtype = (np.nan, np.float64) if numbers else (None, object)
        out = np.full((len(encoded), self.n_features_in_), missing, dtype=dtype)
        for column, part in parts:
            out[:, self.input_columns_.index(column.name)] = column.decode(part)
        return out

    def get_feature_names_out(self, input_features: Iterable[str] | None = None) -> np.ndarray:
        """Names such as `age`, `age (missing)`, `sex=f`, `sex=(rare)`."""
        check_is_fitted(self, "columns_")
        if input_features is not None and list(input_features) != self.input_columns_:
            fitted = ", ".join(self.input_columns_)
            raise ValueError(f"input_features is not equal to feature_names_in_: {fitted}")
        names: dict[str, None] = {}
        for name in (name for column in self.columns_ for name in column.output_names()):
            while name in names:
                name += "'"
            names[name] = None
        return np.array(list(names), dtype=object)

    def describe(self) -> list[tuple[Any, ...]]:
        """(column, role, detail, number of outputs) for every column, to print as a table."""
        check_is_fitted(self, "columns_")
        return [tuple(role.values()) for role in self.roles_]

    @property
    def roles_(self) -> list[dict[str, Any]]:
        """What became of every column, in their order."""
        known = {column.name: column.facts() for column in [*self.columns_, *self.left_out_]}
        shown = ("column", "role", "detail", "n_outputs")
        return [{key: known[name][key] for key in shown} for name in self.input_columns_ if name in known]

    @property
    def groups_(self) -> list[list[int]]:
        """The outputs of every column that is used."""
        return [list(range(part.start, part.stop)) for part in self._parts]

    @property
    def n_features_out_(self) -> int:
        return max((part.stop for part in self._parts), default=0)

    @property
    def used_columns_(self) -> list[str]:
        """The columns that `transform` needs."""
        check_is_fitted(self, "columns_")
        return [column.name for column in self.columns_]

    @property
    def written_columns_(self) -> list[str]:
        """The columns that `transform` needs as they are written in a file: what they say was read from text."""
        return [column.name for column in self.columns_ if column.from_text]

    @property
    def examples_(self) -> dict[str, str]:
        """A value of every column that was read, as text; none where the encoder comes from a file."""
        return dict(vars(self).get("_examples", {}))

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The columns seen in fitting; not there when the encoder was fitted on an array."""
        if not vars(self).get("named_", False):
            raise AttributeError("The encoder was not fitted on a table with column names.")
        return np.array(self.input_columns_, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _check_parameters(self) -> None:
        least = self.min_frequency
        share = isinstance(least, float) and 0 <= least < 1
        count = isinstance(least, (int, np.integer)) and least >= 0
        if least != "auto" and not (share or count):
            raise ValueError(
                f"min_frequency={least!r}: expected 'auto', a number of rows or a share below 1."
            )
        check_count("max_levels", self.max_levels)
        check_choice("dtype", dtype_name(self.dtype), ("float32", "float64"))
        check_choice("tails", self.tails, TAILS)
        for name, value in (("exclude", self.exclude), ("missing", self.missing)):
            if isinstance(value, str):
                raise ValueError(f"{name} must be a list of columns or words; got {value!r}.")
        for name, kind in (self.columns or {}).items():
            check_choice(f"columns={{{name!r}: ...}}, {name}", kind, KINDS)

    def _source(self, X: Any, names: list[str] | None = None) -> TableSource:
        """Whatever was given, as a table; the columns of an array are called `names`."""
        if isinstance(X, np.ndarray) and X.dtype.kind in "OUS" and X.ndim == 2 and X.size:
            columns = self._array_columns(X.shape[1], names)
            X = {name: X[:, j].tolist() for j, name in enumerate(columns)}
        source = open_source(X)
        if isinstance(source, TableSource):
            return source
        table = VectorsTable(source)
        return table if names is None else VectorsTable(source, self._array_columns(len(table.schema), names))

    def _array_columns(self, width: int, names: list[str] | None) -> list[str]:
        """Names for the columns of an array, which must be as many as were fitted; it need not hold the label."""
        if names is None:
            return numbered_names(width)
        if width == len(names) - 1 and self.label in names:
            return [name for name in names if name != self.label]
        if width != len(names):
            expected = f"TableEncoder is expecting {len(names)} features as input"
            raise ValueError(f"X has {width} features, but {expected}.")
        if self.named_:
            warn("X does not have valid feature names, but TableEncoder was fitted with feature names.")
        return names

    def _usable(self, source: Source) -> TableSource:
        """The source as a table without label and excluded columns."""
        self.named_ = isinstance(source, TableSource) and not isinstance(source, VectorsTable)
        table_source = source if isinstance(source, TableSource) else VectorsTable(source)
        names = table_source.column_names
        unused = [*self.exclude, *([] if self.label is None else [self.label])]
        if unused or self.columns:
            check_columns([*unused, *(self.columns or {})], names, source.describe())
        self.n_features_in_, self.input_columns_ = len(names), names
        used = [name for name in names if name not in set(unused)]
        if not used:
            raise ValueError(f"No column is left to use in {source.describe()}: all are excluded.")
        return table_source.select(used)

    def _readable(self, source: TableSource) -> tuple[TableSource, list[str]]:
        """The columns to scan, and which of them are read as text."""
        source = source.select(readable_columns(source.schema))
        text = {field.name for field in source.schema if family(field.type) == "text"}
        text |= {name for name, kind in (self.columns or {}).items() if kind == "category"}
        as_text = [name for name in source.column_names if name in text]
        return source.as_text(as_text), as_text

    def _keep(self, columns: Sequence[Column]) -> None:
        """Keep the chosen columns and the excluded ones; warn of columns that look like targets."""
        left_out: list[Column] = [column for column in columns if isinstance(column, LeftOut)]
        for name in self.input_columns_:
            if name == self.label or name in self.exclude:
                left_out.append(LeftOut(name, "", "label" if name == self.label else "excluded"))
        if len(left_out) == len(self.input_columns_):
            reasons = "; ".join(f"{column.name!r}: {column.detail or column.role}" for column in left_out)
            raise ValueError(f"No column is left to use as a feature ({reasons}).")
        self.columns_ = [column for column in columns if not isinstance(column, LeftOut)]
        self.left_out_ = left_out
        self._place_outputs()
        targets = [name for name in self.used_columns_ if name.lower() in TARGET_NAMES]
        if targets and self.named_:
            warn(
                f"The column{'s' * (len(targets) > 1)} {', '.join(map(repr, targets))} will be used as a feature. If "
                "it holds what is to be predicted, or which rows are for testing, name it with label= or exclude=."
            )
