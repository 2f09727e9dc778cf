"""Variances of Gaussian processes in cells, and their amplitude.

    f ~ GP(0, a k) in every cell,    y = f + e,    e ~ N(0, a penalty / w)
    var f(x) = a (k(x, x) - k_x^T C^-1 k_x),    C = K + penalty W^-1             the mean over partitions
    a        = mean over rows of  e_i A_i                   e_i the error of row i left out, whose variance is a / M_ii

The variance of a mean is at most the mean of the variances, whatever the partitions have in common. The amplitude makes
the squares of standardised errors of rows left out 1 on average [rasmussen, 5.4.2]; that holds for wrong models, too.
Cost: a Cholesky factor for every cell that a row asked about is in, O(s^3), and O(s^2) for each row; no factor is kept.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from krepes.machines.cells.cell_model import CellModel, by_cell
from krepes.machines.cells.cell_solver import CellSolver

LEAST = 1e-20  # amplitude: of targets that are all the same, errors of rows left out are zero


def variances_in_cells(solver: CellSolver, model: CellModel, X: Tensor) -> Tensor:
    """k(x, x) - k_x^T C^-1 k_x of rows X, (b, d), in double precision; the mean over partitions, (b,)."""
    kernel, X = solver.plan.kernel, X.double()
    prior = kernel.diag(X)
    explained = torch.zeros_like(prior)
    for part in model.partitions:
        for cell, queries in by_cell(part.tree.cells_of(X)):
            places = part.places(cell)
            if len(places):
                rows, weight = solver.rows.inputs[places].double(), solver.weight[places]
                C = kernel(rows)
                C.diagonal().add_(solver.plan.penalty / weight)
                half = torch.linalg.solve_triangular(
                    torch.linalg.cholesky(C), kernel(rows, X[queries]), upper=False
                )
                explained[queries] += half.square().sum(0)
    return (prior - explained / len(model.partitions)).clamp_(min=0)


def left_out_amplitude(model: CellModel, rows: Tensor) -> float:
    """Of rows left out; `rows` are the global indices of all, (n,)."""
    products = [part.left_coefficients(rows) * part.left_errors for part in model.partitions]
    return max(torch.stack(products).mean().item(), LEAST)


def log_likelihood(model: CellModel, amplitude: float, n_outputs: int) -> float:
    """log N(Y; 0, a C), summed over cells, the mean over partitions."""
    found = 0.0
    for part in model.partitions:
        log_det, squares = part.likelihood.sum(0).tolist()
        n = len(part.order)
        found -= (squares / amplitude + n_outputs * (log_det + n * math.log(2 * math.pi * amplitude))) / 2
    return found / len(model.partitions)
