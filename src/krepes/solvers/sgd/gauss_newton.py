"""Generalised Gauss-Newton steps: curvature from first derivatives only, never as a matrix.

    residuals   L = |r|^2                          H = 2 J^T J          J = dr / dtheta        [krepes, section 3.2, 1]
    logits      L = mean cross-entropy of l        H = J^T Q J          J = dl / dtheta        [krepes, section 3.2, 2]
                Q v = p * v - p (p^T v) for every row, divided by the number of rows,  p = softmax(l)

A step solves (H + mu D) d = gradient by conjugate gradients. A product with H is a Jacobian-vector and a
vector-Jacobian product; because Z is linear in theta, each costs one product with the features besides what the loss
does to Z. For the rows of P,

    D = S + floor mean(diag S) I,   divided by the scale of every column where the loss ignores it,   S = mean phi phi^T

so d^T D d is about the squared change of the embeddings relative to their size, and D^-1, one Cholesky factorisation of
an r x r matrix, preconditions the conjugate gradients.

The gradient is that of the batch, H that of the batch before it at the present theta, so that a gradient is not solved
with the curvature of its own noise; with all rows in one batch, or replays of a single one, the two are the same. What
that gains is small: on MNIST at damping 2 it lowered the held-out loss in 5 of 6 runs of Barlow Twins, by 0.4 % at
most. mu is fixed, relative to the curvature along the first step. Differs from [martens], who lets it follow the
agreement of predicted and found decrease: found on the same batch it falls until steps fit noise, found on the next it
grows until nothing moves. A step that raises the loss of its batch is shortened, and dropped if that does not help.
Differs from [krepes]: there the step is passed to Adam, whose own scaling undoes much of the preconditioning.

Cost of a step: max_iter products, O(b r h) each, and while S is gathered (the first 8192 rows) O(b r^2 + r^3). Memory:
one batch more, and S.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from krepes.base.linalg import conjugate_gradients
from krepes.base.storage.codec import encode
from krepes.base.validation import check_number
from krepes.losses import Batch, Loss
from krepes.losses.batch import SampleStatistics
from krepes.solvers.sgd.feature_windows import FeatureBatch
from krepes.solvers.sgd.objective import GAMMA, Objective, P, Theta
from krepes.solvers.sgd.steps import Preconditioner, StepRule, Steps

MOMENT_ROWS = 8192  # rows that S is the mean over
SHORTER = (1.0, 0.5, 0.25, 0.1)  # fractions of a step that are tried


class GaussNewton(Preconditioner):
    """Gauss-Newton steps for a loss that declares its residuals or its logits.

    Parameters
    ----------
    max_iter : int, default=5
        Products with H per step.
    damping : float, default=10
        mu, relative to the curvature along the first step. Lower values make longer and noisier steps: 2 does well
        with Barlow Twins, while SimCLR collapsed at 3 and does best at 10 with a learning rate of 0.1 (MNIST, batches
        of 256).
    tol : float, default=1e-2
        Conjugate gradients stop where the residual has fallen to this fraction.
    floor : float, default=0.1
        Share of the identity in D, relative to the mean second moment of a feature. A higher one makes shorter steps in
        directions in which features vary little: 1 does better with replays of short stretches of rows (see SGD), to
        which those would be fitted.

    Notes
    -----
    On batches that come once it is hardly better than Adam for the same rows and several times slower; with replays it
    reaches the loss of Adam in a third of the reads (benchmarks/README.md), in more time: prefer it where features are
    expensive. Without noise, on all rows at once, a low damping (0.3) helps.

    A loss that depends on the batch size is best trained with the size that it is judged by. SimCLR compares every row
    of a batch with every other, in every product: stay at 512 rows or fewer.
    """

    name = "gauss_newton"
    default_rate = 1.0
    without = ("optimizer", "weight_decay", "gradient_clip")

    def __init__(self, max_iter: int = 5, damping: float = 10.0, tol: float = 1e-2, floor: float = 0.1):
        self.max_iter = max_iter
        self.damping = damping
        self.tol = tol
        self.floor = floor

    def missing(self, loss: Loss) -> str | None:
        known = loss.offers("residuals") or loss.offers("logits")
        return None if known else "residuals() or logits()"

    def check(self) -> None:
        for name in ("max_iter", "damping", "tol", "floor"):
            check_number(name, getattr(self, name), above=0)

    def steps(self, objective: Objective, theta: Theta, rule: StepRule) -> Steps:
        return GaussNewtonSteps(self, objective)


class GaussNewtonSteps(Steps):
    """Damped Gauss-Newton steps on batches."""

    def __init__(self, settings: GaussNewton, objective: Objective):
        self.settings, self.objective = settings, objective
        self.mu: float | None = None
        self.metric = Metric(settings.floor)
        self.previous: FeatureBatch | None = None
        self.products = 0  # with J and with its transpose

    @property
    def counts(self) -> dict[str, int]:
        return {"jacobian_products": self.products}

    def state(self) -> dict[str, Any]:
        kept = {"S": self.metric.S, "S_rows": self.metric.rows, "previous": encode(self.previous)}
        return kept | {"mu": self.mu, "products": self.products}

    def restore(self, state: dict[str, Any]) -> None:
        device = self.objective.coordinates.device
        self.mu, self.products = state["mu"], state["products"]
        if state["S"] is not None:
            self.metric.set(state["S"].to(device), state["S_rows"])
        if state["previous"] is not None:
            self.previous = FeatureBatch(**state["previous"]).mapped(lambda values: values.to(device))

    def step(
        self, theta: Theta, samples: FeatureBatch, target: Theta | None, rate: float
    ) -> dict[str, float]:
        values, gradient = self.objective.gradient(theta, samples, target)
        flat = Flat(theta)
        g = flat.packed(gradient)
        curvature = Curvature(self.objective, theta, self.previous or samples, target)
        self.metric.gather(samples)

        def product(d: Tensor) -> Tensor:
            self.products += 2
            return flat.packed(curvature.product(flat.unpacked(d)))

        def damped(d: Tensor) -> Tensor:
            return flat.packed(self.metric.times(flat.unpacked(d), curvature.scale))

        def preconditioned(d: Tensor) -> Tensor:
            return flat.packed(self.metric.solve(flat.unpacked(d), curvature.scale))

        if self.mu is None:
            s = preconditioned(g)
            self.mu = self.settings.damping * (s @ product(s) / (s @ damped(s))).clamp_min(1e-12).item()
        mu = self.mu
        solution, _ = conjugate_gradients(
            lambda d: (product(d[:, 0]) + mu * damped(d[:, 0]))[:, None],
            g[:, None],
            self.settings.tol,
            self.settings.max_iter,
            lambda d: preconditioned(d[:, 0])[:, None],
        )
        self._take(theta, flat, rate * solution[:, 0], values["total"], samples, target)
        self.previous = samples
        return values

    def _take(
        self,
        theta: Theta,
        flat: Flat,
        d: Tensor,
        before: float,
        samples: FeatureBatch,
        target: Theta | None,
    ) -> None:
        """Go along -d, shortened until the loss of the batch falls; stay if it does not."""
        begin = flat.packed(theta)
        for fraction in SHORTER:
            flat.put(theta, begin - fraction * d)
            if self.objective.values(theta, samples, target)["total"] < before:
                return
        flat.put(theta, begin)


class Metric:
    """D: what a step is measured in.

    S for the rows of P, the identity for gamma, both divided by the scale of their column; the identity for the loss's
    own parameters.
    """

    def __init__(self, floor: float) -> None:
        self.floor = floor
        self.S: Tensor | None = None
        self.rows = 0

    def gather(self, samples: FeatureBatch) -> None:
        """Add rows to the mean S, until they are enough."""
        if self.rows >= MOMENT_ROWS:
            return
        n, views = len(samples), len(samples.features)
        S = torch.stack([Phi.mT @ Phi for Phi in samples.features]).sum(0) / (n * views)
        rows = self.rows + n
        self.set(S if self.S is None else self.S + (S - self.S) * (n / rows), rows)

    def set(self, S: Tensor, rows: int) -> None:
        self.S, self.rows = S, rows
        mean = S.diagonal().mean()
        ridge = torch.where(mean > 0, self.floor * mean, 1.0)  # features that are all zero measure nothing
        self._ridged = S + ridge * torch.eye(len(S), dtype=S.dtype, device=S.device)
        self._factor = torch.linalg.cholesky(self._ridged)

    def times(self, d: Theta, scale: Tensor) -> Theta:
        """D d, with the columns' squared scale, (h,)."""
        result = d | {P: self._ridged @ d[P] / scale}
        return result | ({GAMMA: d[GAMMA] / scale} if GAMMA in d else {})

    def solve(self, d: Theta, scale: Tensor) -> Theta:
        """D^-1 d."""
        result = d | {P: torch.cholesky_solve(d[P] * scale, self._factor)}
        return result | ({GAMMA: d[GAMMA] * scale} if GAMMA in d else {})


