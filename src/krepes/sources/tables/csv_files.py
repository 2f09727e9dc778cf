"""CSV and TSV files as a table, read in blocks.

A first scan reads every cell as text and finds, for each column, the narrowest type that holds all its values:

    integer < number < text,   true/false < text,   date or time < text,   missing < anything

(digits that begin with a zero, such as 01067, are text, because they are codes) so that no type is guessed from the
first block and contradicted by a later one. It also counts the rows. Later scans convert with the same functions. A
first line that holds only numbers is data: the columns are then named x0, x1, ... Empty cells and the usual words (NA,
NaN, null, ...) are missing values; `as_text` gives cells as they are written. A quotation mark that is never closed is
an error that names its line (`csv_text`). Text that is not UTF-8 is recognised by the mark that UTF-16 and UTF-32
begin with, and otherwise read as Windows-1252, with a warning. `.gz` files are decompressed on the way. One scan reads
about 100 MB/s and holds two blocks. A block has 1 MB, or 64 rows of a file whose lines are longer than that allows,
because every block costs time for every column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from krepes.base.reporting import warn
from krepes.base.rows import Rows, rebatch
from krepes.base.storage.files import readable_bytes
from krepes.sources.identity_of_files import gone
from krepes.sources.source import TableSource, check_unique
from krepes.sources.tables import csv_text

_BLOCK_BYTES, _MOST_BLOCK_BYTES = 1 << 20, 1 << 28
# of wide files: rows of a block, and bytes of a cell where none was seen yet
_BLOCK_ROWS, _CELL_BYTES = 64, 20
_BOOLS = pa.array(["true", "false"])
_DELIMITERS = ",;\t|"
_BEGINNING, _LINES = 1 << 16, 20  # characters and lines by which the delimiter is known
_WORDS = pa.array(pcsv.ConvertOptions().null_values)
_TEMPORAL = (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us"))


@dataclass(frozen=True)
class Layout:
    """How a file is written: columns, whether a first line names them, what is between cells, and the encoding."""

    path: Path
    names: tuple[str, ...]
    has_header: bool
    delimiter: str
    encoding: str = "utf-8"
    block_bytes: int = _BLOCK_BYTES


class CsvSource(TableSource):
    """The rows of a CSV or TSV file, in the order of the file; the columns `written` are text as it stands there."""

    def __init__(self, layout: Layout, schema: pa.Schema, n_rows: int, written: frozenset[str] = frozenset()):
        self.layout, self.schema, self.n_rows, self.written = layout, schema, n_rows, written

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        row = start
        for row, batch in rebatch(self._typed(start), batch_rows, start):
            yield row, batch
            row += batch.num_rows
        if row != self.n_rows:
            now = f"{row:,} rows were read where {self.n_rows:,} were counted before"
            raise ValueError(f"{self.layout.path}: {now}. The file changed; open it again.")

    def as_text(self, columns: Sequence[str]) -> CsvSource:
        written = self.written | set(columns)
        fields = [pa.field(f.name, pa.string()) if f.name in written else f for f in self.schema]
        return CsvSource(self.layout, pa.schema(fields), self.n_rows, written)

    @property
    def paths(self) -> list[Path]:
        return [self.layout.path]

    def describe(self) -> str:
        kind = "TSV" if self.layout.delimiter == "\t" else "CSV"
        return f"{kind}, {self.n_rows:,} rows × {len(self.schema):,} columns"

    def _typed(self, start: int) -> Iterator[pa.Table]:
        whole = bool(self.written.intersection(self.schema.names))
        for block in _text_blocks(self.layout, self.schema.names, start, words=not whole):
            columns = []
            for field, text in zip(self.schema, block.columns):
                if whole and field.name not in self.written:
                    text = pc.if_else(pc.is_in(text, _WORDS), pa.scalar(None, pa.string()), text)
                column = _convert(text, field.type)
                if column is None:
                    now = f"column {field.name!r} holds values that are not {field.type}"
                    raise ValueError(f"{self.layout.path}: {now}. The file changed; open it again.")
                columns.append(column)
            yield pa.Table.from_arrays(columns, schema=self.schema)


def open_csv(
    path: Path, progress: Callable[[int], None] | None = None, encoding: str | None = None
) -> CsvSource:
    """Scan a file for its types and length.

    `progress` is called with the number of rows read so far. `encoding` is a name that Python knows, such as
    "cp1252"; None recognises it.
    """
    if encoding is not None:
        return _scanned(_layout(path, csv_text.check_encoding(encoding)), progress)
    guess = csv_text.guess_encoding(path)
    try:
        return _scanned(_layout(path, guess), progress)
    except _EncodingError:
        if guess != "utf-8":
            raise
    found = _scanned(_layout(path, csv_text.LEGACY), progress)
    warn(
        f"{path}: not UTF-8 text; it is read as {csv_text.LEGACY}. If letters come out wrong, give its encoding."
    )
    return found


def _scanned(layout: Layout, progress: Callable[[int], None] | None) -> CsvSource:
    kinds: list[pa.DataType] = [pa.null()] * len(layout.names)
    n_rows, last = 0, None
    for block in _text_blocks(layout, layout.names, 0):
        kinds = [_widen(kind, column) for kind, column in zip(kinds, block.columns)]
        n_rows += block.num_rows
        last = block.columns[-1][-1].as_py() if block.num_rows else last
        if any(
            csv_text.swallows_rows(column, layout.delimiter, len(layout.names)) for column in block.columns
        ):
            _check_closed(layout)
        if progress is not None:
            progress(n_rows)
    if n_rows == 0:
        raise ValueError(f"{layout.path}: there are no rows below the line of column names.")
    if csv_text.ends_in_quotes(last, layout.path, layout.encoding):
        _check_closed(layout)
    return CsvSource(layout, pa.schema(list(zip(layout.names, kinds))), n_rows)


class _EncodingError(ValueError):
    """The bytes of a file are not text in the encoding that it is read in."""


def _check_closed(layout: Layout) -> None:
    """Raise an error that names the line where a quoted cell begins that is never closed, if there is one."""
    line = csv_text.unclosed_line(layout.path, layout.delimiter, len(layout.names), layout.encoding)
    if line is not None:
        raise ValueError(f"{layout.path}: {csv_text.unclosed(line)}")


def _layout(path: Path, encoding: str) -> Layout:
    start = _beginning(path)
    text = start.decode(encoding, "replace").removeprefix("\ufeff").lstrip("\r\n")
    if not text.split("\n", 1)[0].strip():
        raise ValueError(f"{path}: the file is empty.")
    delimiter = _delimiter(text[:_BEGINNING], ".tsv" in path.suffixes)
    cells = text.split("\n", 1)[0].count(delimiter) + 1
    line = max(_CELL_BYTES * cells, *map(len, start.split(b"\n")))
    block_bytes = min(max(_BLOCK_BYTES, _BLOCK_ROWS * line), _MOST_BLOCK_BYTES)
    draft = Layout(path, (), True, delimiter, encoding, block_bytes)
    with _reading(path, draft), _reader(draft, None, 0) as reader:
        names = reader.schema.names
    if _convert(pa.array(names), pa.float64()) is not None:
        return replace(draft, names=tuple(f"x{j}" for j in range(len(names))), has_header=False)
    check_unique(names, str(path))
    return replace(draft, names=tuple(names))


def _beginning(path: Path) -> bytes:
    """The first megabyte, or more where the first two lines are longer."""
    start, block = b"", b""
    with _reading(path), pa.input_stream(str(path), compression="detect") as stream:
        while len(start) < _MOST_BLOCK_BYTES and (not start or (block and start.count(b"\n") < 2)):
            block = stream.read(_BLOCK_BYTES)
            start += block
    return start


def _delimiter(text: str, tabs: bool) -> str:
    """What stands between cells: the mark that every line has most of, outside quotes; else what the first line has.

    >>> _delimiter("price, EUR;town\\n1,5;Bonn\\n12;Ulm", tabs=False)
    ';'
    """
    lines = re.sub(r'"[^"]*"', "", text).splitlines()[:_LINES]
    if tabs and "\t" in lines[0]:
        return "\t"
    least = {mark: min(line.count(mark) for line in lines if line) for mark in _DELIMITERS}
    return max(_DELIMITERS, key=lambda mark: (lines[0].count(mark) > 0, least[mark], lines[0].count(mark)))


@contextmanager
def _reader(
    layout: Layout, columns: Sequence[str] | None, start: int, threads: bool = True, words: bool = True
) -> Iterator[pcsv.CSVStreamingReader]:
    """A stream of blocks of text cells; with `words`, those for missing values are missing, else only empty ones are.

    Line breaks inside quotes are cells, at no cost in speed.
    """
    read = pcsv.ReadOptions(
        use_threads=threads,
        block_size=layout.block_bytes,
        skip_rows_after_names=start,
        column_names=None if layout.has_header else list(layout.names),
        encoding=layout.encoding,
    )
    parse = pcsv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
    convert = pcsv.ConvertOptions(
        column_types={name: pa.string() for name in layout.names},
        strings_can_be_null=True,
        include_columns=columns,
        null_values=None if words else [""],
    )
    with (
        pa.input_stream(str(layout.path), compression="detect") as stream,
        pcsv.open_csv(stream, read, parse, convert) as reader,
    ):
        yield reader


def _text_blocks(
    layout: Layout, columns: Sequence[str], start: int, words: bool = True
) -> Iterator[pa.RecordBatch]:
    with _reading(layout.path, layout), _reader(layout, list(columns), start, words=words) as reader:
        yield from reader


def _convert(text: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """A column of text as a type, or None where some value is not of that type."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_null(kind):
        return pa.nulls(len(text)) if text.null_count == len(text) else None
    if pa.types.is_boolean(kind):
        lower = pc.ascii_lower(pc.ascii_trim_whitespace(text))
        known = pc.all(pc.is_in(pc.drop_null(lower), _BOOLS), min_count=0).as_py()
        return pc.equal(lower, "true") if known else None
    if pa.types.is_time(kind):  # there is no cast from text: read it as a time on some day
        moment = _convert(pc.binary_join_element_wise("1970-01-01 ", text, ""), pa.timestamp("us"))
        return None if moment is None else pc.cast(moment, kind)
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        trimmed = pc.ascii_trim_whitespace(text)
        trimmed = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
        try:
            return pc.cast(trimmed, kind)
        except pa.ArrowInvalid:
            return None


