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
    as_direction,
    attribution,
    class_direction,
    concept_profile,
    faithfulness,
    influence,
    landmark_norms,
    landmarks_are_rows_of,
    leave_out,
    re_expansion,
    top_landmarks,
)
from krepes.explain.concept_rule import is_rule
from krepes.explain.expansion import Expansion, Explained, all_values, landmark_rows
from krepes.explain.rankings import own_contributions
from krepes.preprocessing.labels import missing_values
from krepes.sources import Source
from krepes.sources.row_subset import subset

if TYPE_CHECKING:
    from krepes.cli.commands.explain import SampleOptions

UNLIKE = 0.1  # coverage below which a sample is unlike every landmark
PROBE_LABELS = 5000
BAR = 12  # characters to either side
ABOUT = (
    "contributions: the part of the row's way from the centre that the landmark's term makes; large ones of either "
    "sign cancel. share: the same by the landmark's own place; shares add up to 1. without it: how far the row moves "
    "when the others take over. --by chooses another order; --check compares them."
)
CHECKS = {
    "deletion": "deletion",
    "left out": "left out",
    "alone": "they alone",
    "same label": "same label",
    "overlap": "random weights",
}
OF_CHECKS = (
    "deletion: what is left of the rows when the terms of the landmarks named are subtracted; less is more faithful. "
    "left out: the same when the other landmarks take over. they alone: with no other landmarks. same label: of the "
    "first landmark and the row. random weights: the share of landmarks that is named for random weights, too."
)
N_RANDOM = 500  # random rows that stand for the absence of a concept
OF_CONCEPTS = (
    "score = alignment × influence, as published; adds: what the landmark adds to the concept in this row."
)


def show_check(model: Explained, source: Source, y: np.ndarray | None, seed: int) -> dict[str, Any]:
    """Measure how faithful explanations are, and print it; also as a dictionary, with errors beside the numbers."""
    found = faithfulness(model, source, y, random_state=seed)
    rows = sorted(found.table(), key=lambda row: row["deletion"].value)
    columns = [name for name in CHECKS if name in rows[0]]
    cells, numbers = [], []
    for row in rows:
        method, ignores = row.pop("method"), row.pop("ignores weights")
        mark = "*" if ignores and method != "random" else ""
        cells.append([method + mark, *(str(row[name]) for name in columns)])
        plain: dict[str, Any] = {"method": method, "ignores_weights": ignores}
        for name, value in row.items():
            key = name.replace(", ", "_").replace(" ", "_")
            plain |= {key: value.value, f"{key}_error": value.error}
        numbers.append(plain)
    line(found.title)
    show_table(["ranked by", *(CHECKS[name] for name in columns)], cells)
    for note in found.notes:
        line(note)
    console().print(OF_CHECKS, style="dim", highlight=False)
    return {"faithfulness": numbers, "most_faithful": found.best, "accuracy": found.accuracy}


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
        found = row.contributions(asked.component, f"component {asked.component}")
    elif asked.class_ is not None:
        found = row.contributions(*_class_direction(model, row, y, asked.class_, seed))
    else:
        found = _landmarks(model, row, asked)
    return row.found | found | {"concepts": [_concept(model, row, concept) for concept in concepts]}


