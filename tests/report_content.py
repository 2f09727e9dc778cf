"""The content of a written report, read back in Python as the page reads it."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def content(path: Path) -> dict[str, Any]:
    found = DATA.findall(path.read_text(encoding="utf-8"))
    assert len(found) == 1
    return json.loads(found[0])


def unpacked(packed: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["base64"]), dtype=packed["type"])


def tops_of(part: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Landmarks and values of the rows, (n, k), and half a step of the values, (n, 1): how far they may be off."""
    k = part["n_top"]
    largest = unpacked(part["largest"]).astype(np.float64)[:, None]
    values = unpacked(part["steps"]).reshape(-1, k) / 32767 * largest
    return unpacked(part["landmarks"]).reshape(-1, k), values, 0.51 / 32767 * largest


def map_of(page: dict[str, Any], name: str) -> dict[str, Any]:
    """The map whose name begins so."""
    return next(each for each in page["maps"] if each["name"].startswith(name))
