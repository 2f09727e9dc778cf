"""Warnings that point to the caller's line, however deep in krepes they arise."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

# Code that stands between a user and the line that warns: our own, and scikit-learn's wrappers of methods.
OURS = str(Path(__file__).resolve().parents[1])
WRAPPERS = ("sklearn.base", "sklearn.utils", "contextlib")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line of the call stack that belongs to neither."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _between(
        frame.f_code.co_filename, frame.f_globals.get("__name__", "")
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _between(file: str, module: str) -> bool:
    return file.startswith(OURS) or module.startswith(WRAPPERS)
