"""Data and template as one HTML page that needs nothing else.

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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

SCRIPTS = (
    "data.js", "colours.js", "charts.js", "painting.js", "map.js", "parts.js", "agreement.js", "heat.js", "sample.js",
    "copied.js", "concepts.js", "comparison.js", "groups.js", "main.js",
)  # fmt: skip
_PLACE = re.compile(r"\{\{(title|style|script|data)\}\}")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def packed(array: ArrayLike, dtype: str) -> dict[str, Any]:
    """An array as the page reads it.

    >>> packed([1, 2], "uint16")
    {'type': 'uint16', 'base64': 'AQACAA=='}
    """
    little = np.ascontiguousarray(array).astype(np.dtype(dtype).newbyteorder("<"))
    return {"type": dtype, "base64": base64.b64encode(little.tobytes()).decode("ascii")}


def packed_numbers(values: ArrayLike) -> dict[str, Any]:
    """Numbers in single precision; in double precision where they are beyond its range, or hardly differ in it.

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


def page(title: str, content: dict[str, Any]) -> str:
    """The whole page."""
    template = files("krepes.report") / "template"
    parts = {
        "title": html.escape(_encodable(title)),
        "style": (template / "style.css").read_text(encoding="utf-8"),
        "script": "\n".join((template / name).read_text(encoding="utf-8") for name in SCRIPTS),
        "data": safe_json(content),
    }
    # One substitution, so that a title or a label that looks like a place is left as it is.
    return _PLACE.sub(
        lambda found: parts[found.group(1)], (template / "page.html").read_text(encoding="utf-8")
    )


def _encodable(text: str) -> str:
    """Without the half characters that UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
