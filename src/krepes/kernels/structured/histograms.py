"""Kernels of histograms: vectors of numbers >= 0, such as counts and shares.

    chi2(x, y) = sum_j (x_j - y_j)^2 / (x_j + y_j),   0 / 0 = 0
    ChiSquared          exp(-chi2(x, y) / l)                                                      [zhang]
    ... additive        sum_j 2 x_j y_j / (x_j + y_j) = (sum_j x_j + sum_j y_j - chi2(x, y)) / 2  [vedaldi]
    Intersection        sum_j min(x_j, y_j) = (sum_j x_j + sum_j y_j - |x - y|_1) / 2             [maji]

All are positive semi-definite on numbers >= 0. min(x, y) is the overlap of the intervals [0, x] and [0, y]; 2 x y /
(x + y) is 2 x y times the integral of e^(-t x) e^(-t y) over t > 0; chi2 is a sum of one-row terms minus twice the
latter, so that -chi2 is conditionally definite and its exponential definite. Negative numbers are refused.

Cost O(n m d), compiled by numba as L1 distances are; memory is that of the result.
"""

from __future__ import annotations

from typing import Any

import torch
from sklearn.base import clone
from torch import Tensor

from krepes.kernels.distances import chi_squared_distances_to, manhattan_distances_to
from krepes.kernels.kernel import KernelColumns
from krepes.kernels.vectors import VectorKernel, as_rows, fixed_lengthscale, median_distance, medians


class ChiSquared(VectorKernel):
    """k(x, y) = exp(-chi2(x, y) / l), or the additive sum_j 2 x_j y_j / (x_j + y_j), of histograms.

    Parameters
    ----------
    lengthscale : float or "median", default="median"
        l; "median" makes the similarity 1/e at the median of chi2, and "4 median" is four times as long. The
        additive form has none.
    additive : bool, default=False
        Without the exponential: bins count one by one, and k(x, x) is the sum of a row.

    Examples
    --------
    >>> ChiSquared(lengthscale=1.0)([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])      # 1 and exp(-2)
    tensor([[1.0000, 0.1353]], dtype=torch.float64)
    >>> ChiSquared(additive=True)([[1.0, 2.0]], [[1.0, 6.0]])                     # 1 + 2 * 2 * 6 / 8
    tensor([[4.]], dtype=torch.float64)
    """

    takes_encoded = False

    def __init__(self, lengthscale: float | str = "median", additive: bool = False):
        self.lengthscale = lengthscale
        self.additive = additive

    def against_rows(self, Y: Tensor) -> KernelColumns:
        distances = chi_squared_distances_to(_checked(Y))
        if self.additive:
            return lambda X: _overlap(_checked(X), Y, distances(X))
        length = fixed_lengthscale(self.lengthscale)
        return lambda X: distances(_checked(X)).mul_(-1 / length).exp_()

    def diag_rows(self, X: Tensor) -> Tensor:
        _checked(X)
        return X.sum(1) if self.additive else X.new_ones(len(X))

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> ChiSquared:
        if self.additive or not isinstance(self.lengthscale, str):
            return self
        multiple = medians(self.lengthscale)
        length = median_distance(_checked(as_rows(X)), chi_squared_distances_to, generator)
        return clone(self).set_params(lengthscale=multiple * length)


class Intersection(VectorKernel):
    """k(x, y) = sum_j min(x_j, y_j), the part that two histograms have in common.

    Examples
    --------
    >>> Intersection()([[1.0, 2.0]], [[3.0, 1.0]])
    tensor([[2.]], dtype=torch.float64)
    """

    takes_encoded = False

    def against_rows(self, Y: Tensor) -> KernelColumns:
        distances = manhattan_distances_to(_checked(Y))
        return lambda X: _overlap(_checked(X), Y, distances(X))

    def diag_rows(self, X: Tensor) -> Tensor:
        return _checked(X).sum(1)


def _overlap(X: Tensor, Y: Tensor, distances: Tensor) -> Tensor:
    """(sum x + sum y - distance) / 2; rounding does not take it below zero."""
    sums = (X.sum(1)[:, None] + Y.sum(1)).sub_(distances)
    return sums.mul_(0.5).clamp_(min=0)


def _checked(X: Tensor) -> Tensor:
    if X.numel() and bool((X < 0).any()):
        column = int((X < 0).any(0).nonzero()[0, 0])
        raise ValueError(
            f"A kernel of histograms compares numbers >= 0, but column {column} has {X[:, column].min().item():.4g}. "
            "Give counts as an array, or name their columns in a ColumnKernel: those of a table are standardised."
        )
    return X
