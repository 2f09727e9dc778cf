"""Warnings that point to the caller's line, however deep in krepes they arise, and name what they are about."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
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


def named_few(what: str, items: Sequence[object], most: int = 3) -> str:
    """What a warning is about: the first few of it.

    >>> named_few("column", [2]), named_few("row", [5, 7, 8, 9])
    ('column 2', 'rows 5, 7, 8 and 1 more')
    """
    shown, more = ", ".join(map(str, items[:most])), len(items) - most
    return f"{what}{'s' * (len(items) > 1)} {shown}" + (f" and {more:,} more" if more > 0 else "")


def _between(file: str, module: str) -> bool:
    return file.startswith(OURS) or module.startswith(WRAPPERS)
