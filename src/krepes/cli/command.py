"""What every command has in common: groups of options, one JSON object for programs, errors, exit codes.

A command's function prints text and returns what it found as a dictionary; with --json only that is printed. An
argument that is a dataclass stands for the options that are its fields, such as `rows: Rows`.

0 done   1 something was wrong with the input or the machine   2 wrong usage   130 stopped by Ctrl-C   143 terminated
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from krepes.cli import options, session, terminal

EXIT_CODES = "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C, 143 terminated."
EXPECTED = (ValueError, TypeError, OSError, MemoryError, ImportError, RuntimeError)
COMMON = {
    "threads": (options.Threads, None),
    "verbose": (options.Verbose, False),
    "as_json": (options.Json, False),
}
METAVARS: dict[Any, str] = {int: "N", float: "SHARE", bool: "", Path: "FILE"}  # by type
_options: ContextVar[dict[str, str]] = ContextVar("options")  # by the names of arguments


def command(function: Callable[..., dict[str, Any]]) -> Callable[..., None]:
    """Run a command: set its threads, print its result, and turn its failures into messages and exit codes."""
    own = inspect.signature(function, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: each.annotation for name, each in own.items() if is_dataclass(each.annotation)
    }
    shown = [each for argument in own.values() for each in _flat(argument)]
    names = {argument.name for argument in shown}
    added = {name: each for name, each in COMMON.items() if name not in names}
    shown += [_argument(name, annotation, default) for name, (annotation, default) in added.items()]
    known = {argument.name: option for argument in shown for option in _option(argument)}

    @functools.wraps(function)
    def run(**given: Any) -> None:
        as_json, verbose, threads = (given[name] for name in ("as_json", "verbose", "threads"))
        for name in {*added, "as_json", "threads"}:
            given.pop(name)
        _options.set(known)
        terminal.silent.set(as_json)
        try:
            session.check_files(given)
            for name, group in groups.items():
                given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
            with session.running(verbose, threads, with_options):
                result = function(**given)
            if as_json:
                sys.stdout.write(json_text(result))
        except (typer.Exit, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            terminal.say("Stopped. No output was written, and no partial file is left.", style="yellow")
            raise typer.Exit(130) from None
        except Exception as error:
            _report(error, verbose)
            raise typer.Exit(1) from None
        finally:
            terminal.silent.set(False)

    run.__signature__ = inspect.Signature(sorted(shown, key=_place))  # type: ignore[attr-defined]
    return run


def changed(group: Any, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """The options of a group that differ from their defaults, with their values."""
    known = _options.get()
    names = [each.name for each in fields(group) if getattr(group, each.name) != _default(each)]
    return {known[name]: getattr(group, name) for name in names if name in known and name not in but}


def words_of(given: Mapping[str, Any]) -> list[str]:
    """Options and their values as they are typed; those of a list one by one.

    >>> words_of({"--size": 32, "--exclude": ["id", "name"]})
    ['--size', '32', '--exclude', 'id', '--exclude', 'name']
    """
    pairs = [
        (name, str(each))
        for name, value in given.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    return [word for pair in pairs for word in pair]


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _argument(name: str, annotation: Any, default: Any, panel: str | None = None) -> inspect.Parameter:
    """An argument whose option says what follows from its type and default; by default in a panel."""
    kind, mark = get_args(annotation)
    if isinstance(mark, OptionInfo):
        mark = copy(mark)
        mark.rich_help_panel = mark.rich_help_panel or panel
        mark.show_default = default is not False and default not in (None, "auto", [])
        if mark.metavar is None:
            mark.metavar = METAVARS.get((get_args(kind) or (kind,))[0], "NAME")  # X | None, list[X] or X
    shown = Annotated[kind, mark]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown)


def _flat(argument: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """An argument as typer is shown it; of a group, its fields."""
    group = argument.annotation
    if not is_dataclass(group):
        yield _argument(argument.name, argument.annotation, argument.default)
        return
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = _default(field)
        empty = inspect.Parameter.empty if default is MISSING else default
        yield _argument(field.name, hints[field.name], empty, getattr(group, "panel", None))


def _option(argument: inspect.Parameter) -> Iterator[str]:
    """The long form of an option."""
    for mark in get_args(argument.annotation)[1:]:
        if isinstance(mark, OptionInfo):
            words = [mark.default, *(mark.param_decls or ())]
            long = [word for word in words if isinstance(word, str) and word.startswith("--")]
            yield long[0] if long else f"--{argument.name.replace('_', '-')}"


def _place(argument: inspect.Parameter) -> int:
    """Where the help page has an option: without a heading, of data, of the work itself, of running it."""
    (mark,) = get_args(argument.annotation)[1:]
    return {None: 0, "Options": 0, options.DATA: 1, options.RUN: 3}.get(mark.rich_help_panel, 2)


def with_options(text: str) -> str:
    """A message of the library, followed by the options for the parameters that it names."""
    known = _options.get({})
    named = dict.fromkeys(re.findall(r"(?<![\w.])(\w+)=", text))
    found = [known[name] for name in named if name in known and known[name] not in text]
    return f"{text} ({', '.join(found)})" if found else text


@contextmanager
def usage_errors() -> Iterator[None]:
    """What the library says of an option's value is wrong usage."""
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        raise typer.BadParameter(with_options(str(error))) from None


def _report(error: Exception, verbose: bool) -> None:
    """Print an error as a message; with --verbose also where it happened."""
    if verbose:
        import traceback

        sys.stderr.write(terminal.harmless(traceback.format_exc()))
    text = str(error).strip() or type(error).__name__
    if not isinstance(error, EXPECTED):
        text = f"{type(error).__name__}: {text}. This should not happen; --verbose shows where it happened."
    terminal.say(with_options(text), prefix="Error: ", style="bold red")


def json_text(value: object) -> str:
    """A value as the text of a JSON file."""
    return json.dumps(_plain(value), indent=2, allow_nan=False) + "\n"


def _plain(value: object) -> object:
    """A value as JSON has it: arrays are lists, and what is not a finite number is null."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # numpy
        return _plain(value.tolist())
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)
