"""Columns that count for one row: exact Shapley values of f(x) = b + sum_l a_l prod_j kappa_j(x_j, x_lj).

A coalition S of columns keeps its values; every other column is averaged, one by one, over reference rows:

    v(S) = b + sum_l a_l prod_(j in S) p_lj prod_(j not in S) q_lj,     p = kappa_j(x_j, x_lj),  q = its mean over rows
    value_j = integral from 0 to 1 of  sum_l a_l (p_lj - q_lj) prod_(i != j) (q_li + t (p_li - q_li)) dt          [owen]

Values add up: f(x) = v(none) + sum of values. The integrand is a polynomial of degree d - 1 in t, so that d / 2 nodes
of Gauss and Legendre integrate it exactly: O(m d^2 / 2) for each row, where a sum over coalitions takes 2^d. Kernels
that are no product over columns but a mean of Gaussians are summed over their mixture:

    matern_nu(r) = E exp(-nu r^2 / (2 l^2 g)),   g ~ Gamma(nu)          [Bessel's integral], the Laplacian with nu = 1/2

by the trapezoidal rule in log g, off by less than 1e-8 of k(x, x) (tested).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.rows import dense
from krepes.explain.expansion import Explained, all_inputs, checked, coefficient_tensor
from krepes.explain.training_rows import TrainingRows
from krepes.kernels import Gaussian, Kernel, Laplacian, Matern, Reweighted
from krepes.kernels.kernel import ProductTerms
from krepes.machines.kernel_ridge.column_importance import names_of_columns

REFERENCE = 100  # rows over which absent columns are averaged
STEP, LARGEST = 0.3, 4.0  # of log g
TAIL, LEAST = 1e-13, -36.0  # of the mixture, left out; of log g


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """What every column adds to n outputs: outputs = base + values.sum(1).

    Attributes
    ----------
    names : list of str
    values : ndarray of shape (n, g, c)
    base : ndarray of shape (c,)
        The output where all columns are averaged.
    """

    names: list[str]
    values: np.ndarray
    base: np.ndarray


def column_values(model: Explained, X: Any, against: Any = None) -> ColumnValues:
    """Exact Shapley values of the columns of every row, for every output of the model.

    Parameters
    ----------
    model : KernelEmbedding, kernel ridge machine or Gaussian process of rows of numbers and categories
    X : rows, in any form that the model takes
    against : rows, default=None
        Absent columns are averaged over them: one row gives the reasons why X differs from it. By default a sample of
        the rows that are kept with the model, or its landmarks.

    Examples
    --------
    Only the first of three columns matters:

    >>> from krepes.machines import KernelRidgeRegressor
    >>> X = np.random.default_rng(0).standard_normal((80, 3))
    >>> machine = KernelRidgeRegressor(kernel="gaussian", random_state=0).fit(X, X[:, 0])
    >>> found = column_values(machine, X[:1])
    >>> int(np.abs(found.values[0, :, 0]).argmax())
    0
    """
    R = _reference(model) if against is None else encoded_rows(model, against)
    return values_between(model, encoded_rows(model, X), R)


def values_between(model: Explained, rows: Tensor, reference: Tensor) -> ColumnValues:
    """The same of rows in the model's input space, (n, d)."""
    L = dense(checked(model).landmarks_).double()
    terms = product_terms(model.kernel_)
    if terms is None or L.ndim != 2:
        raise ValueError(
            "Columns have exact values where the kernel is a product over them or a mean of Gaussians; "
            f"{model.kernel_!r:.80} on these rows is neither."
        )
    A, width = coefficient_tensor(model, torch.float64), L.shape[1]
    groups = model.space_.inputs.groups or [
        [j] for j in range(width)
    ]  # encoded columns by those of the table
    nodes, sizes = np.polynomial.legendre.leggauss((len(groups) + 1) // 2)
    absent = [_factors(kernel, groups, reference, L).mean(1) for _, kernel in terms]  # (g, m) each
    base = torch.from_numpy(model.intercept_).to(A)
    base = base + sum(w * (q.prod(0) @ A) for (w, _), q in zip(terms, absent))
    found = torch.zeros(len(rows), len(groups), A.shape[1], dtype=torch.float64)
    for row, values in zip(rows.split(1), found):
        for (w, kernel), q in zip(terms, absent):
            p = _factors(kernel, groups, row, L)[:, 0]  # (g, m)
            for t, size in zip((1 + nodes) / 2, sizes / 2):
                logs = torch.lerp(q, p, float(t)).clamp(min=1e-300).log()
                values += w * size * ((p - q) * (logs.sum(0) - logs).exp()) @ A
    return ColumnValues(names_of_columns(model, width), found.numpy(), base.numpy())


def product_terms(kernel: Kernel) -> ProductTerms | None:
    """A kernel as a weighted sum of products over columns; of Matern and Laplacian kernels, a mixture of Gaussians."""
    if isinstance(kernel, Reweighted) and isinstance(kernel.kernel, Kernel):
        inner = product_terms(kernel.kernel)
        diagonal = np.ndim(np.asarray(kernel.M)) == 1
        return [(w, Reweighted(each, kernel.M)) for w, each in inner] if inner and diagonal else None  # type: ignore[arg-type]
    if not (isinstance(kernel, Matern) or (isinstance(kernel, Laplacian) and kernel.norm == 2)):
        return kernel.product_terms()
    nu = kernel.nu if isinstance(kernel, Matern) else 0.5
    logs = np.arange(max(LEAST, math.log(TAIL * math.gamma(nu + 1)) / nu), LARGEST, STEP)
    weights = STEP * np.exp(nu * logs - np.exp(logs)) / math.gamma(nu)
    scales = np.sqrt(np.exp(logs) / nu)
    length: Any = kernel.lengthscale
    return [
        (float(w), Gaussian(np.asarray(length) * s if np.ndim(length) else float(length * s)))
        for w, s in zip(weights, scales)
    ]


def _factors(kernel: Any, groups: Sequence[Sequence[int]], X: Tensor, L: Tensor) -> Tensor:
    """The factor of every group of columns, (g, n, m)."""
    each = [kernel.coordinate_product(list(g), X[:, list(g)], L[:, list(g)], [0.0] * len(g)) for g in groups]
    return torch.stack(each)


def encoded_rows(model: Explained, X: Any) -> Tensor:
    """Rows in the model's input space, (n, d)."""
    return dense(all_inputs(model, X)).double()


def _reference(model: Explained) -> Tensor:
    kept = TrainingRows.kept_by(model)
    rows = dense(model.landmarks_ if kept is None else kept.inputs)
    return rows[:: max(1, len(rows) // REFERENCE)][:REFERENCE].double()
