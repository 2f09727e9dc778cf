"""Infinitely wide networks in closed form: their Gaussian process (NNGP) and their tangent kernel (NTK).

A fully connected network of L hidden layers with weights N(0, s_w / fan_in) and biases N(0, s_b) has, as the
widths grow, the recursion

    K_0 = s_w x.y / d + s_b         K_l = s_w E[f(u) f(v)] + s_b,        (u, v) ~ N(0, K_{l-1})        [neal]
    T_0 = K_0                       T_l = K_l + T_{l-1} s_w E[f'(u) f'(v)]                            [jacot]

NNGP = K_L, NTK = T_L. With q = K(x, x), p = K(y, y) and t the angle that K defines,

    ReLU [cho]          E[f f] = sqrt(q p) (sin t + (pi - t) cos t) / (2 pi),   E[f' f'] = (pi - t) / (2 pi)
    erf [computing]     E[f f] = 2/pi arcsin(2 K / sqrt((1 + 2q)(1 + 2p))),
                        E[f' f'] = 4/pi / sqrt((1 + 2q)(1 + 2p) - 4 K^2)

Like the arc-cosine kernel this carries v = 1 - cos t instead of K, because E[f' f'] has a square-root
singularity where x and y coincide. In v nothing cancels:

    (1 + 2q)(1 + 2p) - 4 K^2 = 1 + 2q + 2p + 4 q p v (2 - v)
    with a bias s on variances q - s, p - s:    v' = a c v + ((a - c)^2 + (b - d)^2) / 2,
                                                a^2 = 1 - s/q, b^2 = s/q, c^2 = 1 - s/p, d^2 = s/p

except that for erf 2 - v is rounded at opposite directions: in float32 its tangent kernel is off by 1e-7 q there.
Cost: one matrix product, then about ten cheap passes per layer over the (b, m) block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from krepes.base.validation import check_choice, check_number
from krepes.kernels.arc_cosine import angles, check_depth, directions, one_minus_cosine, relu_layer
from krepes.kernels.kernel import KernelColumns
from krepes.kernels.vectors import VectorKernel

KINDS = ("ntk", "nngp")


@dataclass(eq=False, repr=False)
class InfiniteWidth(VectorKernel):
    """The kernel of an infinitely wide, fully connected network.

    Parameters
    ----------
    kind : "ntk" or "nngp", default="ntk"
        Tangent kernel (all layers trained) or Gaussian process (last layer trained).
    activation : "relu" or "erf", default="relu"
    depth : int, default=1
        Number of hidden layers.
    weight_variance : float, default=2.0
        s_w > 0; 2 keeps the scale of ReLU layers.
    bias_variance : float, default=0.0
        s_b >= 0. Without it the ReLU kernels see directions and norms, k(c x, y) = c k(x, y).

    Notes
    -----
    It is the limit of the tangent kernel of `krepes.networks.MLP(parametrization="ntk")` with one output of the
    same parametrisation. `ArcCosine(depth=L)` is d / 2 times NNGP with ReLU and the default variances.

    Examples
    --------
    Orthogonal unit vectors in the plane: K_0 = 0 and q = 1, so both expectations are as at a right angle,
    T_1 = 2 / (2 pi) + 0. With itself: T_1 = 1 + 1.

    >>> InfiniteWidth()([[1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]])
    tensor([[0.3183, 2.0000]], dtype=torch.float64)
    """

    name = "infinite_width"
    known_elsewhere_as = ("nngp",)

    kind: str = "ntk"
    activation: str = "relu"
    depth: int = 1
    weight_variance: float = 2.0
    bias_variance: float = 0.0

    def against_rows(self, Y: Tensor) -> KernelColumns:
        dual = self._checked()
        y_inputs = self._inputs(Y)
        y_norm = y_inputs.norm(dim=1)
        apart, p_layers = one_minus_cosine(directions(y_inputs, y_norm)), self._variances(y_norm.square())

        def block(X: Tensor) -> Tensor:
            x_inputs = self._inputs(X)
            x_norm = x_inputs.norm(dim=1)
            v = apart(directions(x_inputs, x_norm))
            q_layers = self._variances(x_norm.square())
            q, p = q_layers[0][:, None], p_layers[0][None, :]
            tangent = covariance(q, p, v) if self.kind == "ntk" else None
            for q_next, p_next in zip(q_layers[1:], p_layers[1:]):
                v, slope = dual.pair(q, p, v)
                q, p = q_next[:, None], p_next[None, :]
                v = with_bias(q, p, v, self.bias_variance)
                if tangent is not None:
                    tangent.mul_(slope.mul_(self.weight_variance)).add_(covariance(q, p, v))
            return covariance(q, p, v) if tangent is None else tangent

        return block

    def diag_rows(self, X: Tensor) -> Tensor:
        dual = self._checked()
        layers = self._variances(self._inputs(X).square().sum(1))
        if self.kind == "nngp":
            return layers[-1]
        tangent = layers[0].clone()
        for q, q_next in pairwise(layers):
            tangent = q_next + tangent * (self.weight_variance * dual.slope(q))
        return tangent

    def _inputs(self, X: Tensor) -> Tensor:
        """Vectors whose inner product is K_0: [sqrt(s_w / d) x, sqrt(s_b)]."""
        scaled = X * (self.weight_variance / max(1, X.shape[1])) ** 0.5
        if self.bias_variance == 0:
            return scaled
        return torch.cat([scaled, X.new_full((len(X), 1), self.bias_variance**0.5)], dim=1)

    def _variances(self, q: Tensor) -> list[Tensor]:
        """K_0(x, x), ..., K_L(x, x)."""
        dual, layers = DUALS[self.activation], [q]
        for _ in range(self.depth):
            layers.append(self.weight_variance * dual.variance(layers[-1]) + self.bias_variance)
        return layers

    def _checked(self) -> ReLUDual | ErfDual:
        """The activation's expectations, after a check of all parameters."""
        check_choice("kind", self.kind, KINDS)
        check_choice("activation", self.activation, DUALS)
        check_depth(self.depth)
        check_number("weight_variance", self.weight_variance, above=0)
        check_number("bias_variance", self.bias_variance, least=0)
        return DUALS[self.activation]


