"""Full-batch L-BFGS on the moments: exact values and gradients, O(r^2 h) each, whatever n is.

    W = B M,   B = U diag(s + lam)^(-1/2),   S = U diag(s) U^T,         M in R^(k x h) is what is optimised

S is the features' second moment (about the mean, unless the loss has no intercept). In these coordinates the loss and
the regulariser both have curvature of order one: about five times fewer steps than in W. Where the views are
exchangeable, S is diagonal there and a step costs one product with an r x r matrix. Directions that S does not span
are left out; no loss of moments sees them.

The start is the first h principal directions at unit variance, mixed by an orthogonal cosine matrix. They are not
taken as they are because of a symmetry: where the coordinates are uncorrelated in both moments, flipping the
sign of one coordinate and of its column changes nothing, so the gradient cannot mix columns and descent stays
at a saddle. On features of MNIST, Barlow Twins and VICReg end at the same value from random starts, from canonical
correlations and from this start, which costs nothing. A loss may know a better start (`start`), or even its minimum.

Rounds of descent on M alternate with descent on N (h x h) in M = R N, within the span reached so far, at O(h^3) a
step: it mixes the components, which ordered pairs with nearly equal views need most and L-BFGS in M does slowest.

A loss with corners (the hinge of VICReg on ordered pairs) is approached through smoothed ones: L-BFGS crawls along
corners, and needs about seven times fewer steps to a lower value this way. Values and gradients are exact, so
quasi-Newton steps with a line search (scipy's L-BFGS-B) need no step size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from krepes.base.linalg import spanned
from krepes.base.reporting import warn
from krepes.base.validation import check_count, check_number
from krepes.losses import Loss, MomentForms, Statistics
from krepes.losses.hinge_minimum import cosine_matrix
from krepes.moments import Moments
from krepes.solvers.solver import Callback, Problem, Solution, Solver, nothing_left, objective

METRIC_FLOOR = 1e-6  # of the largest eigenvalue: how far B may stretch a weak direction when lam is small
WIDTHS = (0.1, 0.01)  # of the rounded corners, for a loss that has corners; then none
RELATIVE_FLOOR = 1e-4  # of the total at the start: progress below `tol` times this never counts
ROUND = 15  # steps between two descents within the span
SPAN_STEPS = 300  # at most, within the span
VANISHED = 1e-8  # of the largest variance: a component below it was cut by the regulariser


class MomentDescent(Solver[Moments]):
    """L-BFGS on the moments, for any loss that is a function of them.

    Parameters
    ----------
    max_iter : int, default=200
    tol : float, default=1e-5
        Stop when five steps together lower the objective by less than this fraction of it.

    Examples
    --------
    The closed form's value: S has eigenvalues 1 and 1/3, so e = 0.95 and 0.85, and -(0.95^2 + 0.85^2) = -1.625.

    >>> from krepes.losses import SpectralContrastive
    >>> from krepes.solvers import ClosedForm
    >>> Phi = torch.tensor([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]])
    >>> moments = Moments.of_views(Phi, Phi)
    >>> ways = [solver.solve(SpectralContrastive(), moments, 2, 0.1) for solver in (ClosedForm(), MomentDescent())]
    >>> [round(way.history[-1]["total"], 4) for way in ways]
    [-1.625, -1.625]
    """

    name = "moment_descent"
    known_elsewhere_as = ("lbfgs", "l_bfgs")
    required = ("of_statistics",)
    order = 1

    def __init__(self, max_iter: int = 200, tol: float = 1e-5):
        self.max_iter = max_iter
        self.tol = tol

    def check(self, problem: Problem[Moments]) -> None:
        super().check(problem)
        check_count("max_iter", self.max_iter, least=0)
        check_number("tol", self.tol, least=0)

    def minimised(self, problem: Problem[Moments]) -> Solution:
        loss, moments, n_components, lam = problem.loss, problem.data, problem.n_components, problem.lam
        origin = torch.zeros_like(moments.mean) if loss.intercept == "zero" else moments.mean
        forms, basis = whitened(moments, origin, lam)
        if basis.shape[1] == 0:
            raise nothing_left(loss, moments, lam)
        descent = Descent(loss, forms, lam, self.tol, problem.callback)
        M, c, is_minimum = _first(loss, forms, min(n_components, basis.shape[1]), lam)
        M, c = descent.accepted(M, c) if is_minimum else self._descended(descent, M, c)
        M, c = _finished(loss, forms, M, c)
        return descent.solution("moment_descent", self.max_iter, n_components, moments, origin, basis @ M, c)

    def _descended(self, descent: Descent, M: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Through the smoothed losses to the loss itself, in rounds of descent on M and within its span."""
        loss, first = descent.loss, (M, c)
        before = objective(loss, descent.forms.embed(M, c), descent.lam)[1]["total"]
        descent.floor = RELATIVE_FLOOR * abs(before)
        for stage in _smoothed(loss):
            descent.loss, descent.tol = stage, self.tol if stage is loss else 10 * self.tol
            while True:
                M, c = descent.run(M, c, min(ROUND, self.max_iter - descent.n_iter))
                if descent.n_iter >= self.max_iter:
                    break
                mixed = within_span(descent, M, c)
                if descent.converged and mixed is None:
                    break
                M, c = mixed or (M, c)
        return first if descent.history[-1]["total"] > before else (M, c)


