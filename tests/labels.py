"""Names of parametrised tests that are the same in every process: `repr` without memory addresses."""

from __future__ import annotations

import re
from typing import Any


def label(value: Any) -> str:
    return " ".join(re.sub(r" at 0x[0-9a-f]+", "", repr(value)).split())
