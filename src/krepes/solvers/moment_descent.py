"""Full-batch L-BFGS on the moments: exact values and gradients, O(r^2 h) each, whatever n is.

    W = B M,   B = U diag(s + lam)^(-1/2),   S = U diag(s) U^T,         M in R^(k x h) is what is optimised

S is the features' second moment (about the mean, unless the loss has no intercept). In these coordinates the loss and
the regulariser both have curvature of order one: about five times fewer steps than in W. Where the views are
exchangeable, S is diagonal there and a step costs one product with an r x r matrix. Directions that S does not span
are left out; no loss of moments sees them.

The start is the first h principal directions at unit variance, mixed by an orthogonal cosine matrix. They are not
taken as they are because of a symmetry: where the coordinates are uncorrelated in both moments, flipping the
sign of one coordinate and of its column changes nothing, so the gradient cannot mix columns and descent stays
at a saddle. On Barlow Twins and VICReg, random starts, starts from canonical correlations and this one end at
the same value, and this one costs nothing.

A loss with corners (the hinge of VICReg) is approached through smoothed ones: L-BFGS crawls along corners, and needs
about seven times fewer steps to a lower value this way.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor

from krepes.losses import Loss, MomentForms
from krepes.losses.forms import spanned
from krepes.moments import Moments
from krepes.solvers.base import Callback, Solution, Solver, nothing_left, objective

METRIC_FLOOR = 1e-6  # of the largest eigenvalue: how far B may stretch a weak direction when lam is small
MEMORY = 10  # pairs of steps and gradients that L-BFGS keeps
WINDOW = 5  # steps over which progress is judged
WIDTHS = (0.1, 0.01)  # of the rounded corners, for a loss that has corners; then none
LINE_SEARCH_FAILED = 2  # scipy's status: rounding hides any further descent, or a corner blocks it
VANISHED = 1e-8  # of the largest variance: a component below it was cut by the regulariser


class MomentDescent(Solver):
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
    required = ("of_statistics",)
    order = 1

    def __init__(self, max_iter: int = 200, tol: float = 1e-5):
        self.max_iter = max_iter
        self.tol = tol

    def solve(
        self,
        loss: Loss,
        moments: Moments,
        n_components: int,
        lam: float,
        generator: torch.Generator | None = None,
        callback: Callback | None = None,
    ) -> Solution:
        self.check(loss, moments, n_components, lam)
        origin = torch.zeros_like(moments.mean) if loss.intercept == "zero" else moments.mean
        forms, basis = whitened(moments, origin, lam)
        if basis.shape[1] == 0:
            raise nothing_left(loss, moments, lam)
        M, c = start(min(n_components, basis.shape[1]), basis.shape[1], loss.intercept == "learned")
        descent = _Descent(loss, forms, lam, callback)
        M, c = descent.run(M.to(basis.device), c.to(basis.device), self.max_iter, self.tol)
        M, c = _finished(loss, forms, M, c)
        if M.shape[1] == 0:
            raise nothing_left(loss, moments, lam)
        W = basis @ M
        gamma = c - W.mT @ origin
        dropped = n_components - W.shape[1]
        return Solution(
            W, gamma, descent.history, descent.n_iter, descent.converged, "moment_descent", dropped
        )


def whitened(moments: Moments, origin: Tensor, lam: float) -> tuple[MomentForms, Tensor]:
    """The moments' forms about an origin (r,) in the basis B (r, k) of the module's docstring, and B."""
    forms = MomentForms.of(moments).shifted(origin)
    values, vectors = spanned(forms.second_moment, moments.S.trace().item())
    if not len(values):
        return forms, vectors
    metric = values + max(lam, METRIC_FLOOR * values[0].item())
    centered = forms.exchangeable and not bool(forms.mean_a.any())
    basis = vectors * metric.rsqrt()
    return forms.in_basis(basis, values / metric if centered else None), basis


def start(h: int, k: int, learned: bool) -> tuple[Tensor, Tensor]:
    """M (k, h) and c (h,) with orthogonal columns that mix the first directions (and the constant) evenly."""
    size = h + learned
    position = torch.arange(size, dtype=torch.float64)
    Q = math.sqrt(2 / size) * torch.cos(math.pi / size * torch.outer(position, position + 0.5))  # DCT-II
    Q[0] /= math.sqrt(2)
    M = torch.zeros(k, h, dtype=torch.float64)
    M[:h] = Q[learned:, :h]
    return M, Q[0, :h] if learned else torch.zeros(h, dtype=torch.float64)


class _Descent:
    """L-BFGS over M (k, h) and, where the intercept is learned, c (h,); through smoother losses to one with corners."""

    def __init__(self, loss: Loss, forms: MomentForms, lam: float, callback: Callback | None):
        self.loss, self.forms, self.lam, self.callback = loss, forms, lam, callback
        self.learned = loss.intercept == "learned"
        self.history: list[dict[str, float]] = []
        self.n_iter, self.converged = 0, False
        self._values: dict[
            float, dict[str, float]
        ] = {}  # of the evaluations since the last step, by their total

    def run(self, M: Tensor, c: Tensor, max_iter: int, tol: float) -> tuple[Tensor, Tensor]:
        """The M and c that were reached, not above the start."""
        self._shape, self._device = M.shape, M.device
        x = first = self._packed(M, c)
        if hasattr(self.loss, "smoothed"):
            for width in WIDTHS:
                x = self._minimised(self.loss.smoothed(width), x, max_iter, 10 * tol)
        x = self._minimised(self.loss, x, max_iter, tol)
        if hasattr(self.loss, "smoothed") and self.history[-1]["total"] > self._evaluated(first)[0]:
            x = first
        return self._unpacked(x)

    def _minimised(self, stage: Loss, x: np.ndarray, max_iter: int, tol: float) -> np.ndarray:
        """Descend on one loss until progress ends; a line search that fails is given a fresh start while it pays."""
        self._stage, self._tol, self._first = stage, tol, len(self.history)
        total, gradient = self._evaluated(x)
        if not math.isfinite(total):
            raise ValueError(f"The loss {self.loss} has no finite value at the start: {self._values[total]}.")
        self._record(self._values[total])
        while self.n_iter < max_iter:
            before = self.history[-1]["total"]
            result = minimize(
                self._evaluated,
                x,
                jac=True,
                method="L-BFGS-B",
                callback=self._after_step,
                options={
                    "maxiter": max_iter - self.n_iter,
                    "maxfun": 20 * max_iter,
                    "maxcor": MEMORY,
                    "ftol": 0.0,
                    "gtol": 1e-12 * float(np.abs(gradient).max()),
                },
            )
            x = result.x
            failed = result.status == LINE_SEARCH_FAILED
            if not failed or self._is_small(before - self.history[-1]["total"]):
                self.converged = failed or result.status == 0 or self._settled()
                break
        return x

    def _evaluated(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        M, c = self._unpacked(x)
        M.requires_grad_()
        gamma = c.requires_grad_() if self.learned else None
        total, values = objective(self._stage, self.forms.embed(M, gamma), self.lam)
        total.backward()
        self._values[values["total"]] = values
        gradient = torch.zeros_like(M) if M.grad is None else M.grad
        return values["total"], self._packed(gradient, c.grad)

    def _after_step(self, intermediate_result: OptimizeResult) -> None:
        total = float(intermediate_result.fun)
        if total not in self._values:
            self._evaluated(intermediate_result.x)
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
        return self._is_small(self.history[-1 - WINDOW]["total"] - self.history[-1]["total"])

    def _is_small(self, progress: float) -> bool:
        # Relative to the start as well, because a loss whose least value is zero never settles relative to itself.
        size = max(abs(self.history[-1]["total"]), 1e-6 * abs(self.history[0]["total"]))
        return progress <= self._tol * size

    def _packed(self, M: Tensor, c: Tensor | None) -> np.ndarray:
        parts = [M.reshape(-1), c] if self.learned and c is not None else [M.reshape(-1)]
        return torch.cat(parts).detach().cpu().numpy()

    def _unpacked(self, x: np.ndarray) -> tuple[Tensor, Tensor]:
        flat = torch.from_numpy(x).to(self._device)
        k, h = self._shape
        c = flat[k * h :] if self.learned else flat.new_zeros(h)
        return flat[: k * h].reshape(k, h), c


def _finished(loss: Loss, forms: MomentForms, M: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Drop components that the regulariser drove to zero; give the rest unit variance where scale is free."""
    if loss.scale_invariant:
        scale = loss.column_scale(forms.embed(M, c)).clamp_min(torch.finfo(M.dtype).tiny).rsqrt()
        M, c = M * scale, c * scale
    statistics = forms.embed(M, c)
    kept = statistics.variance > VANISHED * statistics.power.max()
    return M[:, kept], c[kept]
