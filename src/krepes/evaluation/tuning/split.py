"""The rows that a search fits on, and those whose labels it may look at.                        [krepes, B.3]

    validation part: 2 % of the rows of images, 10 % of other rows; the rest is fitted on, without labels

A probe learns from a share of the validation part and is scored on the others, in several draws where rows are few,
because a difference of one row among thirty is chance. No label outside the validation part is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from krepes.base.validation import check_choice, check_share
from krepes.evaluation.probe_inputs import check_classes, draw_stratified
from krepes.evaluation.protocol import Protocol, plan_protocol
from krepes.preprocessing.labels import MISSING, Labels, encode_labels

IMAGE_SHARE, OTHER_SHARE = 0.02, 0.10
LEAST_PER_CLASS = 20  # labels; differs from [krepes], whose data sets are large enough
MOST_DRAWS, ENOUGH_SCORED = 5, 5000
IMBALANCED = 2.0  # largest class over smallest
METRICS = ("accuracy", "balanced_accuracy")


@dataclass(frozen=True)
class SearchSplit:
    """Which rows are for what.

    Attributes
    ----------
    train : rows to fit on, sorted.
    validation : rows whose labels are used, sorted.
    plan : draws among the validation rows, by position.
    metric : "accuracy" or "balanced_accuracy".
    """

    train: np.ndarray
    validation: np.ndarray
    plan: Protocol
    metric: str

    def describe(self) -> str:
        """The split in one line of text."""
        labelled, scored = self.plan.draws[0]
        draws = f", {len(self.plan.draws)} draws" if len(self.plan.draws) > 1 else ""
        return (
            f"{len(self.train):,} rows to learn from, without labels; {len(self.validation):,} labelled rows to choose "
            f"by ({len(labelled):,} for the probe, {len(scored):,} to score{draws}), by {self.metric.replace('_', ' ')}"
        )


def split_rows(
    y: Any,
    n_rows: int,
    kind: str,
    *,
    rows: np.ndarray | None = None,
    validation_fraction: float | None = None,
    label_fraction: float = 0.5,
    metric: str = "auto",
    seed: int = 0,
    name: str = "y",
) -> SearchSplit:
    """Draw the validation part among the rows that have a label, every class in proportion.

    >>> split = split_rows(np.arange(1000) % 2, 1000, "table")
    >>> len(split.train), len(split.validation), split.metric
    (900, 100, 'accuracy')
    """
    if validation_fraction is not None:
        check_share("validation_fraction", validation_fraction)
    check_share("label_fraction", label_fraction)
    check_choice("metric", metric, ("auto", *METRICS))
    labels = encode_labels(y, name, n_rows)
    used = np.arange(n_rows) if rows is None else rows
    candidates = used[labels.codes[used] != MISSING]
    check_classes(labels.codes[used], labels.classes, name)
    generator = np.random.default_rng([seed, 0])
    size = _size(validation_fraction, kind, len(used), len(np.unique(labels.codes[candidates])))
    validation = candidates
    if size < len(candidates):
        share = size / len(candidates)
        validation = candidates[draw_stratified(labels.codes[candidates], share, generator)[0]]
    train = np.setdiff1d(used, validation, assume_unique=True)
    if len(train) < 2:
        raise ValueError(
            f"No rows are left to learn from: {len(validation):,} of {len(used):,} are for validation. "
            "Give a smaller validation_fraction."
        )
    plan = _plan(labels, validation, label_fraction, int(generator.integers(2**31)), name)
    return SearchSplit(train, validation, plan, _metric(metric, labels.codes[candidates]))


def _size(fraction: float | None, kind: str, n_rows: int, n_classes: int) -> int:
    """Rows of the validation part: the paper's share, more where that is too few to tell models apart."""
    if fraction is not None:
        return round(fraction * n_rows)
    share = IMAGE_SHARE if kind == "images" else OTHER_SHARE
    return min(max(round(share * n_rows), LEAST_PER_CLASS * n_classes), n_rows // 2)


def _plan(labels: Labels, validation: np.ndarray, label_fraction: float, seed: int, name: str) -> Protocol:
    scored = max(1, round((1 - label_fraction) * len(validation)))
    return plan_protocol(
        labels.classes[labels.codes[validation]],
        label_fraction=None,
        n_repeats=min(MOST_DRAWS, max(1, ENOUGH_SCORED // scored)),
        test_fraction=1 - label_fraction,
        random_state=seed,
        name=f"{name} in the validation part",
    )


def _metric(metric: str, codes: np.ndarray) -> str:
    """Balanced accuracy where one class is more than twice as large as another."""
    if metric != "auto":
        return metric
    counts = np.bincount(codes)
    counts = counts[counts > 0]
    return METRICS[int(counts.max() > IMBALANCED * counts.min())]
