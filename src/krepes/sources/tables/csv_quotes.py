"""Quotation marks that are never closed: what makes a CSV file say something else.

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

import gzip
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EVIDENCE = 20  # delimiters in lines that look like rows
LONGEST = 1 << 20  # bytes of a row: that of a block


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
    try:
        if encoding.startswith(("utf-16", "utf-32")):  # others have the bytes of ASCII for marks
            with opened(path, "rt", encoding=encoding, newline="\n") as text:
                lines = (line.encode() for line in iter(partial(text.readline, LONGEST), ""))
                return _first_unclosed(lines, delimiter.encode(), n_columns)
        with opened(path, "rb") as file:
            return _first_unclosed(iter(partial(file.readline, LONGEST), b""), delimiter.encode(), n_columns)
    except (OSError, EOFError, UnicodeError, zlib.error):  # whoever asks has an error to report already
        return None


def _first_unclosed(lines: Iterator[bytes], delimiter: bytes, n_columns: int) -> int | None:
    begun, inner, size = (
        0,
        [],
        0,
    )  # the line in which the present quoted cell begins, 0 outside; its whole lines
    for number, line in enumerate(lines, 1):
        if len(line) == LONGEST:
            return begun or None
        if begun:
            place = _after_quote(line, 0)
            size += len(line)
            if place < 0:
                if size > LONGEST:
                    return begun
                inner.append(line)
                continue
            if _like_rows(inner, delimiter, n_columns):
                return begun
        elif b'"' not in line:
            continue
        else:
            place = -1  # before the first cell
        begun = number if _opens(line, place, delimiter) else 0
        inner, size = [], 0
    return begun or None


def _opens(line: bytes, place: int, delimiter: bytes) -> bool:
    """Whether a line ends within a quoted cell that begins in it; `place` is where the cell before ends."""
    cell = 0 if place < 0 else line.find(delimiter, place) + 1
    while place < 0 or cell > 0:
        place = cell
        if line[cell : cell + 1] == b'"':
            place = _after_quote(line, cell + 1)
            if place < 0:
                return True
        cell = line.find(delimiter, place) + 1
    return False


def _after_quote(line: bytes, place: int) -> int:
    """Where the rest of a line begins after the mark that closes a cell; -1 if none does. Two marks are text."""
    while (place := line.find(b'"', place)) >= 0:
        if line[place + 1 : place + 2] != b'"':
            return place + 1
        place += 2
    return -1


def _like_rows(lines: Sequence[str] | Sequence[bytes], delimiter: str | bytes, n_columns: int) -> bool:
    """Whether lines have the delimiters of rows.

    >>> _like_rows(["1,2,3"] * 10, ",", 3), _like_rows(["1,2,3"] * 9, ",", 3), _like_rows(["1,2"] * 30, ",", 3)
    (True, False, False)
    """
    filled = [line for line in lines if line.strip()]
    n = n_columns - 1
    if len(filled) < 2 or n * len(filled) < EVIDENCE:
        return False
    return all(line.count(delimiter) == n for line in filled)  # type: ignore[arg-type]
