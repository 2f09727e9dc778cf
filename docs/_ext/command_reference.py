"""The reference of commands: commands.md, with what `krepes VERB --help` prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from public_reference import put
from typer.testing import CliRunner

from krepes.cli.app import app as krepes

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def printed(*arguments: str) -> str:
    """What a call prints on a terminal of 100 columns."""
    shown = CliRunner().invoke(krepes, arguments, env={"COLUMNS": "100", "TERMINAL_WIDTH": "100"}).stdout
    return "\n".join(line.rstrip() for line in COLOURS.sub("", shown).strip().splitlines())


def write(app: Any, config: Any) -> None:
    verbs = [(each.name or each.callback.__name__).replace("_", "-") for each in krepes.registered_commands]
    lines = [
        "# Commands",
        "",
        "What `krepes VERB --help` prints, for every verb. [The command line](command-line.md) shows",
    ]
    lines += ["how the commands are used, one after the other.", "", "```text", printed("--help"), "```", ""]
    for verb in verbs:
        lines += [f"## krepes {verb}", "", "```text", printed(verb, "--help"), "```", ""]
    put(Path(app.srcdir) / "commands.md", "\n".join(lines))


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", write)  # before Sphinx looks for pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