def whitened(moments: Moments, origin: Tensor, lam: float) -> tuple[MomentForms, Tensor]:
    """The moments' forms about an origin (r,) in the basis B (r, k) of the module's docstring, and B."""
    forms = MomentForms.of(moments).shifted(origin)
    values, vectors = spanned(forms.second_moment, moments.S.trace().item())
    if not len(values):
        return forms, vectors
    metric = values + max(lam, METRIC_FLOOR * values[0].item())
    centered = forms.exchangeable and not bool(forms.mean_1.any())
    basis = vectors * metric.rsqrt()
    return forms.in_basis(basis, values / metric if centered else None), basis


def start(h: int, k: int, learned: bool) -> tuple[Tensor, Tensor]:
    """M (k, h) and c (h,) with orthogonal columns that mix the first directions (and the constant) evenly."""
    Q = cosine_matrix(h + learned)
    M = torch.zeros(k, h, dtype=torch.float64)
    M[:h] = Q[learned:, :h]
    return M, Q[0, :h] if learned else torch.zeros(h, dtype=torch.float64)


def within_span(descent: Descent, M: Tensor, c: Tensor) -> tuple[Tensor, Tensor] | None:
    """Descend on M = R N over N (h, h), where the columns of R (k, h) span the columns of M; None if there is no gain.

    A step costs O(h^3). Mixing the components is what L-BFGS in M is slowest at, because the loss depends on it
    weakly where the two views are nearly alike.
    """
    forms, lam = descent.forms, descent.lam
    if forms.basis_norm_sq is None or len(M) < 2 * M.shape[1]:
        return None
    root = forms.basis_norm_sq.sqrt()[:, None]
    Q, T = torch.linalg.qr(root * M)
    values, U = torch.linalg.eigh(forms.in_basis(Q / root).second_moment)
    metric = values.clamp_min(0) + max(lam, METRIC_FLOOR * values[-1].item())
    R, N = (Q / root) @ U * metric.rsqrt(), metric.sqrt()[:, None] * (U.mT @ T)
    inner = Descent(descent.loss, forms.in_basis(R), lam, descent.tol, floor=descent.floor)
    N, c = inner.run(N, c, SPAN_STEPS)
    gain = inner.history[0]["total"] - inner.history[-1]["total"]
    return None if inner.is_small(gain) else (R @ N, c)


def _first(loss: Loss, forms: MomentForms, h: int, lam: float) -> tuple[Tensor, Tensor, bool]:
    """The start M (k, h) and c (h,), and whether the loss knows it to be the minimum."""
    if loss.offers("start"):
        M, is_minimum = loss.start(forms, h, lam)
        return M, M.new_zeros(h), is_minimum
    M, c = start(h, len(forms.mean_1), loss.intercept == "learned")
    return M.to(forms.mean_1.device), c.to(forms.mean_1.device), False


def _smoothed(loss: Loss) -> list[Loss]:
    """The loss, after smoother and smoother ones if it has corners."""
    return [*map(loss.smoothed, WIDTHS), loss] if loss.offers("smoothed") else [loss]


