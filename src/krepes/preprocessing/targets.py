"""Targets that are quantities: what tells them from classes, as numbers, and the strata that their rows are drawn from.

A column says nothing about what its numbers mean. `guess_task` goes by these rules, in this order:

    text, true/false, a single value                         classes
    numbers with fractions                                   a quantity
    at most 20 different whole numbers                       classes
    0 .. K-1 or 1 .. K without a gap, 5 rows or more each    classes: somebody has numbered them
    other whole numbers                                      a quantity

An age, a price, a count of many are quantities; digits and grades are classes. Postal codes, numbers that name places,
look like quantities: say that they are classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from krepes.base.validation import LARGEST
from krepes.preprocessing.labels import (
    MISSING,
    Labels,
    encode_labels,
    label_vector,
    missing_values,
    plain_values,
    present_labels,
)

TASKS = ("auto", "classification", "regression")
FEW_VALUES = 20  # different whole numbers that are classes, whatever they are
ROWS_EACH = 5  # of numbered classes
STRATA, STRATUM_ROWS = 10, 10
LEAST_LABELS, MOST_LABELS = 5, 5000  # that representations are compared by


@dataclass(frozen=True)
class TaskGuess:
    """What is predicted: "classification" or "regression", and why; `plain` where nobody would doubt it."""

    name: str
    why: str
    plain: bool


def guess_task(y: Any, name: str = "y") -> TaskGuess:
    """Whether labels are classes or a quantity.

    >>> guess_task([0, 1, 2, 0, 1, 2]).name, guess_task([0.5, 1.2, 3.0]).name
    ('classification', 'regression')
    """
    values = present_labels(y, name)[0]
    if values.dtype.kind not in "iuf":
        return TaskGuess("classification", "they are not numbers", plain=True)
    different = np.unique(values)
    K, n = len(different), len(values)
    counted = f"{K:,} different values in {n:,} rows"
    fraction = different[different != np.round(different)]
    if len(fraction) and K > 1:
        return TaskGuess("regression", f"it has numbers with fractions, such as {fraction[0]:g}", plain=False)
    if K <= FEW_VALUES:
        return TaskGuess("classification", counted, plain=True)
    in_a_row = bool(different[-1] - different[0] == K - 1)
    if in_a_row and n == K:
        raise ValueError(
            f"{name} has every whole number from {different[0]:g} to {different[-1]:g} once: it looks like an "
            "identifier of the rows. If it is a quantity, say task='regression'."
        )
    if in_a_row and different[0] in (0, 1) and n >= ROWS_EACH * K:
        numbered = f"{counted}, numbered from {different[0]:g} without a gap"
        return TaskGuess("classification", numbered, plain=False)
    return TaskGuess("regression", counted, plain=False)


def as_targets(y: Any, name: str = "y") -> np.ndarray:
    """Targets as float64, NaN where they are missing; text is taken where it holds numbers.

    >>> as_targets(["1.5", None, "2"])
    array([1.5, nan, 2. ])
    """
    y = label_vector(y, name)
    missing = missing_values(y)
    targets, values = np.full(len(y), np.nan), plain_values(y[~missing], name)
    if values.dtype.kind in "Mmc":
        raise ValueError(f"{name} holds {values.dtype}; a regression needs real numbers.")
    try:
        targets[~missing] = values.astype(np.float64)
    except ValueError as error:
        raise ValueError(f"{name} holds text ({error}); a regression needs numbers.") from None
    if not (np.abs(targets[~missing]) <= LARGEST).all():
        raise ValueError(f"{name} has infinite or huge numbers; leave a target empty where it is not known.")
    return targets


def as_strata(targets: np.ndarray, name: str = "y") -> Labels:
    """Rows by tenths of their targets, so that draws see small and large ones alike; fewer parts for few rows.

    >>> as_strata(np.array([3.0, np.nan, 1.0])).codes
    array([ 0, -1,  0])
    """
    present = ~np.isnan(targets)
    n = int(present.sum())
    if n == 0:
        raise ValueError(f"{name} has no target at all: all {len(targets):,} are missing.")
    values = targets[present]
    if values.min() == values.max():
        raise ValueError(f"{name} has a single value, {values[0]:g}: there is nothing to predict.")
    K = max(1, min(STRATA, n // STRATUM_ROWS))
    codes = np.full(len(targets), MISSING, dtype=np.int64)
    ranks = np.empty(n, dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(n)
    codes[present] = ranks * K // n
    return Labels(codes, np.arange(K))


def labelled_rows(y: Any, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows that have a label, at most 5000, and their targets: integer codes of classes, or real numbers."""
    if len(label_vector(y, "y")) != n_rows:
        raise ValueError(f"y has {len(y):,} labels for {n_rows:,} rows; one is needed for every row.")
    if guess_task(y).name == "classification":
        labels = encode_labels(y)
        if len(labels.classes) < 2:
            raise ValueError("y has a single class; give labels of at least two.")
        rows, targets = labels.present, labels.codes
    else:
        targets = as_targets(y)
        rows = np.flatnonzero(~np.isnan(targets))
    if len(rows) < LEAST_LABELS:
        raise ValueError(f"{len(rows)} labels are too few to choose by; at least {LEAST_LABELS} are needed.")
    if len(rows) > MOST_LABELS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_LABELS, replace=False))
    return rows, targets[rows]
