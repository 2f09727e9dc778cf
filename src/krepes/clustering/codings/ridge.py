"""Kernel ridge coding: the leave-one-out regressions whose metric is learned. Without projection it is KTRR [zhen]."""

from __future__ import annotations

from krepes.clustering.affinity import CoefficientRows
from krepes.clustering.codings.coding import Coding
from krepes.clustering.self_expression import SelfExpression


class Ridge(Coding):
    """c_i = argmin |phi(x_i) - phi(X_-i) c|^2 + lam |c|^2, all n from one factorisation.  [zou, Eq. 3]

    Examples
    --------
    >>> import torch
    >>> from krepes.clustering.self_expression import DualExpression
    >>> from krepes.kernels import Linear
    >>> Ridge().rows(DualExpression(Linear(), torch.tensor([[1.0], [1.0]]), 1.0))(slice(0, 1))
    tensor([[0.0000, 0.5000]])
    """

    name = "ridge"

    def rows(self, expression: SelfExpression) -> CoefficientRows:
        return expression.coefficients
