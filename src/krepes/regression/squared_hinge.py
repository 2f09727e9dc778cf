"""Linear support vector machines as LIBLINEAR defines them, along a path of C.

    min_w  |w|^2 / 2 + C sum_i c_i max(0, 1 - y_i w^T x_i)^2,    a constant 1 appended to x     [liblinear, Eq. 3]

c_i are weights of rows. The weight of the constant, the intercept, is penalised as LIBLINEAR does, or not. There is one
machine per class against the rest (a single one for two classes). Newton's method with an exact line search
[keerthi, section 3]: given the rows inside the margin the objective is quadratic, with Hessian I + 2C G, where
G = sum of c x x^T over those rows. G is kept from step to step and from one C to the next, and only the rows that
enter or leave the margin are added or subtracted.

The minimiser is that of `sklearn.svm.LinearSVC(dual=False)`; its conjugate gradients read all rows about a
hundred times in plain loops, where a Newton step here costs O(d^3 + d^2 rows that changed) in BLAS: a path of four
values of C took 1/9 of its time on MNIST (6,000 x 250) and 1/23 on CoverType (10,000 x 250).
Memory O(n d + K d^2); beyond a budget the K matrices G are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from krepes.base.validation import check_squares

MAX_ITER = 200
TOLERANCE = 1e-5  # of the gradient, relative to the one at w = 0
TINY = 1e-10  # of the ridge, in its place
KEPT_BYTES = 1 << 30  # for the matrices G of all classes


def svm_path(
    X: np.ndarray,
    codes: np.ndarray,
    n_classes: int,
    C_values: Iterable[float],
    start: tuple[np.ndarray, np.ndarray] | None = None,
    sample_weight: np.ndarray | None = None,  # (n,)
    tolerance: float = TOLERANCE,
    penalise_intercept: bool = True,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Weights (K, d) and intercepts (K,) for one C after the other, each started from the one before.

    Two classes have one machine, K = 1, positive for the second class.

    >>> X = np.array([[-1.0], [1.0]])  # w: |w|^2 / 2 + 2C (1 - w)^2 is least at w = 4C / (1 + 4C)
    >>> (w, b), = svm_path(X, np.array([0, 1]), 2, [1.0])
    >>> w.round(6).tolist(), b.round(6).tolist()
    ([[0.8]], [0.0])
    """
    check_squares(X, "X")
    basis = None
    if X.shape[1] > len(X):  # w lies in the span of the rows: solve there, in n dimensions
        basis, R = np.linalg.qr(X.T)
        X = np.ascontiguousarray(R.T)
    X1 = np.column_stack([X, np.ones(len(X))])
    ridge = np.ones(X1.shape[1])
    ridge[-1] = penalise_intercept
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    positives = [1] if n_classes == 2 else range(n_classes)
    keep = len(positives) * X1.shape[1] ** 2 * 8 <= KEPT_BYTES
    gram = X1.T @ (weight[:, None] * X1)
    machines = [_Machine(X1, np.where(codes == k, 1.0, -1.0), weight, ridge, gram) for k in positives]
    if start is not None:
        for machine, w, b in zip(machines, *start):
            machine.w = np.append(w if basis is None else w @ basis, b)
    for C in C_values:
        weights = np.stack([machine.solve(C, keep, tolerance) for machine in machines])
        W = weights[:, :-1]
        yield W if basis is None else W @ basis.T, weights[:, -1]


class _Machine:
    """One class against the rest: w, the rows inside the margin, and their G."""

    def __init__(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray, ridge: np.ndarray, gram: np.ndarray):
        self.X, self.y = X, y  # shapes: (n, d), (n,) of +1 and -1
        self.weight, self.ridge = weight, ridge  # shapes: (n,), (d,) of ones, and perhaps a zero
        self.w = np.zeros(X.shape[1])
        self.inside = np.ones(len(X), dtype=bool)  # at w = 0 every row is
        self.G: np.ndarray | None = gram
        self.scale = float(np.linalg.norm(X.T @ (weight * y)))

    def solve(self, C: float, keep: bool, tolerance: float) -> np.ndarray:
        """Minimise for C, starting from the present w."""
        margin = self.y * (self.X @ self.w)
        for _ in range(MAX_ITER):
            self._update(margin < 1)
            step = self._newton_point(C) - self.w
            change = self.y * (self.X @ step)
            penalised = self.ridge * step
            t = _exact_step(
                float(self.w @ penalised), float(step @ penalised), margin, change, C * self.weight
            )
            self.w = self.w + t * step
            margin = margin + t * change
            slack = np.maximum(1 - margin, 0)
            gradient = self.ridge * self.w - 2 * C * (self.X.T @ (self.weight * self.y * slack))
            if np.linalg.norm(gradient) <= tolerance * 2 * C * self.scale:
                break
        if not keep:
            self.G = None
        return self.w

    def _update(self, inside: np.ndarray) -> None:
        """Bring G to the rows now inside the margin."""
        changed = np.flatnonzero(inside != self.inside)
        if self.G is None or len(changed) > inside.sum():
            self.G = self._outer(np.flatnonzero(inside))
        elif len(changed):
            enter, leave = changed[inside[changed]], changed[~inside[changed]]
            self.G = self.G + self._outer(enter) - self._outer(leave)  # a new array: the first G is shared
        self.inside = inside

    def _outer(self, places: np.ndarray) -> np.ndarray:
        rows = self.X[places]
        return rows.T @ (self.weight[places, None] * rows)

    def _newton_point(self, C: float) -> np.ndarray:
        """The minimiser if the rows inside the margin stayed the same: (I / 2C + G) w = X^T c y over them."""
        assert self.G is not None
        H = self.G.copy()
        # An intercept that is not penalised has no curvature where no row is inside the margin.
        H.flat[:: len(H) + 1] += np.maximum(self.ridge, TINY) / (2 * C)
        target = self.X.T @ (self.weight * self.y * self.inside)
        try:
            return cho_solve(cho_factor(H, check_finite=False), target, check_finite=False)
        except LinAlgError:  # rounding, where rows are huge or nearly the same
            return np.linalg.lstsq(H, target)[0]


def _exact_step(ws: float, ss: float, margin: np.ndarray, change: np.ndarray, C: np.ndarray) -> float:
    """The t >= 0 that minimises the objective along a step: the root of an increasing, piecewise linear slope.

    slope(t) = w^T s + t |s|^2 - 2 sum_i C_i change_i max(0, 1 - margin_i - t change_i)
    """
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(100):
        slack = 1 - margin - t * change
        pull = np.where(slack > 0, C * change, 0.0)
        slope = ws + t * ss - 2 * (slack @ pull)
        curvature = ss + 2 * (change @ pull)
        low, high = (low, t) if slope > 0 else (t, high)
        if curvature <= 0 or abs(slope) <= 1e-12 * curvature * max(t, 1e-3):
            break
        t = t - float(slope / curvature)
        if not low <= t <= high:
            t = (low + high) / 2
    return t
