"""The objective of one batch, as a function of everything that is trained.

    theta = {P, gamma, the loss's own parameters},   Z_v = features_v P + gamma_v,   sum of terms + lam * regulariser

The embeddings are linear in (P, gamma): `push` is that map for a direction, `pull` its transpose, and with them the
Jacobian of anything that the loss computes from Z costs two products with the features.
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.base.linalg import symmetric
from krepes.losses import Batch, Loss
from krepes.losses.batch import SampleStatistics
from krepes.solvers.sgd.coordinates import Coordinates
from krepes.solvers.sgd.feature_windows import FeatureBatch
from krepes.solvers.solver import regularizer, summed

Theta = dict[str, Tensor]
P, GAMMA = "P", "gamma"


class Objective:
    """A loss with its regulariser, in some coordinates.

    Parameters
    ----------
    loss : Loss
    coordinates : Coordinates
    lam : float
    constrained : bool
        W is kept orthonormal, so its norm is fixed and there is nothing to regularise.
    """

    def __init__(self, loss: Loss, coordinates: Coordinates, lam: float, constrained: bool = False):
        self.loss, self.coordinates, self.constrained = loss, coordinates, constrained
        self.lam = 0.0 if constrained else lam
        self.learned, self.centered = loss.intercept == "learned", loss.intercept == "centered"

    def embed(self, theta: Theta, features: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Z of every view, and of the negatives, which are embedded like anchors where views differ.

        A centred loss has gamma = -W^T mu, with mu the mean over the batch and its two views.
        """
        W, gamma = theta[P], theta.get(GAMMA)
        views = [Phi @ W for Phi in features]
        if gamma is not None:
            views = [Z + gamma[v % len(gamma)] for v, Z in enumerate(views)]
        if self.centered:
            mean = torch.stack([Z.mean(0) for Z in views[:2]]).mean(0)
            views = [Z - mean for Z in views]
        return tuple(views)

    def push(self, direction: Theta, features: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """dZ of every view for a change of theta."""
        return self.embed(direction, features)

    def pull(self, dZ: tuple[Tensor, ...], features: tuple[Tensor, ...]) -> Theta:
        """The transpose of `push`: a gradient with respect to Z as one with respect to P and gamma."""
        if self.centered:
            pairs = dZ[:2]
            mean = torch.stack([D.sum(0) for D in dZ]).sum(0) / sum(map(len, pairs))
            dZ = (*(D - mean for D in pairs), *dZ[2:])
        result = {P: torch.stack([Phi.mT @ D for Phi, D in zip(features, dZ)]).sum(0)}
        if self.learned:
            intercepts = self.coordinates.n_intercepts
            sums = torch.stack([D.sum(0) for D in dZ])
            result[GAMMA] = torch.stack([sums[v::intercepts].sum(0) for v in range(intercepts)])
        return result

    def batch(self, theta: Theta, samples: FeatureBatch, target: Theta | None = None) -> Batch:
        """What the loss sees."""
        own = {name: value for name, value in theta.items() if name not in (P, GAMMA)}
        target_Z = None
        if target is not None:
            with torch.no_grad():
                target_Z = self.embed(target, samples.features)
        needs = self.loss.needs
        with_gram = "gram" in needs or self.lam > 0
        Z = self.embed(theta, samples.features)
        return Batch(
            Z,
            X=samples.X,
            phi_norm_sq=self._phi_norm_sq(samples) if "phi_norm_sq" in needs else None,
            gram=self.coordinates.gram(theta[P]) if with_gram else None,
            target_Z=target_Z,
            parameters=own,
        )

    def _phi_norm_sq(self, samples: FeatureBatch) -> Tensor:
        """|phi(x) - mu|^2 = k(x, x) - 2 mu^T phi(x) + |mu|^2, with the batch's own mean."""
        if samples.norm_sq is None:
            raise ValueError("This loss needs k(x, x) of every sample.")
        Phi = self.coordinates.to_phi(samples.features[0])
        mu = Phi.mean(0)
        return samples.norm_sq.to(Phi) - 2 * Phi @ mu + mu @ mu

    def __call__(
        self, theta: Theta, samples: FeatureBatch, target: Theta | None = None
    ) -> tuple[Tensor, dict[str, float]]:
        """The total, and the values of its parts with their "total"."""
        batch = self.batch(theta, samples, target)
        terms = dict(self.loss.terms(batch))
        if self.lam > 0:
            terms["regularizer"] = regularizer(self.loss, SampleStatistics(batch), self.lam)
        return summed(terms)

    def gradient(
        self, theta: Theta, samples: FeatureBatch, target: Theta | None = None
    ) -> tuple[dict[str, float], Theta]:
        """The values of the parts, with their "total", and the gradient (along the constraint, if there is one)."""
        leaves = {name: value.detach().requires_grad_() for name, value in theta.items()}
        total, values = self(leaves, samples, target)
        found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        gradient = {
            name: torch.zeros_like(leaves[name]) if value is None else value
            for name, value in zip(leaves, found)
        }
        if self.constrained:
            # Because a scaled or rotated W spans the same space: what the retraction would undo must not reach an
            # optimizer that treats entries one by one.
            W, G = theta[P], gradient[P]
            gradient[P] = G - self.coordinates.metric(W) @ symmetric(W.mT @ G)
        return values, gradient

    @torch.no_grad()
    def values(self, theta: Theta, samples: FeatureBatch, target: Theta | None = None) -> dict[str, float]:
        return self(theta, samples, target)[1]
