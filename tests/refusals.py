"""What errors and warnings must say: their type, and the names and values that they mention, in any wording.

with refuses(ValueError, "n_landmarks=0"):
    KernelEmbedding(n_landmarks=0).fit(X)
"""

from __future__ import annotations

import re
from typing import Any

import pytest

Mention = str | tuple[str, ...]
SENTENCE = r"(?=.*\w+\W+\w+\W+\w+)"  # three words: more than the bare value


def refuses(kind: type | tuple[type, ...], *mentioned: Mention) -> Any:
    """The block raises `kind`, and its message is a sentence with every text given (in any case, in any order)."""
    return pytest.raises(kind, match=_with_all(mentioned))


def warns_of(kind: type, *mentioned: Mention) -> Any:
    """The block warns by `kind`, and one message is a sentence with every text given (in any case, in any order)."""
    return pytest.warns(kind, match=_with_all(mentioned))


def _with_all(mentioned: tuple[Mention, ...]) -> str:
    texts = [text for given in mentioned for text in ((given,) if isinstance(given, str) else given)]
    return "(?is)" + SENTENCE + "".join(f"(?=.*{_pattern(text)})" for text in texts)


def _pattern(text: str) -> str:
    """The text as it is; one or two characters, such as `y` or `0`, only as a word of their own."""
    return re.escape(text) if len(text) > 2 else rf"(?<!\w){re.escape(text)}(?!\w)"
