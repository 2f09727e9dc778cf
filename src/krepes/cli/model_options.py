"""Options that describe a model and its data, for commands that fit one."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from krepes.cli.fit import _names
from krepes.cli.names import listed

DATA, MODEL = "Data", "Model"


def _option(metavar: str, text: str, panel: str = MODEL, **settings: Any) -> Any:
    return typer.Option(metavar=metavar, help=text, rich_help_panel=panel, **settings)


Exclude = Annotated[list[str], _option("COLUMN", "A column to leave out. Repeat for several.", DATA)]
Array = Annotated[str, _option("NAME", "Which array of an .npz file holds the rows.", DATA)]
Size = Annotated[
    str | None,
    _option(
        "PIXELS",
        "Bring the images of a folder to this size: 32, or height x width such as 48x42.",
        DATA,
        show_default=False,
    ),
]
Preprocess = Annotated[
    str,
    _option(
        "NAME",
        "auto encodes tables and uses arrays as they are; table standardises the columns of an array; normalize "
        "standardises the channels of images; none changes nothing.",
        DATA,
    ),
]
Components = Annotated[int, _option("N", "Width of the representation.", min=1)]
Landmarks = Annotated[int, _option("N", "Rows that carry the model. More are better, and slower.", min=1)]
LossName = Annotated[str, _option("NAME", f"What is learned: {listed('losses')}.", callback=_names("losses"))]
KernelName = Annotated[
    str, _option("NAME", f"How rows are compared: {listed('kernels')}.", callback=_names("kernels"))
]
ViewsName = Annotated[
    str,
    _option(
        "NAME",
        f"How rows are varied to find what stays the same: {listed('views', 'auto', 'none')}.",
        callback=_names("views", "auto", "none"),
    ),
]
LandmarkRule = Annotated[
    str, _option("NAME", f"How landmarks are chosen: {listed('landmarks')}.", callback=_names("landmarks"))
]
SolverName = Annotated[
    str, _option("NAME", f"{listed('solvers', 'auto')}.", callback=_names("solvers", "auto"))
]
Override = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any other parameter, such as loss__redundancy=0.1, or views__noise=0.2 with --views tabular. Repeat for "
        "several.",
        rich_help_panel=MODEL,
    ),
]


def key_and_value(text: str, option: str, example: str) -> tuple[str, str]:
    """The two sides of KEY=VALUE."""
    key, found, value = text.partition("=")
    if not found or not key.strip():
        raise typer.BadParameter(f"{option} {text}: expected {example}.")
    return key.strip(), value.strip()


def parsed(text: str) -> Any:
    """A value as JSON, and as text where it is none: 0.1, true, null, leverage.

    >>> parsed("0.1"), parsed("leverage")
    (0.1, 'leverage')
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
