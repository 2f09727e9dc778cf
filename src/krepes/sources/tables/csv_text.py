"""What makes a CSV file say something else: its encoding, and quotation marks that are never closed.

UTF-16 and UTF-32, which spreadsheets write as "Unicode text", begin with a mark; without one, UTF-16 is known by the
zero byte beside each letter and digit. Everything else is taken for UTF-8 until bytes contradict, and then for
Windows-1252, the legacy encoding of Western Europe and America that nearly all such files have.

A cell that begins with a quotation mark goes on over line breaks to the next one. If that was forgotten, the cell
swallows rows, silently, until another quoted cell or the file ends. Line breaks in cells are allowed, so they are not
enough to tell. A cell is refused

- if it reaches the end of the file, or
- if the whole lines in it, two or more without the blank ones, all have exactly as many delimiters as a row, and at
  least 20 of them together: 20 lines of a table with two columns, 4 with six columns, 2 with eleven or more.

Text is rarely that regular, and swallowed rows always are. Fewer lines pass, and in a table with one column, where
every line looks like a row, only the end of the file counts (and the limit of 1 MB for any row). Only cells with line
breaks are looked at, so the check costs next to nothing; the line is found by a scan of its own, once there is
something to report.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import zlib
from collections.abc import Sequence
from functools import partial
from itertools import chain, takewhile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EVIDENCE = 20  # delimiters in lines that look like rows
LONGEST = 1 << 20  # bytes of a row: that of a block
_END = "the end"
LEGACY = "cp1252"
_BOMS = {  # UTF-32 first, because the mark of UTF-16 begins that of UTF-32
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def unclosed(line: int) -> str:
    return (
        f"a quoted cell begins in line {line:,} and is never closed: it swallows the lines after it. Close it with a "
        'quotation mark; one that belongs to the text is written twice ("").'
    )


def swallows_rows(cells: pa.Array, delimiter: str, n_columns: int) -> bool:
    """Whether a cell of a column of text holds lines that look like rows."""
    data = cells.buffers()[2]
    if n_columns < 2 or data is None or not (np.frombuffer(data, np.uint8) == ord("\n")).any():
        return False
    suspects = cells.filter(pc.greater_equal(pc.count_substring(cells, delimiter), EVIDENCE))
    lines = (text.split("\n")[1:-1] for text in suspects.to_pylist())
    return any(_like_rows(inner, delimiter, n_columns) for inner in lines)


def ends_in_quotes(last: str | None, path: Path, encoding: str) -> bool:
    """Whether a file whose last cell this is may end within it: there is a line break, and no mark closes it."""
    if last is None or "\n" not in last:
        return False
    tail = b""
    with pa.input_stream(str(path), compression="detect") as stream:
        if path.suffix != ".gz":
            stream.seek(max(0, stream.size() - LONGEST))
        while block := stream.read(LONGEST):
            tail = (tail + block)[-LONGEST:]
    return not tail.decode(encoding, "replace").rstrip().endswith('"')


def unclosed_line(path: Path, delimiter: str, n_columns: int, encoding: str = "utf-8") -> int | None:
    """The line in which the first cell begins that is never closed; None if there is none."""
    opened = gzip.open if path.suffix == ".gz" else open
    limit = csv.field_size_limit(LONGEST)
    first, cell_line, row = 1, 1, [""]  # the lines in which a row and its present cell begin
    try:
        with opened(path, "rt", encoding=encoding, errors="replace", newline="") as file:
            lines = iter(partial(file.readline, LONGEST), "")
            short = takewhile(lambda line: len(line) < LONGEST, lines)
            rows = csv.reader(chain(short, [_END]), delimiter=delimiter)
            for row in rows:
                begun, cell_line, first = first, first, rows.line_num + 1
                for cell in row:
                    if _like_rows(cell.split("\n")[1:-1], delimiter, n_columns):
                        return cell_line
                    cell_line += cell.count("\n")
        # the end is a row of its own, unless a cell is open
        return cell_line - row[-1].count("\n") if begun < rows.line_num else None
    except csv.Error:  # a cell is longer than any row may be
        return first
    except (OSError, EOFError, zlib.error):  # whoever asks has an error to report already
        return None
    finally:
        csv.field_size_limit(limit)


def _like_rows(lines: Sequence[str], delimiter: str, n_columns: int) -> bool:
    """Whether lines have the delimiters of rows.

    >>> _like_rows(["1,2,3"] * 10, ",", 3), _like_rows(["1,2,3"] * 9, ",", 3), _like_rows(["1,2"] * 30, ",", 3)
    (True, False, False)
    """
    filled = [line for line in lines if line.strip()]
    n = n_columns - 1
    if len(filled) < 2 or n * len(filled) < EVIDENCE:
        return False
    return all(line.count(delimiter) == n for line in filled)


def guess_encoding(path: Path) -> str:
    """The encoding of a file by how it begins, as far as that says it."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            start = stream.read(1000)
    except (OSError, pa.ArrowException):  # whoever reads the file next says what is wrong with it
        return "utf-8"
    encoding = next((name for mark, name in _BOMS.items() if start.startswith(mark)), None)
    if encoding is None and len(start) >= 4:
        even, odd = (np.mean(np.frombuffer(start[i::2], np.uint8) == 0) for i in (0, 1))
        if max(even, odd) > 0.5 and min(even, odd) < 0.1:
            encoding = "utf-16-le" if odd > even else "utf-16-be"
    return encoding or "utf-8"


def check_encoding(name: str) -> str:
    """The name of an encoding as Python spells it.

    >>> check_encoding("Latin1")
    'iso8859-1'
    """
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError(
            f"encoding={name!r}: Python knows no such encoding. Use for example 'cp1252'."
        ) from None
