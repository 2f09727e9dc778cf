"""What every command has in common: options from the table, one JSON object for programs, errors, exit codes.

A command's function prints text and returns what it found as a dictionary; with --json only that is printed.

0 done   1 something was wrong with the input or the machine   2 wrong usage   130 stopped by Ctrl-C   143 terminated
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, get_args

import typer

from krepes.cli import options, session, terminal
from krepes.cli.option_signatures import with_options
from krepes.cli.parameter import Parameter

EXIT_CODES = "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C, 143 terminated."
_CALL = r"[\w.]+\((?:[^()]|\([^()]*\))*\)"  # Python code in a message stays as it is
_VALUE = r"""'[^']*'|"[^"]*"|\[[^]]*\]|[^\s,;:()'"]*[^\s.,;:()'"]"""
_ARGUMENT = re.compile(rf"""{_CALL}|(?P<before>with )?(?<![\w.])(?P<name>[a-z]\w*)=(?P<value>{_VALUE})?""")
_COLUMN = re.compile(r"(?:columns=|(?P<or> or ))\{'(?P<name>[^']+)': '(?P<kind>[a-z ]+)'\}")
_options: ContextVar[dict[str, Parameter | str]] = ContextVar("options")


def command(function: Callable[..., dict[str, Any]]) -> Callable[..., None]:
    """Run a command: set its threads, print its result, and turn its failures into messages and exit codes."""
    shown, marks = with_options(function)
    common = {"verbose": options.Verbose, "as_json": options.Json}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in common.items()
        if name not in shown.parameters
    ]
    names = _names(shown)
    for mark in marks.values():
        names |= {row.name.rpartition("__")[2]: row for row in mark.rows()}

    @functools.wraps(function)
    def run(**given: Any) -> None:
        as_json, verbose = given.pop("as_json"), given["verbose"]
        if "verbose" not in shown.parameters:
            given.pop("verbose")
        _options.set(names)
        terminal.silent.set(as_json)
        try:
            session.check_files(given)
            given |= {name: mark.collected(given) for name, mark in marks.items()}
            with session.running(verbose, given.get("threads"), in_options):
                result = function(**given)
            if as_json:
                sys.stdout.write(json_text(result))
        except (typer.Exit, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            session.say("Stopped. No output was written, and no partial file is left.", style="yellow")
            raise typer.Exit(130) from None
        except Exception as error:
            _report(error, verbose)
            raise typer.Exit(1) from None
        finally:
            terminal.silent.set(False)

    run.__signature__ = inspect.Signature([*shown.parameters.values(), *added])  # type: ignore[attr-defined]
    return run


def _names(shown: inspect.Signature) -> dict[str, Parameter | str]:
    """Options by the names of their arguments."""
    found: dict[str, Parameter | str] = {}
    for name, argument in shown.parameters.items():
        for mark in get_args(argument.annotation)[1:]:
            if isinstance(mark, typer.models.OptionInfo):
                words = [mark.default, *(mark.param_decls or ())]
                long = [word for word in words if isinstance(word, str) and word.startswith("--")]
                found[name] = long[0] if long else f"--{name.replace('_', '-')}"
    return found


def in_options(text: str) -> str:
    """A message of the library in terms of options: n_landmarks=5 becomes --n-landmarks 5."""

    def translated(found: re.Match[str]) -> str:
        known = _options.get({}).get(found["name"] or "")
        value = (found["value"] or "").strip("'\"")
        before = found["before"] or ""
        if known is None:
            return found[0]
        if isinstance(known, Parameter) and known.null and value == "None":
            value = known.null
        if isinstance(known, Parameter) and known.kind == "flag" and value != str(known.flag):
            return f"without {known.option}"
        option = known if isinstance(known, str) else known.option.split()[0]
        if value == "True" or (isinstance(known, Parameter) and known.kind == "flag"):
            return f"{before}{option}"
        return f"{before}{option}{' ' if value else ''}{value}"

    if "column" in _options.get({}):
        text = _COLUMN.sub(
            lambda found: f"{found['or'] or ''}--column '{found['name']}={found['kind']}'", text
        )
    return _ARGUMENT.sub(translated, text)


def _report(error: Exception, verbose: bool) -> None:
    """Print an error as a message; with --verbose also where it happened."""
    if verbose:
        import traceback

        sys.stderr.write(traceback.format_exc())
    text = str(error).strip() or type(error).__name__
    expected = isinstance(error, ValueError | TypeError | OSError | MemoryError | ImportError | RuntimeError)
    if not expected:
        text = f"{type(error).__name__}: {text}. This should not happen; --verbose shows where it happened."
    session.say(in_options(text), prefix="Error: ", style="bold red")


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
