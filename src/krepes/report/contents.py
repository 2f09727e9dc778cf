"""What the page holds, as JSON values: facts, and arrays packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from krepes.embedding import KernelEmbedding
from krepes.explain import (
    Concept,
    TopLandmarks,
    coefficient_spectrum,
    effective_rank,
    landmark_norms,
    top_landmarks,
)
from krepes.explain.top_landmarks import landmark_rows, n_landmarks
from krepes.preimages import ErrorEstimate
from krepes.report.advice import Advice
from krepes.report.explanations import HEADLINE, Direction, choose_directions, top_values
from krepes.report.heat_maps import Heat
from krepes.report.limits import not_for
from krepes.report.maps import maps
from krepes.report.maps.neighbours import NearestRows, nearest_rows
from krepes.report.model_card import (
    LOW_COVERAGE,
    Probe,
    classifier_of,
    kappa_words,
    model_card,
    probe_words,
    small_probe,
    subtitle,
    tiles,
)
from krepes.report.page import packed, packed_codes, packed_numbers, packed_places
from krepes.report.samples import Feature, ShownSamples
from krepes.report.shown_rows import Column, ShownRows

STEPS = 32767  # of values; the script of the page knows it too


@dataclass(frozen=True)
class Given:
    """What a user gave besides the model and the rows.

    Attributes
    ----------
    labels : Column or None
        Labels of the rows shown.
    of_landmarks : ndarray of shape (m,) or None
        Codes of the landmarks' labels, if known.
    columns : list of Column
    concepts : sequence of Concept
    probe : a probe's result, or None
    facts : mapping or None
    map : str
        The method of the neighbour-preserving map.
    advice : Advice
        How a reader changes the page.
    """

    labels: Column | None
    of_landmarks: np.ndarray | None
    columns: list[Column]
    concepts: Sequence[Concept]
    probe: Probe | None
    facts: Mapping[str, Any] | None
    map: str
    advice: Advice


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
    spectrum = coefficient_spectrum(model)
    probe, said = _probed(Z, given, random_state)
    explained, notes = _explained(model, shown, given, probe, Z, n_top)
    nearest = nearest_rows(Z)
    return {
        "rows": packed(shown.rows, "float64"),
        "n_total": shown.n_total,
        "kind": model.input_space_.kind,
        "samples": samples is not None,
        "low_coverage": LOW_COVERAGE,
        "subtitle": subtitle(model),
        "tiles": tiles(model, shown, coverage, probe),
        "card": model_card(model, shown, coverage, said, _facts(model, given)),
        "coverage": packed_numbers(coverage),
        "labels": None if given.labels is None else _column(given.labels),
        "columns": [_column(column) for column in given.columns],
        "maps": _maps(model, Z, given, random_state),
        "nearest": _nearest(nearest, len(Z)),
        "not_for": not_for(coverage, _groups(given, samples), given.labels, nearest),
        "landmarks": _landmarks(model, shown, given.of_landmarks),
        **explained,
        "concepts": [_concept(concept) for concept in given.concepts],
        "spectrum": spectrum.tolist(),
        "effective_rank": effective_rank(spectrum),
        **_samples(samples),
        "heat": None if samples is None or samples.heat is None else _heat(samples.heat, nearest.usual),
        "first": _first(shown),
        "notes": [*notes, *_left_out(samples)],
        "notice": given.advice.notice(
            samples is not None, None if given.labels is None else given.labels.name, bool(given.concepts)
        ),
        "more_rows": given.advice.more_rows,
    }


def _probed(Z: np.ndarray, given: Given, random_state: int) -> tuple[Probe | None, str | None]:
    """The given probe, or a small one if there are labels; and a description of it."""
    if given.probe is not None:
        return given.probe, probe_words(given.probe)
    return (None, None) if given.labels is None else small_probe(Z, given.labels, random_state)


def _facts(model: KernelEmbedding, given: Given) -> dict[str, Any]:
    kappa = kappa_words(model, given.of_landmarks)
    return {**({"Classes among landmarks": kappa} if kappa else {}), **(given.facts or {})}


def _explained(
    model: KernelEmbedding, shown: ShownRows, given: Given, probe: Probe | None, Z: np.ndarray, n_top: int
) -> tuple[dict[str, Any], list[str]]:
    """The headline, and contributions along directions; notes on directions that were left out."""
    classifier = None if probe is None else classifier_of(probe)
    name = "class" if given.labels is None else given.labels.name
    directions, note = choose_directions(model, classifier, name, given.concepts, n_top)
    leading = top_landmarks(model, shown.source, n_top=n_top)
    tops = top_values(model, shown.source, directions, n_top)
    found = {
        "headline": {**_tops(leading, n_landmarks(model)), **HEADLINE},
        "directions": [_direction(model, d, top, Z) for d, top in zip(directions, tops)],
    }
    return found, [note] if note else []


def _first(shown: ShownRows) -> int:
    """The row to begin with: the first that is not a landmark, which would be explained by itself."""
    if shown.landmark_rows is None:
        return 0
    others = np.flatnonzero(~np.isin(shown.rows, shown.landmark_rows))
    return int(others[0]) if len(others) else 0


def _column(column: Column) -> dict[str, Any]:
    values = packed_numbers(column.values) if column.levels is None else packed_codes(column.values)
    return {"name": column.name, "levels": column.levels, "values": values}


def _maps(model: KernelEmbedding, Z: np.ndarray, given: Given, random_state: int) -> list[dict[str, Any]]:
    codes, name = (None, "") if given.labels is None else (given.labels.values, given.labels.name)
    return [
        {
            "name": each.name,
            "about": each.about,
            "trust": each.trust,
            "rows": packed_numbers(each.rows),
            "landmarks": packed_numbers(each.landmarks),
        }
        for each in maps(model, Z, codes, name, given.map, random_state)
    ]


def _nearest(found: NearestRows, n: int) -> dict[str, Any]:
    return {
        "n_nearest": found.rows.shape[1],
        "rows": packed_places(found.rows, n),
        "distances": packed_numbers(found.distances),
    }


def _groups(given: Given, samples: ShownSamples | None) -> list[Column]:
    """Columns of levels: labels, given columns and, if rows are shown, columns of the table."""
    features = [] if samples is None else samples.features
    table = [Column(feature.name, feature.values, feature.levels) for feature in features]
    labels = [] if given.labels is None else [given.labels]
    return [column for column in (*labels, *given.columns, *table) if column.levels is not None]


def _heat(found: Heat, usual: float) -> dict[str, Any]:
    """Shares of the largest of every row, in 255 steps, and that in shares of the usual distance."""
    largest = found.values.max(axis=1, initial=0.0)
    shares = found.values / np.where(largest > 0, largest, 1.0)[:, None]
    return {
        "grid": found.grid,
        "n_parts": found.values.shape[1],
        "shares": packed(np.rint(255 * shares), "uint8"),
        "largest": packed_numbers(largest / usual if usual > 0 else largest),
    }


def _landmarks(model: KernelEmbedding, shown: ShownRows, of_landmarks: np.ndarray | None) -> dict[str, Any]:
    rows = landmark_rows(model)
    return {
        "norms": packed_numbers(landmark_norms(model)),
        "rows": None if rows is None else packed(rows, "float64"),
        "rows_of_data": shown.landmark_rows is not None,
        "labels": None if of_landmarks is None else packed_codes(of_landmarks),
    }


def _tops(top: TopLandmarks, m: int) -> dict[str, Any]:
    """Values in STEPS steps of the largest of their row, which halves the page and is far below what is printed."""
    largest = np.abs(top.values).max(axis=1)
    steps = np.rint(STEPS * (top.values / np.where(largest > 0, largest, 1.0)[:, None]))
    return {
        "n_top": top.landmarks.shape[1],
        "landmarks": packed_places(top.landmarks, m),
        "steps": packed(steps, "int16"),
        "largest": packed_numbers(largest),
    }


def _direction(
    model: KernelEmbedding, direction: Direction, top: TopLandmarks, Z: np.ndarray
) -> dict[str, Any]:
    values = Z @ direction.vector + direction.offset
    return {
        "name": direction.name,
        "kind": direction.kind,
        "constant": float(model.intercept_ @ direction.vector + direction.offset),
        "totals": packed_numbers(values),
        **_tops(top, n_landmarks(model)),
    }


def _concept(concept: Concept) -> dict[str, Any]:
    return {
        "name": str(concept.name),
        "accuracy": concept.accuracy_,
        "p_value": concept.p_value_,
        "stability": concept.stability_,
        "n_positives": concept.n_positives_,
        "n_negatives": concept.n_negatives_,
    }


def _samples(found: ShownSamples | None) -> dict[str, Any]:
    """The rows and landmarks themselves; nothing if they are left out."""
    if found is None:
        return {"features": [], "images": None, "texts": None, "rebuilt": None}
    return {
        "rebuilt": None if found.errors is None else _errors(found.errors),
        "features": [_feature(feature) for feature in found.features],
        "images": None if found.images is None else asdict(found.images),
        "texts": None if found.texts is None else {"rows": found.texts[0], "landmarks": found.texts[1]},
    }


def _errors(found: ErrorEstimate) -> dict[str, Any]:
    assert found.actual is not None
    return {
        "error": packed_numbers(found.actual),
        "expected": packed_numbers(found.expected),
        "trusted": packed(found.trusted, "uint16"),
    }


def _left_out(found: ShownSamples | None) -> list[str]:
    if found is None or len(found.features) == found.n_features:
        return []
    return [
        f"{len(found.features)} of {found.n_features:,} columns are shown: those in which landmarks differ most."
    ]


def _feature(feature: Feature) -> dict[str, Any]:
    numbers = feature.levels is None
    pack = packed_numbers if numbers else packed_codes
    return {
        "name": feature.name,
        "levels": feature.levels,
        "values": pack(feature.values),
        "of_landmarks": pack(feature.of_landmarks),
        "rebuilt": None if feature.rebuilt is None else pack(feature.rebuilt),
        **(
            {key: getattr(feature, key) for key in ("mean", "scale", "fill", "indicator", "pair")}
            if numbers
            else {}
        ),
    }
