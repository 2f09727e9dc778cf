"""Explanations in the terminal: of a row by landmarks, directions and concepts; and how faithful they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from krepes.cli import options
from krepes.cli.terminal import console, line, show_table
from krepes.embedding import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.explain import (
    Concept,
    class_direction,
    faithfulness,
    landmarks_are_rows_of,
)
from krepes.explain.concept_rule import is_rule
from krepes.explain.examples import cancels, examples, parts_along
from krepes.explain.expansion import Explained, landmark_rows
from krepes.preprocessing.labels import missing_values
from krepes.sources import Source
from krepes.sources.row_subset import subset

if TYPE_CHECKING:
    from krepes.cli.commands.explain import SampleOptions

UNLIKE = 0.1  # coverage below which a sample is unlike every landmark
PROBE_LABELS = 5000
BAR = 12  # characters to either side
ABOUT = (
    "share: the part of the row's way from the middle of the data that the landmark makes; shares are never negative, "
    "and add up to 1 with what stays unexplained. --check measures how far this can be trusted."
)
OF_CHECKS = {
    "LDS": "how well the values of rows foretell what retraining on random halves gives; 1 is perfectly",
    "deletion": "what is left without the first rows or landmarks; less is more faithful",
    "insertion": "what is there with the first landmarks alone",
    "same label": "of the first row named and the row explained",
    "stability": "how close the first row is to that of a machine without a tenth of the rows",
    "perturbed": "how close the first landmark stays when the row moves a little",
    "shortcut": "how often a row with a planted mark is named first where the mark misleads",
    "random weights": "the share of rows named again for random weights or targets: what ignores the model has 1",
    "rows for 90 %": "that hold nine tenths of all values",
}
N_RANDOM = 500  # random rows that stand for the absence of a concept


def show_check(model: Explained, source: Source, y: np.ndarray | None, seed: int) -> dict[str, Any]:
    """Measure how far explanations can be trusted, and print it; also as a dictionary, with errors beside numbers."""
    found = faithfulness(model, source, y, random_state=seed)
    rows = found.table()
    cells = [[str(value) for value in row.values()] for row in rows]
    line(found.title)
    show_table(list(rows[0]), cells, style=lambda row: "bold" if row[0] == found.default else "")
    for name, words in found.facts.items():
        line(f"{name}: {words}")
    about = [f"{name}: {words}." for name, words in OF_CHECKS.items() if name in rows[0]]
    console().print(" ".join(about), style="dim", highlight=False)
    numbers = []
    for row in rows:
        plain: dict[str, Any] = {"method": row.pop("method")}
        for name, value in row.items():
            key = name.replace(" %", "").replace(" ", "_")
            plain |= {key: value.value, f"{key}_error": value.error}
        numbers.append(plain)
    return {"faithfulness": numbers, "default": found.default, "facts": found.facts}


def read_concept(model: KernelEmbedding, source: Source, text: str, rows: options.Rows, seed: int) -> Concept:
    """A fitted concept from `NAME=FILE` or `NAME=FILE,FILE`, or from a rule about the columns of DATA."""
    if is_rule(text):
        return Concept.from_rule(source, text, random_state=seed).fit(model)
    name, equals, files = text.partition("=")
    if not equals or not name or not files:
        raise typer.BadParameter(
            f'--concept {text}: expected NAME=FILE, such as sea=sea.npz, or a rule, such as "age > 60".'
        )
    with_it, _, without = files.partition(",")
    positives = rows.open_for(model, Path(with_it))
    if without:
        negatives = rows.open_for(model, Path(without))
    else:
        size = min(N_RANDOM, source.n_rows)
        drawn = np.random.default_rng(seed).choice(source.n_rows, size, replace=False)
        negatives = subset(source, np.sort(drawn))
    return Concept(positives, negatives, name=name, random_state=seed).fit(model)


def explain_row(
    model: KernelEmbedding,
    source: Source,
    y: np.ndarray | None,
    asked: SampleOptions,
    concepts: list[Concept],
    seed: int,
) -> dict[str, Any]:
    """Show what a row is made of, and return it as a dictionary."""
    row = ExplainedRow(model, source, y, asked)
    if asked.component is not None:
        found = row.along(asked.component, f"component {asked.component}")
    elif asked.class_ is not None:
        found = row.along(*_class_direction(model, row, y, asked.class_, seed))
    else:
        found = _landmarks(model, row, asked)
    return row.found | found | {"concepts": [_concept(row, concept) for concept in concepts]}


class ExplainedRow:
    """A row of DATA, and landmarks by the rows of the training data that they are.

    Attributes
    ----------
    x, against : the row, and the row it is compared with, as sources
    labels : the label of every row of DATA as text, None where it is missing
    rows : the numbers of the landmarks' rows
    found : what is known of the row, which is printed
    """

    def __init__(self, model: Explained, source: Source, y: np.ndarray | None, asked: SampleOptions):
        row = asked.sample or 0
        self.model, self.source, self.n_top = model, source, asked.top
        self.x = one_row(source, row)
        self.against = None if asked.against is None else one_row(source, asked.against)
        self.labels: list[str | None] | None = None
        if y is not None:
            self.labels = [None if gone else str(value) for value, gone in zip(y, missing_values(y))]
        self.rows = landmark_rows(model)
        self.of_data = self.rows is not None and landmarks_are_rows_of(model, source)
        label = None if self.labels is None else self.labels[row]
        covered = float(model.coverage(self.x)[0])
        line(f"Row {row:,}{'' if label is None else f', {label}'}: the landmarks span {covered:.0%} of it.")
        if covered < UNLIKE:
            line(
                "This row is unlike every landmark: the explanations below say little about it.",
                style="yellow",
            )
        self.found = {"row": row, "label": label, "coverage": covered}

    def fields(self, landmark: int) -> dict[str, Any]:
        """A landmark; it has a label where it is a row of DATA."""
        row = None if self.rows is None else int(self.rows[landmark])
        known = self.labels if self.of_data else None
        label = None if known is None or row is None else known[row]
        return {"landmark": int(landmark), "row": row, "label": label}

    def along(self, direction: int | np.ndarray, called: str, zero: float = 0.0) -> dict[str, Any]:
        """What the rows that it is made of add along a direction; with --against, the difference of two rows.

        Values are counted from `zero`.
        """
        (mine,) = parts_along(self.model, self.x, [direction], self.n_top)
        landmarks, adds = mine.landmarks[0], mine.parts[0]
        rest, constant = float(mine.unexplained[0]), mine.constant - zero
        if self.against is not None:
            (theirs,) = parts_along(self.model, self.against, [direction], self.n_top)
            landmarks = np.concatenate([landmarks, theirs.landmarks[0]])
            adds, rest, constant = np.concatenate([adds, -theirs.parts[0]]), rest - theirs.unexplained[0], 0.0
        total = float(adds.sum() + rest + constant)
        largest = max(float(np.abs(adds).max()), 1e-300)
        columns = {"adds": (adds, "+.4g"), "": ([_bar(part / largest) for part in adds], "")}
        after = [("unexplained by these", f"{rest:+.4g}")]
        after += [("middle of the data", f"{constant:+.4g}")] if self.against is None else []
        line(f"Along {called}{'' if self.against is None else ' (difference of the two rows)'}:")
        if cancels(np.append(adds, rest)):
            line(
                "The parts below cancel: together they are less than half as large as without sign.",
                style="yellow",
            )
        rows = map(self.fields, landmarks)
        shown = show_rows(rows, columns, *after, total=("sum", f"{total:+.4g}"))
        found = {"along": called, "landmarks": shown, "unexplained": rest, "constant": constant, "sum": total}
        return {"parts": found}


def show_rows(
    rows: Iterable[dict[str, Any]],
    columns: dict[str, tuple[Iterable[Any], str]],
    *after: Sequence[str],
    total: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Print training rows, with values in a format by column, and lines after them; rows and numbers for --json.

    A column of texts is printed only.
    """
    lines, found = [], []
    forms = [form for _, form in columns.values()]
    for fields, *values in zip(rows, *(values for values, _ in columns.values())):
        name = f"landmark {fields['landmark']}" if fields["row"] is None else f"row {fields['row']:,}"
        name += "" if fields["label"] is None else f", {fields['label']}"
        cells = ("" if value != value else f"{value:{form}}" for value, form in zip(values, forms))
        lines.append([name, *cells])
        numbers = {key: float(v) for key, v in zip(columns, values) if not isinstance(v, str)}
        found.append(fields | {key.replace(" ", "_"): v for key, v in numbers.items()})
    lines += [*map(list, after), *([list(total)] if total else [])]
    show_table(["training row", *columns], lines, style=lambda row: "bold" if row == list(total) else "")
    return found


