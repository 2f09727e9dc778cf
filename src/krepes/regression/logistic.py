"""Multinomial logistic regression along a path of C.

    min_{W, b}  |W|^2 / 2  -  C sum_i w_i log softmax_{y_i}(W x_i + b)      two classes: w = W_2 - W_1, |w|^2 / 2

L-BFGS on v = R W, where R^T R is close to the Hessian at the start: the curvature is about one in v. Rows are first
rotated to their principal axes, with sums of squares s_j. R is one of two:

    diagonal    R_kj^2 = mean_i p_ik (1 - p_ik) s_j + 1/C               costs nothing
    complete    R^T R = sum_i (diag(p_i) - p_i p_i^T) (x) x_i x_i^T + 1/C, from a sample of the rows

Rows are sampled in proportion to their leverage sum_j x_ij^2 / s_j: uniform samples miss the few rows that say all
about a rare direction, which L-BFGS then stumbles over. The second R takes up to ten times fewer steps, and is taken
where it costs less than that saves: n large, or K d small.

The minimiser is that of `sklearn.linear_model.LogisticRegression`, whose L-BFGS works on W itself. A step costs
O(n d K) and reads the rows once, in blocks that stay in the cache; memory is one copy of them. All in double precision:
the noise of single precision in the loss ends line searches far from the minimum where C is large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize

from krepes.base.validation import check_squares

MAX_ITER = 300
TOLERANCE = 1e-7  # a step that lowers the mean loss by less is the last
MEMORY = 20
STALE = 12  # evaluations that say that the next C needs a new Hessian
NOISE = 1e-13  # of the largest sum of squares: axes below it were made by rounding
FLOOR = 1e-6  # of the penalty: the least curvature that a metric has
HESSIAN_ROWS = 4000  # at most
WORTH = (
    200  # evaluations that a Hessian may cost by its flops, which are five times faster as matrix products
)
_BLOCK_CELLS = 1 << 18

Classifier = tuple[np.ndarray, np.ndarray]  # weights (K, d) and intercepts (K,)


def logistic_path(
    X: np.ndarray,
    codes: np.ndarray,
    n_classes: int,
    C_values: Iterable[float],
    start: Classifier | None = None,
    sample_weight: np.ndarray | None = None,  # (n,)
    tolerance: float = TOLERANCE,
) -> Iterator[Classifier]:
    """Weights (K, d) and intercepts (K,) for one C after the other, each started from the one before.

    Two classes have one row, K = 1, positive for the second class. A step that lowers the mean loss by less than
    `tolerance` is the last.

    >>> X = np.array([[-1.0], [1.0]])  # w^2 / 2 + 2C log(1 + e^-w) is least where w = 2C / (1 + e^w)
    >>> (w, b), = logistic_path(X, np.array([0, 1]), 2, [(1 + np.e) / 2])
    >>> w.round(3).tolist(), b.round(3).tolist()
    ([[1.0]], [0.0])
    """
    check_squares(X, "X")
    problem = _Problem(X, codes, n_classes, np.ones(len(X)) if sample_weight is None else sample_weight)
    if start is not None:
        problem.begin(*start)
    for C in C_values:
        yield problem.solve(C, tolerance)


class _Problem:
    """The rows in their principal axes, and the weights of the last C, (K, r + 1) with the intercept."""

    def __init__(self, X: np.ndarray, codes: np.ndarray, n_classes: int, weight: np.ndarray):
        self.total = float(weight.sum())
        self.shares = weight / self.total  # of the mean, (n,)
        self.mean = X[0] + self.shares @ (X - X[0])  # exact for constant rows
        root = np.sqrt(self.shares)[:, None]
        self.axes, power = _principal_axes((X - self.mean) * root)  # (d, r), (r,)
        self.X = np.column_stack([(X - self.mean) @ self.axes, np.ones(len(X))])
        self.power = np.append(power, 1.0)
        counts = np.zeros((len(X), n_classes))
        counts[np.arange(len(X)), codes] = self.shares
        self.targets = counts.T @ self.X
        self.weights = np.zeros_like(self.targets)
        self.hessian: np.ndarray | None = None
        self.two = n_classes == 2
        self.sampled, self.share = _by_leverage(self.X, self.power, self.shares)

    def begin(self, W: np.ndarray, b: np.ndarray) -> None:
        inside = np.column_stack([W @ self.axes, b + W @ self.mean])
        self.weights = np.concatenate([-inside, inside]) / 2 if self.two else inside

    def solve(self, C: float, tolerance: float) -> Classifier:
        """Minimise for C, starting from the present weights."""
        penalty = np.full(self.weights.shape, (2 if self.two else 1) / C / self.total)  # |w|^2 = 2 |W|^2
        penalty[:, -1] = 0
        metric = self._metric(penalty)

        def value_and_gradient(v: np.ndarray) -> tuple[float, np.ndarray]:
            W = metric.weights(v)
            value, gradient = self._evaluated(W)
            return value + 0.5 * float((penalty * W * W).sum()), metric.gradient(gradient + penalty * W)

        options = {"maxiter": MAX_ITER, "maxcor": MEMORY, "ftol": tolerance, "gtol": 0.0}
        start = metric.variables(self.weights)
        found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
        self.weights = metric.weights(found.x)
        if found.nfev > STALE:
            self.hessian = None
        W = self.weights[1:] - self.weights[:1] if self.two else self.weights
        coef = W[:, :-1] @ self.axes.T
        return coef, W[:, -1] - coef @ self.mean

    def _evaluated(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        """The mean loss and its gradient (K, r + 1)."""
        value, gradient = 0.0, np.zeros_like(W)
        size = max(1, _BLOCK_CELLS // self.X.shape[1])
        for start in range(0, len(self.X), size):
            block, shares = self.X[start : start + size], self.shares[start : start + size, None]
            P, logs = _softmax(block @ W.T)
            value += float((shares * logs).sum())
            gradient += (shares * P).T @ block
        return value - float((self.targets * W).sum()), gradient - self.targets

    def _metric(self, penalty: np.ndarray) -> _Metric:
        (n, r), K, m = self.X.shape, len(penalty), len(self.sampled)
        if K * (K + 1) * m * r**2 + (K * r) ** 3 / 3 > WORTH * 4 * n * r * K:
            P, floor = self._probabilities()[1], FLOOR * penalty.max()
            curvature = (self.share @ (P * (1 - P)))[:, None] * self.power
            return _Metric(np.sqrt(curvature + penalty + floor), None)
        if self.hessian is None:
            self.hessian = self._hessian()
        H = self.hessian.copy()
        # A small ridge, because a common shift of all intercepts changes nothing, nor one of a certain class.
        H.flat[:: len(H) + 1] += penalty.ravel() + 1e-10 * np.trace(H) / len(H) + FLOOR * penalty.max()
        try:
            return _Metric(np.ones_like(penalty), cholesky(H, check_finite=False))
        except LinAlgError:  # rounding, where rows are huge or nearly the same
            return _Metric(np.sqrt(np.diag(H)).reshape(penalty.shape), None)

    def _probabilities(self) -> tuple[np.ndarray, np.ndarray]:
        """The sampled rows (m, r + 1) and their classes' probabilities (m, K)."""
        X = self.X[self.sampled]
        return X, _softmax(X @ self.weights.T)[0]

    def _hessian(self) -> np.ndarray:
        X, P = self._probabilities()
        r, K = X.shape[1], P.shape[1]
        H = np.empty((K, r, K, r))
        for k in range(K):
            for j in range(k, K):
                weight = self.share * P[:, k] * ((j == k) - P[:, j])
                H[k, :, j] = (weight[:, None] * X).T @ X
                H[j, :, k] = H[k, :, j]
        return H.reshape(K * r, K * r)


