"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DATA_HELP = (
    "A .parquet, .csv, .tsv, .npy or .npz file, a folder of Parquet files, or a folder of PNG or JPEG images "
    "(subfolders are their labels)."
)

Data = Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model that `krepes fit` wrote.", show_default=False)
]
Array = Annotated[str, typer.Option(metavar="NAME", help="Which array of an .npz file holds the rows.")]
Force = Annotated[bool, typer.Option("--force", metavar="", help="Overwrite files that exist.")]
LeftOut = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL", help="A column of tables to leave out. Repeat for several.", show_default=False
    ),
]
TableFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the table as .csv.", show_default=False),
]

_DATA, _RUN = "Data", "Running"
Label = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The column of a table, or the array of an .npz file, that holds the labels. By default the one "
        "named in fit, the array y, or the subfolders of images.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Labels in a file of their own: y.npy, or y.npz:ARRAY; one per row of DATA.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
RowArray = Annotated[
    str,
    typer.Option(metavar="NAME", help="Which array of an .npz file holds the rows.", rich_help_panel=_DATA),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="auto, cpu, cuda, cuda:1, ...; auto takes a GPU where there is one.",
        rich_help_panel=_RUN,
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", min=0, help="The same seed gives the same result.", rich_help_panel=_RUN)
]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Processor threads to use; by default all.",
        rich_help_panel=_RUN,
        show_default=False,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        metavar="",
        help="Show what is done, and where an error arose.",
        rich_help_panel=_RUN,
    ),
]
