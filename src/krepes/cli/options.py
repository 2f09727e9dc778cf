"""Options and arguments that several commands share, and that are not parameters of a class.

An argument has the name that the library gives it (`random_state`, `overwrite`), so that errors of the library can be
worded in terms of options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

DATA, MODEL, STREAM, RUN = "Data", "Model", "Streams", "Running"


def option(*words: str, metavar: str = "NAME", panel: str | None = None, **settings: Any) -> OptionInfo:
    """An option; the last of the words is its help, those before are its names."""
    *names, text = words
    settings = {"show_default": False} | settings
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **settings)


def flag(name: str, text: str, panel: str | None = None) -> OptionInfo:
    """An option without a value."""
    return option(name, text, metavar="", panel=panel)


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A .parquet, .csv, .tsv, .npy or .npz file, a folder of Parquet, CSV or .npy files or of a Zarr array, a "
        "pattern such as 'part-*.csv', or a folder of PNG or JPEG images (subfolders are their labels).",
        show_default=False,
    ),
]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A model that `krepes fit` or `krepes train` wrote.", show_default=False
    ),
]
Array = Annotated[str, option("Which array of an .npz file holds the rows.", panel=DATA, show_default=True)]
Size = Annotated[
    str | None,
    option(
        "Resize the images of a folder: 32, or height x width such as 48x42.",
        metavar="PIXELS",
        panel=DATA,
    ),
]
Exclude = Annotated[
    list[str], option("A column to leave out. Repeat the option for several.", metavar="COLUMN", panel=DATA)
]
Column = Annotated[
    list[str],
    option(
        "--column",
        "Say what a column is, where the table that is printed gets it wrong: number, decimal point, decimal comma, "
        "date, day first, month first, boolean, category or text. Repeat the option for several.",
        metavar="NAME=KIND",
        panel=DATA,
    ),
]
Missing = Annotated[
    list[str],
    option(
        "--missing",
        "A word that means a missing value, instead of the usual ones (NA, null, n/a, ...). Repeat the option for "
        "several.",
        metavar="WORD",
        panel=DATA,
    ),
]
Encoding = Annotated[
    str | None,
    option(
        "The encoding of CSV files, such as cp1252 or shift_jis. By default it is recognised.",
        metavar="NAME",
        panel=DATA,
    ),
]
SampleWeight = Annotated[
    str | None,
    option(
        "A column, or an array of an .npz file, that says how often each row counts. It is never a feature.",
        metavar="COLUMN",
        panel=DATA,
    ),
]
Split = Annotated[str | None, option("A column (or array) that says train or test in every row.", panel=DATA)]
NTrain = Annotated[
    int | None,
    option(
        "Train on the first N rows and test on the others. By default the array n_train of an .npz file, if there "
        "is one.",
        metavar="N",
        panel=DATA,
        min=1,
    ),
]
Base = Annotated[
    Path | None,
    option(
        "Take preprocessing, kernel and landmarks from this model, and sum up the rows of DATA alone: a part, for "
        "`krepes merge`.",
        metavar="MODEL",
        panel=MODEL,
    ),
]
FirstRow = Annotated[
    int | None,
    option(
        "With --base: the number of DATA's first row in all the data, counted from 0. It keys the random draws, and "
        "lets `merge` see rows that would count twice.",
        metavar="N",
        panel=DATA,
        min=0,
    ),
]
Groups = Annotated[
    str | None,
    option(
        "A column (or array), such as the day or the site: sums are kept for each of its values, so that models of "
        "some of them need no data. It is never a feature.",
        metavar="COLUMN",
        panel=DATA,
    ),
]
Checkpoint = Annotated[
    Path | None,
    option(
        "Keep the state of a long fit in this file. After an interruption the same command continues from it.",
        metavar="FILE",
        panel=RUN,
    ),
]
Label = Annotated[
    str | None,
    option(
        "The column of a table, or the array of an .npz file, that holds the labels. By default the column named in "
        "fit, the array y, or the subfolders of images.",
        panel=DATA,
    ),
]
Labels = Annotated[
    str | None,
    option(
        "A separate file of labels, one for every row of DATA: y.npy, y.npz:ARRAY, or a table with --label COLUMN.",
        metavar="FILE",
        panel=DATA,
    ),
]
Keep = Annotated[
    list[str],
    option(
        "Copy a column of the table, such as an id, into the result (.parquet, .csv or .npz). Repeat the option for "
        "several.",
        metavar="COLUMN",
        panel=DATA,
    ),
]
Override = Annotated[
    list[str],
    option(
        "--set",
        "Any other parameter, such as loss__redundancy=0.1, or views__noise=0.2 with --views tabular. Repeat the "
        "option for several.",
        metavar="KEY=VALUE",
        panel=MODEL,
    ),
]
CsvFile = Annotated[Path | None, option("--output", "-o", "Write the table as .csv.", metavar="FILE")]
Figure = Annotated[Path | None, option("Draw a figure (.png, .pdf, .svg).", metavar="FILE")]
Seed = Annotated[
    int,
    option(
        "--seed",
        "The seed of all random draws: the same seed gives the same result.",
        metavar="N",
        panel=RUN,
        min=0,
        show_default=True,
    ),
]
Threads = Annotated[
    int | None, option("Processor threads to use. By default all.", metavar="N", panel=RUN, min=1)
]
Engine = Annotated[
    str | None,
    option(
        "Where passes over the data run: dask, a cluster of processes on this machine, or the address of a Dask "
        "scheduler, such as tcp://host:8786. By default in this process.",
        metavar="ADDRESS",
        panel=RUN,
    ),
]
DryRun = Annotated[
    bool,
    flag(
        "--dry-run",
        "Print parts, rows, memory and expected time, measured on the first rows, and write nothing.",
        RUN,
    ),
]
Force = Annotated[bool, flag("--force", "Overwrite existing files.")]
Verbose = Annotated[
    bool,
    option(
        "--verbose", "-v", "Show details of what is done, and where an error happened.", metavar="", panel=RUN
    ),
]
Json = Annotated[
    bool,
    flag("--json", "Print one JSON object instead of text, for programs. Numbers are not rounded.", RUN),
]
