"""Linear support vector machines as LIBLINEAR defines them, along a path of C.

    min_w  |w|^2 / 2 + C sum_i max(0, 1 - y_i w^T x_i)^2,    a constant 1 appended to x     [liblinear, Eq. 3]

one machine per class against the rest (a single one for two classes). Newton's method with an exact line search
[keerthi, section 3]: given the rows inside the margin the objective is quadratic, with Hessian I + 2C G, where
G = sum of x x^T over those rows. G is kept from step to step and from one C to the next, and only the rows that
enter or leave the margin are added or subtracted.

The minimiser is that of `sklearn.svm.LinearSVC(dual=False)`; its conjugate gradients read all rows about a
hundred times in plain loops, where a Newton step here costs O(d^3 + d^2 rows that changed) in BLAS: a path of four
values of C took 1/9 of its time on MNIST (6,000 x 250) and 1/23 on CoverType (10,000 x 250).
Memory O(n d + K d^2); beyond a budget the K matrices G are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.linalg import cho_factor, cho_solve

MAX_ITER = 200
TOLERANCE = 1e-5  # of the gradient, relative to the one at w = 0
KEPT_BYTES = 1 << 30  # for the matrices G of all classes


def svm_path(
    X: np.ndarray,
    codes: np.ndarray,
    n_classes: int,
    C_values: Iterable[float],
    start: tuple[np.ndarray, np.ndarray] | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Weights (K, d) and intercepts (K,) for one C after the other, each started from the one before.

    Two classes have one machine, K = 1, positive for the second class.

    >>> X = np.array([[-1.0], [1.0]])  # w: |w|^2 / 2 + 2C (1 - w)^2 is least at w = 4C / (1 + 4C)
    >>> (w, b), = svm_path(X, np.array([0, 1]), 2, [1.0])
    >>> w.round(6).tolist(), b.round(6).tolist()
    ([[0.8]], [0.0])
    """
    X1 = np.column_stack([X, np.ones(len(X))])
    basis = None
    if X1.shape[1] > len(X1):  # w lies in the span of the rows: solve there, in n dimensions
        basis, R = np.linalg.qr(X1.T)
        X1 = np.ascontiguousarray(R.T)
    positives = [1] if n_classes == 2 else range(n_classes)
    keep = len(positives) * X1.shape[1] ** 2 * 8 <= KEPT_BYTES
    gram = X1.T @ X1
    machines = [_Machine(X1, np.where(codes == k, 1.0, -1.0), gram) for k in positives]
    if start is not None:
        for machine, w in zip(machines, np.column_stack(start)):
            machine.w = w if basis is None else w @ basis
    for C in C_values:
        weights = np.stack([machine.solve(C, keep) for machine in machines])
        W = weights if basis is None else weights @ basis.T
        yield W[:, :-1], W[:, -1]


class _Machine:
    """One class against the rest: w, the rows inside the margin, and their G."""

    def __init__(self, X: np.ndarray, y: np.ndarray, gram: np.ndarray):
        self.X, self.y = X, y  # shapes: (n, d), (n,) of +1 and -1
        self.w = np.zeros(X.shape[1])
        self.inside = np.ones(len(X), dtype=bool)  # at w = 0 every row is
        self.G: np.ndarray | None = gram
        self.scale = float(np.linalg.norm(X.T @ y))

    def solve(self, C: float, keep: bool) -> np.ndarray:
        """Minimise for C, starting from the present w."""
        margin = self.y * (self.X @ self.w)
        for _ in range(MAX_ITER):
            self._update(margin < 1)
            step = self._newton_point(C) - self.w
            change = self.y * (self.X @ step)
            t = _exact_step(float(self.w @ step), float(step @ step), margin, change, C)
            self.w = self.w + t * step
            margin = margin + t * change
            slack = np.maximum(1 - margin, 0)
            gradient = self.w - 2 * C * (self.X.T @ (self.y * slack))
            if np.linalg.norm(gradient) <= TOLERANCE * 2 * C * self.scale:
                break
        if not keep:
            self.G = None
        return self.w

    def _update(self, inside: np.ndarray) -> None:
        """Bring G to the rows now inside the margin."""
        changed = np.flatnonzero(inside != self.inside)
        if self.G is None or len(changed) > inside.sum():
            rows = self.X[inside]
            self.G = rows.T @ rows
        elif len(changed):
            enter, leave = self.X[changed[inside[changed]]], self.X[changed[~inside[changed]]]
            self.G = self.G + enter.T @ enter - leave.T @ leave  # a new array: the first G is shared
        self.inside = inside

    def _newton_point(self, C: float) -> np.ndarray:
        """The minimiser if the rows inside the margin stayed the same: (I / 2C + G) w = X^T y over them."""
        assert self.G is not None
        H = self.G.copy()
        H.flat[:: len(H) + 1] += 1 / (2 * C)
        factor = cho_factor(H, overwrite_a=True, check_finite=False)
        return cho_solve(factor, self.X.T @ (self.y * self.inside), check_finite=False)


def _exact_step(ws: float, ss: float, margin: np.ndarray, change: np.ndarray, C: float) -> float:
    """The t >= 0 that minimises the objective along a step: the root of an increasing, piecewise linear slope.

    slope(t) = w^T s + t |s|^2 - 2C sum_i change_i max(0, 1 - margin_i - t change_i)
    """
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(100):
        slack = 1 - margin - t * change
        inside = slack > 0
        slope = ws + t * ss - 2 * C * (slack[inside] @ change[inside])
        curvature = ss + 2 * C * (change[inside] @ change[inside])
        low, high = (low, t) if slope > 0 else (t, high)
        if curvature <= 0 or abs(slope) <= 1e-12 * curvature * max(t, 1e-3):
            break
        t = t - slope / curvature
        if not low <= t <= high:
            t = (low + high) / 2
    return t
