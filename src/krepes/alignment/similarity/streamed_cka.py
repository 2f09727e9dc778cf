"""CKA of features in one pass, exactly: the same value as from all rows at once, in O(d^2) memory.

The statistics are the Gram matrices of the rows (x, |x|^2, 1): |X^T Y|_F^2, sum |x|^2 |y|^2, sum |x|^2, sums, n.
Streams that began differently can be merged, and the final value is computed at the mean.

Cost O(n (d_x + d_y)^2), memory 8 (d_x + d_y)^2 bytes. Where d is large, `SketchedCKA` needs O(M d).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from krepes.alignment.similarity.augmented_grams import AugmentedGrams, varies
from krepes.alignment.similarity.cka import check_enough_rows, check_estimator, check_self
from krepes.alignment.similarity.hsic import unbiased_value
from krepes.base.accumulator import SumOfValues
from krepes.base.blocks import Block
from krepes.base.packing import digest
from krepes.base.validation import as_array, as_flat_matrix, check_same_rows


class StreamedCKA(SumOfValues[AugmentedGrams]):
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

    def of(self, block: Block, before: AugmentedGrams | None) -> AugmentedGrams:
        """The inputs of a block are X and Y."""
        X, Y = (as_flat_matrix(Z, name).astype(np.float64) for Z, name in zip(block.inputs, self.names))
        check_same_rows(len(Y), len(X), self.names[1], self.names[0])
        if before is not None:
            before.check_widths((X.shape[1], Y.shape[1]))
        return AugmentedGrams.of_pair(X, Y, None if before is None else before.origins)

    def fingerprint(self) -> dict[str, str]:
        return {"estimator": digest(self.estimator)}

    def score(self) -> float:
        """CKA of the rows seen so far."""
        check_enough_rows(self.n_rows)
        if self.sums is None:
            raise ValueError("No rows were given: call update(X, Y) first.")
        means = self.sums.means
        grams = self.sums.seen_from(means).grams
        values = {name: self._hsic(gram) for name, gram in grams.items()}
        for name, axis in zip(self.names, "xy"):
            G, own = grams[2 * axis][:-2, :-2], values[2 * axis]
            # Rows that are all the same leave rounding errors of the origin, not exact zeros.
            known = varies(G.diagonal() / self.n_rows, self.sums.units[axis], means[axis])
            scale = np.square(G).sum() if known else 0.0
            check_self(own if known else 0.0, scale / self.n_rows**2, name)
        return min(values["xy"] / (values["xx"] ** 0.5 * values["yy"] ** 0.5), 1.0)

    def _hsic(self, G: np.ndarray) -> float:
        """The criterion from a Gram matrix of (x, |x|^2, 1) and (y, |y|^2, 1) at the mean."""
        products = float(np.square(G[:-2, :-2]).sum())
        if self.estimator == "biased":
            return products / (self.n_rows - 1) ** 2
        return unbiased_value(self.n_rows, products, G[-2, -2], G[-2, -1] * G[-1, -2])
