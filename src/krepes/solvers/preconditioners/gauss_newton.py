"""Generalised Gauss-Newton steps: curvature from first derivatives only, never as a matrix.

    residuals   L = |r|^2                          H = 2 J^T J          J = dr / dtheta        [krepes, section 3.2, 1]
    logits      L = mean cross-entropy of l        H = J^T Q J          J = dl / dtheta        [krepes, section 3.2, 2]
                Q v = p * v - p (p^T v) for every row, divided by the number of rows,  p = softmax(l)

A step solves (H + mu D) d = gradient by conjugate gradients. A product with H is a Jacobian-vector and a
vector-Jacobian product; because Z is linear in theta, each costs one product with the features besides what the loss
does to Z. D is the diagonal of the features' second moment plus a share of its mean, which also preconditions the
conjugate gradients: directions in which the features hardly vary are damped as weakly as they act.

mu follows the agreement between predicted and found decrease, as Levenberg and Marquardt do [martens]. A step that
would raise the loss of its own batch is shortened, and dropped if that does not help. Differs from [krepes]: there the
damping is fixed and the step goes on to Adam, whose own scaling undoes much of the preconditioning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from krepes.conjugate_gradients import conjugate_gradients
from krepes.engines.samples import FeatureBatch
from krepes.losses import Batch, Loss
from krepes.solvers.objective import GAMMA, Objective, P, Theta
from krepes.solvers.preconditioners.base import Preconditioner, StepRule, Steps

GROW, SHRINK = 1.5, 2 / 3  # of the damping
FLOOR = 0.01  # share of the mean second moment that is added to every feature's own, in D
SHORTER = (1.0, 0.5, 0.25, 0.1)  # fractions of a step that are tried


class GaussNewton(Preconditioner):
    """Gauss-Newton steps for a loss that declares its residuals or its logits.

    Parameters
    ----------
    max_iter : int, default=10
        Products with H per step.
    damping : float, default=0.1
        mu at the start, relative to the curvature along the gradient.
    tol : float, default=1e-2
        Conjugate gradients stop where the residual has fallen to this fraction.

    Notes
    -----
    Curvature of a small batch is noise: use batches of some thousands (`SGD(batch_size=4096)`).
    """

    name = "gauss_newton"
    default_rate = 1.0

    def __init__(self, max_iter: int = 10, damping: float = 0.1, tol: float = 1e-2):
        self.max_iter = max_iter
        self.damping = damping
        self.tol = tol

    def missing(self, loss: Loss) -> str | None:
        if hasattr(loss, "residuals") or hasattr(loss, "logits"):
            return None
        return "residuals() or logits()"

    def steps(self, objective: Objective, theta: Theta, rule: StepRule) -> Steps:
        for name, value in (("max_iter", self.max_iter), ("damping", self.damping), ("tol", self.tol)):
            if not value > 0:
                raise ValueError(f"{name}={value!r}: expected a positive number.")
        return GaussNewtonSteps(self, objective)


class GaussNewtonSteps(Steps):
    """Damped Gauss-Newton steps on batches."""

    def __init__(self, settings: GaussNewton, objective: Objective):
        self.settings, self.objective = settings, objective
        self.mu: float | None = None
        self.products = 0

    @property
    def counts(self) -> dict[str, int]:
        return {"jacobian_products": self.products}

    def state(self) -> dict[str, Any]:
        return {"mu": self.mu, "products": self.products}

    def restore(self, state: dict[str, Any]) -> None:
        self.mu, self.products = state["mu"], state["products"]

    def step(
        self, theta: Theta, samples: FeatureBatch, target: Theta | None, rate: float
    ) -> dict[str, float]:
        values, gradient = self.objective.gradient(theta, samples, target)
        flat = Flat(theta)
        g = flat.packed(gradient)
        curvature = Curvature(self.objective, theta, samples, target)
        scale = flat.packed(curvature.metric())

        def product(d: Tensor) -> Tensor:
            self.products += 2
            return flat.packed(curvature.product(flat.unpacked(d)))

        if self.mu is None:
            self.mu = self.settings.damping * (g @ product(g) / (g @ (scale * g))).clamp_min(1e-12).item()
        mu = self.mu
        solution, _ = conjugate_gradients(
            lambda d: product(d[:, 0])[:, None] + mu * scale[:, None] * d,
            g[:, None],
            self.settings.tol,
            self.settings.max_iter,
            lambda d: d / scale[:, None],
        )
        self._take(theta, flat, g, rate * solution[:, 0], values["total"], samples, target)
        return values

    def _take(
        self,
        theta: Theta,
        flat: Flat,
        g: Tensor,
        d: Tensor,
        before: float,
        samples: FeatureBatch,
        target: Theta | None,
    ) -> None:
        """Go along -d, shortened until the loss of the batch falls, and adapt the damping."""
        start = flat.packed(theta)
        predicted = (g @ d).item() / 2  # of a full Newton step on the quadratic model: g^T H^-1 g / 2
        for fraction in SHORTER:
            flat.put(theta, start - fraction * d)
            decrease = before - self.objective.values(theta, samples, target)["total"]
            if decrease > 0:
                break
        else:
            flat.put(theta, start)
            decrease = 0.0
        assert self.mu is not None
        ratio = decrease / predicted if predicted > 0 else 0.0
        if ratio > 0.75:
            self.mu *= SHRINK
        elif ratio < 0.25:
            self.mu *= GROW


class Curvature:
    """Products with the Gauss-Newton matrix of one batch at one theta."""

    def __init__(self, objective: Objective, theta: Theta, samples: FeatureBatch, target: Theta | None):
        self.objective, self.samples = objective, samples
        self.batch = objective.batch({k: v.detach() for k, v in theta.items()}, samples, target)
        loss: Any = objective.loss
        self.own = list(self.batch.parameters)
        self.inputs = (*self.batch.Z, *self.batch.parameters.values())
        if hasattr(loss, "residuals"):
            self.function: Callable[..., Tensor] = lambda *u: loss.residuals(self._with(u))
            self.inner: Callable[[Tensor], Tensor] = lambda v: 2 * v
        else:
            self.function = lambda *u: loss.logits(self._with(u)).values
            with torch.no_grad():
                p = loss.logits(self.batch).values.softmax(1)
            self.inner = lambda v: (p * v - p * (p * v).sum(1, keepdim=True)) / len(p)
        self.transposed = torch.func.vjp(self.function, *self.inputs)[1]

    def _with(self, u: tuple[Tensor, ...]) -> Batch:
        k = len(self.batch.Z)
        batch = self.batch
        return Batch(
            u[:k],
            batch.X,
            batch.phi_norm,
            batch.gram,
            batch.target_Z,
            dict(zip(self.own, u[k:], strict=True)),
        )

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
        """H d, the regulariser's curvature included where it is quadratic."""
        result = self.transposed_jacobian(self.inner(self.jacobian(d)))
        if self.objective.lam > 0 and not self.objective.loss.scale_invariant:
            result[P] = result[P] + 2 * self.objective.lam * self.objective.coordinates.metric(d[P])
        return result

    def metric(self) -> Theta:
        """D: second moments of the features for the rows of P, ones for gamma and the loss's own parameters."""
        moment = torch.stack([Phi.square().mean(0) for Phi in self.samples.features]).mean(0)
        moment = moment + FLOOR * moment.mean()
        h = self.batch.Z[0].shape[1]
        result = {P: moment[:, None].expand(-1, h)}
        if self.objective.learned:
            result[GAMMA] = moment.new_ones(self.objective.coordinates.n_intercepts, h)
        return result | {name: torch.ones_like(value) for name, value in self.batch.parameters.items()}


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
