"""CKA of features in one pass, exactly: the same value as from all rows at once, in O(d^2) memory.

The statistics are the Gram matrices of the rows (x, |x|^2, 1), which hold all that the unbiased criterion needs:

    G_xy = sum_i (x_i, |x_i|^2, 1) (y_i, |y_i|^2, 1)^T,    |X^T Y|_F^2, sum |x|^2 |y|^2, sum |x|^2, sums, n

Moving the origin is linear in (x, |x|^2, 1), so that streams which began at different origins can be merged, and the
final value is computed at the mean. The origin is the mean of the first batch, against cancellation.

Cost O(n (d_x + d_y)^2), memory 8 (d_x + d_y)^2 bytes. Where d is large, `SketchedCKA` needs O(M d).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from krepes.alignment.cka import check_estimator, check_rows, check_self
from krepes.alignment.hsic import unbiased_value
from krepes.alignment.inputs import as_matrix, check_same_rows


class StreamedCKA:
    """Linear CKA of two representations that arrive in batches.

    Parameters
    ----------
    estimator : "unbiased" or "biased", default="unbiased"
    names : pair of str, default=("X", "Y")
        What errors call the two.

    Attributes
    ----------
    n_rows : int
        Rows seen.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    >>> first = StreamedCKA().update(X[:20], Y[:20])
    >>> other = StreamedCKA().update(X[20:], Y[20:])
    >>> from krepes.alignment import cka
    >>> bool(abs(first.merge(other).score() - cka(X, Y)) < 1e-14)
    True
    """

    def __init__(self, estimator: str = "unbiased", *, names: tuple[str, str] = ("X", "Y")):
        check_estimator(estimator)
        self.estimator, self.names = estimator, names
        self.n_rows = 0
        self.origin: tuple[np.ndarray, np.ndarray] | None = None
        self.grams: dict[str, np.ndarray] = {}

    def update(self, X: Any, Y: Any) -> StreamedCKA:
        """Add a batch: rows (b, d_x) and (b, d_y) of the same samples."""
        if len(X) == 0 and len(Y) == 0:
            return self
        X, Y = (as_matrix(Z, name).astype(np.float64) for Z, name in zip((X, Y), self.names))
        check_same_rows(len(Y), len(X), self.names[1], self.names[0])
        if self.origin is None:
            self.origin = X.mean(axis=0), Y.mean(axis=0)
        self._check_widths(X.shape[1], Y.shape[1])
        A, B = (augmented(Z - start) for Z, start in zip((X, Y), self.origin))
        for name, product in {"xy": A.T @ B, "xx": A.T @ A, "yy": B.T @ B}.items():
            self.grams[name] = self.grams[name] + product if name in self.grams else product
        self.n_rows += len(X)
        return self

    def merge(self, other: StreamedCKA) -> StreamedCKA:
        """Add the rows that another stream has seen; returns self."""
        if other.origin is None:
            return self
        if self.origin is None:
            self.origin, self.grams, self.n_rows = other.origin, dict(other.grams), other.n_rows
            return self
        self._check_widths(*map(len, other.origin))
        for name, gram in other._moved_to(self.origin).items():
            self.grams[name] = self.grams[name] + gram
        self.n_rows += other.n_rows
        return self

    def score(self) -> float:
        """CKA of the rows seen so far."""
        check_rows(self.n_rows)
        if self.origin is None:
            raise ValueError("No rows were given: call update(X, Y) first.")
        ends = (self.grams["xx"][:-2, -1], self.grams["yy"][:-2, -1])
        x, y = (start + end / self.n_rows for start, end in zip(self.origin, ends))
        grams = self._moved_to((x, y))
        values = {name: self._hsic(gram) for name, gram in grams.items()}
        for name, own in zip(self.names, ("xx", "yy")):
            spread, size = grams[own][-2, -1], self.grams[own][-2, -1]
            # Rows that are all the same leave rounding errors of the origin, not exact zeros.
            scale = np.square(grams[own][:-2, :-2]).sum() if spread > 1e-24 * max(size, 1e-300) else 0.0
            check_self(values[own] if scale > 0 else 0.0, scale / self.n_rows**2, name)
        return min(values["xy"] / (values["xx"] ** 0.5 * values["yy"] ** 0.5), 1.0)

    def _hsic(self, G: np.ndarray) -> float:
        """The criterion from a Gram matrix of (x, |x|^2, 1) and (y, |y|^2, 1) at the mean."""
        products = float(np.square(G[:-2, :-2]).sum())
        if self.estimator == "biased":
            return products / (self.n_rows - 1) ** 2
        return unbiased_value(self.n_rows, products, G[-2, -2], G[-2, -1] * G[-1, -2])

    def _moved_to(self, origin: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
        """The Gram matrices of rows seen from another origin."""
        assert self.origin is not None  # callers have checked
        moves = {axis: origin_move(new - old) for axis, new, old in zip("xy", origin, self.origin)}
        return {name: moves[name[0]] @ gram @ moves[name[1]].T for name, gram in self.grams.items()}

    def _check_widths(self, *widths: int) -> None:
        expected = tuple(map(len, self.origin or ()))
        if widths != expected:
            raise ValueError(f"Got {widths} features for X and Y, and {expected} before.")


def augmented(X: np.ndarray) -> np.ndarray:
    """Rows (x, |x|^2, 1)."""
    return np.column_stack([X, np.einsum("ij,ij->i", X, X), np.ones(len(X))])


def origin_move(step: np.ndarray) -> np.ndarray:
    """T with T (x, |x|^2, 1) = (x - step, |x - step|^2, 1)."""
    d = len(step)
    T = np.eye(d + 2)
    T[:d, -1], T[d, :d], T[d, -1] = -step, -2 * step, step @ step
    return T
