"""How much each column counts in the metric that a machine has learned, and how sure that is.

    importance of column j  =  sum over its encoded columns e of  M_ee Var(x_e),     scaled to sum to 1

the part of the mean squared distance between two rows, in the metric M of the kernel, that the column makes up. Its
error is that of a jackknife: the metric is learned, from nothing, without each of k folds of a sample of the rows.
With the shares s_f,

    error^2 = (k - 1) / k  sum_f (s_f - mean s)^2

Cost: k times the choice of lengthscale and metric for one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.display import displayed
from krepes.kernels import Kernel, Reweighted
from krepes.kernels.radial import RadialKernel
from krepes.machines.kernel_ridge.leave_one_out_score import LeaveOneOutTrials
from krepes.machines.kernel_ridge.sample_fit import Sample
from krepes.machines.kernel_search import compared

SHOWN = 20


@displayed
@dataclass(frozen=True, eq=False)
class ColumnImportances:
    """Shares of the columns of a table, in the order of the columns. `print` shows the largest first.

    Attributes
    ----------
    names : list of str
    shares : ndarray of shape (p,)
        They sum to 1.
    without_folds : ndarray of shape (k, p)
        The shares in the metrics that were learned without each fold.
    """

    names: list[str]
    shares: np.ndarray
    without_folds: np.ndarray

    @property
    def errors(self) -> np.ndarray | None:
        """Standard errors of the shares, (p,); None where fewer than two metrics were learned."""
        k, s = len(self.without_folds), self.without_folds
        return np.sqrt((k - 1) / k * np.square(s - s.mean(axis=0)).sum(axis=0)) if k > 1 else None

    @property
    def order(self) -> np.ndarray:
        """Places of the columns, the most important first."""
        return np.argsort(-self.shares, kind="stable")

    def __str__(self) -> str:
        width = max(map(len, self.names))
        return "\n".join(f"{self.names[j]:<{width}}  {self.words(j):>12}" for j in self.order[:SHOWN])

    def words(self, j: int) -> str:
        """The share of a column, such as 12.3 ± 1.0 %."""
        error = "" if self.errors is None else f" ± {100 * self.errors[j]:.1f}"
        return f"{100 * self.shares[j]:.1f}{error} %"


def importances(
    sample: Sample,
    kernel: Reweighted,
    names: list[str],
    n_folds: int,
    *,
    search_lengthscale: bool,
    standardise: bool,
    groups: list[list[int]] | None,
) -> ColumnImportances:
    """The importances in a kernel's metric, and in those of the sample without each fold; see `compared`."""
    columns = groups or [[j] for j in range(sample.rows.shape[1])]
    variances = weighted_variances(sample.rows, sample.weight)
    without = metrics_without_folds(
        sample,
        kernel,
        np.random.default_rng(sample.seed).permutation(len(sample.rows)) % max(n_folds, 1),
        search_lengthscale=search_lengthscale,
        standardise=standardise,
        groups=groups,
    )
    shares = [shares_of(M, variances, columns) for M in without] if n_folds else []
    fitted = shares_of(np.asarray(kernel.M), variances, columns)
    return ColumnImportances(names, fitted, np.reshape(shares, (len(shares), len(columns))))


def shares_of(
    M: np.ndarray,  # shape: (d,) or (d, d)
    variances: np.ndarray,  # shape: (d,)
    groups: list[list[int]],
) -> np.ndarray:
    """The share of every group of encoded columns.

    >>> shares_of(np.array([2.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0]), [[0], [1, 2]])
    array([0.5, 0.5])
    """
    weights = (M if M.ndim == 1 else np.diag(M)) * variances
    parts = np.array([weights[columns].sum() for columns in groups])
    return parts / parts.sum()


def weighted_variances(rows: Tensor, weight: Tensor | None) -> np.ndarray:
    """The variance of every column, (d,).

    >>> weighted_variances(torch.tensor([[0.0], [4.0]]), torch.tensor([3.0, 1.0]))        # mean 1: (3 * 1 + 9) / 4
    array([3.], dtype=float32)
    """
    w = rows.new_ones(len(rows)) if weight is None else weight.to(rows)
    w = w / w.sum()
    return (w @ (rows - w @ rows).square()).cpu().numpy()


def metrics_without_folds(
    sample: Sample,
    kernel: Reweighted,
    folds: np.ndarray,  # shape: (n,)
    *,
    search_lengthscale: bool,
    standardise: bool,
    groups: list[list[int]] | None,
) -> Iterator[np.ndarray]:
    """The metric that is learned from the rows outside of each fold; none where the function is constant there."""
    kind = "diagonal" if np.asarray(kernel.M).ndim == 1 else "full"
    for fold in np.unique(folds):
        part = sample.part(torch.from_numpy(folds != fold).to(sample.rows.device))
        tried = compared(
            LeaveOneOutTrials(part, groups),
            [_unfitted(kernel, search_lengthscale)],
            search_lengthscale=search_lengthscale,
            metric=kind,
            standardise=standardise,
        ).tried
        learned = [each for each in tried if each.metric.startswith(kind)]
        if learned:
            best = min(learned, key=lambda each: each.error).kernel
            assert isinstance(best, Reweighted)
            yield np.asarray(best.M)


def _unfitted(kernel: Reweighted, search_lengthscale: bool) -> Kernel:
    """The kernel behind the metric, its lengthscale open where it is searched for."""
    inner = kernel.kernel
    assert inner is not None
    search = search_lengthscale and isinstance(inner, RadialKernel)
    return clone(inner).set_params(lengthscale="median") if search else inner
