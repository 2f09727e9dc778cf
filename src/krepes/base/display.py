"""How models and results show themselves: one short line as text, a small table in a notebook.

`displayed` gives a class both, from its fields (a dataclass) or its fitted attributes (an estimator). Arrays are shown
by type and shape, and in a notebook by their first rows. `model_html` puts what a fitted estimator is above the diagram
of scikit-learn. Every value is escaped: a name may hold anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr

C = TypeVar("C", bound=type)

LONGEST = 60  # characters of a value
SHOWN_ROWS, SHOWN_COLUMNS = 5, 8
SITE = os.environ.get("KREPES_DOCS", "")  # the address of the documentation, as `make docs` builds it
STYLE = "border-collapse:collapse;font-size:90%"
CELL = "text-align:left;padding:1px 12px 1px 0;vertical-align:top"


def short(value: object) -> str:
    """A value in a few characters.

    >>> short(0.123456), short(np.zeros((60, 5))), short("x" * 100)[-3:]
    ('0.1235', 'float64 (60, 5)', 'xx…')
    """
    if isinstance(value, np.ndarray) or (hasattr(value, "shape") and hasattr(value, "dtype")):
        found: Any = value
        if found.ndim == 0:
            return short(found.item())
        return f"{str(found.dtype).removeprefix('torch.')} ({', '.join(map(str, found.shape))})"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, list | tuple | dict | set) and len(value) > SHOWN_COLUMNS:
        return f"{type(value).__name__} of {len(value):,}"
    if hasattr(value, "columns") and hasattr(value, "shape"):
        shape: Any = value
        return f"{type(value).__name__} ({', '.join(map(str, shape.shape))})"
    text = " ".join(repr(value).split()) if not isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def parts_of(result: object) -> dict[str, object]:
    """The fields of a dataclass; of an estimator, its name and what was fitted, without the rows it was given."""
    if is_dataclass(result):
        return {field.name: getattr(result, field.name) for field in fields(result) if field.repr}
    named = {"name": result.name} if hasattr(result, "name") else {}
    found = {
        key.removesuffix("_"): value
        for key, value in vars(result).items()
        if key.endswith("_") and not key.startswith("_")
    }
    return named | found


def text_table(rows: Sequence[Sequence[str]], right: bool = True) -> str:
    """Cells in columns, the first to the left, the others to the right or the left.

    >>> print(text_table([["name", "n"], ["a", "10"]]))
    name   n
    a     10
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for first, *others in rows:
        cells = [f"{cell:>{n}}" if right else f"{cell:<{n}}" for cell, n in zip(others, widths[1:])]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """A title and a table of two columns; the values are HTML already, names and title are not."""
    lines = "".join(
        f'<tr><th scope="row" style="{CELL};font-weight:normal;opacity:.7">{escape(name)}</th>'
        f'<td style="{CELL}">{value}</td></tr>'
        for name, value in facts.items()
    )
    return f'<div><strong>{escape(title)}</strong><table style="{STYLE}"><tbody>{lines}</tbody></table></div>'


def value_html(value: object) -> str:
    """A value; of an array its type, its shape and its first rows."""
    if not isinstance(value, np.ndarray) or not 1 <= value.ndim <= 2 or value.size == 0:
        return escape(short(value))
    rows = value[None] if value.ndim == 1 else value[:SHOWN_ROWS]
    more = " …" if rows.shape[1] > SHOWN_COLUMNS else ""
    lines = "<br>".join(
        escape(", ".join(short(item) for item in row[:SHOWN_COLUMNS].tolist()) + more) for row in rows
    )
    below = "<br>…" if value.ndim == 2 and len(value) > SHOWN_ROWS else ""
    return f'<span style="opacity:.7">{escape(short(value))}</span><br>{lines}{below}'


def displayed(cls: C) -> C:
    """A class whose objects have a short repr, and a table in a notebook.

    >>> from dataclasses import dataclass
    >>> @displayed
    ... @dataclass
    ... class Pair:
    ...     name: str
    ...     values: np.ndarray
    >>> Pair("<b>", np.arange(3))
    Pair(name='<b>', values=int64 (3))
    >>> "&lt;b&gt;" in Pair("<b>", np.arange(3))._repr_html_()
    True
    """
    said = "__str__" in vars(cls)

    def line(self: object, N_CHAR_MAX: int = 700) -> str:  # scikit-learn's name
        listed = ", ".join(f"{name}={short(value)}" for name, value in parts_of(self).items())
        return f"{type(self).__name__}({listed})"

    def table(self: object) -> str:
        if said:
            return f"<pre>{escape(str(self))}</pre>"
        title = f"{type(self).__name__}{'' if parts_of(self) else ' (not fitted)'}"
        return facts_html(title, {name: value_html(value) for name, value in parts_of(self).items()})

    def bundle(self: object, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": table(self)}

    changed: Any = cls
    changed.__repr__, changed._repr_html_, changed._repr_mimebundle_ = line, table, bundle
    return cls


def model_html(model: BaseEstimator, facts: Mapping[str, str]) -> str:
    """A notebook's view of an estimator: what it has learned, above its parameters."""
    shown = {name: escape(value) for name, value in facts.items()}
    title = f"{type(model).__name__}{'' if facts else ', not fitted'}"
    return facts_html(title, shown) + estimator_html_repr(model)


def documentation_page(model: BaseEstimator) -> str:
    """The address of an estimator's page, which scikit-learn's diagram links to; empty where none is known."""
    kind = type(model)
    known = kind.__name__ in sys.modules["krepes"].__all__
    place = "krepes" if known else ".".join(kind.__module__.split(".")[:2])
    return f"{SITE}/api/generated/{place}.{kind.__name__}.html" if SITE else ""


def model_repr(model: BaseEstimator, most: int) -> str:
    """As scikit-learn has it, but arrays and frames by their shape."""
    given = model.get_params(deep=False)
    if not any(hasattr(value, "shape") for value in given.values()):
        return BaseEstimator.__repr__(model, most)
    usual = type(model)().get_params(deep=False)
    changed = [
        f"{name}={short(value)}"
        for name, value in given.items()
        if hasattr(value, "shape") or repr(value) != repr(usual[name])
    ]
    return f"{type(model).__name__}({', '.join(changed)})"
