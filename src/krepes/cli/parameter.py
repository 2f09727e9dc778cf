"""A parameter of the library as an option of the command line: a row of `option_defaults.py`."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

TYPES = {"int": int, "float": float, "str": str, "path": Path, "flag": bool}
METAVARS = {"int": "N", "float": "NUMBER", "str": "TEXT", "path": "FILE", "flag": ""}


@dataclass(frozen=True)
class Parameter:
    """One row of the table.

    Attributes
    ----------
    name : as the library calls it, such as n_landmarks or solver__max_epochs.
    option : as the command line calls it, such as --n-landmarks or --epochs; perhaps with a short form.
    kind : "int", "float", "str", "path" or "flag".
    default : the default of the class or function.
    help : what the option does.
    choices : names that may be given; for a number, words that may be given instead.
    panel : heading of the help page.
    least : smallest number.
    flag : what the parameter becomes where a flag is given.
    null : the word that stands for None, if there is one.
    """

    name: str
    option: str
    kind: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    panel: str = "Model"
    least: float | None = None
    flag: Any = None
    null: str = ""

    @property
    def nested(self) -> bool:
        """Whether it belongs to a part of the model; it is set only where it is given."""
        return "__" in self.name

    def checked(self, value: object) -> object:
        """A value as the library takes it, or an error that lists the choices."""
        if not isinstance(value, str) or not self.choices:
            return value
        word = value.replace("-", "_").lower()
        if word in self.choices:
            return word
        if self.kind in ("int", "float"):
            multiple = word.removesuffix(" median") if "median" in self.choices else word
            try:
                number = TYPES[self.kind](multiple)
            except ValueError:
                number = None
            if number is None or (self.least is not None and number < self.least):
                least = "" if self.least is None else f" of at least {self.least}"
                raise typer.BadParameter(
                    f"{value!r}: expected a number{least}, or {' or '.join(self.choices)}."
                )
            return number if multiple == word else word
        close = difflib.get_close_matches(word, self.choices, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise typer.BadParameter(f"{value!r} is not known.{hint} Choose from: {', '.join(self.choices)}.")

    def as_option(self, optional: bool = False, text: str | None = None) -> inspect.Parameter:
        """The option as an argument of a command's function; an `optional` one is None where it is not given."""
        words = self.kind in ("int", "float") and bool(self.choices)
        kind: Any = str if words else TYPES[self.kind]
        shown = self.kind != "flag" and self.default is not None
        default, unset = False if self.kind == "flag" else self.default, ""
        if optional or default is None:
            unset = f" By default {self.default}." if shown and text is None else ""
            kind, default, shown = kind | None, None, False
        option = typer.Option(
            *self.option.split(),
            metavar="NAME" if self.kind == "str" and self.choices else METAVARS[self.kind],
            help=(text or self.help) + self._listed(words) + unset,
            rich_help_panel=self.panel,
            min=None if words else self.least,
            callback=self.checked if self.choices else None,
            show_default=shown,
        )
        default = str(default) if words and default is not None else default
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
        )

    def _listed(self, words: bool) -> str:
        if not self.choices:
            return ""
        multiples = ", or a multiple of it, such as '4 median'" if "median" in self.choices else ""
        return f" {'A number, or' if words else 'Choose from'} {', '.join(self.choices)}{multiples}."

    def value(self, given: object) -> object:
        """The parameter's value for what the option gave."""
        if self.kind == "flag":
            return self.flag if given else self.default
        return None if self.null and given == self.null else given
