"""What the page explains of a row: which landmarks put it where it lies, and along which directions.

    headline        the landmarks of the default explanation, the k first of every row       (HEADLINE below)
    contributions   k(x, x_l) (a_l . v), the k largest of either sign, for every direction v

A direction's value is constant + the sum of all contributions. The constant is gamma . v, plus what makes zero mean
something: a class of the probe starts from the probe's own intercept, a concept from the mean of its negatives.

Three passes over the rows: one for Z and coverage, one for the headline, one for all directions. Memory O(b m + n k D).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from krepes.embedding import KernelEmbedding
from krepes.evaluation import ProtocolResult
from krepes.evaluation.linear import LinearClassifier
from krepes.explain import Concept, TopLandmarks, as_direction, class_direction
from krepes.explain.attribution import contributions
from krepes.explain.expansion import all_values, n_landmarks
from krepes.report.model_card import Probe
from krepes.sources import Source

N_COMPONENTS = 3  # directions among the components
ROW_BYTES = 730  # of the page for the directions of one row


HEADLINE = {
    "title": "Landmarks that put it there",
    "about": "Real training examples, sorted by how much of the way from the middle of the data to this row's place "
    "the example's own term makes: 1 is all of it. Parts can be larger than that, because others take some of it back.",
    "most": "Owes most to",  # the first landmark
    "rows": "Rows that owe most to it",  # above a landmark's rows
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


def top_values(
    model: KernelEmbedding, source: Source, directions: Sequence[Direction], n_top: int
) -> list[TopLandmarks]:
    """Contributions along every direction: the largest of every row, in one pass, as `top_attribution` gives them."""
    functions = [contributions(model, direction.vector) for direction in directions]
    k = min(n_top, n_landmarks(model))

    def largest(K: Tensor) -> Tensor:
        parts = []
        for function in functions:
            V = function(K)
            best = V.abs().topk(k, dim=1).indices
            parts += [best.double(), V.gather(1, best).double()]
        return torch.cat(parts, dim=1)

    columns = np.split(all_values(model, source, largest), 2 * len(functions), axis=1)
    return [
        TopLandmarks(ids.astype(np.int64), values, None) for ids, values in zip(columns[::2], columns[1::2])
    ]
