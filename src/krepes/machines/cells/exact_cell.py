"""Ridge regression in one cell, exact: every row is its own centre.

    C = K + penalty W^-1,   s = C^-1 1,   b = s^T Y / s^T 1,   A = C^-1 (Y - b),   f(x) = A^T k_x + b

With M = C^-1 - s s^T / s^T 1, so that A = M Y, the fit to all other rows misses row i by

    A_i / M_ii                                                    [lecture: leave-one-out of ridge with an intercept]

Without an intercept b = 0 and M = C^-1. Cost: n^3 / 3 for the n rows of a cell, and n^2 for every row left out.

Single precision serves where its rounding, about eps |K| / penalty, stays below a hundredth; else it is double.

On m centres instead of all rows, f(x) = A^T k(Z, x) + b is ridge regression on the features K_nm L^-T, L L^T = K_mm:
the model is smaller, and the fit takes n m^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from krepes.kernels import Kernel
from krepes.landmarks import PivotedCholesky
from krepes.landmarks.nystrom import NystromMap
from krepes.regression.ridge_algebra import LeaveOneOut

ROUNDING = 1e-2  # relative error of single precision up to which it is used
LEAST = 1e-12  # M_ii of a row that is fitted exactly


@dataclass(frozen=True, eq=False)
class CellFit:
    """Coefficients, intercept, and the errors of rows left out.

    Attributes
    ----------
    A : Tensor of shape (n, c)
    b : Tensor of shape (c,)
    errors : Tensor of shape (k, c)
        For each of k rows, y minus the prediction of the fit to all other rows of the cell.
    likelihood : Tensor of shape (2,), float64
        log |C| and sum Y * A; zero on centres.
    """

    A: Tensor
    b: Tensor
    errors: Tensor
    likelihood: Tensor


def fitted(
    kernel: Kernel,
    X: Tensor,  # (n, d)
    Y: Tensor,  # (n, c)
    weight: Tensor | None,  # (n,)
    penalty: float,
    intercept: bool,
    left_out: Tensor | None = None,  # (k,), which rows
) -> CellFit:
    """The fit of a cell, and errors of some rows left out; by default of all."""
    if len(X) > 1 and bool((X[0] == X).all()):
        return _of_equal_rows(kernel.diag(X[:1]).item(), Y.double(), weight, penalty, intercept, left_out)
    damping = X.new_full((len(X),), penalty) if weight is None else (penalty / weight).to(X)
    K = kernel(X)
    if K.dtype == torch.float32 and not allows_single(K, damping):
        K, damping = kernel(X.double()), damping.double()
    K.diagonal().add_(damping.to(K))
    L, failed = torch.linalg.cholesky_ex(K)
    if failed.item() and K.dtype == torch.float32:
        K = kernel(X.double())
        K.diagonal().add_(damping.double())
        L, failed = torch.linalg.cholesky_ex(K)
    if failed.item():
        raise ValueError(
            f"penalty={penalty:.3g} is too small for this kernel: the equations of a cell have no stable solution. "
            "Give a larger one, or penalty='auto'."
        )
    return _with_factor(L, Y.to(L), intercept, left_out)


def _of_equal_rows(
    k: float, Y: Tensor, weight: Tensor | None, penalty: float, intercept: bool, left_out: Tensor | None
) -> CellFit:
    """The fit of rows that are all equal, which no split divides, however many they are: a constant f.

    f = mean y with an intercept, else k W / (k W + penalty) mean y;  A_i = w_i (y_i - f) / penalty;  W = sum w
    """
    w = Y.new_ones(len(Y)) if weight is None else weight.double()
    share = w / w.sum()
    fit = share @ Y
    leverage = share
    if not intercept:
        shrink = k * w.sum() / (k * w.sum() + penalty)
        fit, leverage = shrink * fit, shrink * share
    errors = (Y - fit) / (1 - leverage).clamp(min=LEAST)[:, None]
    b = fit if intercept else torch.zeros_like(fit)
    A = w[:, None] * (Y - fit) / penalty
    log_det = (penalty / w).log().sum() + (k * w.sum() / penalty).log1p()
    likelihood = torch.stack([log_det, (Y * A).sum()])
    return CellFit(A, b, errors if left_out is None else errors[left_out], likelihood)


def on_centres(
    kernel: Kernel,
    X: Tensor,  # (n, d)
    Y: Tensor,  # (n, c)
    weight: Tensor | None,  # (n,)
    penalty: float,
    intercept: bool,
    left_out: Tensor,  # (k,), which rows
    n_centres: int,
) -> CellFit:
    """The fit of a cell on some of its rows, chosen by pivoted Cholesky; coefficients of the others are zero."""
    X = X.double()
    centres = PivotedCholesky().choose(X, kernel, n_centres, torch.Generator().manual_seed(0))
    features = NystromMap(kernel, X[centres], torch.float64)
    fit = LeaveOneOut.of_features(features(X), Y.double(), weight, intercept)
    W, b = fit.coefficients(penalty)
    A = torch.zeros(len(X), Y.shape[1], dtype=torch.float64)
    A[centres] = features.F @ W
    return CellFit(A, b, (Y - fit.predictions(penalty))[left_out], torch.zeros(2, dtype=torch.float64))


def allows_single(K: Tensor, damping: Tensor) -> bool:
    """Whether the rounding of single precision stays small beside the penalty."""
    size = K.abs().sum(1).max()
    return bool(torch.finfo(torch.float32).eps * size <= ROUNDING * damping.min())


def _with_factor(L: Tensor, Y: Tensor, intercept: bool, left_out: Tensor | None) -> CellFit:
    n, b, log_det = len(L), Y.new_zeros(Y.shape[1]), 2 * L.diagonal().double().log().sum()
    if left_out is None:
        inverse = torch.cholesky_inverse(L)
        A, s, M = inverse @ Y, inverse.sum(0), inverse.diagonal()
        left_out = torch.arange(n)
    else:
        found = torch.cholesky_solve(torch.cat([Y, Y.new_ones(n, 1)], dim=1), L)
        A, s = found[:, :-1], found[:, -1]
        units = Y.new_zeros(n, len(left_out))
        units[left_out, torch.arange(len(left_out))] = 1.0
        M = torch.linalg.solve_triangular(L, units, upper=False).square().sum(0)
    if intercept:
        b = s @ Y / s.sum()
        A, M = A - s[:, None] * b, M - s[left_out].square() / s.sum()
        if n == 1:  # without its only row a cell predicts zero, the mean
            return CellFit(A, b, Y[left_out], torch.stack([log_det, log_det.new_zeros(())]))
    likelihood = torch.stack([log_det, (Y * A).sum().double()])
    return CellFit(A, b, A[left_out] / M.clamp(min=LEAST)[:, None], likelihood)
