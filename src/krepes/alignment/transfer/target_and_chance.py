"""The labels that features are compared with, and the CKA that unrelated features would have by chance.

The unbiased CKA of two representations whose rows are matched at random has mean 0 and variance 2 / (n (n - 3)),
exactly and whatever they are [szekely]: U-centred matrices have rows that sum to zero, so that the average over all
permutations sees them through sum K~^2 only, and CKA divides by it. Its shape is that of a weighted sum of squares with
the weights lambda_i mu_j, the products of eigenvalues; a gamma distribution with the same three moments gives p-values

    skewness = sqrt(8) (sum lambda^3 / (sum lambda^2)^1.5) (sum mu^3 / (sum mu^2)^1.5).

A sketch adds its own noise. Permuted labels are therefore sketched with the same hash: features are sketched once,
the targets once for all models, and each permutation costs O(M^2) per model. Under the null hypothesis the labels and
their permutations are exchangeable, so that the share of permutations that reach the score is an exact p-value.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaincc, ndtr

from krepes.alignment.inputs import class_codes
from krepes.alignment.similarity.cka import check_enough_rows
from krepes.alignment.similarity.hsic import unbiased_value
from krepes.alignment.similarity.sketched_cka import SignedSums, SketchedCKA
from krepes.alignment.transfer.left_out import kept_rows
from krepes.base.validation import check_count


class TransferTarget:
    """Labels of all rows, known before the features are seen; one target serves any number of models.

    Parameters
    ----------
    y : labels of shape (n,)
    n_buckets, seed : as in `SketchedCKA`
    n_permutations : int, default=99
        How many permutations of the labels are sketched.

    Attributes
    ----------
    classes : array of shape (C,)
    codes : array of shape (n,)
        The class of every row, 0 to C - 1.

    Examples
    --------
    One-hot rows of two equal classes lie at distance sqrt(1/2) from their mean.

    >>> target = TransferTarget(["a", "b", "a", "b"])
    >>> target.counts.tolist(), target.diagonal.tolist(), target.trace
    ([2.0, 2.0], [0.5, 0.5], 2.0)
    """

    def __init__(self, y: Any, n_buckets: int = 256, n_permutations: int = 99, seed: int = 0):
        check_count("n_permutations", n_permutations)
        self.classes, self.codes = class_codes(y)
        check_enough_rows(len(self.codes))
        self.n_buckets, self.n_permutations, self.seed = n_buckets, n_permutations, seed
        self._kept: dict[int, np.ndarray] = {}  # of the last width

    @property
    def n_rows(self) -> int:
        return len(self.codes)

    @cached_property
    def counts(self) -> np.ndarray:
        """Rows of every class, (C,)."""
        return np.bincount(self.codes).astype(np.float64)

    @cached_property
    def diagonal(self) -> np.ndarray:
        """|y_i - mean|^2 of the one-hot row of each class, (C,)."""
        share = self.counts / self.n_rows
        return 1 - 2 * share + share @ share

    @property
    def trace(self) -> float:
        """sum |y_i - mean|^2."""
        return float(self.counts @ self.diagonal)

    @cached_property
    def spectrum(self) -> np.ndarray:
        """Eigenvalues of the centred target's kernel, (C,)."""
        root = np.sqrt(self.counts / self.n_rows)
        half = np.diag(np.sqrt(self.counts)) @ (np.eye(len(root)) - np.outer(root, root))
        return np.linalg.svd(half, compute_uv=False) ** 2

    @cached_property
    def self_hsic(self) -> float:
        """The unbiased criterion of the target with itself."""
        squares = float(np.square(self.spectrum).sum())
        return unbiased_value(self.n_rows, squares, float(self.counts @ self.diagonal**2), self.trace**2)

    def is_kept(self, width: int) -> np.ndarray:
        """Which rows of features of this width are kept, to be left out one by one: booleans of shape (n,)."""
        if width not in self._kept:
            chosen = kept_rows(self.n_rows, width, self.seed)
            self._kept = {width: np.isin(np.arange(self.n_rows), chosen)}
        return self._kept[width]

    def sketch(self) -> SketchedCKA:
        """An empty sketch of features, for these labels."""
        return SketchedCKA(self.n_buckets, seed=self.seed)

    @cached_property
    def sketches(self) -> np.ndarray:
        """The M x M matrices of the labels and of each permutation, above the diagonal, (1 + P, M (M - 1) / 2)."""
        (cells,), C, size = self.sketch().cells(np.arange(self.n_rows)), len(self.classes), 2 * self.n_buckets
        count = np.bincount(cells, minlength=size).astype(np.float64)
        above = np.triu_indices(self.n_buckets, 1)
        rng = np.random.default_rng(self.seed)
        found = np.empty((1 + self.n_permutations, len(above[0])))
        for number in range(len(found)):
            codes = self.codes if number == 0 else rng.permutation(self.codes)
            table = np.bincount(cells * C + codes, minlength=size * C).reshape(size, C)
            sums = SignedSums(table.astype(np.float64), count, self.n_rows)
            found[number] = np.ldexp(*sums.unit_gram(1, debias=True))[above]
        return found

    def exact_null(self, cka: float, spectrum: np.ndarray) -> tuple[float, float, float]:
        """Mean and deviation of the unbiased CKA by chance, and the p-value of a score.

        Parameters
        ----------
        spectrum : eigenvalues of the centred features' kernel.
        """
        n = self.n_rows
        deviation = float(np.sqrt(2 / (n * (n - 3)))) if n > 3 else float("nan")
        skewness = np.sqrt(8) * _skew(spectrum) * _skew(self.spectrum)
        return 0.0, deviation, _upper_tail(cka / deviation, skewness)


def _skew(spectrum: np.ndarray) -> float:
    v = np.clip(spectrum, 0.0, None) / max(spectrum.max(), 1e-300)
    return float((v**3).sum() / (v**2).sum() ** 1.5)


def _upper_tail(z: float, skewness: float) -> float:
    """P(Z >= z) of the gamma distribution with mean 0, variance 1 and this skewness."""
    if skewness < 1e-3:
        return float(ndtr(-z))
    shape = 4 / skewness**2
    return float(gammaincc(shape, max(shape + z * np.sqrt(shape), 0.0)))
