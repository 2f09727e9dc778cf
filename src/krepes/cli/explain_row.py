"""One row explained in the terminal: its landmarks, contributions along a direction, concepts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from krepes.cli.terminal import console, line, table

if TYPE_CHECKING:
    import numpy as np

    from krepes.cli.commands.explain import SampleOptions
    from krepes.embedding import KernelEmbedding
    from krepes.explain import Concept
    from krepes.explain.expansion import Explained
    from krepes.sources import Source

UNLIKE = 0.1  # coverage below which a sample is unlike every landmark
PROBE_LABELS = 5000


def explain_row(
    model: KernelEmbedding,
    source: Source,
    y: np.ndarray | None,
    asked: SampleOptions,
    concepts: list[Concept],
    seed: int,
) -> dict[str, Any]:
    """Show what a row is made of, and return it as a dictionary."""
    x, names, found = introduced(model, source, y, asked.sample or 0)
    if asked.component is not None or asked.class_ is not None:
        direction, called = _direction(model, source, y, names.words_of_labels, asked, seed)
        other = None if asked.against is None else one_row(source, asked.against)
        form = names.form_for(found["row"])
        found["contributions"] = show_contributions(
            model, x, other, direction, called, asked.top, names, form
        )
    else:
        found |= _landmarks(model, x, names, asked)
    found["concepts"] = [_concept(model, x, concept, asked.top, names) for concept in concepts]
    return found


def introduced(
    model: Explained, source: Source, y: np.ndarray | None, row: int
) -> tuple[Source, LandmarkNames, dict[str, Any]]:
    """A row, the names of landmarks, and what is known of the row, which is printed."""
    from krepes.preprocessing.labels import missing_values

    x = one_row(source, row)
    words = None  # of every row's label, None where it is missing
    if y is not None:
        words = [None if gone else str(value) for value, gone in zip(y, missing_values(y))]
    label = None if words is None else words[row]
    covered = float(model.coverage(x)[0])
    line(f"Row {row:,}{'' if label is None else f', {label}'}: the landmarks span {covered:.0%} of it.")
    if covered < UNLIKE:
        line("This row is unlike every landmark: the explanations below say little about it.", style="yellow")
    found = {"row": row, "label": label, "coverage": covered}
    return x, LandmarkNames(model, source, words), found


def one_row(source: Source, row: int) -> Source:
    """A row of DATA."""
    import numpy as np

    from krepes.sources.row_subset import subset

    if row >= source.n_rows:
        raise ValueError(f"There is no row {row:,}: {source.describe()} has rows 0 to {source.n_rows - 1:,}.")
    return subset(source, np.array([row]))


class LandmarkNames:
    """Landmarks by the rows of the training data that they are, with labels where these are rows of DATA."""

    def __init__(self, model: Explained, source: Source, labels: list[str | None] | None):
        from krepes.explain import landmarks_are_rows_of
        from krepes.explain.expansion import landmark_rows

        self.rows = landmark_rows(model)
        self.are_rows = self.rows is not None and landmarks_are_rows_of(model, source)
        self.words_of_labels = labels
        self.labels = labels if self.are_rows else None

    def fields(self, landmark: int) -> dict[str, Any]:
        row = None if self.rows is None else int(self.rows[landmark])
        label = None if self.labels is None or row is None else self.labels[row]
        return {"landmark": int(landmark), "row": row, "label": label}

    def form_for(self, row: int) -> str:
        """How to write the sum of a row of DATA: by values, of which a landmark has only its own, or else by terms."""
        return "terms" if self.rows is not None and self.are_rows and row in self.rows else "values"

    def words(self, landmark: int) -> str:
        found = self.fields(landmark)
        name = f"landmark {landmark}" if found["row"] is None else f"row {found['row']:,}"
        return name if found["label"] is None else f"{name}, {found['label']}"

    def show(
        self,
        landmarks: Iterable[int],
        columns: dict[str, tuple[Iterable[Any], str]],
        *after: tuple[str, ...],
        total: tuple[str, ...] = (),
    ) -> list[dict[str, Any]]:
        """Print a row for each landmark, with values in a format by column, and rows after them; as dictionaries too.

        A column of texts is printed only.
        """
        from rich.text import Text

        shown = table("training row", *columns, right=[name for name in columns if name])
        found = []
        for index, *values in zip(landmarks, *(values for values, _ in columns.values())):
            forms = (form for _, form in columns.values())
            cells = ("" if value != value else f"{value:{form}}" for value, form in zip(values, forms))
            shown.add_row(Text(self.words(index)), *cells)
            numbers = {name: v for name, v in zip(columns, values) if not isinstance(v, str)}
            found.append(
                self.fields(index) | {name.replace(" ", "_"): float(v) for name, v in numbers.items()}
            )
        for last in after:
            shown.add_row(*last)
        if total:
            shown.add_row(*total, style="bold")
        console().print(shown)
        return found


def _landmarks(
    model: KernelEmbedding, x: Source, names: LandmarkNames, asked: SampleOptions
) -> dict[str, Any]:
    """The landmarks that explain a row, and what each of them accounts for."""
    import numpy as np

    from krepes.explain import influence, landmark_norms, leave_out, re_expansion, top_landmarks

    top = top_landmarks(model, x, by=asked.by, n_top=asked.top)
    first = top.landmarks[0]
    norms, sizes = landmark_norms(model)[first], influence(model, x)[0][first]
    known = model.kernel_.positive_semidefinite
    columns = {
        top.by: top.values[0],
        "share": top.shares[0],
        "similarity": sizes / np.where(norms > 0, norms, np.inf),
        "without it": leave_out(model, x)[0][first] if known else np.full(len(first), np.nan),
    }
    others, constant = float(top.others[0]), float(top.constant[0])
    n_others = len(model.landmarks_) - len(first)
    rows = names.show(
        first,
        {name: (values, ".3g") for name, values in columns.items()},
        (f"the other {n_others:,} landmarks", "", f"{others:.3g}"),
        ("constant", "", f"{constant:.3g}"),
    )
    few = re_expansion(model, x, asked.top)
    line(few.words(0))
    console().print(ABOUT, style="dim", highlight=False)
    beside = ({"influence": float(size), "weight": float(norm)} for size, norm in zip(sizes, norms))
    in_few = [
        names.fields(index) | {"weight": float(weight)}
        for index, weight in zip(few.landmarks[0], few.weights[0])
        if index >= 0
    ]
    return {
        "by": top.by,
        "landmarks": [row | more for row, more in zip(rows, beside)],
        "others": others,
        "constant": constant,
        "in_few": {"landmarks": in_few, "error": float(few.error[0])},
    }


ABOUT = (
    "contributions: the part of the row's way from the centre that the landmark's term makes; large ones of either "
    "sign cancel. share: the same by the landmark's own place; shares add up to 1. without it: how far the row moves "
    "when the others take over. --by chooses another order; --check compares them."
)


def _direction(
    model: KernelEmbedding,
    source: Source,
    y: np.ndarray | None,
    words: list[str | None] | None,
    asked: SampleOptions,
    seed: int,
) -> tuple[int | np.ndarray, str]:
    """A direction and what it is called. A classifier learns from rows that have a label."""
    import numpy as np

    from krepes.evaluation import linear_probe
    from krepes.explain import class_direction
    from krepes.sources.row_subset import subset

    class_ = asked.class_
    if asked.component is not None:
        return asked.component, f"component {asked.component}"
    if y is None or words is None:
        raise ValueError("--class needs labels: name them with --label NAME or --labels FILE.")
    labelled = np.array([i for i, word in enumerate(words) if word is not None], dtype=np.int64)
    rows = np.sort(np.random.default_rng(seed).permutation(labelled)[:PROBE_LABELS])
    Z = model.transform(subset(source, rows))
    probe = linear_probe(Z, y[rows], Z, y[rows], random_state=seed).model
    wanted = next((c for c in probe.classes if str(c) == class_), str(class_))
    called = f"{class_} against the other classes (a classifier from {len(rows):,} labels)"
    return class_direction(probe, wanted), called


def show_contributions(
    model: Explained,
    x: Source,
    other: Source | None,
    direction: int | np.ndarray,
    called: str,
    n_top: int,
    names: LandmarkNames,
    form: str,
    shift: float = 0.0,
    beside: dict[str, np.ndarray] | None = None,
    rank: np.ndarray | None = None,
) -> dict[str, Any]:
    """What landmarks add along a direction.

    `form` is that of `attribution`. `shift` is added to the constant. `beside` has more columns for the landmarks, (m,)
    each. The landmarks that are largest in `rank` are shown; by default those that add most.
    """
    import numpy as np

    from krepes.explain import as_direction, attribution

    parts = attribution(model, x, direction, form)[0].astype(np.float64)
    constant = shift + float(model.intercept_ @ as_direction(model, direction).numpy())
    if other is not None:
        parts, constant = parts - attribution(model, other, direction, form)[0], 0.0
    first = np.argsort(-(np.abs(parts) if rank is None else rank), kind="stable")[:n_top]
    adds = parts[first]
    rest, total = float(parts.sum() - adds.sum()), float(parts.sum() + constant)
    largest = max(float(np.abs(adds).max()), 1e-300)
    columns: dict[str, Any] = {"adds": (adds, "+.4g"), "": ([_bar(part / largest) for part in adds], "")}
    columns |= {name: (values[first], ".3g") for name, values in (beside or {}).items()}
    after = [(f"the other {len(parts) - len(first):,} landmarks", f"{rest:+.4g}")]
    after += [("constant", f"{constant:+.4g}")] if other is None else []
    line(f"Along {called}{' (difference of the two rows)' if other is not None else ''}:")
    landmarks = names.show(first, columns, *after, total=("sum", f"{total:+.4g}"))
    return {"along": called, "landmarks": landmarks, "others": rest, "constant": constant, "sum": total}


def _bar(share: float, width: int = 12) -> str:
    """
    >>> _bar(0.5, 4), _bar(-1.0, 4)
    ('    │██', '████│')
    """
    blocks = "█" * max(1, round(abs(share) * width))
    return f"{'':{width}}│{blocks}" if share >= 0 else f"{blocks:>{width}}│"


def _concept(
    model: KernelEmbedding, x: Source, concept: Concept, n_top: int, names: LandmarkNames
) -> dict[str, Any]:
    from krepes.explain import concept_profile

    profile = concept_profile(model, x, concept, n_top)
    line(
        f"Concept {concept.name}: {profile.sample[0]:+.3g} in this row. It is distinguished from its absence with "
        f"{concept.accuracy_:.0%} balanced accuracy (p = {concept.p_value_:.2g}), stability {concept.stability_:.2f}."
    )
    first = profile.top.landmarks[0]
    score, adds = float(profile.psi[0]), float(profile.exact[0].sum())
    numbers = {"alignment": profile.alignment[first], "score": profile.scores[0], "adds": profile.exact[0]}
    landmarks = names.show(
        first,
        {name: (values, "+.3g") for name, values in numbers.items()},
        total=(f"all {len(first)}", "", f"{score:+.3g}", f"{adds:+.3g}"),
    )
    about = "score = alignment × influence, as published; adds: what the landmark adds to the concept in this row."
    console().print(about, style="dim", highlight=False)
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
