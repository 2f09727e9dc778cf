"""The nearest-neighbour probe: a row's class is the most frequent one among its k nearest labelled rows.

By cosine similarity (of the centred representation) or by Euclidean distance. k is chosen on a part of the
labels (several parts, where labels are few); a tie goes to the class whose members are nearer.
Cost O(n_test n h), in blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from krepes.base.validation import as_array, check_choice, check_share, generator_of, is_number
from krepes.evaluation.linear import centre_and_scale
from krepes.evaluation.probe_inputs import ProbeInputs, check_inputs, validation_splits
from krepes.evaluation.probe_result import FittedClassifier, ProbeResult

K_GRID = (1, 5, 10, 20)


class NeighbourClassifier(FittedClassifier):
    """The labelled rows, and how to compare others with them."""

    def __init__(self, Z: np.ndarray, codes: np.ndarray, classes: np.ndarray, metric: str, k: int = 1):
        self.classes, self.metric, self.k = classes, metric, k
        self._mean, self._scale = centre_and_scale(Z)
        self._codes = codes
        self._index = NearestNeighbors(algorithm="brute").fit(self._prepared(Z))

    def predict(self, Z: Any) -> np.ndarray:
        """The class of every row."""
        return self.classes[vote(self.neighbours(as_array(Z, "Z"), self.k), self.k, len(self.classes))]

    def predict_proba(self, Z: Any) -> np.ndarray:
        """The share of every class among the k nearest labelled rows, shape (n, K)."""
        near = self.neighbours(as_array(Z, "Z"), self.k)
        return np.stack([(near == code).mean(1) for code in range(len(self.classes))], axis=1)

    def neighbours(self, Z: np.ndarray, k: int) -> np.ndarray:
        """Codes of the k nearest labelled rows, nearest first, shape (n, k)."""
        return self._codes[self._index.kneighbors(self._prepared(Z), k, return_distance=False)]

    def _prepared(self, Z: np.ndarray) -> np.ndarray:
        """Centred and scaled rows, of unit length for the cosine: Euclidean order is then that of the cosine."""
        X = (Z - self._mean) / self._scale
        if self.metric == "cosine":
            X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
        return X.astype(np.float32)


def knn_probe(
    Z_train: Any,  # shape: (n, h)
    y_train: Any,
    Z_test: Any,
    y_test: Any,
    *,
    k_grid: Sequence[int] = K_GRID,
    metric: str = "cosine",
    validation: float = 0.2,
    random_state: int | np.random.Generator | None = 0,
) -> ProbeResult[NeighbourClassifier]:
    """Classify test rows by their nearest labelled rows.

    Parameters
    ----------
    Z_train, y_train, Z_test, y_test, validation, random_state : as in `linear_probe`.
    k_grid : numbers of neighbours to choose from.
    metric : "cosine" or "euclidean".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> knn_probe(X[::2], y[::2], X[1::2], y[1::2], metric="euclidean").accuracy > 0.9
    True
    """
    check_choice("metric", metric, ("cosine", "euclidean"))
    if (
        isinstance(k_grid, str)
        or len(k_grid) == 0
        or not all(is_number(k, least=1) and k == int(k) for k in k_grid)
    ):
        raise ValueError(f"k_grid={k_grid!r}: expected one or more integers >= 1.")
    check_share("validation", validation, " of the labels")
    data = check_inputs(Z_train, y_train, Z_test, y_test)
    grid, generator = sorted(set(map(int, k_grid))), generator_of(random_state)
    k, accuracy, notes = _choose_k(data, grid, metric, validation, generator)
    fitted = NeighbourClassifier(data.Z_train, data.train, data.classes, metric, k)
    told = vote(fitted.neighbours(data.Z_test, k), k, len(data.classes))
    return data.result(fitted, told, {"k": k, "metric": metric}, accuracy, notes)


def vote(neighbours: np.ndarray, k: int, n_classes: int) -> np.ndarray:
    """The most frequent code among the first k of every row; nearer rows decide a tie.

    >>> vote(np.array([[2, 0, 0], [1, 2, 0]]), 3, 3)
    array([0, 1])
    """
    # 1 per neighbour, and for a tie less than 1 in all: (k - rank) / k^2 sums to (k + 1) / 2k, halved.
    weights = 1 + 0.5 * (k - np.arange(k)) / k**2
    rows = np.arange(len(neighbours))
    counts = np.zeros((len(neighbours), n_classes))
    for rank in range(k):
        counts[rows, neighbours[:, rank]] += weights[rank]
    return counts.argmax(1)


def _choose_k(
    data: ProbeInputs, grid: list[int], metric: str, validation: float, generator: np.random.Generator
) -> tuple[int, float, list[str]]:
    """The k with the best accuracy on validation parts of the labels; among equals the smallest."""
    splits = validation_splits(data.train, validation, generator)
    largest = min((len(fit) for fit, _ in splits), default=len(data.train))
    usable = [k for k in grid if k <= largest] or [min(grid[0], largest)]
    if not splits or len(usable) == 1:
        notes = [] if len(grid) == 1 else [f"too few labels to choose k; k={usable[0]}"]
        return usable[0], float("nan"), notes
    hits: dict[int, list[np.ndarray]] = {k: [] for k in usable}
    for fit, held in splits:
        classifier = NeighbourClassifier(data.Z_train[fit], data.train[fit], data.classes, metric)
        near = classifier.neighbours(data.Z_train[held], usable[-1])
        for k in usable:
            hits[k].append(vote(near, k, len(data.classes)) == data.train[held])
    accuracy = {k: float(np.concatenate(found).mean()) for k, found in hits.items()}
    best = max(usable, key=lambda k: (accuracy[k], -k))
    return best, accuracy[best], []
