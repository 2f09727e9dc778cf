"""What the page holds: facts, arrays and results, which `krepes.report.page` writes as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from krepes.embedding import KernelEmbedding
from krepes.explain import Concept, coefficient_spectrum, effective_rank, landmark_norms
from krepes.explain.examples import examples, parts_along
from krepes.explain.expansion import landmark_rows
from krepes.report.explanations import HEADLINE, choose_directions
from krepes.report.limits import not_for
from krepes.report.maps import maps, nearest_rows
from krepes.report.model_card import LOW_COVERAGE, Probe, model_card, probed, subtitle, tiles
from krepes.report.samples import ShownSamples
from krepes.report.shown_rows import ShownColumn, ShownRows

STEPS = 32767  # of values; the script of the page knows it too
SHADES = 255  # of heat maps
REAL_ROWS = "This page was written with real rows of the data: everyone who opens it can see them."
CONCEPT_FACTS = ("accuracy", "p_value", "stability", "n_positives", "n_negatives")


@dataclass(frozen=True)
class Given:
    """What a user gave besides the model and the rows.

    Attributes
    ----------
    labels : ShownColumn or None
        Labels of the rows shown.
    of_landmarks : ndarray of shape (m,) or None
        Codes of the landmarks' labels, if known.
    columns : list of ShownColumn
        To colour by.
    concepts : sequence of Concept
    probe : a probe's result, or None
    facts : mapping or None
    map : str
        The method of the neighbour-preserving map.
    """

    labels: ShownColumn | None
    of_landmarks: np.ndarray | None
    columns: list[ShownColumn]
    concepts: Sequence[Concept]
    probe: Probe | None
    facts: Mapping[str, Any] | None
    map: str


def contents(
    model: KernelEmbedding,
    shown: ShownRows,
    given: Given,
    samples: ShownSamples | None,
    n_top: int,
    random_state: int,
) -> dict[str, Any]:
    """Everything that the page shows; the rows themselves only if `samples` are given."""
    Z = model.transform(shown.source).astype(np.float64)
    coverage = model.coverage(shown.source)
    probe, said = probed(given.probe, Z, given.labels, random_state)
    nearest = nearest_rows(Z)
    spectrum = coefficient_spectrum(model)
    rank = f"{effective_rank(spectrum):.1f}"
    facts = {"Linear probe": said, **(given.facts or {})}
    label = None if given.labels is None else given.labels.name
    held = ShownSamples([], 0) if samples is None else samples
    groups = [column for column in (given.labels, *given.columns, *held.features) if column is not None]
    directions, notes = _directions(model, shown, given, probe, Z, n_top)
    made = examples(model, shown.source, n_top)
    return {
        "rows": shown.rows,
        "n_total": shown.n_total,
        "kind": model.input_space_.kind,
        "samples": samples is not None,
        "low_coverage": LOW_COVERAGE,
        "subtitle": subtitle(model),
        "tiles": tiles(model, shown, coverage, rank, probe),
        "card": model_card(model, shown, coverage, rank, facts),
        "coverage": coverage,
        "labels": given.labels,
        "columns": given.columns,
        "maps": maps(model, Z, given.labels, given.map, random_state),
        "nearest": nearest,
        "not_for": not_for(coverage, groups, given.labels, nearest),
        "landmarks": {
            "norms": landmark_norms(model),
            "rows": landmark_rows(model),
            "rows_of_data": shown.landmark_rows is not None,
            "labels": given.of_landmarks,
        },
        "headline": {**_tops(made.landmarks, made.shares), **HEADLINE},
        "directions": directions,
        "concepts": [_concept(concept) for concept in given.concepts],
        "spectrum": spectrum.tolist(),
        "effective_rank": effective_rank(spectrum),
        "features": held.features,
        "images": held.images,
        "texts": held.texts,
        "rebuilt": None if held.errors is None else held.errors._asdict(),
        "heat": _heat(held, nearest.usual),
        "first": _first(shown),
        "notes": [*notes, *held.notes],
        "notice": REAL_ROWS if samples is not None else _held(label, bool(given.concepts)),
    }


def _directions(
    model: KernelEmbedding, shown: ShownRows, given: Given, probe: Probe | None, Z: np.ndarray, n_top: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Contributions along directions; notes on directions that were left out."""
    name = "class" if given.labels is None else given.labels.name
    directions, notes = choose_directions(model, probe, name, given.concepts, n_top)
    tops = parts_along(model, shown.source, [direction.vector for direction in directions], n_top)
    found = [
        {
            "name": direction.name,
            "kind": direction.kind,
            "constant": top.constant + direction.offset,
            "totals": Z @ direction.vector + direction.offset,
            **_tops(top.landmarks, top.parts),
        }
        for direction, top in zip(directions, tops)
    ]
    return found, notes


def _held(labels: str | None, concepts: bool) -> str:
    """What a page without rows still tells of them; `labels` is what their labels are called."""
    held = [
        "the numbers of the rows and landmarks",
        "their places on the maps",
        "the rows' coverage, nearest rows and landmarks, and contributions",
        *([] if labels is None else [f"the rows' labels ({labels})"]),
        *(["the names and scores of the concepts"] if concepts else []),
    ]
    return (
        f"This page was written without the rows themselves. It still holds {', '.join(held)} and the description of "
        "the model."
    )


def _first(shown: ShownRows) -> int:
    """The row to begin with: the first that is not a landmark, which would be explained by itself."""
    known = shown.landmark_rows
    return 0 if known is None else int(np.isin(shown.rows, known).argmin())


def _heat(held: ShownSamples, usual: float) -> dict[str, Any] | None:
    """Shares of the largest of every row, in SHADES, and the largest in shares of the usual distance."""
    if held.heat is None:
        return None
    shares, largest = _shares(held.heat.values)
    return {
        "grid": held.heat.grid,
        "exact": held.heat.exact,
        "n_parts": shares.shape[1],
        "shares": np.rint(SHADES * shares).astype(np.int64),
        "largest": largest / usual if usual > 0 else largest,
    }


def _tops(landmarks: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """Values in STEPS steps of the largest of their row, which halves the page and is far below what is printed."""
    shares, largest = _shares(values)
    return {
        "n_top": landmarks.shape[1],
        "landmarks": landmarks,
        "steps": np.rint(STEPS * shares).astype(np.int64),
        "largest": largest,
    }


def _shares(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (n, k) as shares of the largest of their row, and the largest, (n,)."""
    largest = np.abs(values).max(axis=1, initial=0.0)
    return values / np.where(largest > 0, largest, 1.0)[:, None], largest


def _concept(concept: Concept) -> dict[str, Any]:
    return {"name": str(concept.name), **{fact: getattr(concept, f"{fact}_") for fact in CONCEPT_FACTS}}
