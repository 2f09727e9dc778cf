"""LSR: least squares regression on the rows themselves [lu]. A baseline.

    LSR1  min |X - C X|^2 + lam |C|^2,  diag C = 0:    C_ij = -B_ij / B_ii,  B = (X X^T + lam I)^-1
    LSR2  the same without the constraint:             C = I - lam B

LSR1 is the ridge coding with a linear kernel.
"""

from __future__ import annotations

from torch import Tensor

from krepes.base.validation import check_number
from krepes.clustering.affinity import CoefficientRows
from krepes.clustering.codings.coding import Coding
from krepes.clustering.self_expression import DualExpression, Index, SelfExpression
from krepes.kernels import Linear


class LeastSquares(Coding):
    """Ridge regression in data space.

    Parameters
    ----------
    regularization : float, default=0.01
        lam, for rows of unit length.
    zero_diagonal : bool, default=True
        LSR1; False is LSR2, whose diagonal is then left out of the affinity.

    Examples
    --------
    >>> import torch
    >>> X = torch.tensor([[1.0], [1.0]])
    >>> LeastSquares(1.0).rows(DualExpression(Linear(), X, 1.0))(slice(0, 1))
    tensor([[0.0000, 0.5000]])
    >>> LeastSquares(1.0, zero_diagonal=False).rows(DualExpression(Linear(), X, 1.0))(slice(0, 1))    # 1 / (2 + 1)
    tensor([[0.0000, 0.3333]])
    """

    name = "least_squares"

    def __init__(self, regularization: float = 0.01, zero_diagonal: bool = True):
        self.regularization = regularization
        self.zero_diagonal = zero_diagonal

    def rows(self, expression: SelfExpression) -> CoefficientRows:
        check_number("regularization", self.regularization, above=0)
        linear = DualExpression(Linear(), expression.X, float(self.regularization))
        if self.zero_diagonal:
            return linear.coefficients

        def unconstrained(rows: Index) -> Tensor:
            return linear.coefficients(rows) * (linear.beta[rows][:, None] * linear.lam)

        return unconstrained
