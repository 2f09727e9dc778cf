"""Options of a command that come from the table.

A command asks for them by the class or function that they are parameters of,

    model: Annotated[dict[str, Any], Parameters("KernelEmbedding")]

and gets an option for each in its place, and the values in one dictionary, ready for the class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from krepes.cli.option_defaults import TABLE
from krepes.cli.parameter import Parameter


@dataclass(frozen=True)
class Parameters:
    """A mark on a dictionary argument of a command: put the options of `owner` in its place.

    `only` names some of them. Those of `optional`, {name: help}, have no default of their own: they are in the
    dictionary where they are given.
    """

    owner: str
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    optional: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[Parameter]:
        for row in TABLE[self.owner]:
            if row.name not in self.without and (not self.only or row.name in self.only):
                yield row

    def options(self) -> list[inspect.Parameter]:
        return [
            row.as_option(row.nested or row.name in self.optional, self.optional.get(row.name))
            for row in self.rows()
        ]

    def collected(self, given: dict[str, Any]) -> dict[str, Any]:
        """Take these parameters out of what was given to a command."""
        values = {}
        for row in self.rows():
            value = given.pop(row.name)
            if value is not None or not (row.nested or row.name in self.optional):
                values[row.name] = row.value(value)
        return values


def parameter(owner: str, name: str) -> Parameter:
    """One row of the table."""
    return next(Parameters(owner, only=(name,)).rows())


def with_options(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Parameters]]:
    """The signature that typer is shown, with marked arguments replaced by their options; and the marks."""
    hints = inspect.signature(function, eval_str=True).parameters
    shown: list[inspect.Parameter] = []
    marks: dict[str, Parameters] = {}
    for name, argument in hints.items():
        mark = next(
            (m for m in getattr(argument.annotation, "__metadata__", ()) if isinstance(m, Parameters)), None
        )
        if mark is None:
            shown.append(argument.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        else:
            marks[name] = mark
            shown += mark.options()
    return inspect.Signature(sorted(shown, key=_place)), marks


def _place(argument: inspect.Parameter) -> int:
    """Where the help page has an option: without a heading, of data, of the work itself, of running it."""
    for mark in getattr(argument.annotation, "__metadata__", ()):
        panel = getattr(mark, "rich_help_panel", None)
        return {None: 0, "Data": 1, "Running": 3}.get(panel, 2)
    return 0