class Curvature:
    """Products with the Gauss-Newton matrix of one batch at one theta."""

    def __init__(self, objective: Objective, theta: Theta, samples: FeatureBatch, target: Theta | None):
        self.objective, self.samples = objective, samples
        self.batch = objective.batch({k: v.detach() for k, v in theta.items()}, samples, target)
        self.own = list(self.batch.parameters)
        self.inputs = (*self.batch.Z, *self.batch.parameters.values())
        loss = objective.loss
        if loss.offers("residuals"):
            self.function: Callable[..., Tensor] = lambda *u: loss.residuals(self._with(u))
            self.inner: Callable[[Tensor], Tensor] = lambda v: 2 * v
        else:
            self.function = lambda *u: loss.logits(self._with(u)).values
            with torch.no_grad():
                p = loss.logits(self.batch).values.softmax(1)
            self.inner = lambda v: (p * v - p * (p * v).sum(1, keepdim=True)) / len(p)
        self.transposed = torch.func.vjp(self.function, *self.inputs)[1]
        self.scale = self._scale()

    def _scale(self) -> Tensor:
        """The squared scale of every component, (h,), for a loss that ignores it; else ones."""
        loss = self.objective.loss
        if not loss.scale_invariant:
            return torch.ones_like(self.batch.Z[0][0])
        with torch.no_grad():
            scale = loss.column_scale(SampleStatistics(self.batch)).to(self.batch.Z[0])
        return torch.where(scale > 0, scale, 1.0)

    def _with(self, u: tuple[Tensor, ...]) -> Batch:
        k = len(self.batch.Z)
        return replace(self.batch, Z=u[:k], parameters=dict(zip(self.own, u[k:], strict=True)))

    def jacobian(self, d: Theta) -> Tensor:
        """J d, shaped like the residuals or the logits."""
        du = (*self.objective.push(d, self.samples.features), *(d[name] for name in self.own))
        return torch.func.jvp(self.function, self.inputs, du)[1]

    def transposed_jacobian(self, v: Tensor) -> Theta:
        """J^T v."""
        pulled = self.transposed(v)
        k = len(self.batch.Z)
        result = self.objective.pull(pulled[:k], self.samples.features)
        return result | dict(zip(self.own, pulled[k:], strict=True))

    def product(self, d: Theta) -> Theta:
        """H d, with the curvature of the regulariser lam sum_j |w_j|^2 / scale_j, the scale taken as a constant."""
        result = self.transposed_jacobian(self.inner(self.jacobian(d)))
        if self.objective.lam > 0:
            result[P] = (
                result[P] + 2 * self.objective.lam * self.objective.coordinates.metric(d[P]) / self.scale
            )
        return result


class Flat:
    """theta as one vector."""

    def __init__(self, theta: Theta):
        self.shapes = {name: value.shape for name, value in theta.items()}

    def packed(self, theta: Theta) -> Tensor:
        return torch.cat([theta[name].detach().reshape(-1) for name in self.shapes])

    def unpacked(self, vector: Tensor) -> Theta:
        parts = vector.split([shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts)}

    def put(self, theta: Theta, vector: Tensor) -> None:
        for name, value in self.unpacked(vector).items():
            theta[name].data.copy_(value)
