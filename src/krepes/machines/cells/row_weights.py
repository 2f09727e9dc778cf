"""What a prediction in cells is made of: a weighted mean of the targets of real rows.

    f(x) = sum_i h_i(x) y_i,      h(x) = M k_x + s / s^T 1,      sum_i h_i(x) = 1                  M, s as in exact_cell

It is exact: the fit of a cell is linear in its targets. A row that is left out moves the prediction by

    f(x) - f_without i(x) = h_i(x) e_i,          e_i the error of row i left out

because leaving row i out is the same as giving it the target that the others predict. Both are means over partitions,
so that the weights of all rows sum to 1. (Without an intercept weights sum to less. Where cells learn what landmarks
leave over, the same holds of that.) Cost: one Cholesky factor for every cell that a row asked about is in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from krepes.machines.cells.cell_model import CellModel, by_cell
from krepes.machines.cells.cell_solver import CellProblem, CellSolver
from krepes.machines.cells.exact_cell import LEAST
from krepes.machines.cells.local_plan import LocalPlan


@dataclass(frozen=True, eq=False)
class RowWeights:
    """For n predictions, the k training rows with the largest weights.

    Attributes
    ----------
    rows : ndarray of shape (n, k), int64
        Global indices of training rows; -1 where there are fewer.
    weights : ndarray of shape (n, k)
        h: the prediction is the sum of weights times targets, over all rows.
    effects : ndarray of shape (n, k, c)
        How far the prediction moves, in the units of the targets, when the row is left out: f - f without it.
    similarity : ndarray of shape (n, k)
        Kernel values, the mean over partitions: smaller where the row is a neighbour in some of them only.
    others : ndarray of shape (n,)
        The sum of the weights of all other rows.
    coverage : ndarray of shape (n,)
        k_x^T C^-1 k_x / k(x, x): the share of a row that the rows of its cells represent, less what the penalty takes.
    """

    rows: np.ndarray
    weights: np.ndarray
    effects: np.ndarray
    similarity: np.ndarray
    others: np.ndarray
    coverage: np.ndarray


class CellWeights(NamedTuple):
    """Of the queries that fall into one cell: h (n, q), effects (n, q, c), kernel values (n, q), coverage (q,)."""

    h: Tensor
    effects: Tensor
    K: Tensor
    coverage: Tensor


def weights_in_cell(problem: CellProblem, plan: LocalPlan, X: Tensor, intercept: bool) -> CellWeights:
    """Weights of the rows of a cell for rows X, (q, d), in double precision."""
    rows, Y = problem.X.double(), problem.R.double()
    weight = torch.ones(len(rows), dtype=torch.float64) if problem.weight is None else problem.weight.double()
    C = plan.kernel(rows)
    C.diagonal().add_(plan.penalty / weight)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(C))
    K = plan.kernel(rows, X.double())
    h, A, M = inverse @ K, inverse @ Y, inverse.diagonal()
    coverage = (K * h).sum(0) / plan.kernel.diag(X.double())
    if intercept:
        s = inverse.sum(0)
        share = s / s.sum()
        h = h - share[:, None] * (s @ K) + share[:, None]
        A, M = A - s[:, None] * (share @ Y), M - s * share
    errors = A / M.clamp(min=LEAST)[:, None]
    return CellWeights(h, h[:, :, None] * errors[:, None, :], K, coverage)


def weights_of_rows(solver: CellSolver, model: CellModel, X: Tensor, n_top: int) -> RowWeights:
    """The rows that predictions of X, (n, d), are made of, the largest weights first."""
    P, n_outputs = len(model.partitions), model.partitions[0].b.shape[1]
    coverage = np.zeros(len(X))
    sums: list[dict[int, np.ndarray]] = [
        {} for _ in range(len(X))
    ]  # training row -> weight, similarity, effects
    for part in model.partitions:
        for cell, queries in by_cell(part.tree.cells_of(X)):
            places = part.places(cell)
            if not len(places):
                continue
            found = weights_in_cell(solver.problem(places), solver.plan, X[queries], solver.intercept)
            coverage[queries.numpy()] += found.coverage.numpy() / P
            values = torch.cat(
                [found.h[..., None] / P, found.K[..., None] / P, found.effects / P], dim=2
            ).numpy()
            numbers = solver.rows.rows[places].tolist()
            for q, query in enumerate(queries.tolist()):
                known = sums[query]
                for number, value in zip(numbers, values[:, q]):
                    known[number] = known[number] + value if number in known else value
    k = min(n_top, max(map(len, sums), default=0))
    rows, values = np.full((len(X), k), -1), np.zeros((len(X), k, 2 + n_outputs))
    for query, known in enumerate(sums):
        found_rows, each = np.array(list(known)), np.array(list(known.values())).reshape(len(known), -1)
        first = np.argsort(-np.abs(each[:, 0]), kind="stable")[:k]
        rows[query, : len(first)], values[query, : len(first)] = found_rows[first], each[first]
    total = np.array([sum(value[0] for value in known.values()) for known in sums])
    weights, similarity, effects = values[:, :, 0], values[:, :, 1], values[:, :, 2:]
    return RowWeights(rows, weights, effects, similarity, total - weights.sum(1), coverage)
