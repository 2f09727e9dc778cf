"""The minimum of VICReg with its hinge, for views that share their moments; a good start for ordered pairs.

    F(W) = tr(W^T A W)  +  mean_j g(C_jj)  +  w/h |C|_F^2,      C = W^T S W,   A = inv/h E[d d^T] + lam I,
    g(v) = var (1 - sqrt(v + 1e-4))_+  -  w v^2,                d = phi1 - phi2,   w, var, inv: the weights

Let A u_i = mu_i S u_i, mu_1 <= mu_2 <= ..., and c_1 >= c_2 >= ... be the eigenvalues of C. Then

1. tr(W^T A W) >= sum_i c_i mu_i, with equality for W = [u_1 ... u_h] diag(c)^(1/2) Q and any rotation Q (von Neumann);
2. a column whose variance is above the hinge's corner may be shrunk to it, as A is positive semi-definite: nothing
   grows. Up to the corner g is convex if var >= 8 w, so that mean_j g(C_jj) >= g(mean_j C_jj) = g(sum_i c_i / h);
3. some rotation Q gives C a constant diagonal (Schur and Horn), with which 2. is an equality, too;
4. the c that minimise sum c_i mu_i + w/h sum c_i^2 at a given mean v are c_i = h/(2w) (level - mu_i)_+, and what is
   left is convex in v alone.

So W is known up to a rotation: more of the directions that the views agree on, and all components of one variance.
The closed form of the quadratic loss [cabannes] has the same directions with other c. Cost: one partial
eigendecomposition, O(r^3), and h rotations of h numbers.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh, symmetric
from krepes.losses.statistics import MomentForms

VARIANCE_FLOOR = 1e-4  # under the root of the hinge, [bardes, Eq. 2]
BISECTIONS = 60
CONVEX = 8.0  # times the covariance weight: the variance weight from which on the statement holds
LEAST_START = 0.01  # variance of the components at a start that is not the minimum: zero would be a saddle


def hinge_minimum(
    forms: MomentForms, n_components: int, lam: float, invariance: float, variance: float, covariance: float
) -> tuple[Tensor, bool]:
    """W (k, h) for the three weights (variance >= 8 covariance), and whether it is the minimum.

    The basis of the forms (k directions) must make `forms.second_moment` diagonal.
    """
    if forms.V_12 is None or forms.basis_norm_sq is None:
        raise ValueError("The hinge's minimum needs moments of two views, in a basis.")
    second = forms.second_moment
    crossed = symmetric(forms.V_12 + torch.outer(forms.mean_1, forms.mean_2))
    root = second.diagonal().rsqrt()
    A = 2 * invariance / n_components * (second - crossed) + lam * torch.diag(forms.basis_norm_sq)
    values, U = descending_eigh(-root[:, None] * A * root, n_components)
    c = spectrum(-values.cpu().numpy(), variance, covariance, 0.0 if forms.exchangeable else LEAST_START)
    Y = equal_columns(np.sqrt(c)[:, None] * cosine_matrix(n_components).numpy())
    return root[:, None] * (U @ torch.from_numpy(Y).to(U.device)), forms.exchangeable


def spectrum(mu: np.ndarray, variance: float, covariance: float, least: float = 0.0) -> np.ndarray:
    """The eigenvalues c (h,) of C, for increasing costs mu (h,); their mean is at least `least`.

    Without costs every component stands at the corner of the hinge, where v + 1e-4 = 1.

    >>> spectrum(np.zeros(2), 25.0, 1.0).tolist()
    [0.9999, 0.9999]
    """
    h, w = len(mu), max(covariance, 1e-12)
    counts, sums = np.arange(1, h + 1), mu.cumsum()

    def filled(v: float) -> tuple[np.ndarray, float]:  # c of mean v, and the level (step 4)
        k = max(1, int(((2 * w * v + sums) / counts > mu).sum()))
        c = h * v / k + h / (2 * w) * (sums[k - 1] / k - mu)
        return c.clip(0), (2 * w * v + sums[k - 1]) / k

    def slope(v: float) -> float:  # of the least value at mean v; increasing
        return h * filled(v)[1] - variance / (2 * math.sqrt(v + VARIANCE_FLOOR)) - 2 * w * v

    low, high = least, 1 - VARIANCE_FLOOR
    if slope(high) <= 0:
        return filled(high)[0]
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return filled(low)[0]


def equal_columns(Y: np.ndarray) -> np.ndarray:
    """Y Q (k, h) with columns of equal norm, Q orthogonal: h - 1 plane rotations, each of which settles a column.

    >>> np.abs(equal_columns(np.diag([1.0, 0.0]))).round(6).tolist()
    [[0.707107, 0.707107], [0.0, 0.0]]
    """
    columns = Y.T.copy()
    power = np.square(columns).sum(1)
    mean = power.mean()
    for _ in range(len(power) - 1):
        i, j = int(power.argmin()), int(power.argmax())
        if power[j] - power[i] <= 1e-14 * mean:
            break
        # |y_i + t y_j|^2 = (1 + t^2) mean, the smaller root t
        below, above, dot = power[i] - mean, power[j] - mean, float(columns[i] @ columns[j])
        t = -below / (dot + math.copysign(math.sqrt(dot**2 - above * below), dot))
        columns[[i, j]] = np.array([[1, t], [-t, 1]]) / math.hypot(1, t) @ columns[[i, j]]
        power[i], power[j] = mean, power[i] + power[j] - mean
    return columns.T


def cosine_matrix(size: int) -> Tensor:
    """The orthogonal matrix of the cosine transform (DCT-II): every column mixes all rows."""
    position = torch.arange(size, dtype=torch.float64)
    Q = math.sqrt(2 / size) * torch.cos(math.pi / size * torch.outer(position, position + 0.5))
    Q[0] /= math.sqrt(2)
    return Q
