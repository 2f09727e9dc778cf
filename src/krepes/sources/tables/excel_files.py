"""The first sheet of an .xlsx file as a table, read into memory by openpyxl (`pip install "krepes[xlsx]"`).

The first row that is not empty has the names of the columns. Cells that are formulas give the value that was saved with
them. A column whose cells are of several types becomes text, so that its cells are read like the cells of a CSV file.
"""

from __future__ import annotations

import datetime
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from krepes.sources.identity_of_files import reading
from krepes.sources.source import check_unique, plain_schema
from krepes.sources.tables.frames import FrameSource, table_part

MOST_ROWS = 1_048_576  # that a sheet can have
INSTALL = '.xlsx files need openpyxl: pip install "krepes[xlsx]", or save the sheet as .csv.'


def open_excel(path: Path) -> FrameSource:
    """The first sheet of a file."""
    table = pa.table(_columns(path, _rows(path)))
    return FrameSource(table, plain_schema(table.schema), table_part, "Excel sheet", [path])


def _rows(path: Path) -> list[tuple[Any, ...]]:
    try:
        import openpyxl
    except ImportError as error:
        raise ImportError(f"{path}: {INSTALL}") from error
    with (
        reading(f"The Excel file {path}", path, " Save it again, or as .csv."),
        closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as book,
    ):
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # a file may declare fewer rows and columns than it has
        rows = list(islice(sheet.iter_rows(values_only=True), MOST_ROWS + 1))
    if len(rows) > MOST_ROWS:
        raise ValueError(
            f"{path}: its first sheet has more than {MOST_ROWS:,} rows, which no sheet of Excel has."
        )
    return [row for row in rows if any(cell is not None for cell in row)]


def _columns(path: Path, rows: list[tuple[Any, ...]]) -> dict[str, pa.Array]:
    if len(rows) < 2:
        raise ValueError(f"{path}: there are no rows below the names of the columns in its first sheet.")
    width = max(map(len, rows))
    padded = [(*row, *[None] * (width - len(row))) for row in rows]
    kept = [j for j in range(width) if any(row[j] is not None for row in padded)]
    names = [str(padded[0][j]) if padded[0][j] is not None else f"x{j}" for j in kept]
    check_unique(names, str(path))
    return {name: _column([row[j] for row in padded[1:]]) for name, j in zip(names, kept)}


def _column(cells: list[Any]) -> pa.Array:
    """Cells of one type as they are, numbers of both types as float, others as text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float}:
        return pa.array(cells, pa.float64())
    if len(kinds) <= 1:
        return pa.array(cells)
    return pa.array([_text(cell) for cell in cells])


def _text(cell: object) -> str | None:
    return cell.isoformat() if isinstance(cell, datetime.date) else None if cell is None else str(cell)
