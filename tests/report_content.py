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
