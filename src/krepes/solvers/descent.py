"""L-BFGS on one loss of the moments, from a given start, until progress ends.

Values and gradients are exact, so quasi-Newton steps with a line search (scipy's L-BFGS-B) need no step size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor

from krepes.losses import Loss, MomentForms
from krepes.solvers.solver import Callback, objective

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
