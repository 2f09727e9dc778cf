"""Codings: how a sample is expressed by the others.

All of them are functions of the samples `expression.X`, projected and normalised. What the ridge regression needs is
computed only if a coding, or a projection, asks for it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.components import Component
from krepes.base.validation import check_count, check_number
from krepes.clustering.affinity import BLOCK_BYTES, CoefficientRows
from krepes.clustering.self_expression import DualExpression, Index, SelfExpression
from krepes.kernels import Linear

NewCoefficients: TypeAlias = Callable[[Tensor], Tensor]  # new rows (b, r) -> c(y), shape (b, n)
MOST_STEPS = 2**31 - 1  # that scikit-learn can count


class Coding(Component, ABC):
    """Expresses every sample by the others."""

    @abstractmethod
    def rows(self, expression: SelfExpression) -> CoefficientRows:
        """A function of some samples, a slice or indices: their coefficients, shape (b, n), zero at themselves."""

    def new_rows(self, expression: SelfExpression) -> NewCoefficients:
        """A function of new samples: their coefficients. Those of the ridge regression, unless a coding has its own."""
        return expression.coefficients_of


class Ridge(Coding):
    """The leave-one-out regressions whose metric is learned. Without projection it is KTRR [zhen].

        c_i = argmin |phi(x_i) - phi(X_-i) c|^2 + lam |c|^2, all n from one factorisation              [zou, Eq. 3]

    Examples
    --------
    >>> Ridge().rows(DualExpression(Linear(), torch.tensor([[1.0], [1.0]]), 1.0))(slice(0, 1))
    tensor([[0.0000, 0.5000]])
    """

    name = "ridge"

    def rows(self, expression: SelfExpression) -> CoefficientRows:
        return expression.coefficients


class LeastSquares(Coding):
    """LSR: least squares regression on the rows themselves, the ridge coding with a linear kernel [lu].

        min |X - C X|^2 + lam |C|^2,  diag C = 0:    C_ij = -B_ij / B_ii,  B = (X X^T + lam I)^-1

    Parameters
    ----------
    regularization : float, default=0.01
        lam, for rows of unit length.

    Examples
    --------
    >>> X = torch.tensor([[1.0], [1.0]])
    >>> LeastSquares(1.0).rows(DualExpression(Linear(), X, 1.0))(slice(0, 1))
    tensor([[0.0000, 0.5000]])
    """

    name = "least_squares"

    def __init__(self, regularization: float = 0.01):
        self.regularization = regularization

    def rows(self, expression: SelfExpression) -> CoefficientRows:
        check_number("regularization", self.regularization, above=0)
        return DualExpression(Linear(), expression.X, float(self.regularization)).coefficients


class MatchingPursuit(Coding):
    """SSC by orthogonal matching pursuit [you]: at most s other rows express a row.

    Each sample takes, one after the other, the row that its residual is most correlated with, and is regressed on
    those it has. All samples of a block are pursued together from the Gram matrix X X^T, O(n^2 s^2).

    Parameters
    ----------
    n_nonzero : int, default=5
        s.
    tol : float, default=1e-6
        Relative residual |x - c X|^2 / |x|^2 at which a pursuit ends.

    Examples
    --------
    The third row is the sum of the other two:

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
        check_number("tol", self.tol, least=0)
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
            diagonal = gram.diagonal(dim1=1, dim2=2)
            diagonal.add_(1e-12 * diagonal.amax(1, keepdim=True) + 1e-300)
            solved = torch.linalg.solve(gram, atoms @ Y[:, :, None])[:, :, 0]
            active = active & (best.values > 0)
            c = torch.cat([c, X.new_zeros(len(Y), 1)], dim=1)
            c = torch.where(active[:, None], solved, c)
            residual = Y - (c[:, None, :] @ atoms)[:, 0]
            active = active & (residual.square().sum(1) > self.tol * Y.square().sum(1))
            if not active.any():
                break
        return C.scatter_(1, chosen, c)


class ElasticNet(Coding):
    """Elastic net subspace clustering [oracle] by scikit-learn's coordinate descent: few and small coefficients.

        min_c  1/2 |x_i - c X|^2 + a_i (rho |c|_1 + (1 - rho)/2 |c|^2),  c_ii = 0,   a_i = max_j |x_j . x_i| / (rho s)

    One fit per sample, on one Gram matrix; the slowest of the codings.

    Parameters
    ----------
    l1_ratio : float in (0, 1], default=0.9
        rho; 1 is the lasso of SSC.
    strength : float > 1, default=50
        s of [oracle]; larger fits closer, and at 1 every coefficient is zero.
    max_iter : int, default=200

    Examples
    --------
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
        check_number("strength", self.strength, above=1)
        check_count("max_iter", self.max_iter)
        X = np.asfortranarray(expression.X.double().numpy().T)  # (d, n): samples are the columns
        gram = np.ascontiguousarray(X.T @ X)

        def coefficients(rows: Index) -> Tensor:
            found = [self._one(X, gram, i) for i in torch.arange(X.shape[1])[rows].tolist()]
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
                    max_iter=min(int(self.max_iter), MOST_STEPS),
                    tol=1e-3,
                    check_input=False,
                )
        finally:
            gram[i, :] = gram[:, i] = own
        return path[:, 0]
