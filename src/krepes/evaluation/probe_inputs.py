"""What every probe needs first: representations and labels that fit together, and stratified draws of rows.

Every class is drawn from in proportion to its size, and never loses its last row, so that a rare class is not
lost by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from krepes.base.validation import as_array, as_row_indices, check_finite
from krepes.evaluation.probe_result import Model, ProbeResult, basic_scores, class_recall
from krepes.preprocessing.labels import MISSING, encode_labels, label_vector
from krepes.preprocessing.targets import as_targets

SMALL_CELLS = 1 << 20
MAX_SPLITS, ENOUGH_ROWS = 5, 5000


@dataclass(frozen=True)
class ProbeInputs:
    """Rows with a label: representations as given, labels as codes of common classes or as numbers."""

    Z_train: np.ndarray  # shape: (n, h)
    train: np.ndarray  # shape: (n,)
    Z_test: np.ndarray
    test: np.ndarray
    classes: np.ndarray  # empty for a quantity

    def result(
        self,
        model: Model,
        predicted: np.ndarray,
        chosen: dict[str, float | str] | None = None,
        validation_accuracy: float = float("nan"),
        notes: Sequence[str] = (),
    ) -> ProbeResult[Model]:
        """The result of a fitted model, from its predictions for the test rows: codes or numbers."""
        quantity = len(self.classes) == 0
        recall = {} if quantity else class_recall(predicted, self.test)
        return ProbeResult(
            metrics=basic_scores(predicted, self.test, quantity),
            model=model,
            n_labels=len(self.train),
            n_test=len(self.test),
            predicted=predicted if quantity else self.classes[predicted],
            classes=self.classes,
            recall={self.classes[code].item(): share for code, share in recall.items()},
            chosen=chosen or {},
            validation_accuracy=validation_accuracy,
            notes=list(notes),
        )


def check_inputs(
    Z_train: Any, y_train: Any, Z_test: Any, y_test: Any, *, quantity: bool = False
) -> ProbeInputs:
    """Check shapes, leave out rows without a label, and number the classes."""
    Z_train, Z_test = check_matrix(Z_train, "Z_train"), check_matrix(Z_test, "Z_test")
    if Z_train.shape[1] != Z_test.shape[1]:
        raise ValueError(
            f"Z_train has {Z_train.shape[1]} columns and Z_test {Z_test.shape[1]}: both must come from one model."
        )
    y_train, y_test = label_vector(y_train, "y_train"), label_vector(y_test, "y_test")
    for name, Z, y in (("y_train", Z_train, y_train), ("y_test", Z_test, y_test)):
        if len(y) != len(Z):
            raise ValueError(
                f"{name} has {len(y):,} labels for {len(Z):,} rows; one is needed for every row."
            )
    if quantity:
        classes, train, test = np.empty(0), as_targets(y_train, "y_train"), as_targets(y_test, "y_test")
        here, there = ~np.isnan(train), ~np.isnan(test)
        if here.sum() < 2:
            raise ValueError(f"y_train has {here.sum()} target(s); a regression needs at least 2.")
    else:
        if y_train.dtype.kind != y_test.dtype.kind:  # because numpy would turn numbers into text
            y_train, y_test = y_train.astype(object), y_test.astype(object)
        both = encode_labels(np.concatenate([y_train, y_test]), "y")
        classes, (train, test) = both.classes, np.split(both.codes, [len(Z_train)])
        check_classes(train, classes, "y_train")
        here, there = train != MISSING, test != MISSING
    if not there.any():
        raise ValueError(f"y_test has no label at all: all {len(test):,} are missing.")
    Z_train, Z_test = (Z if kept.all() else Z[kept] for Z, kept in ((Z_train, here), (Z_test, there)))
    return ProbeInputs(Z_train, train[here], Z_test, test[there], classes)


def check_matrix(Z: Any, name: str = "Z") -> np.ndarray:
    """A representation as a 2-D array of finite numbers, in the dtype that it has: pixels may stay bytes."""
    Z = as_array(Z, name)
    if Z.ndim != 2 or Z.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be a 2-D array of numbers, one row per sample; got shape {Z.shape}, {Z.dtype}."
        )
    if 0 in Z.shape:
        raise ValueError(f"{name} is empty: its shape is {Z.shape}.")
    check_finite(Z, name)
    return Z


def check_classes(codes: np.ndarray, classes: np.ndarray, name: str) -> None:
    """A classifier needs two classes."""
    found = np.unique(codes[codes != MISSING])
    if len(found) == 0:
        raise ValueError(f"{name} has no label at all: all {len(codes):,} are missing.")
    if len(found) == 1:
        raise ValueError(
            f"{name} has a single class, {classes[found[0]].item()!r}: there is nothing to distinguish. "
            "Give labels of at least two classes."
        )


def few_threads(X: np.ndarray) -> threadpool_limits | nullcontext[None]:
    """Use one thread for small problems, where threads lose more by waiting for one another than they gain."""
    return threadpool_limits(1) if X.size < SMALL_CELLS else nullcontext()


def chosen_rows(rows: Any, n_rows: int, name: str) -> np.ndarray:
    """Sorted, distinct indices of rows given as indices or as a mask.

    >>> chosen_rows([True, False, True], 3, "train"), chosen_rows([2, 0, 0], 3, "train")
    (array([0, 2]), array([0, 2]))
    """
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n_rows,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"{name}= must be row indices or a mask of {n_rows} rows; got {rows.dtype} of shape {rows.shape}."
        )
    return as_row_indices(np.unique(rows), n_rows, name)


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