def one_row(source: Source, row: int) -> Source:
    if row >= source.n_rows:
        raise ValueError(f"There is no row {row:,}: {source.describe()} has rows 0 to {source.n_rows - 1:,}.")
    return subset(source, np.array([row]))


def _bar(share: float) -> str:
    blocks = "█" * max(1, round(abs(share) * BAR))
    return f"{'':{BAR}}│{blocks}" if share >= 0 else f"{blocks:>{BAR}}│"


def _landmarks(model: KernelEmbedding, row: ExplainedRow, asked: SampleOptions) -> dict[str, Any]:
    """The landmarks that a row is made of."""
    found = examples(model, row.x, asked.top)
    shares, rest = found.shares[0], float(found.unexplained[0])
    largest = max(float(shares.max()), 1e-300)
    columns = {
        "share": (shares, ".0%"),
        "": (["█" * max(1, round(2 * BAR * share / largest)) for share in shares], ""),
        "similarity": (found.similarity[0], ".3g"),
    }
    shown = show_rows(map(row.fields, found.landmarks[0]), columns, ("unexplained", f"{rest:.0%}"))
    console().print(ABOUT, style="dim", highlight=False)
    return {"landmarks": shown, "unexplained": rest}


def _class_direction(
    model: KernelEmbedding, row: ExplainedRow, y: np.ndarray | None, class_: str, seed: int
) -> tuple[np.ndarray, str]:
    """The direction of a class, by a classifier that learns from labelled rows, and what it is called."""
    if y is None or row.labels is None:
        raise ValueError("--class needs labels: name them with --label NAME or --labels FILE.")
    labelled = np.flatnonzero([word is not None for word in row.labels])
    rows = np.sort(np.random.default_rng(seed).permutation(labelled)[:PROBE_LABELS])
    Z = model.transform(subset(row.source, rows))
    probe = linear_probe(Z, y[rows], Z, y[rows], random_state=seed).model
    wanted = next((c for c in probe.classes if str(c) == class_), class_)
    called = f"{class_} against the other classes (a classifier from {len(rows):,} labels)"
    return class_direction(probe, wanted), called


def _concept(row: ExplainedRow, concept: Concept) -> dict[str, Any]:
    """What the rows that it is made of add to a concept, from the mean of the concept's negatives."""
    zero = float(concept.origin_ @ concept.direction_)
    line(
        f"Concept {concept.name}: distinguished from its absence with {concept.accuracy_:.0%} balanced accuracy "
        f"(p = {concept.p_value_:.2g}), stability {concept.stability_:.2f}."
    )
    found = row.along(concept.direction_, f"the concept {concept.name}", zero)
    return found | {
        "name": concept.name,
        "balanced_accuracy": concept.accuracy_,
        "p_value": concept.p_value_,
        "stability": concept.stability_,
    }
