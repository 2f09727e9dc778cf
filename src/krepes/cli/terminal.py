"""The terminal, guarded: names and labels come from files, and must not be able to give it orders.

Control characters (escape sequences among them) are shown as their codes instead of being sent: a column called
"\\x1b[2J" would otherwise clear the screen, and one with a carriage return could show another text than it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

silent: ContextVar[bool] = ContextVar("silent", default=False)  # standard output is for one JSON object
# C0 without tab and new line, delete, C1, and the marks that turn the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """A text whose control characters are written out.

    >>> harmless("a\\x1b[2Jb\\r")
    'a\\\\x1b[2Jb\\\\x0d'
    """
    return _CONTROL.sub(lambda found: f"\\{_code(ord(found[0]))}", text)


def _code(number: int) -> str:
    return f"x{number:02x}" if number < 256 else f"u{number:04x}"


def terminal(*, stderr: bool = False, width: int | None = None) -> Console:
    """Standard output, or standard error, as the only consoles that commands print to."""
    return _guarded()(stderr=stderr, width=width, quiet=silent.get() and not stderr)


@cache
def _guarded() -> type[Console]:
    """A console class, made on first use because rich is heavy."""
    from rich.console import Console
    from rich.segment import Segment

    class Guarded(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                if segment.control is None and _CONTROL.search(segment.text):
                    segment = Segment(harmless(segment.text), segment.style)
                yield segment

    return Guarded
