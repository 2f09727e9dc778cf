"""In which encoding a CSV file is written.

UTF-16 and UTF-32, which spreadsheets write as "Unicode text", begin with a mark; without one, UTF-16 is known by the
zero byte beside each letter and digit. Everything else is taken for UTF-8 until bytes contradict, and then for
Windows-1252, the legacy encoding of Western Europe and America that nearly all such files have.
"""

from __future__ import annotations

import codecs
from pathlib import Path

import numpy as np
import pyarrow as pa

LEGACY = "cp1252"
_BOMS = {  # UTF-32 first, because the mark of UTF-16 begins that of UTF-32
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def guess_encoding(path: Path) -> str:
    """The encoding of a file by how it begins, as far as that says it."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            start = stream.read(1000)
    except (OSError, pa.ArrowException):  # whoever reads the file next says what is wrong with it
        return "utf-8"
    encoding = next((name for mark, name in _BOMS.items() if start.startswith(mark)), None)
    if encoding is None and len(start) >= 4:
        even, odd = (np.mean(np.frombuffer(start[i::2], np.uint8) == 0) for i in (0, 1))
        if max(even, odd) > 0.5 and min(even, odd) < 0.1:
            encoding = "utf-16-le" if odd > even else "utf-16-be"
    return encoding or "utf-8"


def check_encoding(name: str) -> str:
    """The name of an encoding as Python spells it.

    >>> check_encoding("Latin1")
    'iso8859-1'
    """
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError(
            f"encoding={name!r}: Python knows no such encoding. Use for example 'cp1252'."
        ) from None
