"""Rules about the columns of a table: which rows have a concept.

    rule        = comparison, joined with and, or, not and parentheses
    comparison  = COLUMN < <= > >= == != VALUE,   COLUMN in (VALUE, ...),   VALUE < COLUMN <= VALUE

A value is a number, a word or quoted text. A rule is parsed, and only what is listed here is followed: nothing in it
is ever run as a program. A row in which a column of the rule is missing is neither for nor against it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from krepes.preprocessing.labels import missing_values
from krepes.sources import Source, TableSource

LONGEST = 1000  # characters of a rule
ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], np.ndarray]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
EXAMPLES = 'such as: age > 60, or: job == "cook" and hours >= 40'


def rows_by_rule(source: Source, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows for which a rule holds, and those for which it does not."""
    if not isinstance(source, TableSource):
        raise TypeError(f"A rule is about the columns of a table; {source.describe()} has none with names.")
    if not isinstance(rule, str) or not rule.strip() or len(rule) > LONGEST:
        raise ValueError(f"rule={rule!r:.60}: expected text of up to {LONGEST} characters, {EXAMPLES}.")
    found = _Rule(source, rule)
    holds = found.holds(found.tree)
    with_it, without = np.flatnonzero(holds & ~found.missing), np.flatnonzero(~holds & ~found.missing)
    if not (len(with_it) and len(without)):
        raise ValueError(
            f"The rule {rule!r:.100} holds for {len(with_it):,} rows and not for {len(without):,}: both are needed."
        )
    return with_it, without


def is_rule(text: str) -> bool:
    """Whether a text compares something: not NAME=FILE.

    >>> [is_rule(text) for text in ("age >= 60", "job == cook", "job in (cook, baker)", "sea=sea.npz")]
    [True, True, True, False]
    """
    return re.search(r"[<>]|[=!]=|\bin\s*[(\[]", text) is not None


class _Rule:
    """A parsed rule, the columns that it reads, and the rows in which one of them is missing."""

    def __init__(self, source: TableSource, text: str):
        self.source, self.text = source, text
        self.missing = np.zeros(source.n_rows, dtype=bool)
        self.names: dict[str, str] = {name: name for name in source.column_names}
        plain = self._with_plain_names(text)
        try:
            self.tree = ast.parse(plain.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self.refused("it cannot be read") from error

    def _with_plain_names(self, text: str) -> str:
        """The rule with names of columns that are not words replaced by words; quoted text stays."""
        odd = sorted((n for n in self.names if not n.isidentifier()), key=len, reverse=True)
        pieces = re.split(r"(\"[^\"]*\"|'[^']*')", text)
        for place, name in enumerate(odd):
            word = f"_column_{place}"
            pattern = rf"`{re.escape(name)}`|(?<![\w`]){re.escape(name)}(?![\w`])"
            pieces[::2] = [re.sub(pattern, word, piece) for piece in pieces[::2]]
            self.names[word] = name
        return "".join(piece.replace("`", "") if i % 2 == 0 else piece for i, piece in enumerate(pieces))

    def refused(self, why: str) -> ValueError:
        columns = ", ".join(self.source.column_names[:20])
        return ValueError(
            f"The rule {self.text!r:.100} is not one: {why}. Write one {EXAMPLES}. Columns: {columns}."
        )

    def holds(self, node: ast.expr) -> np.ndarray:
        """For which rows a part of the rule holds."""
        if isinstance(node, ast.BoolOp):
            joined = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return joined.reduce([self.holds(part) for part in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.holds(node.operand)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = zip(sides, node.ops, sides[1:])
            return np.logical_and.reduce([self._compared(*pair) for pair in pairs])
        raise self.refused("it compares no column")

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> np.ndarray:
        if isinstance(op, ast.In):
            listed = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]
            return np.logical_or.reduce([self._compared(left, ast.Eq(), each) for each in listed])
        if isinstance(op, ast.NotIn | ast.NotEq):
            return ~self._compared(left, ast.In() if isinstance(op, ast.NotIn) else ast.Eq(), right)
        mirrored = self._column(left) is None
        column, value = (self._column(right), left) if mirrored else (self._column(left), right)
        if column is None:
            raise self.refused("one side of a comparison must be a column")
        values, constant = self._values(column), self._constant(value)
        if isinstance(op, ast.Eq):
            return self._equal(values, constant)
        if type(op) not in ORDERS:
            raise self.refused("comparisons are < <= > >= == != and in")
        sides = self._numbers(values, column), self._number(constant)
        return ORDERS[type(op)](*(sides[::-1] if mirrored else sides))

    def _column(self, node: ast.expr) -> str | None:
        return self.names.get(node.id) if isinstance(node, ast.Name) else None

    def _values(self, column: str) -> np.ndarray:
        values = self.source.label_column(column)
        self.missing |= missing_values(values)
        return values

    def _constant(self, node: ast.expr) -> float | str:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._number(self._constant(node.operand))
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
            return node.value
        if isinstance(node, ast.Name) and self._column(node) is None:
            return node.id  # a word without quotes
        raise self.refused("a column is compared with a number, a word or quoted text")

    def _number(self, value: float | str) -> float:
        if isinstance(value, str):
            raise self.refused(f"{value!r} is not a number, and only numbers are larger or smaller")
        return float(value)

    def _numbers(self, values: np.ndarray, column: str) -> np.ndarray:
        try:
            return np.where(missing_values(values), np.nan, values).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise self.refused(f"the column {column!r} does not hold numbers") from error

    def _equal(self, values: np.ndarray, value: float | str) -> np.ndarray:
        if isinstance(value, str) or values.dtype.kind not in "biuf":
            wanted = str(value)
            return np.array([str(each).strip() == wanted for each in values], dtype=bool)
        return values.astype(np.float64) == float(value)
