"""Options and arguments that several commands share, alone or in groups.

An argument has the name of the library's parameter (`random_state`, `overwrite`), so that an error of the library can
be followed by the option that it is about. Defaults that only the library knows are not written here: an option that
is not given is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.models import ArgumentInfo, OptionInfo

from krepes.base.storage.files import check_writable
from krepes.cli.terminal import line

if TYPE_CHECKING:
    import numpy as np

    from krepes.one_pass import OnePassEstimator
    from krepes.preprocessing import TableEncoder
    from krepes.preprocessing.targets import TaskGuess
    from krepes.sources import Source

DATA, MODEL, STREAM, RUN = "Data", "Model", "Streams", "Running"


def option(*words: str, metavar: str | None = None, panel: str | None = None, **settings: Any) -> OptionInfo:
    """An option; the last of the words is its help, those before are its names.

    `command` adds what follows from the type and the default: metavar, whether the default is shown, and the panel.
    """
    *names, text = words
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **settings)


def count(text: str | None) -> str | None:
    """Refuse what is neither a number of at least 1 nor a word that stands for one."""
    if text is None or text in ("all", "auto") or (text.isdecimal() and int(text) > 0):
        return text
    raise typer.BadParameter(f"{text!r}: expected a number of at least 1, all or auto.")


def key_and_value(text: str, option: str, example: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE."""
    key, found, value = text.partition("=")
    if not found or not key.strip():
        raise typer.BadParameter(f"{option} {text}: expected {example}.")
    return key.strip(), value.strip()


def one_of(name: str, value: str | None, known: Sequence[str]) -> None:
    """Refuse a name that is not known."""
    if value is not None and value not in known:
        raise typer.BadParameter(f"{name} {value}: expected {', '.join(known)}.")


def taken_words(task: str, why: str, guess: TaskGuess | None) -> str:
    """What the labels are taken for, and what to say otherwise."""
    taken, other = ("a quantity", "classification") if task == "regression" else ("classes", "regression")
    doubt = "" if guess is None or guess.plain else f" Otherwise say --task {other}."
    return f"The target is taken for {taken}: {why}.{doubt}"


def argument(metavar: str, text: str) -> ArgumentInfo:
    """What a command needs, without an option."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


Data = Annotated[Path, argument("DATA", "Rows: .parquet, .csv, .npy, .npz, a folder, 'part-*.csv'.")]
Model = Annotated[Path, argument("MODEL", "A model that `krepes fit` or `krepes train` wrote.")]
ModelFile = Annotated[Path, option("--output", "-o", "The model file to write.", metavar="MODEL")]
Array = Annotated[str, option("The array of an .npz file that holds the rows.", panel=DATA)]
Encoding = Annotated[str | None, option("Of CSV files, such as cp1252. By default recognised.", panel=DATA)]
Exclude = Annotated[
    list[str], option("--exclude", "A column to leave out. Repeatable.", metavar="COLUMN", panel=DATA)
]
Label = Annotated[str | None, option("Column or array of labels. By default that of fit, or y.", panel=DATA)]
LabelFile = Annotated[
    str | None, option("Labels: y.npy, y.npz:ARRAY, or a table with --label.", metavar="FILE", panel=DATA)
]
Split = Annotated[str | None, option("A column or array that says train or test.", panel=DATA)]
NTrain = Annotated[
    int | None, option("The first N rows are for training. By default n_train of .npz.", panel=DATA, min=1)
]
Keep = Annotated[
    list[str],
    option("Copy a column, such as an id, into the result. Repeatable.", metavar="COLUMN", panel=DATA),
]
Override = Annotated[
    list[str],
    option(
        "--set", "Any other parameter: loss__redundancy=0.1. Repeatable.", metavar="NAME=VALUE", panel=MODEL
    ),
]
CsvFile = Annotated[Path | None, option("--output", "-o", "Write the table as .csv.")]
Seed = Annotated[int, option("--seed", "Seed of all random draws.", panel=RUN, min=0)]
Device = Annotated[str, option("auto, cpu, cuda, cuda:1, ...; auto prefers a GPU.", panel=RUN)]
Threads = Annotated[int | None, option("Processor threads. By default all.", panel=RUN, min=1)]
Engine = Annotated[
    str | None, option("Who reads the data: dask, or a scheduler's address.", metavar="ADDRESS", panel=RUN)
]
DryRun = Annotated[
    bool, option("--dry-run", "Print rows, memory and expected time; write nothing.", panel=RUN)
]
Force = Annotated[bool, option("--force", "Overwrite existing files.")]
Verbose = Annotated[bool, option("--verbose", "-v", "Show details, and where an error happened.", panel=RUN)]
Json = Annotated[bool, option("--json", "Print one JSON object instead of text, unrounded.", panel=RUN)]


@dataclass(frozen=True)
class Rows:
    """Rows for a model that exists."""

    panel: ClassVar[str] = DATA

    data: Data
    array: Array = "X"
    encoding: Encoding = None

    def open_for(self, model: OnePassEstimator, path: Path | None = None) -> Source:
        """The rows of DATA, or of another file, as the model takes them."""
        from krepes.cli.opening import open_for

        return open_for(model, path or self.data, self.array, self.encoding)


@dataclass(frozen=True)
class NewRows(Rows):
    """Rows to learn from."""

    size: Annotated[
        str | None, option("Resize images: 32, or height x width such as 48x42.", metavar="PIXELS")
    ] = None
    exclude: Exclude = field(default_factory=list)
    columns: Annotated[
        list[str],
        option(
            "--column", "number, date, category, text, decimal comma, ... Repeatable.", metavar="NAME=KIND"
        ),
    ] = field(default_factory=list)
    missing: Annotated[
        list[str], option("--missing", "A word for a missing value. Repeatable.", metavar="WORD")
    ] = field(default_factory=list)

    def open(self) -> Source:
        """The rows; what they are is printed."""
        from krepes.cli.opening import open_data, parse_size

        source = open_data(self.data, self.array, parse_size(self.size), self.encoding)
        line(f"{self.data}: {source.describe()}")
        return source

    def encoder(self, labels: Sequence[str], beside: Sequence[str | None] = ()) -> TableEncoder | None:
        """How columns are encoded, where something is said of them; those `beside` are not features."""
        from krepes.preprocessing import TableEncoder

        kinds = dict(
            key_and_value(text, "--column", "NAME=KIND, such as age=number") for text in self.columns
        )
        others = [name for name in beside if name is not None and name not in self.exclude]
        left_out = [*labels[1:], *self.exclude, *others]
        if not labels and not left_out and not kinds and not self.missing:
            return None
        label = labels[0] if labels else None
        return TableEncoder(
            label=label, exclude=left_out, columns=kinds or None, missing=self.missing or None
        )

    def preprocessing(
        self, source: Source, labels: Sequence[str], beside: Sequence[str | None] = (), choice: str = "auto"
    ) -> TableEncoder | str | None:
        """The estimator's `preprocess`."""
        from krepes.labelled import array_names

        if source.kind == "table" and choice in ("auto", "table"):
            return self.encoder(labels, beside) or choice
        for name, given in {"exclude": self.exclude, "column": self.columns, "missing": self.missing}.items():
            if given:
                raise ValueError(
                    f"--{name} is for the columns of a table; {self.data} is {source.describe()}."
                )
        if not set(labels) <= set(names := array_names(self.data)):
            arrays = f" It has the arrays {', '.join(names)}." if names else ""
            raise ValueError(
                f"--label {labels[0]} is for a column of a table or an array of an .npz file; {self.data} is "
                f"{source.describe()}.{arrays} Images take their labels from subfolders."
            )
        return None if choice == "none" else choice