def _finished(loss: Loss, forms: MomentForms, M: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Drop components that the regulariser drove to zero; give the rest unit variance where scale is free."""
    if loss.scale_invariant:
        scale = loss.column_scale(forms.embed(M, c)).clamp_min(torch.finfo(M.dtype).tiny).rsqrt()
        M, c = M * scale, c * scale
    kept = ~vanished(forms.embed(M, c))
    return M[:, kept], c[kept]


def vanished(statistics: Statistics) -> Tensor:
    """Which components (h,) the regulariser has driven to zero."""
    return statistics.variance <= VANISHED * statistics.power.max()


MEMORY = 10  # pairs of steps and gradients that L-BFGS keeps
WINDOW = 5  # steps over which progress is judged
LINE_SEARCH_FAILED = (
    2  # scipy's status: rounding hides any further descent, or a corner of the loss blocks it
)


@dataclass
class Descent:
    """Minimises loss + lam * regulariser over M (k, h) and, where the intercept is learned, c (h,).

    `history` gets the values at the start of every `run` and after every step. Progress is small when it is less
    than `tol` times the total, or times `floor`: a loss whose least value is zero never settles relative to itself.
    """

    loss: Loss
    forms: MomentForms
    lam: float
    tol: float
    callback: Callback | None = None
    floor: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False

    def accepted(self, M: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """M and c, which are known to be the minimum, with their values in the history."""
        self.n_iter, self.converged = 1, True
        self._record(self.value(M, c)[1])
        return M, c

    def value(self, M: Tensor, c: Tensor | None) -> tuple[Tensor, dict[str, float]]:
        """The total, and its parts for the history."""
        return objective(self.loss, self.forms.embed(M, c), self.lam)

    def run(self, M: Tensor, c: Tensor, max_iter: int) -> tuple[Tensor, Tensor]:
        """The M and c reached in at most `max_iter` steps, not above the start."""
        self._shape, self._device, self._learned = M.shape, M.device, self.loss.intercept == "learned"
        self._values: dict[
            float, dict[str, float]
        ] = {}  # of the evaluations since the last step, by their total
        self._first, last = len(self.history), self.n_iter + max_iter
        x = self._packed(M, c)
        total, gradient = self._evaluated(x)
        if not math.isfinite(total):
            raise ValueError(f"The loss {self.loss} has no finite value at the start: {self._values}.")
        self._record(self._values[total])
        precision, self.converged = 1e-12 * float(np.abs(gradient).max()), False
        while self.n_iter < last and not self.converged:
            before = self.history[-1]["total"]
            options = {"maxiter": last - self.n_iter, "maxcor": MEMORY, "ftol": 0.0, "gtol": precision}
            options["maxfun"] = 20 * max_iter
            result = minimize(
                self._evaluated, x, jac=True, method="L-BFGS-B", callback=self._after_step, options=options
            )
            x = result.x
            # After a failed line search a fresh start without memory often makes progress; it is used while it helps.
            failed = result.status == LINE_SEARCH_FAILED and self.is_small(before - self.history[-1]["total"])
            self.converged = failed or result.status == 0 or self._settled()
        return self._unpacked(x)

    def solution(
        self,
        solver: str,
        max_iter: int,
        n_components: int,
        moments: Moments,
        origin: Tensor,
        W: Tensor,
        c: Tensor,
    ) -> Solution:
        """W^T (phi - origin) + c as a solution; a warning if the descent was cut short."""
        if W.shape[1] == 0:
            raise nothing_left(self.loss, moments, self.lam)
        if not self.converged and self.n_iter >= max_iter > 0:
            warn(
                f"The descent stopped after max_iter={max_iter} steps, before {self.loss} was at its "
                "minimum. Raise solver__max_iter, or regularization.",
                ConvergenceWarning,
            )
        gamma, dropped = c - W.mT @ origin, n_components - W.shape[1]
        found = (self.history, self.n_iter, self.converged)
        return Solution(W, gamma, *found, solver, dropped)

    def _evaluated(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        M, c = self._unpacked(x)
        M.requires_grad_()
        gamma = c.requires_grad_() if self._learned else None
        total, values = self.value(M, gamma)
        total.backward()
        self._values[values["total"]] = values
        gradient = torch.zeros_like(M) if M.grad is None else M.grad
        return values["total"], self._packed(gradient, c.grad)

    def _after_step(self, intermediate_result: OptimizeResult) -> None:
        total = float(intermediate_result.fun)
        if total not in self._values:
            total, _ = self._evaluated(intermediate_result.x)
        self.n_iter += 1
        self._record(self._values[total])
        if self._settled():
            raise StopIteration

    def _record(self, values: dict[str, float]) -> None:
        self.history.append(values)
        self._values = {}
        if self.callback is not None:
            self.callback(self.n_iter, values)

    def _settled(self) -> bool:
        if len(self.history) - self._first <= WINDOW:
            return False
        return self.is_small(self.history[-1 - WINDOW]["total"] - self.history[-1]["total"])

    def is_small(self, progress: float) -> bool:
        return progress <= self.tol * max(abs(self.history[-1]["total"]), self.floor)

    def _packed(self, M: Tensor, c: Tensor | None) -> np.ndarray:
        parts = [M.reshape(-1), c] if self._learned and c is not None else [M.reshape(-1)]
        return torch.cat(parts).detach().cpu().numpy()

    def _unpacked(self, x: np.ndarray) -> tuple[Tensor, Tensor]:
        flat = torch.from_numpy(x).to(self._device)
        k, h = self._shape
        c = flat[k * h :] if self._learned else flat.new_zeros(h)
        return flat[: k * h].reshape(k, h), c
