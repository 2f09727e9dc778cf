"""CKA of features in one pass, exactly: the same value as from all rows at once, in O(d^2) memory.

The statistics are the Gram matrices of the rows (x, |x|^2, 1), which hold all that the unbiased criterion needs:

    G_xy = sum_i (x_i, |x_i|^2, 1) (y_i, |y_i|^2, 1)^T,    |X^T Y|_F^2, sum |x|^2 |y|^2, sum |x|^2, sums, n

Moving the origin is linear in (x, |x|^2, 1), so that streams which began at different origins can be merged, and the
final value is computed at the mean. The origin is the mean of the first batch, against cancellation.

Cost O(n (d_x + d_y)^2), memory 8 (d_x + d_y)^2 bytes. Where d is large, `SketchedCKA` needs O(M d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from krepes.alignment.cka import check_estimator, check_rows, check_self
from krepes.alignment.hsic import unbiased_value
from krepes.alignment.inputs import as_matrix, check_same_rows
from krepes.base.accumulator import SumOfValues
from krepes.base.blocks import Block
from krepes.base.model_file import State, digest

Origin = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class PairedGrams:
    """The Gram matrices of n rows (x, |x|^2, 1) and (y, |y|^2, 1), seen from an origin.

    Attributes
    ----------
    n : float
    origin : ndarrays of shape (d_x,) and (d_y,)
    grams : dict of ndarrays
        "xy" of shape (d_x + 2, d_y + 2), "xx" and "yy".
    """

    n: float
    origin: Origin
    grams: dict[str, np.ndarray]

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray, origin: Origin) -> PairedGrams:
        A, B = (augmented(Z - start) for Z, start in zip((X, Y), origin))
        return cls(len(X), origin, {"xy": A.T @ B, "xx": A.T @ A, "yy": B.T @ B})

    @property
    def widths(self) -> tuple[int, int]:
        return len(self.origin[0]), len(self.origin[1])

    @property
    def mean(self) -> Origin:
        ends = (self.grams["xx"][:-2, -1], self.grams["yy"][:-2, -1])
        x, y = (start + end / self.n for start, end in zip(self.origin, ends))
        return x, y

    def seen_from(self, origin: Origin) -> PairedGrams:
        """The same rows from another origin."""
        if all(new is old for new, old in zip(origin, self.origin)):
            return self
        moves = {axis: origin_move(new - old) for axis, new, old in zip("xy", origin, self.origin)}
        grams = {name: moves[name[0]] @ gram @ moves[name[1]].T for name, gram in self.grams.items()}
        return PairedGrams(self.n, origin, grams)

    def __add__(self, other: PairedGrams) -> PairedGrams:
        return self._combined(other, 1.0)

    def __sub__(self, other: PairedGrams) -> PairedGrams:
        return self._combined(other, -1.0)

    def __mul__(self, factor: float) -> PairedGrams:
        return PairedGrams(self.n * factor, self.origin, {k: G * factor for k, G in self.grams.items()})

    def _combined(self, other: PairedGrams, sign: float) -> PairedGrams:
        if self.widths != other.widths:
            raise ValueError(f"Got {other.widths} features for X and Y, and {self.widths} before.")
        theirs = other.seen_from(self.origin).grams
        grams = {name: gram + sign * theirs[name] for name, gram in self.grams.items()}
        return PairedGrams(self.n + sign * other.n, self.origin, grams)

    def state(self) -> State:
        return {"n": self.n, "origin": list(self.origin), "grams": self.grams}

    @classmethod
    def from_state(cls, state: State) -> PairedGrams:
        x, y = state["origin"]
        return cls(state["n"], (x, y), state["grams"])


class StreamedCKA(SumOfValues[PairedGrams]):
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
        super().__init__()

    @property
    def n_rows(self) -> int:
        return 0 if self.sums is None else int(self.sums.n)

    def update(self, X: Any, Y: Any) -> StreamedCKA:
        """Add a batch: rows (b, d_x) and (b, d_y) of the same samples."""
        if len(X) or len(Y):
            self.add(Block(torch.arange(self.n_rows, self.n_rows + len(X)), (X, Y)))
        return self

    def of(self, block: Block, before: PairedGrams | None) -> PairedGrams:
        """The inputs of a block are X and Y."""
        X, Y = (as_matrix(Z, name).astype(np.float64) for Z, name in zip(block.inputs, self.names))
        check_same_rows(len(Y), len(X), self.names[1], self.names[0])
        if before is None:
            return PairedGrams.of(X, Y, (X.mean(axis=0), Y.mean(axis=0)))
        if before.widths != (X.shape[1], Y.shape[1]):
            raise ValueError(
                f"Got {(X.shape[1], Y.shape[1])} features for X and Y, and {before.widths} before."
            )
        return PairedGrams.of(X, Y, before.origin)

    def value_from(self, state: State) -> PairedGrams:
        return PairedGrams.from_state(state)

    def fingerprint(self) -> dict[str, str]:
        return {"estimator": digest(self.estimator)}

    def score(self) -> float:
        """CKA of the rows seen so far."""
        check_rows(self.n_rows)
        if self.sums is None:
            raise ValueError("No rows were given: call update(X, Y) first.")
        raw, grams = self.sums.grams, self.sums.seen_from(self.sums.mean).grams
        values = {name: self._hsic(gram) for name, gram in grams.items()}
        for name, own in zip(self.names, ("xx", "yy")):
            spread, size = grams[own][-2, -1], raw[own][-2, -1]
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


def augmented(X: np.ndarray) -> np.ndarray:
    """Rows (x, |x|^2, 1)."""
    return np.column_stack([X, np.einsum("ij,ij->i", X, X), np.ones(len(X))])


def origin_move(step: np.ndarray) -> np.ndarray:
    """T with T (x, |x|^2, 1) = (x - step, |x - step|^2, 1)."""
    d = len(step)
    T = np.eye(d + 2)
    T[:d, -1], T[d, :d], T[d, -1] = -step, -2 * step, step @ step
    return T
