"""Kernels and machines compared by the errors of the same rows: which is lower by more than chance explains."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from krepes.features.kernel_choice import Tried, clearly_lower
from krepes.kernels import Kernel, Reweighted


@dataclass(frozen=True, eq=False)
class TriedByLeaveOneOut(Tried):
    """One kernel, and its mean squared leave-one-out error on some rows, summed over outputs.

    Attributes
    ----------
    kernel, metric, error : as in Tried
    medians : float
        Its lengthscale in median distances; NaN where it has none.
    penalty : float
    row_errors : ndarray of shape (n,)
    """

    medians: float
    penalty: float
    row_errors: np.ndarray

    @property
    def metric_matrix(self) -> np.ndarray | None:
        """M of the kernel, (d,) or (d, d); None without a metric."""
        return np.asarray(self.kernel.M) if isinstance(self.kernel, Reweighted) else None

    @property
    def inner(self) -> Kernel:
        """The kernel without its metric."""
        inner = self.kernel.kernel if isinstance(self.kernel, Reweighted) else self.kernel
        assert inner is not None
        return inner

    def line(self, width: int) -> str:
        unit = "median, " if self.medians == 1 else "medians,"
        scale = " " * 18 if math.isnan(self.medians) else f"{self.medians:8.3g} {unit} "
        return f"{self.name:<{width}} {scale}{self.metric:<14} {self.error:.4f}"

    def is_worse_than(self, other: TriedByLeaveOneOut) -> bool:
        """By more than chance explains."""
        return clearly_lower(other.row_errors, self.row_errors)
