"""Raw rows as the numbers that kernels see, as formulas of a program: `krepes.preprocessing` written once more.

    number      double; NaN where it is missing
    date        double, seconds since 1970 as the clock shows it, of a time of day since midnight; NaN if missing
    category    words; the empty word where it is missing. "(rare)" stands for any rare value
    yes and no  words
    array       rows as they are; bytes of images

Columns are encoded in double precision, whatever the model computes in, because seconds since 1970 need it. Rare values
are known to a model by their hashes alone, which no program can compute: they are listed where data are given, and are
otherwise unseen ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from krepes.base.reporting import warn
from krepes.export.kernel_formulas import ExportError
from krepes.export.program import Operand, Port, Program, concat, interpolation
from krepes.preprocessing import TableEncoder
from krepes.preprocessing.cells.dates import DAY
from krepes.preprocessing.columns import Category, Column, Date, Number, Text, YesNo
from krepes.preprocessing.columns.column import _hashes
from krepes.preprocessing.columns.date import CYCLES, YEAR
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.text_scan import number_words
from krepes.sources import TableSource, open_source

FOUR_CENTURIES = 146_097 * DAY  # after which the calendar repeats
YES_NO_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "None"]
RareValues = Mapping[str, Sequence[str]]


def inputs_of(program: Program, inputs: InputSpace, dtype: str, encoded: bool, rare: RareValues) -> Operand:
    """The rows as kernels see them, (b, d), in a precision; `encoded` takes rows of a table encoded."""
    if inputs.kind in ("sparse", "precomputed") or inputs.of_objects:
        taken = {"precomputed": "rows of a kernel matrix", "sparse": "sparse rows"}.get(inputs.kind)
        taken = taken or (
            "series of any length" if inputs.kind == "series" else "objects, such as strings or graphs"
        )
        raise ExportError(
            f"This model takes {taken}, which are not arrays of numbers of one shape: it cannot leave krepes. Use it "
            "in Python, krepes.load."
        )
    if inputs.encoder is not None and not encoded:
        columns = [encoded_column(column, program, rare) for column in inputs.encoder.columns_]
        x = concat(columns).cast(inputs.encoder.dtype).cast(dtype)
        program.binary = x.name, _binary(inputs.encoder)
        return x
    if inputs.encoder is not None:
        port = Port("X", dtype, (inputs.encoder.n_features_out_,), "rows as TableEncoder encodes them")
        return program.input(port)
    pixels = inputs.divide != 1.0
    kind = "uint8" if pixels and not encoded else "float64" if inputs.shift_ is not None else dtype
    meaning = "pixels from 0 to 255" if pixels else "rows as they were given to fit"
    x = program.input(Port("X", kind, inputs.shape, meaning))
    if inputs.shift_ is not None:
        x = x - inputs.shift_.cpu().numpy()
    x = x.cast(dtype)
    if pixels:
        x = x * (1 / inputs.divide)
    if inputs.normalize is not None:
        mean, std = np.asarray(inputs.normalize.mean), np.asarray(inputs.normalize.std)
        by_channel = len(inputs.shape) == 3 or inputs.kind == "series"
        x = (x - (mean if by_channel else mean[0])) * (1 / (std if by_channel else std[0]))
    return x.flatten() if len(inputs.shape) > 1 else x


def _binary(encoder: TableEncoder) -> list[int]:
    """Encoded columns that hold nothing but 0 and 1."""
    found: list[int] = []
    for column, places in zip(encoder.columns_, encoder.groups_):
        if isinstance(column, Category):
            found += places
        elif getattr(column, "indicator", False):
            found.append(places[-1])
    return found


def rare_values(encoder: TableEncoder | None, data: Any) -> dict[str, list[str]]:
    """The rare values of every category that occur in some data; a warning says which columns need data."""
    columns = [
        c for c in ([] if encoder is None else encoder.columns_) if isinstance(c, Category) and len(c.rare)
    ]
    if data is None:
        if columns:
            names = ", ".join(repr(column.name) for column in columns)
            warn(
                f"Rare values of {names} are known to the model by their hashes alone: the program takes them for "
                "unseen ones. Give the rows of the fit, data=..., to list them in the file; or write '(rare)' for them."
            )
        return {}
    source = open_source(data)
    if not isinstance(source, TableSource):
        raise ValueError("data= is a table, such as the one that the model was fitted on.")
    found: dict[str, set[str]] = {column.name: set() for column in columns}
    chosen = source.select(list(found)).as_text(list(found)) if found else source
    for _, table in chosen.batches(1 << 16) if found else ():
        for column in columns:
            values = {str(v) for v in table.column(column.name).unique().to_pylist() if v is not None}
            cells = list(values | {cell.strip() for cell in values})
            known = np.isin(_hashes(cells), column.rare)
            found[column.name].update(cell for cell, is_rare in zip(cells, known) if is_rare)
    return {name: sorted(cells) for name, cells in found.items()}


@singledispatch
def encoded_column(column: Column, program: Program, rare: RareValues) -> Operand:
    """The numbers that a column becomes, (b, width), in double precision."""
    raise ExportError(f"Column {column.name!r} is a {column.role}, which has no formula.")


@encoded_column.register
def _(column: Text, program: Program, rare: RareValues) -> Operand:
    raise ExportError(
        f"Column {column.name!r} is running text, whose groups of characters are hashed: this cannot be written in a "
        f"file. Fit again without it (TableEncoder(exclude=[{column.name!r}]), or `--exclude`), or serve the model "
        "with krepes."
    )


@encoded_column.register
def _(column: Number, program: Program, rare: RareValues) -> Operand:
    low, high = (column.mean - 3 * column.scale, column.mean + 3 * column.scale)
    if column.curve.size:
        low, high = float(column.curve[0, 0]), float(column.curve[0, -1])
    x = program.input(
        Port(column.name, "float64", (1,), "a number, NaN if missing", [], column.median, low, high)
    )
    for word in number_words(column.words) if column.words else ():
        x = x.equals(float(word)).where(np.nan, x)
    return _standardised(column, x, x.isnan())


@encoded_column.register
def _(column: YesNo, program: Program, rare: RareValues) -> Operand:
    words: dict[str, int] = {}
    for value, word in zip((1, 0), column.pair):
        words |= dict.fromkeys([word, word.capitalize(), word.upper(), str(value)], value)
    words |= dict.fromkeys([*YES_NO_MISSING, *(column.words or [])], 2)
    text = program.input(Port(column.name, "string", (1,), "a word, '' if missing", list(column.pair)))
    code = text.code(list(words), list(words.values()), 2)
    x = code.rows_of(np.array([[0.0], [1.0], [np.nan]]), "float64")
    return _standardised(column, x, x.isnan())


def _standardised(column: Any, x: Operand, absent: Operand, circles: Sequence[Operand] = ()) -> Operand:
    x = absent.where(column.median, x)
    u = interpolation(x, column.curve) if column.curve.size else x
    outputs = [(u - column.mean) * (1 / column.scale)] * column.linear + list(circles)
    if column.indicator:
        outputs.append(absent.where(1.0, 0.0, "float64"))
    return concat(outputs)


@encoded_column.register
def _(column: Date, program: Program, rare: RareValues) -> Operand:
    since = "midnight" if column.form == "time" else "1970"
    low, high = (column.mean - 3 * column.scale, column.mean + 3 * column.scale)
    low, high, usual = ((year - 1970.0) * YEAR for year in (low, high, column.median))
    meaning = f"seconds since {since}, NaN if missing"
    seconds = program.input(Port(column.name, "float64", (1,), meaning, [], usual, low, high))
    absent, circles = seconds.isnan(), []
    for cycle in column.cycles:
        angle = _share(seconds, cycle) * (2 * np.pi)
        circles += [absent.where(0.0, angle.sin()), absent.where(0.0, angle.cos())]
    return _standardised(column, seconds * (1 / YEAR) + 1970.0, absent, circles)


def _share(seconds: Operand, cycle: str) -> Operand:
    """How much of a day, week or year is over."""
    if cycle == "year":
        first = np.arange(1600, 2001).astype(str).astype("M8[Y]").astype("M8[s]").astype(np.int64)
        x = seconds - float(first[0])
        within = x - (x * (1 / FOUR_CENTURIES)).floor() * FOUR_CENTURIES
        years = interpolation(within, np.stack([first - first[0], np.arange(401.0)]))
    else:
        years = (seconds + (3 * DAY if cycle == "week" else 0.0)) * (1 / CYCLES[cycle][0])
    return years - years.floor()


@encoded_column.register
def _(column: Category, program: Program, rare: RareValues) -> Operand:
    outcomes = column.outcomes
    unseen = len(outcomes) - 1
    missing = unseen - 1 if column.missing else unseen
    codes = dict.fromkeys(["", *column.words], missing)
    if len(column.rare):
        codes |= dict.fromkeys(["(rare)", *rare.get(column.name, [])], len(column.levels))
    codes |= {level: i for i, level in enumerate(column.levels)}
    levels = [*column.levels, *["(rare)"] * bool(len(column.rare))]
    text = program.input(Port(column.name, "string", (1,), "a word, '' if missing", levels))
    return text.code(list(codes), list(codes.values()), unseen).rows_of(np.eye(len(outcomes)), "float64")
