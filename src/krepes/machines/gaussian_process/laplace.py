"""Laplace's approximation of a Gaussian process classifier, in the feature space.

    p(t | f) = sigmoid(t f),  t = -1 or 1,    f = Phi w,    w ~ N(0, a I)

    w* = argmax  sum_i log sigmoid(t_i f_i) - |w|^2 / (2 a)                              Newton's method
    w | t  ~  N(w*, (Phi^T D Phi + I / a)^-1),    D = diag(p (1 - p)),  p = sigmoid(f)   [rasmussen, ch. 3]
    log evidence = sum_i log sigmoid(t_i f_i) - |w*|^2 / (2 a) - 1/2 log |I + a Phi^T D Phi|

Gradient and curvature are sums over rows: each step of Newton's method is a read, or a product where the features fit
into memory. With all rows as landmarks this is the approximation in the function space. What the landmarks do not span
enters the variance of new rows, not the fit. Memory: 8 r^2 bytes for each class (one for two classes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from krepes.base.accumulator import FieldSums, SumOfValues
from krepes.base.blocks import Block
from krepes.base.linalg import symmetric
from krepes.base.reporting import warn
from krepes.base.storage.codec import Shape
from krepes.features.space import FeatureSpace
from krepes.machines.targets import Targets

TOLERANCE = 1e-12  # of the squared length of a step, per row, in units of the posterior's deviation
MOST_STEPS = 50
MOST_HALVINGS = 12
ROUNDING = 1e-12  # of the height of the posterior

V = TypeVar("V")


def signs(indicators: Tensor) -> Tensor:
    """-1 and 1 for every class against the others, (n, c); for the second of two classes, (n, 1).

    >>> signs(torch.tensor([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[-1.0], [1.0]]
    """
    T = 2 * indicators - 1
    return T[:, 1:] if T.shape[1] == 2 else T


@dataclass(frozen=True, eq=False)
class LikelihoodSums(FieldSums):
    """Sums over rows at some weights, float64.

    Attributes
    ----------
    n : float
        The sum of the weights of the rows.
    value : Tensor of shape (c,)
        Of log sigmoid(t f).
    gradient : Tensor of shape (r, c)
    curvature : Tensor of shape (c, r, r)
        Phi^T D Phi.
    """

    n: float
    value: Annotated[Tensor, Shape("c")]
    gradient: Annotated[Tensor, Shape("r", "c")]
    curvature: Annotated[Tensor, Shape("c", "r", "r")]

    @classmethod
    def of_rows(cls, Phi: Tensor, T: Tensor, weight: Tensor | None, W: Tensor) -> LikelihoodSums:
        """Of features (n, r) and signs (n, c), at weights (r, c)."""
        F = Phi.double() @ W
        w = F.new_ones(len(F), 1) if weight is None else weight.double()[:, None]
        p = torch.sigmoid(F)
        D = (w * p * (1 - p)).to(Phi.dtype)
        slope = w * T * torch.sigmoid(-T * F)
        curvature = torch.stack([(Phi.mT @ (d[:, None] * Phi)).double() for d in D.unbind(1)])
        return cls(w.sum().item(), (w * logsigmoid(T * F)).sum(0), Phi.double().mT @ slope, curvature)


class LikelihoodPass(SumOfValues[LikelihoodSums]):
    """Sums the likelihood, its gradient and curvature at given weights.

    Parameters
    ----------
    space : FeatureSpace
    targets : Targets
    W : Tensor of shape (r, c)
    """

    def __init__(self, space: FeatureSpace, targets: Targets, W: Tensor):
        self.space, self.targets, self.W = space, targets, W
        super().__init__()

    def of(self, block: Block, before: LikelihoodSums | None) -> LikelihoodSums:
        T = signs(self.targets.matrix(block.y)).to(self.space.device)
        w = None if block.weight is None else torch.from_numpy(block.weight).to(self.space.device)
        return LikelihoodSums.of_rows(self.space.features(block.inputs[0]), T, w, self.W)

    @property
    def device(self) -> torch.device:
        return self.space.device

    @property
    def bytes_per_row(self) -> int:
        return self.space.bytes_per_row + 16 * self.space.rank


@dataclass(frozen=True, eq=False)
class Mode:
    """The approximation: W (r, c), roots (c, r, r) of the covariances of its columns, log evidences (c,)."""

    W: Tensor
    roots: Tensor
    evidences: Tensor
    steps: int


def laplace_mode(sums_at: Callable[[Tensor], LikelihoodSums], start: Tensor, amplitude: float) -> Mode:
    """Newton's method from a start (r, c); steps that would lower the posterior are halved."""

    def height(W: Tensor, sums: LikelihoodSums) -> Tensor:
        return sums.value - W.square().sum(0) / (2 * amplitude)

    W, sums, steps = start, sums_at(start), 0
    while True:
        slope = sums.gradient - W / amplitude  # (r, c)
        H = symmetric(sums.curvature)
        H.diagonal(dim1=1, dim2=2).add_(1 / amplitude)
        L = torch.linalg.cholesky(H)
        move = torch.cholesky_solve(slope.mT[:, :, None], L)[:, :, 0].mT
        if bool(((slope * move).sum(0) <= TOLERANCE * sums.n).all()):
            break
        if steps == MOST_STEPS:
            warn(f"Newton's method has not ended after {steps} steps: the fit may be far from its best.")
            break
        now = height(W, sums)
        W, sums, _ = halved(sums_at, height, W, move, now - ROUNDING * now.abs(), MOST_HALVINGS)
        steps += 1
    r = len(W)
    log_det = 2 * L.diagonal(dim1=1, dim2=2).log().sum(1) + r * np.log(amplitude)
    evidences = height(W, sums) - log_det / 2
    roots = torch.linalg.solve_triangular(L.mT, torch.eye(r).to(L).expand_as(L), upper=True)
    return Mode(W + move, roots.contiguous(), evidences, steps + 1)


def halved(
    found_at: Callable[[Tensor], V],
    height: Callable[[Tensor, V], Tensor],
    W: Tensor,  # (r, c)
    move: Tensor,  # (r, c)
    least: Tensor,  # (c,)
    most: int,
) -> tuple[Tensor, V, Tensor]:
    """The next weights, what is found there, and its heights (c,): columns below the least height move by halves."""
    share = torch.ones_like(least)
    for _ in range(most):
        ahead = W + share * move
        found = found_at(ahead)
        reached = height(ahead, found)
        worse = reached < least
        if not bool(worse.any()):
            break
        share = torch.where(worse, share / 2, share)
    return ahead, found, reached