class ExplainedRow:
    """A row of DATA, and landmarks by the rows of the training data that they are.

    Attributes
    ----------
    x, against : the row, and the row it is compared with, as sources
    labels : the label of every row of DATA as text, None where it is missing
    rows : the numbers of the landmarks' rows
    form : how to write a sum: by "values", or by "terms" for a row that is a landmark, which has only its own value
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
        itself = self.rows is not None and self.of_data and row in self.rows
        self.form = "terms" if itself else "values"
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
        """A landmark for --json; it has a label where it is a row of DATA."""
        row = None if self.rows is None else int(self.rows[landmark])
        known = self.labels if self.of_data else None
        label = None if known is None or row is None else known[row]
        return {"landmark": int(landmark), "row": row, "label": label}

    def show(
        self,
        landmarks: np.ndarray,
        columns: dict[str, tuple[Iterable[Any], str]],
        *after: Sequence[str],
        total: Sequence[str] = (),
    ) -> list[dict[str, Any]]:
        """Print a row for each landmark, with values in a format by column, and rows after them; as dictionaries too.

        A column of texts is printed only.
        """
        lines, found = [], []
        for landmark, *values in zip(landmarks, *(values for values, _ in columns.values())):
            fields = self.fields(landmark)
            name = f"landmark {landmark}" if fields["row"] is None else f"row {fields['row']:,}"
            name += "" if fields["label"] is None else f", {fields['label']}"
            forms = [form for _, form in columns.values()]
            cells = ("" if value != value else f"{value:{form}}" for value, form in zip(values, forms))
            lines.append([name, *cells])
            numbers = {key: float(v) for key, v in zip(columns, values) if not isinstance(v, str)}
            found.append(fields | {key.replace(" ", "_"): v for key, v in numbers.items()})
        lines += [*map(list, after), *([list(total)] if total else [])]
        show_table(["training row", *columns], lines, style=lambda row: "bold" if row == list(total) else "")
        return found

    def warn_of_cancelling(self, parts: np.ndarray) -> None:
        """Say so where parts of either sign are more than twice as large as their sum."""
        size, total = float(np.abs(parts).sum()), abs(float(parts.sum()))
        if size > 2 * total:
            times = f"{size / total:,.0f} times" if total > size / 1000 else "far more than"
            line(
                f"The parts below cancel: taken without sign they are {times} their sum, so that no single one says "
                "much. --by re_expansion names few landmarks that make up the row.",
                style="yellow",
            )

    def contributions(
        self,
        direction: int | np.ndarray,
        called: str,
        shift: float = 0.0,
        beside: dict[str, np.ndarray] | None = None,
        rank: np.ndarray | None = None,
    ) -> dict[str, Any]:
        """What landmarks add along a direction; with --against, the difference of two rows.

        `shift` is added to the constant. `beside` has more columns for the landmarks, (m,) each. The landmarks that are
        largest in `rank` are shown; by default those that add most.
        """
        parts = attribution(self.model, self.x, direction, self.form)[0].astype(np.float64)
        constant = shift + float(self.model.intercept_ @ as_direction(self.model, direction).numpy())
        if self.against is not None:
            parts -= attribution(self.model, self.against, direction, self.form)[0]
            constant = 0.0
        first = np.argsort(-(np.abs(parts) if rank is None else rank), kind="stable")[: self.n_top]
        adds = parts[first]
        rest, total = float(parts.sum() - adds.sum()), float(parts.sum() + constant)
        largest = max(float(np.abs(adds).max()), 1e-300)
        columns: dict[str, Any] = {"adds": (adds, "+.4g"), "": ([_bar(part / largest) for part in adds], "")}
        columns |= {name: (values[first], ".3g") for name, values in (beside or {}).items()}
        after = [(f"the other {len(parts) - len(first):,} landmarks", f"{rest:+.4g}")]
        after += [("constant", f"{constant:+.4g}")] if self.against is None else []
        line(f"Along {called}{'' if self.against is None else ' (difference of the two rows)'}:")
        self.warn_of_cancelling(parts)
        shown = self.show(first, columns, *after, total=("sum", f"{total:+.4g}"))
        found = {"along": called, "landmarks": shown, "others": rest, "constant": constant, "sum": total}
        return {"contributions": found}


def one_row(source: Source, row: int) -> Source:
    if row >= source.n_rows:
        raise ValueError(f"There is no row {row:,}: {source.describe()} has rows 0 to {source.n_rows - 1:,}.")
    return subset(source, np.array([row]))


def _bar(share: float) -> str:
    blocks = "█" * max(1, round(abs(share) * BAR))
    return f"{'':{BAR}}│{blocks}" if share >= 0 else f"{blocks:>{BAR}}│"


def _landmarks(model: KernelEmbedding, row: ExplainedRow, asked: SampleOptions) -> dict[str, Any]:
    """The landmarks that explain a row, and what each of them accounts for."""
    top = top_landmarks(model, row.x, by=asked.by, n_top=asked.top)
    first = top.landmarks[0]
    norms, sizes = landmark_norms(model)[first], influence(model, row.x)[0][first]
    known = model.kernel_.positive_semidefinite
    columns = {
        top.by: top.values[0],
        "share": top.shares[0],
        "similarity": sizes / np.where(norms > 0, norms, np.inf),
        "without it": leave_out(model, row.x)[0][first] if known else np.full(len(first), np.nan),
    }
    others, constant = float(top.others[0]), float(top.constant[0])
    few = re_expansion(model, row.x, asked.top)
    line(few.words(0))
    if top.by == "contributions":
        row.warn_of_cancelling(all_values(model, row.x, own_contributions(Expansion.of(model)))[0])
    shown = row.show(
        first,
        {name: (values, ".3g") for name, values in columns.items()},
        (f"the other {len(model.landmarks_) - len(first):,} landmarks", "", f"{others:.3g}"),
        ("constant", "", f"{constant:.3g}"),
    )
    console().print(ABOUT, style="dim", highlight=False)
    for each, size, norm in zip(shown, sizes, norms):
        each |= {"influence": float(size), "weight": float(norm)}
    pairs = [pair for pair in zip(few.landmarks[0], few.weights[0]) if pair[0] >= 0]
    in_few = [row.fields(landmark) | {"weight": float(weight)} for landmark, weight in pairs]
    return {
        "by": top.by,
        "landmarks": shown,
        "others": others,
        "constant": constant,
        "in_few": {"landmarks": in_few, "error": float(few.error[0])},
    }


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


def _concept(model: KernelEmbedding, row: ExplainedRow, concept: Concept) -> dict[str, Any]:
    profile = concept_profile(model, row.x, concept, row.n_top)
    line(
        f"Concept {concept.name}: {profile.sample[0]:+.3g} in this row. It is distinguished from its absence with "
        f"{concept.accuracy_:.0%} balanced accuracy (p = {concept.p_value_:.2g}), stability {concept.stability_:.2f}."
    )
    first = profile.top.landmarks[0]
    score, adds = float(profile.psi[0]), float(profile.exact[0].sum())
    numbers = {"alignment": profile.alignment[first], "score": profile.scores[0], "adds": profile.exact[0]}
    landmarks = row.show(
        first,
        {name: (values, "+.3g") for name, values in numbers.items()},
        total=(f"all {len(first)}", "", f"{score:+.3g}", f"{adds:+.3g}"),
    )
    console().print(OF_CONCEPTS, style="dim", highlight=False)
    return {
        "name": concept.name,
        "in_row": float(profile.sample[0]),
        "balanced_accuracy": concept.accuracy_,
        "p_value": concept.p_value_,
        "stability": concept.stability_,
        "landmarks": landmarks,
        "score": score,
        "adds": adds,
    }
