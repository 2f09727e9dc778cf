"""Templates filled in: HTML pages that need nothing else.

Arrays are base64 of little-endian numbers inside one JSON text, dataclasses are objects of their fields. The JSON is
pure ASCII with <, > and & escaped, so that no text of the user's can end the script that holds it; on the page, text is
only ever set as text. The page's content security policy forbids every request.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from krepes.base.storage.files import atomic_path

SCRIPTS = (
    "data.js", "colours.js", "charts.js", "painting.js", "map.js", "parts.js", "agreement.js", "heat.js", "sample.js",
    "copied.js", "concepts.js", "comparison.js", "groups.js", "main.js",
)  # fmt: skip
HEIGHT = 900  # pixels of a page in a notebook
WHOLE = ("uint8", "int16", "uint16", "int32", "uint32")  # the types of whole numbers that scripts read
_PLACE = re.compile(r"\{\{(title|style|script|data|body)\}\}")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def packed(array: np.ndarray) -> dict[str, str]:
    """An array as the page reads it, in the smallest type that holds it.

    >>> packed(np.array([1, 256]))
    {'type': 'int16', 'base64': 'AQAAAQ=='}
    """
    return packed_as(_float_type(array) if array.dtype.kind == "f" else _whole_type(array), array)


def packed_as(kind: str, array: np.ndarray) -> dict[str, str]:
    """An array in a type of numbers."""
    little = np.ascontiguousarray(array).astype(np.dtype(kind).newbyteorder("<"))
    return {"type": kind, "base64": base64.b64encode(little.tobytes()).decode("ascii")}


def _float_type(array: np.ndarray) -> str:
    """Single precision; double if numbers are beyond its range, or hardly differ in it.

    >>> [_float_type(np.array(numbers)) for numbers in ([1.5], [1e100, np.nan], [1e-100])]
    ['float32', 'float64', 'float64']
    """
    numbers = array[np.isfinite(array)].astype(np.float64)
    largest = np.max(np.abs(numbers), initial=0.0)
    fits = largest == 0 or (1e-30 < largest < 1e38 and not 0 < np.ptp(numbers) < 1e-3 * largest)
    return "float32" if fits else "float64"


def _whole_type(array: np.ndarray) -> str:
    low, high = np.min(array, initial=0), np.max(array, initial=0)
    fitting = (kind for kind in WHOLE if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return next(fitting, "float64")


def safe_json(content: dict[str, Any]) -> str:
    """JSON that can stand inside a script element, whatever the texts in it are.

    >>> safe_json({"label": "</script>"})
    '{"label":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(content, default=_plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: _ESCAPES[found.group()], text)


def _plain(value: Any) -> dict[str, Any]:
    """Arrays packed, other results as their fields."""
    if isinstance(value, np.ndarray):
        return packed(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


def map_page(title: str, content: dict[str, Any]) -> str:
    """The page of a representation: a map of its rows, drawn from `content` by scripts."""
    script = "\n".join(_template(name) for name in SCRIPTS)
    return _filled("page", title, script=script, data=safe_json(content))


@dataclass(frozen=True)
class PageSection:
    """A part of a page without scripts: texts, and a table.

    Attributes
    ----------
    title, about, note : str
    heads : sequence of str
        Without heads the table has none.
    rows : sequence of sequences of str
    drawn : ndarray of shape (n, 3) or None
        For each row, where a bar begins and ends and where its mark lies, as shares of the width; NaN for no mark.
    """

    title: str = ""
    about: str = ""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    drawn: np.ndarray | None = None
    note: str = ""


def plain_page(title: str, sections: Iterable[PageSection]) -> str:
    """A page of tables, without scripts."""
    return _filled("plain", title, body="\n".join(map(_section, sections)))


def _section(given: PageSection) -> str:
    parts = [f"<h2>{escape(given.title)}</h2>"] if given.title else []
    parts += [f"<p>{escape(given.about)}</p>"] if given.about else []
    if given.rows:
        region = f'<div class="wide" tabindex="0" role="region" aria-label="{escape(given.title)}">'
        parts.append(f"{region}{_table(given)}</div>")
    parts += [f'<p class="note">{escape(given.note)}</p>'] if given.note else []
    return "".join(parts)


def _table(given: PageSection) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in given.heads)
    head = f"<thead><tr>{top}</tr></thead>" if top else ""
    drawn = [""] * len(given.rows) if given.drawn is None else map(_bar, given.drawn)
    lines = []
    for (first, *others), bar in zip(given.rows, drawn):
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in others)
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{cells}{bar}</tr>')
    return f"<table>{head}<tbody>{''.join(lines)}</tbody></table>"


def _bar(shares: np.ndarray) -> str:
    low, high, at = 100 * shares
    mark = f'<b style="left:{at:.1f}%"></b>' if at == at else ""
    bar = f'<i style="left:{low:.1f}%;width:{high - low:.1f}%"></i>'
    return f'<td><div class="span">{bar}{mark}</div></td>'


class WrittenReport(type(Path())):  # type: ignore[misc]  # the path of this system
    """The path of a written page, which a notebook shows as the page itself.

    The notebook then holds the page, with the rows that are on it, as long as the output is kept.

    >>> WrittenReport("report.html").name
    'report.html'
    """

    def _repr_html_(self) -> str:
        """The page in a frame; what is no file is shown as a path."""
        if not self.is_file():
            return f"<code>{escape(str(self))}</code>"
        page = escape(self.read_text(encoding="utf-8"), quote=True)
        return (
            f'<iframe title="{escape(self.name, quote=True)}" sandbox="allow-scripts allow-downloads" '
            f'style="width:100%;height:{HEIGHT}px;border:0" srcdoc="{page}"></iframe>'
        )


def write_page(text: str, target: Path, overwrite: bool) -> WrittenReport:
    """Write a page that only its owner can read. Halves of characters, which UTF-8 cannot hold, become "?"."""
    with atomic_path(target, overwrite, private=True) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")
    return WrittenReport(target)


def _filled(name: str, title: str, **parts: str) -> str:
    parts |= {"title": escape(title), "style": _template(f"{name}.css")}
    # One substitution, so that a title or a label that looks like a place is left as it is.
    return _PLACE.sub(lambda found: parts[found.group(1)], _template(f"{name}.html"))


def _template(name: str) -> str:
    return (files("krepes.report") / "template" / name).read_text(encoding="utf-8")
