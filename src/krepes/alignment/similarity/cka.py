"""Centred kernel alignment: the cosine between two centred kernels, a similarity of representations.

    CKA(K, L) = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))                     [kornblith; tang, Eq. 2.1]

For linear kernels K = X X^T it is |X^T Y|_F^2 / (|X^T X|_F |Y^T Y|_F) of centred columns [tang, Eq. 2.2], invariant
to rotations of the features and to their scale, not to other linear maps. With the biased criterion CKA of
unrelated representations tends to 1 as their width grows (0.94 for 32 rows of 512 numbers); the unbiased one, which
is the default, is 0 on average, whatever the width.

Cost O(n d_x d_y); differs from [tang, Sec. 2.3.1], which prints O(n (d_x + d_y)).

`StreamedCKA` gives the same value in one pass. Its statistics are the Gram matrices of the rows (x, |x|^2, 1):
|X^T Y|_F^2, sum |x|^2 |y|^2, sum |x|^2, sums, n. Streams that began differently can be merged, and the final value is
computed at the mean. Cost O(n (d_x + d_y)^2), memory 8 (d_x + d_y)^2 bytes. For large d, `SketchedCKA` needs O(M d).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch

from krepes.alignment.inputs import KernelChoice
from krepes.alignment.similarity.augmented_grams import AugmentedGrams, varies
from krepes.alignment.similarity.hsic import (
    ESTIMATORS,
    CentredKernel,
    hsic,
    hsic_without_each,
    total_product,
    unbiased_value,
)
from krepes.base.accumulator import SumOfValues
from krepes.base.blocks import Block
from krepes.base.storage.packing import digest
from krepes.base.validation import (
    as_array,
    as_flat_matrix,
    check_choice,
    check_count,
    check_same_rows,
    check_squares,
    generator_of,
    is_number,
)
from krepes.kernels import as_kernel

# One kernel, or one for X and one for Y.
KernelChoices = KernelChoice | tuple[KernelChoice, KernelChoice] | list[KernelChoice]
SMALLEST = 1e-13  # of HSIC(K, K) relative to its first term: below it is rounding


def cka(X: Any, Y: Any, *, estimator: str = "unbiased", kernel: KernelChoices = "linear") -> float:
    """How alike two representations of the same rows are: 1 the same up to rotation and scale, 0 unrelated.

    Parameters
    ----------
    X, Y : array or tensor of shape (n, d_x) and (n, d_y)
        Rows in the same order; more dimensions are flattened. At least 4 rows.
    estimator : "unbiased" or "biased", default="unbiased"
    kernel : "linear", "precomputed", Kernel, name or callable, or a pair of these for X and Y, default="linear"
        With "precomputed" the n x n kernel matrix is given in place of the features. Lengthscales such as "median" are
        found on all rows.

    Returns
    -------
    float
        At most 1; the unbiased value of unrelated representations may be slightly below 0.

    Examples
    --------
    For one centred column each it is the squared correlation: orthogonal columns give 0, an angle of 60 degrees 1/4.

    >>> x, y = np.array([1, 1, -1, -1]), np.array([1, -1, 1, -1])
    >>> cka(x, y, estimator="biased")
    0.0
    >>> round(cka(x, x + 3**0.5 * y, estimator="biased"), 12)
    0.25
    """
    K, L = _kernels(X, Y, kernel, estimator)
    return _value(K, L, estimator)


@dataclass(frozen=True)
class AlignmentTest:
    """CKA with what is known about its error.

    Attributes
    ----------
    value : CKA.
    p_value : share of permutations of the rows of Y, the identity included, whose alignment is at least as large;
        NaN if none were drawn.
    standard_error : the jackknife's standard error, over rows.
    low, high : the value plus and minus normal quantiles of that error.
    confidence : the confidence level of the interval.
    n_rows, n_permutations : int
    """

    value: float
    p_value: float
    standard_error: float
    low: float
    high: float
    confidence: float
    n_rows: int
    n_permutations: int

    def __str__(self) -> str:
        text = f"CKA {self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"
        return text if np.isnan(self.p_value) else f"{text}, p = {self.p_value:.3g}"


def cka_test(
    X: Any,
    Y: Any,
    *,
    estimator: str = "unbiased",
    kernel: KernelChoices = "linear",
    n_permutations: int = 199,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> AlignmentTest:
    """CKA with a jackknife interval and a permutation p-value of "X and Y are unrelated".

    For the other parameters see `cka`. Interval and p-value hold for rows that are independent of one another.
    The interval costs as much as the value, and every permutation costs a part of it.

    Parameters
    ----------
    n_permutations : int, default=199
        0 leaves the p-value out. The smallest possible p-value is 1 / (n_permutations + 1).
    confidence : float, default=0.95
    random_state : int, numpy Generator or None, default=None

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> cka_test(X, X[:, :2], n_permutations=99, random_state=0).p_value        # none of 99 is as large
    0.01
    """
    if not is_number(confidence, above=0, below=1):
        raise ValueError(f"confidence={confidence!r}: expected a number between 0 and 1, such as 0.95.")
    check_count("n_permutations", n_permutations, least=0)
    K, L = _kernels(X, Y, kernel, estimator)
    value = _value(K, L, estimator)
    error = _jackknife_error(K, L, estimator)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * error
    p = _permutation_p_value(K, L, estimator, n_permutations, generator_of(random_state))
    return AlignmentTest(value, p, error, value - reach, value + reach, confidence, K.n, n_permutations)


def _kernels(X: Any, Y: Any, kernel: KernelChoices, estimator: str) -> tuple[CentredKernel, CentredKernel]:
    check_estimator(estimator)
    pair = kernel if isinstance(kernel, tuple | list) else (kernel, kernel)
    if len(pair) != 2:
        raise ValueError(f"kernel={kernel!r}: expected one kernel, or one for X and one for Y.")
    first, second = centred(X, pair[0], "X"), centred(Y, pair[1], "Y")
    check_same_rows(second.n, first.n, "Y")
    check_enough_rows(first.n)
    return first, second


def centred(X: Any, kernel: KernelChoice, name: str = "X") -> CentredKernel:
    """A representation under a kernel, centred."""
    X, given = as_flat_matrix(X, name), kernel if isinstance(kernel, str) else ""
    if given == "linear":
        return CentredKernel.of_features(X)
    if given == "precomputed":
        scale = np.abs(X).max()
        if X.shape[0] != X.shape[1] or np.abs(X - X.T).max() > 1e-6 * scale:
            raise ValueError(f"{name} has shape {X.shape}; expected a symmetric kernel matrix, (n, n).")
        return CentredKernel.of_matrix((X + X.T) / 2)
    return CentredKernel.of_matrix(_kernel_matrix(X, kernel, name))


def _kernel_matrix(X: np.ndarray, kernel: KernelChoice, name: str) -> np.ndarray:  # (n, d) -> (n, n)
    """The values of a kernel that is not linear, refused where the rows are too large for it."""
    check_squares(X, name)
    rows = X.astype(np.float64)
    fitted = as_kernel(kernel).fitted(rows)
    K = fitted(rows).double().numpy()
    if not np.isfinite(K).all():
        raise ValueError(
            f"{fitted} gives NaN or infinite values for {name}, up to {np.abs(rows).max():.3g}: divide it first."
        )
    return K


def check_estimator(estimator: str) -> None:
    check_choice("estimator", estimator, ESTIMATORS)


def check_enough_rows(n: int) -> None:
    if n < 4:
        raise ValueError(f"Alignment needs at least 4 rows; got {n}.")


def _value(K: CentredKernel, L: CentredKernel, estimator: str) -> float:
    first, second = self_hsic(K, estimator, "X"), self_hsic(L, estimator, "Y")
    return min(hsic(K, L, estimator) / (first**0.5 * second**0.5), 1.0)


def self_hsic(K: CentredKernel, estimator: str, name: str) -> float:
    """HSIC(K, K); zero is refused."""
    value = hsic(K, K, estimator)
    check_self(value, total_product(K, K) / K.n**2, name)
    return value


def check_self(value: float, scale: float, name: str) -> None:
    """Raise an error for a constant representation: it does not tell rows apart, and its alignment would be 0 / 0."""
    if not value > SMALLEST * scale:
        alike = "equally far from one another" if scale > 0 else "the same"
        raise ValueError(f"All rows of {name} are {alike}: its alignment with anything is undefined.")


def _jackknife_error(K: CentredKernel, L: CentredKernel, estimator: str) -> float:
    """sqrt((n-1)/n sum_i (CKA_-i - mean)^2); NaN where the alignment without a row is undefined."""
    if K.n < 5 and estimator == "unbiased":
        return float("nan")
    cross, first, second = (hsic_without_each(A, B, estimator) for A, B in ((K, L), (K, K), (L, L)))
    with np.errstate(invalid="ignore", divide="ignore"):
        values = cross / np.sqrt(first * second)
    return float(np.sqrt((K.n - 1) * values.var()))


def _permutation_p_value(
    K: CentredKernel, L: CentredKernel, estimator: str, n_permutations: int, generator: np.random.Generator
) -> float:
    if n_permutations == 0:
        return float("nan")
    observed, larger = hsic(K, L, estimator), 1
    for _ in range(n_permutations):
        drawn = hsic(K, L.permuted(generator.permutation(K.n)), estimator)
        larger += bool(drawn >= observed - 1e-12 * abs(observed))
    return larger / (n_permutations + 1)


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
