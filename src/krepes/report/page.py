"""Templates filled in: HTML pages that need nothing else.

Arrays are base64 of little-endian numbers inside one JSON text. The JSON is pure ASCII with <, > and & escaped, so
that no text of the user's can end the script that holds it; on the page, text is only ever set as text. The page's
content security policy forbids every request.
"""

from __future__ import annotations

import base64
import html
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from krepes.base.files import atomic_path
from krepes.report.notebook import WrittenReport

SCRIPTS = (
    "data.js", "colours.js", "charts.js", "painting.js", "map.js", "parts.js", "agreement.js", "heat.js", "sample.js",
    "copied.js", "concepts.js", "comparison.js", "groups.js", "main.js",
)  # fmt: skip
_PLACE = re.compile(r"\{\{(title|style|script|data|body)\}\}")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def packed(array: ArrayLike, dtype: str) -> dict[str, Any]:
    """An array as the page reads it.

    >>> packed([1, 2], "uint16")
    {'type': 'uint16', 'base64': 'AQACAA=='}
    """
    little = np.ascontiguousarray(array).astype(np.dtype(dtype).newbyteorder("<"))
    return {"type": dtype, "base64": base64.b64encode(little.tobytes()).decode("ascii")}


def packed_numbers(values: ArrayLike) -> dict[str, Any]:
    """Numbers in single precision; in double precision if they are beyond its range, or hardly differ in it.

    >>> packed_numbers([1.5])["type"], packed_numbers([1e100, np.nan])["type"], packed_numbers([1e-100])["type"]
    ('float32', 'float64', 'float64')
    """
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    largest = np.max(np.abs(numbers), initial=0.0)
    fits = largest == 0 or (1e-30 < largest < 1e38 and not 0 < np.ptp(numbers) < 1e-3 * largest)
    return packed(values, "float32" if fits else "float64")


def packed_codes(codes: ArrayLike) -> dict[str, Any]:
    """Small integers, -1 among them."""
    return packed(codes, "int16" if np.max(codes, initial=0) < 2**15 else "int32")


def packed_places(places: ArrayLike, largest: int) -> dict[str, Any]:
    """Positions 0 .. largest - 1."""
    return packed(places, "uint16" if largest <= 2**16 else "uint32")


def safe_json(content: dict[str, Any]) -> str:
    """JSON that can stand inside a script element, whatever the texts in it are.

    >>> safe_json({"label": "</script>"})
    '{"label":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: _ESCAPES[found.group()], text)


def map_page(title: str, content: dict[str, Any]) -> str:
    """The page of a representation: a map of its rows, drawn from `content` by scripts."""
    script = "\n".join(_template(name) for name in SCRIPTS)
    return _filled("page", title, script=script, data=safe_json(content))


def plain_page(title: str, body: str) -> str:
    """A page without scripts; `body` is HTML."""
    return _filled("plain", title, body=body)


def write_page(text: str, target: Path, overwrite: bool) -> WrittenReport:
    """Write a page that only its owner can read. Halves of characters, which UTF-8 cannot hold, become "?"."""
    with atomic_path(target, overwrite, private=True) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")
    return WrittenReport(target)


def _filled(name: str, title: str, **parts: str) -> str:
    parts |= {"title": html.escape(title), "style": _template(f"{name}.css")}
    # One substitution, so that a title or a label that looks like a place is left as it is.
    return _PLACE.sub(lambda found: parts[found.group(1)], _template(f"{name}.html"))


def _template(name: str) -> str:
    return (files("krepes.report") / "template" / name).read_text(encoding="utf-8")