class _Metric:
    """v = R W: R a diagonal of W's shape, or also an upper triangle."""

    def __init__(self, scale: np.ndarray, triangle: np.ndarray | None):
        self.scale, self.triangle = scale, triangle

    def variables(self, W: np.ndarray) -> np.ndarray:
        v = (self.scale * W).ravel()
        return v if self.triangle is None else self.triangle @ v

    def weights(self, v: np.ndarray) -> np.ndarray:
        v = v if self.triangle is None else solve_triangular(self.triangle, v, check_finite=False)
        return v.reshape(self.scale.shape) / self.scale

    def gradient(self, G: np.ndarray) -> np.ndarray:
        g = (G / self.scale).ravel()
        if self.triangle is None:
            return g
        return solve_triangular(self.triangle, g, trans="T", check_finite=False)


def _by_leverage(X: np.ndarray, power: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows drawn by leverage, and the share of the mean that each stands for; all rows where they are few."""
    n = len(X)
    if n <= HESSIAN_ROWS:
        return np.arange(n), shares
    leverage = shares * (np.square(X) @ (1 / power))
    chance = leverage / leverage.sum()
    drawn = np.random.default_rng(0).choice(n, HESSIAN_ROWS, p=chance)
    return drawn, shares[drawn] / (HESSIAN_ROWS * chance[drawn])


def _softmax(F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, K) and log sum exp (n, 1)."""
    top = F.max(1, keepdims=True)
    P = np.exp(F - top)
    total = P.sum(1, keepdims=True)
    return P / total, np.log(total) + top


def _principal_axes(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal axes (d, r) that span centred rows, and the rows' sums of squares along them (r,)."""
    wide = X.shape[1] > X.shape[0]
    power, U = np.linalg.eigh(X @ X.T if wide else X.T @ X)
    kept = power > NOISE * max(power[-1], np.finfo(float).tiny)
    power, U = power[kept], U[:, kept]
    return (X.T @ U / np.sqrt(power) if wide else U), power