def _widen(kind: pa.DataType, text: pa.Array) -> pa.DataType:
    """The narrowest type that holds a column's values in all blocks so far and in the next."""
    choices: tuple[pa.DataType, ...] = (kind,)
    if (pa.types.is_null(kind) or pa.types.is_integer(kind)) and _has_codes(text):
        return pa.string()
    if pa.types.is_null(kind):
        choices = (kind, pa.int64(), pa.float64(), pa.bool_(), *_TEMPORAL)
    elif pa.types.is_integer(kind):
        choices = (kind, pa.float64())
    return next((choice for choice in choices if _convert(text, choice) is not None), pa.string())


def _has_codes(text: pa.Array) -> bool:
    """Whether there are digits that begin with a zero: 01067 is a code, whose zero a number would lose."""
    longer = pc.and_(pc.starts_with(text, "0"), pc.greater(pc.binary_length(text), 1))
    some = text.filter(pc.fill_null(longer, False))
    return bool(len(some)) and pc.any(pc.match_substring_regex(some, r"^0\d+$")).as_py()


@contextmanager
def _reading(path: Path, layout: Layout | None = None) -> Iterator[None]:
    """Turn what a broken file raises into an error that names the file, the line and what to do."""
    try:
        yield
    except pa.ArrowMemoryError:
        raise
    except FileNotFoundError as error:
        raise gone(path) from error
    except UnicodeError as error:
        encoding = layout.encoding if layout else "utf-8"
        raise _EncodingError(
            f"{path}: the file is not {encoding} text ({error}). Save it as UTF-8, or give its encoding."
        ) from error
    except (pa.ArrowException, OSError) as error:
        kind = _EncodingError if "UTF8" in str(error) else ValueError
        raise kind(f"{path}: {_explain(str(error), layout)}") from error


