"""What the page explains of a row: which landmarks it is made of, in shares, and what they add along directions.

    headline   share_l, never negative; with what stays unexplained they add up to 1       (HEADLINE below)
    parts      w_l (z_l - c) . v of the same landmarks, for every direction v

A direction's value is constant + the sum of parts + what these landmarks leave unexplained. The constant is c . v, of
the middle of the data, plus what makes zero mean something: a class of the probe starts from the probe's own intercept,
a concept from the mean of its negatives. Three passes over the rows: one for Z and coverage, one for the headline, one
for all directions. Memory O(b m + n k D).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from krepes.embedding import KernelEmbedding
from krepes.evaluation import ProtocolResult
from krepes.evaluation.linear import LinearClassifier
from krepes.explain import Concept, as_direction, class_direction
from krepes.explain.expansion import n_landmarks
from krepes.report.model_card import Probe

N_COMPONENTS = 3  # directions among the components
ROW_BYTES = 730  # of the page for the directions of one row


HEADLINE = {
    "title": "Made of these examples",
    "about": "Real training examples that are like this row and lie where it lies, each with its share of the way from "
    "the middle of the data to this row. Shares are never negative; with what stays unexplained they add up to 100 %.",
    "most": "Made most of",  # the first landmark
    "rows": "Rows that are made most of it",  # above a landmark's rows
    "none": "It is not among the first landmarks of any row on this page.",
}


@dataclass(frozen=True)
class Direction:
    """A direction v in the space of representations, and where its value starts."""

    name: str
    kind: str  # "component", "class" or "concept"
    vector: np.ndarray  # shape: (h,)
    offset: float = 0.0  # added to z . v


def choose_directions(
    model: KernelEmbedding,
    probe: Probe | None,
    label: str,
    concepts: Sequence[Concept],
    n_top: int,
) -> tuple[list[Direction], list[str]]:
    """Components, concepts, and classes as far as the page has room; a note says what was left out."""
    h = len(model.intercept_)
    found = [Direction(f"component {j + 1}", "component", np.eye(h)[j]) for j in range(min(N_COMPONENTS, h))]
    found += [_of_concept(model, concept) for concept in concepts]
    classes = _of_classes(probe, label, h)
    k = min(n_top, n_landmarks(model))
    each = (4 * k + 4) * 4 // 3  # bytes of a direction: landmarks, values and the largest of them, in base64
    room = max(len(found), ROW_BYTES // each)
    kept = [*found, *classes][:room]
    missing = len(found) + len(classes) - len(kept)
    note = f"{missing:,} classes have no direction here: there is room for {len(kept)} directions."
    return kept, [note] if missing else []


def _of_concept(model: KernelEmbedding, concept: Concept) -> Direction:
    v = as_direction(model, concept).numpy()
    return Direction(str(concept.name), "concept", v, -float(concept.origin_ @ v))


def _of_classes(probe: Probe | None, label: str, h: int) -> list[Direction]:
    """The classes of a linear probe on this representation; of two classes, the second against the first."""
    first = probe.results[0] if isinstance(probe, ProtocolResult) else probe
    classifier = None if first is None else first.model
    if not isinstance(classifier, LinearClassifier) or classifier.coef.shape[1] != h:
        return []
    classes, b = list(classifier.classes), np.asarray(classifier.intercept, dtype=np.float64)
    if len(classes) == 2:
        names, starts = {classes[1]: f"{classes[1]} against {classes[0]}"}, b
    else:
        names = {name: f"{name} against the others" for name in classes}
        starts = np.array([b[i] - np.delete(b, i).mean() for i in range(len(b))])
    return [
        Direction(f"{label}: {words}", "class", class_direction(classifier, name), float(start))
        for (name, words), start in zip(names.items(), starts)
    ]
