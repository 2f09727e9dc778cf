"""How much each column counts in the metric that a machine has learned, and how sure that is.

    importance of column j  =  sum over its encoded columns e of  M_ee Var(x_e),     scaled to sum to 1

the part of the mean squared distance between two rows, in the metric M of the kernel, that the column makes up. Its
error is that of a jackknife: the metric is learned, from nothing, without each of k folds of a sample of the rows.
With the shares s_f,

    error^2 = (k - 1) / k  sum_f (s_f - mean s)^2

Cost: k times the choice of lengthscale and metric for one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.display import displayed
from krepes.base.rows import REDUCE
from krepes.kernels import Reweighted
from krepes.kernels.vectors import RadialKernel, as_rows
from krepes.machines.kernel_ridge.leave_one_out_score import LeaveOneOutTrials
from krepes.machines.kernel_ridge.sample_fit import MOST_ROWS, Sample
from krepes.machines.kernel_search import KernelSearch, compared
from krepes.preprocessing.input_space import InputSpace

if TYPE_CHECKING:
    from krepes.machines.kernel_ridge.machine import RidgeMachine
    from krepes.one_pass import OnePassEstimator

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


def importances(machine: RidgeMachine, n_folds: int) -> ColumnImportances:
    """The importances in a machine's metric, and in those that are learned without each fold of a sample."""
    kernel, inputs, total = machine.kernel_, machine.input_space_, machine.total_
    if inputs.kind == "sparse":
        raise ValueError(
            f"Columns of sparse rows have no importances, because no metric is learned. {REDUCE}."
        )
    if not isinstance(kernel, Reweighted) or machine.metric_ in (None, "as given", "standardised"):
        raise ValueError(
            "This machine has learned no metric, so that it has no importances of columns: either none was asked "
            "for (input_metric=None), or none predicted rows that were left out better."
        )
    assert total is not None
    kept = total.kept.take(np.arange(min(MOST_ROWS, len(total.kept.rows))))
    assert isinstance(kept.inputs, Tensor)
    rows, Y = as_rows(kept.inputs).double(), machine.targets_.matrix(kept.y)
    sample = Sample(rows, Y, kept.weight, machine.fit_intercept, machine.seed_)
    columns = inputs.groups or [[j] for j in range(rows.shape[1])]
    variances = weighted_variances(rows, kept.weight)
    of_row = np.random.default_rng(sample.seed).permutation(len(rows)) % max(n_folds, 1)
    shares = []
    for fold in np.unique(of_row) if n_folds else ():
        part = sample.part(torch.from_numpy(of_row != fold).to(rows.device))
        M = learned_metric(part, kernel, machine._search, inputs)
        if M is not None:
            shares.append(shares_of(M, variances, columns))
    fitted = shares_of(np.asarray(kernel.M), variances, columns)
    names = names_of_columns(machine, rows.shape[1])
    return ColumnImportances(names, fitted, np.reshape(shares, (len(shares), len(columns))))


def names_of_columns(machine: OnePassEstimator, width: int) -> list[str]:
    """Of the columns of the table; x0, x1, ... where they have no names."""
    if machine.input_space_.encoder is not None:
        return list(machine.input_space_.encoder.used_columns_)
    return [str(name) for name in vars(machine).get("feature_names_in_", [f"x{j}" for j in range(width)])]


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


def learned_metric(
    sample: Sample, kernel: Reweighted, search: KernelSearch, inputs: InputSpace
) -> np.ndarray | None:
    """The metric of the kind of a kernel's that a sample teaches; None where the function is constant there."""
    kind, inner = "diagonal" if np.asarray(kernel.M).ndim == 1 else "full", kernel.kernel
    assert inner is not None
    if search.searches_lengthscale and isinstance(inner, RadialKernel):
        inner = clone(inner).set_params(lengthscale="median")
    tried = compared(
        LeaveOneOutTrials(sample, inputs.groups),
        [inner],
        search_lengthscale=search.searches_lengthscale,
        metric=kind,
        standardise=search.standardises(inputs),
    ).tried
    learned = [each for each in tried if each.metric.startswith(kind)]
    if not learned:
        return None
    best = min(learned, key=lambda each: each.error).kernel
    assert isinstance(best, Reweighted)
    return np.asarray(best.M)
