"""Arc-cosine kernels: infinitely wide random layers of step or ReLU units.

    degree 0:  1 - t / pi                                    t the angle between x and y
    degree 1:  |x| |y| (sin t + (pi - t) cos t) / pi         ReLU, scaled so that k(x, x) = |x|^2

[cho]. `depth` composes the map with itself: layer l+1 sees the
norms and angles that layer l's kernel defines.

Angles are carried as v = 1 - cos t = |x/|x| - y/|y||^2 / 2, because the cosine of a small angle rounds the angle
away (degree 0 would be wrong by eps^(1/2) at depth 1 and eps^(1/4) at depth 2). In v the layers are

    degree 0:  v -> t / pi          degree 1:  v -> v + (t cos t - sin t) / pi          t = 2 arcsin sqrt(v / 2)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from krepes.base.validation import check_choice, is_integer
from krepes.kernels.distances import distances_to
from krepes.kernels.kernel import KernelColumns
from krepes.kernels.vectors import VectorKernel

DEEPEST = 10_000  # layers


class ArcCosine(VectorKernel):
    """The kernel of a wide random network with ReLU (degree 1) or step (degree 0) units.

    Parameters
    ----------
    degree : 0 or 1, default=1
    depth : int, default=1
        Number of hidden layers.

    Examples
    --------
    Orthogonal unit vectors are at angle pi/2: (1 + 0) / pi.

    >>> ArcCosine()([[1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]])
    tensor([[0.3183, 1.0000]], dtype=torch.float64)
    """

    name = "arc_cosine"
    known_elsewhere_as = ("relu", "arccos")

    def __init__(self, degree: int = 1, depth: int = 1):
        self.degree = degree
        self.depth = depth

    def against_rows(self, Y: Tensor) -> KernelColumns:
        self._check()
        y_norm = Y.norm(dim=1)
        apart = one_minus_cosine(directions(Y, y_norm))

        def block(X: Tensor) -> Tensor:
            x_norm = X.norm(dim=1)
            v = apart(directions(X, x_norm))
            for _ in range(self.depth):
                angle = angles(v)
                v = angle.div_(math.pi) if self.degree == 0 else relu_layer(v, angle)
            cosine = v.neg_().add_(1)
            if self.degree == 0:  # after one step layer all norms are 1
                return cosine
            return cosine.mul_(x_norm[:, None]).mul_(y_norm[None, :])

        return block

    def diag_rows(self, X: Tensor) -> Tensor:
        self._check()
        return X.square().sum(1) if self.degree == 1 else X.new_ones(len(X))

    def _check(self) -> None:
        check_choice("degree", self.degree, (0, 1))
        check_depth(self.depth)


def check_depth(depth: object) -> None:
    """Refuse what is not a number of layers; the kernel of very many layers is constant."""
    if not is_integer(depth, 1) or depth > DEEPEST:  # type: ignore[operator]
        raise ValueError(f"depth={depth!r}: expected an integer from 1 to {DEEPEST}.")


def directions(X: Tensor, norm: Tensor) -> Tensor:
    """Unit vectors, (n, d + 1); a zero vector points along an axis of its own, orthogonal to the others."""
    zero = (norm == 0).to(X.dtype)
    return torch.cat([X / (norm + zero)[:, None], zero[:, None]], dim=1)


def one_minus_cosine(Y: Tensor) -> KernelColumns:
    """A function of unit vectors X -> v = |x - y|^2 / 2, (b, m).

    A length that is off by one rounding turns an opposite direction by eps^(1/2). So v of nearly opposite vectors is
    2 - |x + y|^2 / 2, in which the lengths' roundings cancel.
    """
    chords, near = distances_to(Y), torch.finfo(Y.dtype).eps ** 0.5

    def block(X: Tensor) -> Tensor:
        v = chords(X).square_().div_(2)
        i, j = (v > 2 - near).nonzero().unbind(1)
        if len(i):
            v[i, j] = 2 - (X[i] + Y[j]).square().sum(1) / 2
        return v

    return block


def angles(v: Tensor) -> Tensor:
    """The angle t of v = 1 - cos t, accurate for small and for opposite directions."""
    return (v / 2).clamp_(0, 1).sqrt_().asin_().mul_(2)


def relu_layer(v: Tensor, angle: Tensor) -> Tensor:
    """One ReLU layer between unit vectors, from 1 - cos t to 1 - cos t'; v is overwritten."""
    return v.add_((angle * angle.cos()).sub_(angle.sin()).div_(math.pi))