def _explain(message: str, layout: Layout | None) -> str:
    ragged = re.search(r"Expected (\d+) columns, got (\d+)", message)
    broken = ragged or "straddling" in message or "Empty CSV" in message
    n_columns = int(ragged[1]) if ragged else 0
    if broken and layout:
        line = csv_text.unclosed_line(layout.path, layout.delimiter, n_columns, layout.encoding)
        if line is not None:
            return csv_text.unclosed(line)
    if ragged and layout:
        row = _line(message) or _ragged_line(layout) or "a line"
        cells = f"{row} has {ragged[2]} cells where {ragged[1]} columns were expected"
        return f"{cells}. Quote cells that contain the delimiter, or remove the line."
    column = re.search(r"CSV column #(\d+)", message)
    if "UTF8" in message:
        name = f"column {layout.names[int(column[1])]!r}" if layout and column else "the file"
        return f"{name} is not UTF-8 text. Save the file as UTF-8."
    if "straddling" in message:
        limit = readable_bytes(_BLOCK_BYTES if layout is None else layout.block_bytes)
        return f"a line is longer than {limit}. Is a quotation mark left open?"
    return f"cannot be read as CSV: {message}."


def _line(message: str) -> str | None:
    row = re.search(r"Row #(\d+)", message)
    return f"line {int(row[1]):,}" if row else None


def _ragged_line(layout: Layout) -> str | None:
    """Where the first line with too few or too many cells stands; only a scan without threads counts lines."""
    try:
        with _reader(layout, None, 0, threads=False) as reader:
            for _ in reader:
                pass
    except pa.ArrowException as error:
        return _line(str(error))
    return None
