"""Stratified draws of rows: a part of the labels, a validation part, a test part.

Every class is drawn from in proportion to its size, and never loses its last row, so that a rare class is not
lost by chance.
"""

from __future__ import annotations

import numpy as np

MAX_SPLITS, ENOUGH_ROWS = 5, 5000


def draw_stratified(
    codes: np.ndarray, fraction: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of about `fraction` of the rows of every class, and the positions of the others.

    At least one row of every class is drawn, and at least one is left in every class that has two.

    >>> drawn, rest = draw_stratified(np.array([0] * 8 + [1] * 2), 0.25, np.random.default_rng(0))
    >>> len(drawn), len(rest)
    (3, 7)
    """
    drawn, rest = [], []
    for members in _by_class(generator.permutation(len(codes)), codes):
        size = int(np.floor(fraction * len(members) + 0.5))
        size = min(max(size, 1), max(len(members) - 1, 1))
        drawn.append(members[:size])
        rest.append(members[size:])
    return np.sort(np.concatenate(drawn)), np.sort(np.concatenate(rest))


def draw_count(codes: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Positions of exactly `count` rows, from every class in proportion to its size.

    Every class gets a row; if there are more classes than rows, classes are drawn first.

    >>> codes = np.repeat([0, 1, 2], [12, 4, 1])
    >>> np.bincount(codes[draw_count(codes, 5, np.random.default_rng(0))])
    array([3, 1, 1])
    """
    members = _by_class(generator.permutation(len(codes)), codes)
    sizes = np.array([len(rows) for rows in members])
    if count < len(members):
        chosen = generator.choice(len(members), count, replace=False, p=sizes / sizes.sum())
        return np.sort([members[k][0] for k in chosen])
    wanted = count * sizes / sizes.sum()
    drawn = np.clip(np.floor(wanted).astype(np.int64), 1, sizes)
    while (short := count - drawn.sum()) != 0:
        # The class that is furthest from its share gives or takes a row; none loses its last.
        gap = (
            np.where(drawn < sizes, wanted - drawn, -np.inf)
            if short > 0
            else np.where(drawn > 1, drawn - wanted, -np.inf)
        )
        drawn[gap.argmax()] += 1 if short > 0 else -1
    return np.sort(np.concatenate([rows[:k] for rows, k in zip(members, drawn)]))


def validation_split(
    codes: np.ndarray, fraction: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positions to fit on and to choose on; a class with a single row is only fitted on."""
    chosen, others = draw_stratified(codes, fraction, generator)
    single = np.bincount(codes)[codes[chosen]] == 1
    return np.sort(np.concatenate([others, chosen[single]])), chosen[~single]


def validation_splits(
    codes: np.ndarray, fraction: float, generator: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Several validation splits if labels are few, because a choice made on 30 rows is mostly chance.

    Up to five, and no more than are needed for 5,000 rows to choose on. None if every class has a single row.
    """
    first = validation_split(codes, fraction, generator)
    if len(first[1]) == 0:
        return []
    more = min(MAX_SPLITS, ENOUGH_ROWS // len(first[1])) - 1
    return [first, *(validation_split(codes, fraction, generator) for _ in range(more))]


def _by_class(order: np.ndarray, codes: np.ndarray) -> list[np.ndarray]:
    """The rows of every class that occurs, in the given order."""
    grouped = order[np.argsort(codes[order], kind="stable")]
    edges = np.flatnonzero(np.diff(codes[grouped])) + 1
    return np.split(grouped, edges)
