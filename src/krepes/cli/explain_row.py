"""One row explained in the terminal: its landmarks, contributions along a direction, concepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from krepes.embedding import KernelEmbedding
    from krepes.explain import Concept
    from krepes.sources import Source

UNLIKE = 0.1  # coverage below which a sample is unlike every landmark
PROBE_LABELS = 5000


def explain_row(
    model: KernelEmbedding,
    source: Source,
    y: np.ndarray | None,
    row: int,
    n_top: int,
    component: int | None,
    class_: str | None,
    against: int | None,
    concepts: list[Concept],
    seed: int,
) -> None:
    from krepes.cli.describe import console

    out = console()
    x = _row(source, row)
    known = None if y is None else f", {y[row]}"
    covered = float(model.coverage(x)[0])
    out.print(
        f"Row {row:,}{known or ''}: the landmarks span {covered:.0%} of it.", markup=False, highlight=False
    )
    if covered < UNLIKE:
        out.print("This sample is unlike every landmark: what follows explains little of it.", style="yellow")
    landmark_labels = _landmark_labels(model, source, y)
    if component is not None or class_ is not None:
        direction, words = _direction(model, source, y, component, class_, seed)
        other = None if against is None else _row(source, against)
        _show_contributions(model, x, other, direction, words, n_top, landmark_labels, out)
    else:
        _show_influence(model, x, n_top, landmark_labels, out)
    for concept in concepts:
        _show_concept(model, x, concept, n_top, out)


def _row(source: Source, row: int) -> Source:
    import numpy as np

    from krepes.sources.row_subset import subset

    if row >= source.n_rows:
        raise ValueError(f"There is no row {row:,}: {source.describe()} has rows 0 to {source.n_rows - 1:,}.")
    return subset(source, np.array([row]))


def _landmark_labels(model: KernelEmbedding, source: Source, y: np.ndarray | None) -> np.ndarray | None:
    """Labels of the landmarks, where these are rows of DATA."""
    from krepes.explain import landmarks_are_rows_of
    from krepes.explain.top_landmarks import landmark_rows

    if y is None or not landmarks_are_rows_of(model, source):
        return None
    return y[landmark_rows(model)]


def _names(model: KernelEmbedding, landmarks: np.ndarray, labels: np.ndarray | None) -> list[str]:
    from krepes.explain.top_landmarks import landmark_rows

    rows = landmark_rows(model)
    names = [f"landmark {index}" if rows is None else f"row {rows[index]:,}" for index in landmarks]
    return names if labels is None else [f"{name}, {labels[i]}" for name, i in zip(names, landmarks)]


def _show_influence(
    model: KernelEmbedding, x: Source, n_top: int, labels: np.ndarray | None, out: Console
) -> None:
    from rich.text import Text

    from krepes.cli.describe import simple_table
    from krepes.explain import landmark_norms, leave_out, top_influence

    top = top_influence(model, x, n_top)
    norms, changes = landmark_norms(model), leave_out(model, x)[0]
    columns = ("training row", "influence", "similarity", "weight", "without it")
    table = simple_table(*columns, right=columns[1:])
    for index, value, name in zip(top.landmarks[0], top.values[0], _names(model, top.landmarks[0], labels)):
        similarity = value / norms[index] if norms[index] else 0.0
        numbers = (value, similarity, norms[index], changes[index])
        table.add_row(Text(name), *(f"{number:.3g}" for number in numbers))
    out.print(table)
    out.print(
        "influence = similarity × weight, the size of what a landmark adds. without it: how far the row moves when the "
        "other landmarks take over, small where one has a near-duplicate.",
        style="dim",
        highlight=False,
    )


def _direction(
    model: KernelEmbedding,
    source: Source,
    y: np.ndarray | None,
    component: int | None,
    class_: str | None,
    seed: int,
) -> tuple[int | np.ndarray, str]:
    """A direction and what it is called."""
    import numpy as np

    from krepes.evaluation import linear_probe
    from krepes.explain import class_direction
    from krepes.sources.row_subset import subset

    if component is not None:
        return component, f"component {component}"
    if y is None:
        raise ValueError("--class needs labels: name them with --label NAME or --labels FILE.")
    rows = np.sort(np.random.default_rng(seed).permutation(source.n_rows)[:PROBE_LABELS])
    Z = model.transform(subset(source, rows))
    probe = linear_probe(Z, y[rows], Z, y[rows], random_state=seed).classifier
    wanted = next((c for c in probe.classes if str(c) == class_), str(class_))
    return class_direction(
        probe, wanted
    ), f"{class_} against the other classes (a probe of {len(rows):,} labels)"


def _show_contributions(
    model: KernelEmbedding,
    x: Source,
    other: Source | None,
    direction: int | np.ndarray,
    words: str,
    n_top: int,
    labels: np.ndarray | None,
    out: Console,
) -> None:
    import numpy as np
    from rich.text import Text

    from krepes.cli.describe import simple_table
    from krepes.explain import as_direction, attribution

    parts = attribution(model, x, direction)[0].astype(np.float64)
    constant = float(model.intercept_ @ as_direction(model, direction).numpy())
    if other is not None:
        parts, constant = parts - attribution(model, other, direction)[0], 0.0
    first = np.argsort(-np.abs(parts), kind="stable")[:n_top]
    table = simple_table("training row", "adds", "", right=("adds",))
    largest = max(float(np.abs(parts[first]).max()), 1e-300)
    for index, name in zip(first, _names(model, first, labels)):
        table.add_row(Text(name), f"{parts[index]:+.4g}", _bar(parts[index] / largest))
    table.add_row(
        f"the other {len(parts) - len(first):,} landmarks", f"{parts.sum() - parts[first].sum():+.4g}", ""
    )
    if other is None:
        table.add_row("constant", f"{constant:+.4g}", "")
    table.add_row("sum", f"{parts.sum() + constant:+.4g}", "", style="bold")
    out.print(Text(f"Along {words}{' (difference of the two rows)' if other is not None else ''}:"))
    out.print(table)


def _bar(share: float, width: int = 12) -> str:
    """
    >>> _bar(0.5, 4), _bar(-1.0, 4)
    ('    │██', '████│')
    """
    blocks = "█" * max(1, round(abs(share) * width))
    return f"{'':{width}}│{blocks}" if share >= 0 else f"{blocks:>{width}}│"


def _show_concept(model: KernelEmbedding, x: Source, concept: Concept, n_top: int, out: Console) -> None:
    from rich.text import Text

    from krepes.cli.describe import simple_table
    from krepes.explain import concept_profile

    profile = concept_profile(model, x, concept, n_top)
    out.print(
        Text(
            f"Concept {concept.name}: {profile.sample[0]:+.3g} in this row. Told from its absence with "
            f"{concept.accuracy_:.0%} balanced accuracy (p = {concept.p_value_:.2g}), stability "
            f"{concept.stability_:.2f}."
        )
    )
    table = simple_table("training row", "alignment", "score", "adds", right=("alignment", "score", "adds"))
    names = _names(model, profile.top.landmarks[0], None)
    for place, (index, name) in enumerate(zip(profile.top.landmarks[0], names)):
        numbers = (profile.alignment[index], profile.scores[0, place], profile.exact[0, place])
        table.add_row(Text(name), *(f"{number:+.3g}" for number in numbers))
    table.add_row(
        f"all {len(names)}", "", f"{profile.psi[0]:+.3g}", f"{profile.exact[0].sum():+.3g}", style="bold"
    )
    out.print(table)
    out.print(
        "score = alignment × influence, as published; adds: the exact part of the concept in this row that the "
        "landmark brings.",
        style="dim",
        highlight=False,
    )
