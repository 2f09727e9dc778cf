"""Neighbour graphs as codings: a row is expressed by the rows next to it.

    equal          c_ij = 1 for the k nearest rows j, 0 for others
    self-tuning    c_ij = exp(-|x_i - x_j|^2 / (s_i s_j)), s_i the distance to the k-th nearest row          [zelnik]

They find clusters that are not subspaces: clouds, and manifolds that are sampled densely. Cost O(n^2 d).
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.base.validation import check_count
from krepes.clustering.affinity import CoefficientRows
from krepes.clustering.codings import Coding, NewCoefficients
from krepes.clustering.self_expression import Index, SelfExpression, without_own


class Neighbours(Coding):
    """The k nearest rows, with equal weights.

    Parameters
    ----------
    n_neighbors : int, default=10
        k.

    Examples
    --------
    >>> from krepes.clustering.self_expression import DualExpression
    >>> from krepes.kernels import Linear
    >>> X = torch.tensor([[0.0], [1.0], [3.0]])
    >>> Neighbours(1).rows(DualExpression(Linear(), X, 1.0))(slice(None)).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """

    name = "neighbours"

    def __init__(self, n_neighbors: int = 10):
        self.n_neighbors = n_neighbors

    def rows(self, expression: SelfExpression) -> CoefficientRows:
        k = self._count(expression)

        def coefficients(rows: Index) -> Tensor:
            D = expression.square_distances(rows)
            indices = torch.arange(D.shape[1])[rows]
            D[torch.arange(len(D)), indices] = torch.inf
            return without_own(self._weights(D, expression, k, indices), rows)

        return coefficients

    def new_rows(self, expression: SelfExpression) -> NewCoefficients:
        k = self._count(expression)
        return lambda Y: self._weights(torch.cdist(Y, expression.X).square_(), expression, k, None)

    def _count(self, expression: SelfExpression) -> int:
        check_count("n_neighbors", self.n_neighbors)
        return min(int(self.n_neighbors), len(expression.X) - 1)

    def _weights(self, D: Tensor, expression: SelfExpression, k: int, rows: Tensor | None) -> Tensor:
        """Weights of all rows of X for some rows, from their squared distances (b, n)."""
        return torch.zeros_like(D).scatter_(1, D.topk(k, largest=False).indices, 1.0)


class SelfTuning(Neighbours):
    """Weights that fall with the distance, relative to the distances that both rows are used to.

    Parameters
    ----------
    n_neighbors : int, default=7
        k.

    Examples
    --------
    >>> from krepes.clustering.self_expression import DualExpression
    >>> from krepes.kernels import Linear
    >>> X = torch.tensor([[0.0], [1.0], [3.0]])
    >>> SelfTuning(1).rows(DualExpression(Linear(), X, 1.0))(slice(0, 1))      # exp(-1), exp(-9 / 2)
    tensor([[0.0000, 0.3679, 0.0111]])
    """

    name = "self_tuning"

    def __init__(self, n_neighbors: int = 7):
        super().__init__(n_neighbors)

    def _weights(self, D: Tensor, expression: SelfExpression, k: int, rows: Tensor | None) -> Tensor:
        tiny = torch.finfo(D.dtype).tiny ** 0.5
        reach = _reach(D, k).clamp(min=tiny)
        if rows is not None and torch.equal(rows, torch.arange(D.shape[1])):
            all_reach = reach
        else:
            all_reach = torch.cat([_reach(each, k) for each in _other_distances(expression)]).clamp(min=tiny)
        return D.div(-reach[:, None]).div_(all_reach).exp_()


def _reach(D: Tensor, k: int) -> Tensor:
    """The distance to the k-th nearest row."""
    return D.kthvalue(k, dim=1).values.sqrt_()


def _other_distances(expression: SelfExpression) -> list[Tensor]:
    """Squared distances of all rows to the others, in blocks."""
    found = []
    for start in range(0, len(expression.X), 1024):
        block = slice(start, start + 1024)
        D = expression.square_distances(block)
        D[torch.arange(len(D)), torch.arange(D.shape[1])[block]] = torch.inf
        found.append(D)
    return found
