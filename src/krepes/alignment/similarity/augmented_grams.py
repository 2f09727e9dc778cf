"""Gram matrices of rows (x, |x|^2, 1), which suffice for the unbiased criterion, at any scale and in one pass.

    G_xy = sum_i (x_i, |x_i|^2, 1) (y_i, |y_i|^2, 1)^T,     T (x, |x|^2, 1) = (f x - step, |f x - step|^2, 1)

Rows are seen from the mean of the first batch, against cancellation. Moving the origin is linear, so that sums which
began at different origins can be added. A change of unit is linear too: sums are kept in units of 2^(64 k) near the
largest number, because fourth powers of 1e100 overflow and of 1e-100 vanish. Powers of two do not round, and the
unit of numbers between 2e-10 and 4e9 is 1.

Cost O(n d^2), memory 8 d^2 bytes whatever n is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.sparse
from scipy.linalg.blas import dsyrk

from krepes.base.storage.codec import Shape

STEP = 64
FURTHEST = 15  # 2^(64 * 15) is 1e289
CONSTANT = 1e-15  # of |mean|: the deviation of rows that differ by rounding only
BLOCK_ROWS = 4096

Origins = Mapping[str, Annotated[np.ndarray, Shape(None)]]


@dataclass(frozen=True, eq=False)
class AugmentedGrams:
    """Gram matrices of n rows of one or two representations, each seen from an origin.

    Attributes
    ----------
    n : float
    origins : {"x": ndarray of shape (d_x,)}, and "y"
    units : {"x": float}, and "y"
        Powers of two that rows are divided by, after the origin is subtracted.
    grams : dict of ndarrays
        "xx" of shape (d_x + 2, d_x + 2), "xy" and "yy"; "cx" of shape (n_classes, d_x + 2) has sums by class.

    Examples
    --------
    >>> moments = AugmentedGrams.by_class(np.array([[1.0], [3.0], [8.0]]), np.array([0, 0, 1]), 2)
    >>> grams = moments.seen_from({"x": np.zeros(1)}).grams
    >>> grams["xx"][0].tolist(), grams["cx"][:, 0].tolist()          # sums of x^2, x^3, x; of x by class
    ([74.0, 540.0, 12.0], [4.0, 8.0])
    """

    n: float
    origins: Origins
    units: Mapping[str, float]
    grams: Mapping[str, Annotated[np.ndarray, Shape(None, None)]]

    @classmethod
    def of_pair(cls, X: np.ndarray, Y: np.ndarray, origins: Origins | None = None) -> AugmentedGrams:
        """Of the same rows of two representations, finite; seen from their means by default."""
        origins = {"x": origin_of(X), "y": origin_of(Y)} if origins is None else origins
        units = {"x": unit_of(X, origins["x"]), "y": unit_of(Y, origins["y"])}
        A, B = augmented(X, origins["x"], units["x"]), augmented(Y, origins["y"], units["y"])
        return cls(len(X), origins, units, {"xy": A.T @ B, "xx": A.T @ A, "yy": B.T @ B})

    @classmethod
    def by_class(
        cls, X: np.ndarray, codes: np.ndarray, n_classes: int, origins: Origins | None = None
    ) -> AugmentedGrams:
        """Of rows (b, d), finite, and of their sums by class, codes (b,); seen from their mean by default."""
        origins = {"x": origin_of(X)} if origins is None else origins
        unit, size = unit_of(X, origins["x"]), X.shape[1] + 2
        triangle, sums = np.zeros((size, size), order="F"), np.zeros((n_classes, size))
        for start in range(0, len(X), BLOCK_ROWS):
            A = augmented(X[start : start + BLOCK_ROWS], origins["x"], unit)
            triangle = dsyrk(1.0, A.T, beta=1.0, c=triangle, overwrite_c=1)  # half of the product
            cells = codes[start : start + BLOCK_ROWS], np.arange(len(A) + 1)
            sums += scipy.sparse.csc_array((np.ones(len(A)), *cells), shape=(n_classes, len(A))) @ A
        gram = np.triu(triangle) + np.triu(triangle, 1).T
        return cls(len(X), origins, {"x": unit}, {"xx": gram, "cx": sums})

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(map(len, self.origins.values()))

    @property
    def means(self) -> dict[str, np.ndarray]:
        """The mean of all rows of each representation, (d,)."""
        return {
            axis: origin + self.grams[2 * axis][:-2, -1] / self.n * self.units[axis]
            for axis, origin in self.origins.items()
        }

    def seen_from(self, origins: Origins, units: Mapping[str, float] | None = None) -> AugmentedGrams:
        """The same rows from other origins, in the same units or others."""
        units = self.units if units is None else units
        if units == self.units and all(origins[axis] is old for axis, old in self.origins.items()):
            return self
        moves = {
            axis: origin_move((origins[axis] - old) / units[axis], self.units[axis] / units[axis])
            for axis, old in self.origins.items()
        }
        grams = {}
        for name, gram in self.grams.items():
            moved = moves[name[0]] @ gram if name[0] in moves else gram
            grams[name] = moved @ moves[name[1]].T
        return AugmentedGrams(self.n, origins, units, grams)

    def __add__(self, other: AugmentedGrams) -> AugmentedGrams:
        self.check_widths(other.widths)
        units = {
            axis: max(self.units[axis], other.units[axis], unit_of(other.origins[axis][None], origin))
            for axis, origin in self.origins.items()
        }
        mine, theirs = (part.seen_from(self.origins, units).grams for part in (self, other))
        grams = {name: gram + theirs[name] for name, gram in mine.items()}
        return AugmentedGrams(self.n + other.n, self.origins, units, grams)

    def check_widths(self, widths: tuple[int, ...]) -> None:
        """Refuse rows of other widths."""
        if widths != self.widths:
            raise ValueError(f"The batch has {widths} features; earlier ones had {self.widths}.")


def augmented(X: np.ndarray, origin: np.ndarray, unit: float) -> np.ndarray:
    """Rows (x, |x|^2, 1), with x seen from an origin, in a unit."""
    X = X - origin
    X /= unit
    return np.column_stack([X, np.einsum("ij,ij->i", X, X), np.ones(len(X))])


def origin_move(step: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """The matrix T: change the unit by a factor f, then move the origin by a step in the new unit."""
    d = len(step)
    T = np.diag(np.append(np.full(d, factor), [factor**2, 1.0]))
    T[:d, -1], T[d, :d], T[d, -1] = -step, -2 * factor * step, step @ step
    return T


def origin_of(X: np.ndarray) -> np.ndarray:  # (b, d) -> (d,)
    """The mean of the rows, which avoids cancellation; in constant columns the value itself."""
    return np.where((X[0] == X).all(axis=0), X[0], X.mean(axis=0, dtype=np.float64)).astype(np.float64)


def unit_of(X: np.ndarray, origin: np.ndarray) -> float:
    """The unit for rows (b, d) seen from an origin.

    >>> unit_of(np.array([[1.0], [1e9]]), np.zeros(1)), unit_of(np.array([[1e20]]), np.zeros(1)) == 2.0**64
    (1.0, True)
    """
    largest = np.maximum(X.max(axis=0) - origin, origin - X.min(axis=0)).max()
    if not largest > 0:
        return 2.0 ** (-STEP * FURTHEST)
    return 2.0 ** (STEP * int(np.clip(round(np.log2(largest) / STEP), -FURTHEST, FURTHEST)))


def varies(variances: np.ndarray, unit: float, mean: np.ndarray) -> bool:
    """Whether some column differs from row to row by more than rounding: variances in a unit, and means, both (d,)."""
    return bool((np.sqrt(np.maximum(variances, 0.0)) * unit > CONSTANT * np.abs(mean)).any())
