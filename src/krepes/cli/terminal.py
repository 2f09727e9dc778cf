"""What commands print, guarded: names and labels come from files, and must not be able to give the terminal orders.

Control characters (escape sequences among them) are shown as their codes instead of being sent: a column called
"\\x1b[2J" would otherwise clear the screen, and one with a carriage return could show another text than it holds.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

silent: ContextVar[bool] = ContextVar("silent", default=False)  # standard output is for one JSON object
LEAST_WIDTH = 110  # of tables in a file or a pipe
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


def console() -> Console:
    """Standard output; wide enough for tables where it is a file or a pipe."""
    found = terminal()
    return found if found.is_terminal else terminal(width=max(found.width, LEAST_WIDTH))


def line(text: str, style: str = "") -> None:
    """One line on standard output: brackets are not read as markup, and paths are not broken."""
    console().print(text, markup=False, highlight=False, soft_wrap=True, style=style)


def show_next(*words: object) -> str:
    """Print the command to try next; for --json too."""
    following = shlex.join(["krepes", *map(str, words)])
    line(f"Next: {following}")
    return following


def say(text: str, prefix: str = "", style: str = "") -> None:
    """One line on standard error; the style is for the prefix, or for a line without one."""
    from rich.text import Text

    styled = Text(prefix, style=style) + Text(text, style="" if prefix else style)
    terminal(stderr=True).print(styled, soft_wrap=True)


def show_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Sequence[str] = (),
    style: Callable[[Sequence[str]], str] = lambda row: "",
) -> None:
    """Print a table in the one style that all commands use.

    The first column, the columns `left` and those without a head are aligned to the left, all others to the right.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for place, head in enumerate(heads):
        side: Literal["left", "right"] = "left" if place == 0 or head in ("", *left) else "right"
        shown.add_column(Text(head), justify=side, overflow="fold", no_wrap=place == 0 and not head)
    for row in rows:
        shown.add_row(*map(Text, row), style=style(row))
    console().print(shown)


def show_facts(facts: dict[str, str]) -> None:
    """Print names and values in two columns."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in facts.items():
        shown.add_row(name, Text(value))
    console().print(shown)
