"""Commands of krepes, run in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from krepes.cli.app import app


def run(*arguments: object, code: int = 0) -> str:
    """Run a command that ends with an exit code; what it printed."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result.output


def words(text: str) -> str:
    """A text without its line breaks, which depend on the length of paths, and without boxes."""
    return " ".join(text.replace("│", " ").split())
