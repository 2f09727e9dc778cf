"""SSC by orthogonal matching pursuit [you]. A baseline.

Each sample takes, one after the other, the row that its residual is most correlated with, and is regressed on those
taken: at most s of them. All samples of a block are pursued together from the Gram matrix X X^T, O(n^2 s^2).
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.validation import check_count
from krepes.clustering.affinity import CoefficientRows
from krepes.clustering.codings.coding import Coding
from krepes.clustering.self_expression import Index, SelfExpression

BLOCK_BYTES = 128 * 2**20


class MatchingPursuit(Coding):
    """At most s other rows express a row.

    Parameters
    ----------
    n_nonzero : int, default=5
        s.
    tol : float, default=1e-6
        Relative residual |x - c X|^2 / |x|^2 at which a pursuit ends.

    Examples
    --------
    The third row is the sum of the other two:

    >>> from krepes.clustering.self_expression import DualExpression
    >>> from krepes.kernels import Linear
    >>> X = torch.tensor([[2.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    >>> MatchingPursuit(n_nonzero=2).rows(DualExpression(Linear(), X, 1.0))(slice(2, 3))
    tensor([[1., 1., 0.]])
    """

    name = "matching_pursuit"

    def __init__(self, n_nonzero: int = 5, tol: float = 1e-6):
        self.n_nonzero = n_nonzero
        self.tol = tol

    def rows(self, expression: SelfExpression) -> CoefficientRows:
        check_count("n_nonzero", self.n_nonzero)
        X, most = expression.X, min(int(self.n_nonzero), len(expression.X) - 1)
        size = rows_within(BLOCK_BYTES, 8 * len(X) * (most + 2))

        def coefficients(rows: Index) -> Tensor:
            indices = torch.arange(len(X))[rows]
            return torch.cat([self._pursue(X, indices[b], most) for b in row_blocks(len(indices), size)])

        return coefficients

    def _pursue(self, X: Tensor, indices: Tensor, most: int) -> Tensor:
        """Coefficients of some rows, shape (b, n)."""
        Y = X[indices]
        norms = X.norm(dim=1)
        unit = X / norms.where(norms > 0, 1.0)[:, None]  # pursuits compare directions
        own = torch.arange(len(Y)), indices
        chosen = torch.empty(len(Y), 0, dtype=torch.int64)
        active, C = Y.square().sum(1) > 0, X.new_zeros(len(Y), len(X))
        c = X.new_zeros(len(Y), 0)
        residual = Y.clone()
        for _ in range(most):
            correlation = (residual @ unit.mT).abs_()
            correlation[own] = -1
            correlation.scatter_(1, chosen, -1.0)
            best = correlation.max(dim=1)
            chosen = torch.cat([chosen, best.indices[:, None]], dim=1)
            atoms = X[chosen]  # (b, s, d)
            gram = atoms @ atoms.mT
            gram.diagonal(dim1=1, dim2=2).add_(
                1e-12 * gram.diagonal(dim1=1, dim2=2).amax(1, keepdim=True) + 1e-300
            )
            solved = torch.linalg.solve(gram, atoms @ Y[:, :, None])[:, :, 0]
            active = active & (best.values > 0)
            c = torch.cat([c, X.new_zeros(len(Y), 1)], dim=1)
            c = torch.where(active[:, None], solved, c)
            residual = Y - (c[:, None, :] @ atoms)[:, 0]
            active = active & (residual.square().sum(1) > self.tol * Y.square().sum(1))
            if not active.any():
                break
        return C.scatter_(1, chosen, c)
