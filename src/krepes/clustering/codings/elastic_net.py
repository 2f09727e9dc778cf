"""Elastic net subspace clustering [oracle] by scikit-learn's coordinate descent. A baseline.

    min_c  1/2 |x_i - c X|^2 + a_i (rho |c|_1 + (1 - rho)/2 |c|^2),  c_ii = 0,   a_i = max_j |x_j . x_i| / (rho s)

s is the strength of [oracle]: s = 1 is the smallest at which a coefficient differs from zero. One fit per sample, on
one Gram matrix; the slowest of the codings.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path
from torch import Tensor

from krepes.base.validation import check_number
from krepes.clustering.affinity import CoefficientRows
from krepes.clustering.codings.coding import Coding
from krepes.clustering.self_expression import Index, SelfExpression


class ElasticNet(Coding):
    """Few and small coefficients.

    Parameters
    ----------
    l1_ratio : float in (0, 1], default=0.9
        rho; 1 is the lasso of SSC.
    strength : float > 1, default=50
        s; larger fits closer.
    max_iter : int, default=200

    Examples
    --------
    >>> from krepes.clustering.self_expression import DualExpression
    >>> from krepes.kernels import Linear
    >>> X = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> C = ElasticNet(l1_ratio=1.0, strength=2.0).rows(DualExpression(Linear(), X, 1.0))(slice(0, 1))
    >>> C.tolist()      # soft thresholding: (1 - 1/2) of its twin
    [[0.0, 0.5, 0.0]]
    """

    name = "elastic_net"

    def __init__(self, l1_ratio: float = 0.9, strength: float = 50.0, max_iter: int = 200):
        self.l1_ratio = l1_ratio
        self.strength = strength
        self.max_iter = max_iter

    def rows(self, expression: SelfExpression) -> CoefficientRows:
        check_number("l1_ratio", self.l1_ratio, above=0, most=1)
        check_number("strength", self.strength, above=1)  # at 1 every coefficient is zero
        X = np.asfortranarray(expression.X.double().numpy().T)  # (d, n): samples are the columns
        gram = np.ascontiguousarray(X.T @ X)

        def coefficients(rows: Index) -> Tensor:
            found = [self._one(X, gram, i) for i in np.arange(X.shape[1])[rows]]
            return torch.from_numpy(np.array(found)).to(expression.X)

        return coefficients

    def _one(self, X: np.ndarray, gram: np.ndarray, i: int) -> np.ndarray:
        """c_i; the sample's own row and column of the Gram matrix are set to zero during one fit."""
        Xy, own = gram[:, i].copy(), gram[:, i].copy()
        Xy[i] = 0
        largest = np.abs(Xy).max()
        if not largest > 0:
            return np.zeros(len(Xy))
        alpha = largest / (self.l1_ratio * self.strength * len(X))  # scikit-learn divides the error by d
        gram[i, :] = gram[:, i] = 0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                _, path, _ = enet_path(
                    X,
                    np.ascontiguousarray(X[:, i]),
                    l1_ratio=self.l1_ratio,
                    alphas=[alpha],
                    precompute=gram,
                    Xy=Xy,
                    max_iter=self.max_iter,
                    tol=1e-3,
                    check_input=False,
                )
        finally:
            gram[i, :] = gram[:, i] = own
        return path[:, 0]
