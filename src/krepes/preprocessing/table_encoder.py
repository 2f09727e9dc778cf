"""TableEncoder: a table's columns as numbers that kernels can compare.

    number      (x - mean) / deviation, population moments of the values that are there, without wild cells
    date        years, standardised; time of day, day of week and day of year as points on circles
    category    one-hot
    text        groups of characters, hashed

Two rows of a standardised column are at squared distance 2 on average, and two different levels of a one-hot
column are at squared distance 2: a category weighs as much as a number, so one-hot columns are not scaled.
One scan of the table, O(n d); its results do not depend on how the rows are batched, because moments are taken
in chunks of fixed size.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from krepes.base.caller_warning import warn
from krepes.base.components import Component
from krepes.base.progress import Progress
from krepes.base.rows import take_rows
from krepes.base.schema import check_entries
from krepes.base.validation import as_matrix, check_columns
from krepes.engines import Engine, engine_for
from krepes.preprocessing.column_encodings import ENTRIES, OPTIONAL, Column, check_column, output_names
from krepes.preprocessing.column_roles import TARGET_NAMES, Role, RoleChoice, readable_columns
from krepes.preprocessing.column_scan import ColumnScan, TableScan
from krepes.preprocessing.column_values import example, family, first_value, holds_numbers
from krepes.preprocessing.row_encoding import (
    as_arrow,
    decode_rows,
    decoded_type,
    encode_rows,
    refuse_infinite,
)
from krepes.preprocessing.text_reading import KINDS
from krepes.sources import Rows, Source, TableSource, open_source
from krepes.sources.raw_blocks import RawReader
from krepes.sources.row_sampling import sampled_indices
from krepes.sources.tables.frames import is_pandas, is_polars
from krepes.sources.tables.vectors_as_table import VectorsTable

_CHUNK_CELLS, _CHUNK_ROWS = 1 << 22, 1 << 16  # of the scan
_MEDIAN_CELLS, _MEDIAN_ROWS = 1 << 21, 50_000  # of the sample that medians are taken from


def empty_table(X: Any) -> list[str] | None:
    """The columns of a frame or table without rows; None for everything else."""
    if isinstance(X, Mapping):
        empty = len(X) > 0 and all(
            hasattr(v, "__len__") and not isinstance(v, str) and not len(v) for v in X.values()
        )
        return list(X) if empty else None
    if isinstance(X, pa.Table | pa.RecordBatch):
        return X.schema.names if X.num_rows == 0 else None
    return list(map(str, X.columns)) if (is_pandas(X) or is_polars(X)) and len(X) == 0 else None


class TableEncoder(TransformerMixin, Component):
    """Standardise, impute and one-hot encode the columns of a table.

    Numbers (integers, floats, decimals, true/false) are standardised. Where values were missing, an indicator
    column is added; a missing value becomes the median, also in columns that had none missing when fitted.
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

    Attributes
    ----------
    roles_ : list of dict
        column, role ("numeric", "date", "category", "text", "left out", "label", "excluded"), detail, n_outputs; in
        the order of the columns.
    groups_ : list of lists of int
        The output columns that belong to one input column.
    columns_ : list of dict
        Mean, scale, median or levels of every column used.
    examples_ : dict of str
        A value of every column that was read, as text. Not stored in files.
    n_features_in_, n_features_out_ : int

    Notes
    -----
    Medians are exact up to 50,000 rows (and about 2 million cells), and beyond that those of a uniform sample
    of that size. Where at most two values in a thousand lie very far out (`krepes.base.column_scale`) and make
    the deviation more than five times as large, mean and deviation are those of the others; `roles_` says so. Infinite
    values are an error: a mean and a deviation of them do not exist.

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

    def __init__(
        self,
        exclude: Sequence[str] = (),
        label: str | None = None,
        min_frequency: str | int | float = "auto",
        max_levels: int = 100,
        dtype: str = "float32",
        columns: dict[str, str] | None = None,
        missing: Sequence[str] | None = None,
    ):
        self.exclude = exclude
        self.label = label
        self.min_frequency = min_frequency
        self.max_levels = max_levels
        self.dtype = dtype
        self.columns = columns
        self.missing = missing

    columns_: list[Column]
    roles_: list[Role]
    groups_: list[list[int]]
    input_columns_: list[str]
    n_features_in_: int
    n_features_out_: int
    named_: bool

    def check_restored(self) -> None:
        for role in getattr(self, "roles_", []):
            check_entries(
                "A column",
                role,
                {"column": str, "role": str, "detail": str, "n_outputs": int},
                optional=set(),
            )
        for column in getattr(self, "columns_", []):
            check_entries("A column", column, {"column": str, "role": str, "n_outputs": int}, optional=set())
            check_entries("A column", column, ENTRIES.get(column["role"], {}), optional=set())
            check_entries("A column", column, OPTIONAL, optional=set(OPTIONAL))
            check_column(column)
        if hasattr(self, "columns_") and not hasattr(self, "input_columns_"):
            raise ValueError("TableEncoder.input_columns_ is missing.")
        if hasattr(self, "columns_") and self.groups_ != self._layout():
            raise ValueError("TableEncoder.groups_ does not fit the columns.")
        if hasattr(self, "columns_") and self.n_features_out_ != sum(map(len, self.groups_)):
            raise ValueError("TableEncoder.n_features_out_ does not fit the columns.")

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
        n_columns = len(table_source.schema)
        chunk_rows = max(64, min(_CHUNK_CELLS // n_columns, _CHUNK_ROWS))
        median_rows = max(1000, min(_MEDIAN_CELLS // n_columns, _MEDIAN_ROWS))
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
        refuse_infinite(sorted(scan.infinite))
        decide = RoleChoice(self.min_frequency, self.max_levels, ids=self.named_, columns=self.columns or {})
        seen = sample.select(scanned)
        self.columns_, self.roles_ = decide(usable.schema, scan, seen)
        self._examples = {
            name: str(value) for name in scanned if (value := first_value(seen.column(name))) is not None
        }
        self._finish()
        indices = sampled_indices(source.n_rows, n_candidates, seed)
        return take_rows(sample, np.searchsorted(seen_rows, indices)), indices

    def left_out(self) -> dict[str, str]:
        """Why columns that were not excluded are not encoded."""
        unused = [role for role in self.roles_ if not role["n_outputs"] and role["role"] != "excluded"]
        return {role["column"]: role["detail"] or role["role"] for role in unused}

    def transform(self, X: Any) -> np.ndarray:  # shape: (n, n_features_out_)
        """Encode rows. Columns are found by name, in any order; columns that are not needed are ignored."""
        check_is_fitted(self, "groups_")
        if (names := empty_table(X)) is not None:
            check_columns(self.used_columns_, names, "the table")
            return np.zeros((0, self.n_features_out_), dtype=self.dtype)
        source = self._source(X, self.input_columns_)
        check_columns(self.used_columns_, source.column_names, "the table")
        source = source.select(self.used_columns_).as_text(self.written_columns_)
        self._check_types(source)
        out = np.zeros((source.n_rows, self.n_features_out_), dtype=self.dtype)
        for start, table in source.batches(1 << 16):
            encode_rows(table, self.columns_, self.groups_, out[start : start + table.num_rows])
        return out

    def inverse_transform(self, X: Any) -> np.ndarray | pa.Table:
        """Columns from encoded rows (n, n_features_out_), which need not be exact encodings.

        A number is unscaled, and missing where its indicator is above 1/2. A date is known by how late it is, a time
        of day by its place on the circle, yes and no by which is nearer. Running text is not recovered (None). A
        category is the largest of its levels, the first of equally large ones: "(rare)" for rare ones, missing (None)
        for the level of missing values; the level "unseen" is never chosen. An encoder that was fitted on an array
        gives an array, with NaN in columns that were left out; others give a pyarrow Table of the columns that are used
        (`.to_pandas()` makes it a frame).
        """
        check_is_fitted(self, "groups_")
        encoded = as_matrix(X).astype(np.float64)
        if encoded.shape[1] != self.n_features_out_:
            raise ValueError(
                f"X has {encoded.shape[1]} columns, but this encoder gives {self.n_features_out_}; give encoded rows."
            )
        columns = decode_rows(encoded, self.columns_, self.groups_)
        if self.named_:
            types = {column["column"]: decoded_type(column) for column in self.columns_}
            return pa.table({name: as_arrow(values, types[name]) for name, values in columns.items()})
        numbers = all(column["role"] == "numeric" and "pair" not in column for column in self.columns_)
        out = np.full(
            (len(encoded), self.n_features_in_),
            np.nan if numbers else None,
            dtype=None if numbers else object,
        )
        for name, values in columns.items():
            out[:, self.input_columns_.index(name)] = values
        return out

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names such as `age`, `age (missing)`, `sex=f`, `sex=(rare)`."""
        check_is_fitted(self, "groups_")
        if input_features is not None and list(input_features) != self.input_columns_:
            raise ValueError(
                "input_features is not equal to feature_names_in_: " + ", ".join(self.input_columns_)
            )
        names: dict[str, None] = {}
        for name in (name for column in self.columns_ for name in output_names(column)):
            while name in names:
                name += "'"
            names[name] = None
        return np.array(list(names), dtype=object)

    def describe(self) -> list[tuple[str, str, str, int]]:
        """(column, role, detail, number of outputs) for every column, to print as a table."""
        check_is_fitted(self, "groups_")
        return [(r["column"], r["role"], r["detail"], r["n_outputs"]) for r in self.roles_]

    @property
    def used_columns_(self) -> list[str]:
        """The columns that `transform` needs."""
        check_is_fitted(self, "groups_")
        return [column["column"] for column in self.columns_]

    @property
    def written_columns_(self) -> list[str]:
        """The columns that `transform` needs as they are written in a file: what they say was read from text."""
        return [
            column["column"]
            for column in self.columns_
            if (column["role"] in ("category", "text") and "words" in column)
            or "tolerant" in column
            or "pair" in column
        ]

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _check_parameters(self) -> None:
        share = isinstance(self.min_frequency, float) and 0 <= self.min_frequency < 1
        count = isinstance(self.min_frequency, (int, np.integer)) and self.min_frequency >= 0
        if self.min_frequency != "auto" and not (share or count):
            raise ValueError(
                f"min_frequency must be 'auto', a number of rows or a share below 1; got {self.min_frequency!r}."
            )
        if operator.index(self.max_levels) < 1:
            raise ValueError(f"max_levels must be at least 1; got {self.max_levels}.")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64'; got {self.dtype!r}.")
        if isinstance(self.exclude, str):
            raise ValueError(f"exclude must be a list of column names; got the single name {self.exclude!r}.")
        if isinstance(self.missing, str):
            raise ValueError(f"missing must be a list of words; got the single word {self.missing!r}.")
        for name, kind in (self.columns or {}).items():
            if kind not in KINDS:
                raise ValueError(
                    f"columns={{{name!r}: {kind!r}}}: expected one of {', '.join(map(repr, KINDS))}."
                )

    def _source(self, X: Any, names: list[str] | None = None) -> TableSource:
        """Whatever was given, as a table; the columns of an array are called `names`."""
        if isinstance(X, np.ndarray) and X.dtype.kind in "OUS" and X.ndim == 2 and X.size:
            columns = self._array_columns(X.shape[1], names)
            X = {name: X[:, j].tolist() for j, name in enumerate(columns)}
        source = open_source(X)
        if isinstance(source, TableSource):
            return source
        table = VectorsTable(source)
        columns = self._array_columns(len(table.schema), names)
        return VectorsTable(source, columns)

    def _array_columns(self, width: int, names: list[str] | None) -> list[str]:
        """Names for the columns of an array, which must be as many as were fitted."""
        if names is None:
            return [f"x{j}" for j in range(width)]
        if width != len(names):
            raise ValueError(
                f"X has {width} features, but TableEncoder is expecting {len(names)} features as input."
            )
        if self.named_:
            warn(
                "X does not have valid feature names, but TableEncoder was fitted with feature names.",
            )
        return names

    def _usable(self, source: Source) -> TableSource:
        """The source as a table without label and excluded columns."""
        self.named_ = isinstance(source, TableSource) and not isinstance(source, VectorsTable)
        table_source = source if isinstance(source, TableSource) else VectorsTable(source)
        names = table_source.column_names
        unused = [*self.exclude, *([] if self.label is None else [self.label])]
        check_columns(unused, names, source.describe())
        check_columns(list(self.columns or {}), names, source.describe())
        self.n_features_in_, self.input_columns_ = len(names), names
        used = [name for name in names if name not in set(unused)]
        if not used:
            raise ValueError(f"No column is left to use in {source.describe()}: all are excluded.")
        return table_source.select(used)

    def _readable(self, source: TableSource) -> tuple[TableSource, list[str]]:
        """The columns whose values are looked at, and those of them that are read as text."""
        source = source.select(readable_columns(source.schema))
        asked = self.columns or {}
        as_text = [
            field.name
            for field in source.schema
            if family(field.type) == "text" or asked.get(field.name) == "category"
        ]
        return source.as_text(as_text), as_text

    def _finish(self) -> None:
        """Lay out the output, complete the roles, and warn of columns that look like targets."""
        for j, name in enumerate(self.input_columns_):  # in their order, so that j is the place
            if name == self.label or name in self.exclude:
                role = "label" if name == self.label else "excluded"
                self.roles_.insert(j, {"column": name, "role": role, "detail": "", "n_outputs": 0})
        if not self.columns_:
            reasons = "; ".join(f"{r['column']}: {r['detail'] or r['role']}" for r in self.roles_)
            raise ValueError(f"No column is left to use as a feature ({reasons}).")
        self.groups_ = self._layout()
        self.n_features_out_ = self.groups_[-1][-1] + 1
        targets = [name for name in self.used_columns_ if name.lower() in TARGET_NAMES]
        if targets and self.named_:
            warn(
                f"The column{'s' * (len(targets) > 1)} {', '.join(map(repr, targets))} will be used as a feature. If "
                "it holds what is to be predicted, or which rows are for testing, name it with label= or exclude=.",
            )

    def _layout(self) -> list[list[int]]:
        """The encoded columns that every column becomes, one column after the other."""
        edges = np.cumsum([0, *(column["n_outputs"] for column in self.columns_)]).tolist()
        return [list(range(first, stop)) for first, stop in pairwise(edges)]

    def _check_types(self, source: TableSource) -> None:
        """Refuse text where numbers were and the reverse."""
        for column in self.columns_:
            name = column["column"]
            kind = source.schema.field(name).type
            text = family(kind) == "text"
            if column["role"] == "numeric":
                fits, was = holds_numbers(kind) or text or pa.types.is_duration(kind), "numbers"
            elif column["role"] == "date":
                fits, was = (text and not holds_numbers(kind)) or family(kind) == "date or time", "dates"
            else:
                fits = text or (column.get("of_numbers", False) and holds_numbers(kind))
                was = "categories" if column.get("of_numbers") else "text"
            if not fits and family(kind) != "empty":
                shown = example(next(source.select([name]).batches(1))[1].column(0))
                raise ValueError(
                    f"Column {name!r} held {was} when the encoder was fitted; now it holds {kind} such as {shown}. "
                    "Convert the column, or fit again."
                )
