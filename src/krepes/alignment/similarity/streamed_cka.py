"""CKA of features in one pass, exactly: the same value as from all rows at once, in O(d^2) memory.

The statistics are the Gram matrices of the rows (x, |x|^2, 1), which suffice for the unbiased criterion:

    G_xy = sum_i (x_i, |x_i|^2, 1) (y_i, |y_i|^2, 1)^T,    |X^T Y|_F^2, sum |x|^2 |y|^2, sum |x|^2, sums, n

Moving the origin and changing the unit are linear in (x, |x|^2, 1), so that streams which began differently can be
merged, and the final value is computed at the mean. The origin is the mean of the first batch, against cancellation.

Cost O(n (d_x + d_y)^2), memory 8 (d_x + d_y)^2 bytes. Where d is large, `SketchedCKA` needs O(M d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch

from krepes.alignment.similarity.augmented_rows import augmented, origin_move, origin_of, unit_of, varies
from krepes.alignment.similarity.cka import check_enough_rows, check_estimator, check_self
from krepes.alignment.similarity.hsic import unbiased_value
from krepes.base.accumulator import SumOfValues
from krepes.base.blocks import Block
from krepes.base.codec import Shape
from krepes.base.packing import digest
from krepes.base.validation import as_array, as_flat_matrix, check_same_rows

Vector = Annotated[np.ndarray, Shape(None)]
Origin = tuple[Vector, Vector]


@dataclass(frozen=True, eq=False)
class PairedGrams:
    """The Gram matrices of n rows (x, |x|^2, 1) and (y, |y|^2, 1), seen from an origin.

    Attributes
    ----------
    n : float
    origin : ndarrays of shape (d_x,) and (d_y,)
    grams : dict of ndarrays
        "xy" of shape (d_x + 2, d_y + 2), "xx" and "yy".
    units : pair of float
        Powers of two that x and y are divided by in the Gram matrices, after the origin is subtracted.
    """

    n: float
    origin: Origin
    grams: dict[str, Annotated[np.ndarray, Shape(None, None)]]
    units: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray, origin: Origin) -> PairedGrams:
        units = unit_of(X, origin[0]), unit_of(Y, origin[1])
        A, B = (augmented(*part) for part in zip((X, Y), origin, units))
        return cls(len(X), origin, {"xy": A.T @ B, "xx": A.T @ A, "yy": B.T @ B}, units)

    @property
    def widths(self) -> tuple[int, int]:
        return len(self.origin[0]), len(self.origin[1])

    @property
    def mean(self) -> Origin:
        ends = (self.grams["xx"][:-2, -1], self.grams["yy"][:-2, -1])
        x, y = (start + end / self.n * unit for start, end, unit in zip(self.origin, ends, self.units))
        return x, y

    def seen_from(self, origin: Origin, units: tuple[float, float] | None = None) -> PairedGrams:
        """The same rows from another origin, in the same units or others."""
        units = self.units if units is None else units
        if units == self.units and all(new is old for new, old in zip(origin, self.origin)):
            return self
        moves = {
            axis: origin_move((new - old) / after, before / after)
            for axis, new, old, before, after in zip("xy", origin, self.origin, self.units, units)
        }
        grams = {name: moves[name[0]] @ gram @ moves[name[1]].T for name, gram in self.grams.items()}
        return PairedGrams(self.n, origin, grams, units)

    def __add__(self, other: PairedGrams) -> PairedGrams:
        return self._combined(other, 1.0)

    def __sub__(self, other: PairedGrams) -> PairedGrams:
        return self._combined(other, -1.0)

    def __mul__(self, factor: float) -> PairedGrams:
        grams = {name: gram * factor for name, gram in self.grams.items()}
        return PairedGrams(self.n * factor, self.origin, grams, self.units)

    def _combined(self, other: PairedGrams, sign: float) -> PairedGrams:
        if self.widths != other.widths:
            raise ValueError(f"Got {other.widths} features for X and Y; before there were {self.widths}.")
        far = [unit_of(new[None], old) for new, old in zip(other.origin, self.origin)]
        x, y = (max(found) for found in zip(self.units, other.units, far))
        units = (x, y)
        mine, theirs = (part.seen_from(self.origin, units).grams for part in (self, other))
        grams = {name: gram + sign * theirs[name] for name, gram in mine.items()}
        return PairedGrams(self.n + sign * other.n, self.origin, grams, units)


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
        X, Y = (as_array(Z, name) for Z, name in zip((X, Y), self.names))
        if X.shape[:1] != (0,) or Y.shape[:1] != (0,):  # an empty batch adds nothing
            self.add(Block(torch.arange(self.n_rows, self.n_rows + (X.shape[0] if X.ndim else 0)), (X, Y)))
        return self

    def of(self, block: Block, before: PairedGrams | None) -> PairedGrams:
        """The inputs of a block are X and Y."""
        X, Y = (as_flat_matrix(Z, name).astype(np.float64) for Z, name in zip(block.inputs, self.names))
        check_same_rows(len(Y), len(X), self.names[1], self.names[0])
        if before is None:
            return PairedGrams.of(X, Y, (origin_of(X), origin_of(Y)))
        if before.widths != (X.shape[1], Y.shape[1]):
            raise ValueError(
                f"Got {(X.shape[1], Y.shape[1])} features for X and Y; before there were {before.widths}."
            )
        return PairedGrams.of(X, Y, before.origin)

    def fingerprint(self) -> dict[str, str]:
        return {"estimator": digest(self.estimator)}

    def score(self) -> float:
        """CKA of the rows seen so far."""
        check_enough_rows(self.n_rows)
        if self.sums is None:
            raise ValueError("No rows were given: call update(X, Y) first.")
        mean = self.sums.mean
        grams = self.sums.seen_from(mean).grams
        values = {name: self._hsic(gram) for name, gram in grams.items()}
        for name, own, centre, unit in zip(self.names, ("xx", "yy"), mean, self.sums.units):
            G = grams[own][:-2, :-2]
            # Rows that are all the same leave rounding errors of the origin, not exact zeros.
            scale = np.square(G).sum() if varies(G.diagonal() / self.n_rows, unit, centre) else 0.0
            check_self(values[own] if scale > 0 else 0.0, scale / self.n_rows**2, name)
        return min(values["xy"] / (values["xx"] ** 0.5 * values["yy"] ** 0.5), 1.0)

    def _hsic(self, G: np.ndarray) -> float:
        """The criterion from a Gram matrix of (x, |x|^2, 1) and (y, |y|^2, 1) at the mean."""
        products = float(np.square(G[:-2, :-2]).sum())
        if self.estimator == "biased":
            return products / (self.n_rows - 1) ** 2
        return unbiased_value(self.n_rows, products, G[-2, -2], G[-2, -1] * G[-1, -2])