class ReLUDual:
    """Expectations of f(u) = max(u, 0) over Gaussian pairs (u, v) of variances q, p and 1 - correlation v."""

    def variance(self, q: Tensor) -> Tensor:
        """E[f(u)^2]."""
        return q / 2

    def slope(self, q: Tensor) -> Tensor:
        """E[f'(u)^2]."""
        return torch.full_like(q, 0.5)

    def pair(self, q: Tensor, p: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """1 - the cosine of (f(u), f(v)), and E[f'(u) f'(v)]; v may be overwritten."""
        angle = angles(v)
        v = relu_layer(v, angle)
        return v, angle.neg_().add_(math.pi).div_(2 * math.pi)


class ErfDual:
    """The same for f(u) = erf(u); arcsin(a / b) is atan2(a, sqrt(b^2 - a^2)), which is accurate near a = b."""

    def variance(self, q: Tensor) -> Tensor:
        return torch.atan2(2 * q, (1 + 4 * q).sqrt()) * (2 / math.pi)

    def slope(self, q: Tensor) -> Tensor:
        return (4 / math.pi) / (1 + 4 * q).sqrt()

    def pair(self, q: Tensor, p: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        root = (v * (2 - v)).mul_(4 * q).mul_(p).add_(2 * q).add_(2 * p + 1).sqrt_()
        value = torch.atan2(covariance(q, p, v).mul_(2), root).mul_(2 / math.pi)
        norms = [torch.where(a > 0, a, 1.0) for a in (self.variance(q).sqrt(), self.variance(p).sqrt())]
        cosine = value.div_(norms[0]).div_(norms[1])
        return cosine.neg_().add_(1).clamp_(min=0), root.reciprocal_().mul_(4 / math.pi)


DUALS: dict[str, ReLUDual | ErfDual] = {"relu": ReLUDual(), "erf": ErfDual()}


def covariance(q: Tensor, p: Tensor, v: Tensor) -> Tensor:
    """K = sqrt(q p) (1 - v), as a new tensor: (b, 1), (1, m), (b, m) -> (b, m)."""
    return (1 - v).mul_(q.sqrt()).mul_(p.sqrt())


def with_bias(q: Tensor, p: Tensor, v: Tensor, bias: float) -> Tensor:
    """1 - the cosine after a bias was added: q and p include it, v does not yet; v may be overwritten."""
    if bias == 0:
        return v
    a, c = ((1 - bias / variance).clamp_(min=0).sqrt_() for variance in (q, p))
    b, d = ((bias / variance).sqrt() for variance in (q, p))
    return v.mul_(a).mul_(c).add_((a - c).square_(), alpha=0.5).add_((b - d).square_(), alpha=0.5)