@dataclass(frozen=True)
class NewModel:
    """The model file to write, and how the model is made."""

    output: ModelFile
    random_state: Seed = 0
    device: Device = "auto"
    dry_run: DryRun = False
    overwrite: Force = False

    def check(self) -> None:
        """Refuse a file that cannot be written."""
        if not self.dry_run:
            check_writable(self.output, self.overwrite)

    def settings(self) -> dict[str, Any]:
        """Parameters that every estimator has."""
        return {"device": self.device, "random_state": self.random_state, "verbose": 1}


@dataclass(frozen=True)
class LabelOptions:
    """Where labels are."""

    label: Label = None
    labels: LabelFile = None

    def named(self, model: OnePassEstimator | None) -> str | None:
        """The column of labels; by default the one that the model was fitted with."""
        from krepes.cli.opening import label_in_fit

        return self.label or (label_in_fit(model) if model is not None and self.labels is None else None)

    def columns(self) -> list[str]:
        """The column of DATA that holds labels, if one was named."""
        return [self.label] if self.label is not None and self.labels is None else []

    def of(self, source: Source, rows: Rows, model: OnePassEstimator | None = None) -> tuple[np.ndarray, str]:
        """The labels of all rows, and where they were found."""
        from krepes.labelled import labels_of

        return labels_of(source, rows.data, self.named(model), self.labels, rows.encoding)


@dataclass(frozen=True)
class SplitLabels(LabelOptions):
    """Where labels are, and which rows are for training."""

    split: Split = None
    n_train: NTrain = None


@dataclass(frozen=True)
class PartOptions:
    """How rows are summed up: which count how often, in which part of the data, and where the work is kept."""

    panel: ClassVar[str] = DATA

    sample_weight: Annotated[
        str | None, option("How often each row counts: a column or array.", metavar="COLUMN")
    ] = None
    groups: Annotated[
        str | None, option("Keep sums for each value of this column, such as days.", metavar="COLUMN")
    ] = None
    base: Annotated[
        Path | None,
        option("Sum up DATA for this model, for `krepes merge`.", metavar="MODEL", panel=MODEL),
    ] = None
    first_row: Annotated[
        int | None, option("With --base: the number of DATA's first row in all data.", min=0)
    ] = None
    checkpoint: Annotated[
        Path | None, option("State of a long fit; the same command resumes it.", panel=RUN)
    ] = None
    engine: Engine = None

    def weights(self, source: Source, data: Path) -> np.ndarray | None:
        """How often every row counts."""
        from krepes.labelled import weights_of

        return None if self.sample_weight is None else weights_of(source, data, self.sample_weight)
