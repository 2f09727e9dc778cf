"""Kernels of infinitely wide networks as formulas in double precision, as in `krepes.kernels.infinite_width`.

    K_l = s_w E[f(u) f(v)] + s_b,        T_l = K_l + T_{l-1} s_w E[f'(u) f'(v)]

arcsin c of the erf network is pi/2 - t with 1 - c = root^2 / (b (b + 2 K)), in which nothing cancels near c = 1.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch

from krepes.export.kernel_formulas import (
    ExportError,
    Points,
    angle_of,
    diagonal,
    one_minus_cosine,
    relu_layer,
    values,
)
from krepes.export.program import Operand, concat
from krepes.kernels import InfiniteWidth

Layers = list[tuple[Operand, np.ndarray]]  # K_l(x, x), (b, 1), and K_l(y, y), (m,)


@values.register
def _(kernel: InfiniteWidth, x: Operand, Y: Points) -> Operand:
    if isinstance(Y, Operand):
        raise ExportError(f"{kernel} is not written for cells.")
    kernel._checked()
    points = torch.as_tensor(Y, dtype=torch.float64).cpu()
    rows = _inputs(kernel, x, points.shape[1])
    v, norm, y_norm = one_minus_cosine(rows, kernel._inputs(points).numpy())
    of_points = kernel._variances(torch.from_numpy(y_norm**2))
    layers: Layers = [(q, p.numpy()) for q, p in zip(_variances(kernel, norm.square()), of_points)]
    tangent = _covariance(*layers[0], v)
    for (q, p), (q_next, p_next) in pairwise(layers):
        v, slope = _relu(v) if kernel.activation == "relu" else _erf(q, p, v)
        v = _with_bias(q_next, p_next, v, float(kernel.bias_variance))
        tangent = tangent * slope * float(kernel.weight_variance) + _covariance(q_next, p_next, v)
    return (tangent if kernel.kind == "ntk" else _covariance(*layers[-1], v)).cast(x.dtype)


@diagonal.register
def _(kernel: InfiniteWidth, x: Operand) -> Operand:
    wide = x.cast("float64")
    width = (wide * 0.0 + 1.0).sum()
    scale, bias = float(kernel.weight_variance), float(kernel.bias_variance)
    layers = _variances(kernel, wide.square().sum() * scale / width + bias)
    if kernel.kind == "nngp":
        return layers[-1].cast(x.dtype)
    tangent = layers[0]
    for q, q_next in pairwise(layers):
        slope = 0.5 if kernel.activation == "relu" else (4 / math.pi) / (q * 4.0 + 1.0).sqrt()
        tangent = q_next + tangent * slope * scale
    return tangent.cast(x.dtype)


def _inputs(kernel: InfiniteWidth, x: Operand, width: int) -> Operand:
    """Vectors whose inner product is K_0, double."""
    scaled = x.cast("float64") * math.sqrt(float(kernel.weight_variance) / max(1, width))
    if kernel.bias_variance == 0:
        return scaled
    return concat([scaled, scaled.columns([0]) * 0.0 + math.sqrt(float(kernel.bias_variance))])


def _variances(kernel: InfiniteWidth, q: Operand) -> list[Operand]:
    """K_0(x, x), ..., K_L(x, x)."""
    layers = [q]
    for _ in range(kernel.depth):
        q = q * 0.5 if kernel.activation == "relu" else _erf_variance(q)
        layers.append(q := q * float(kernel.weight_variance) + float(kernel.bias_variance))
    return layers


def _erf_variance(q: Operand) -> Operand:
    """2/pi arcsin(2 q / (1 + 2 q))."""
    return 1.0 - angle_of(1.0 / (q * 2.0 + 1.0)) * (2 / math.pi)


def _covariance(q: Operand, p: np.ndarray, v: Operand) -> Operand:
    """K = sqrt(q p) (1 - v)."""
    return (1.0 - v) * q.sqrt() * np.sqrt(p)


def _relu(v: Operand) -> tuple[Operand, Operand]:
    """1 - the cosine after a layer of ReLU units, and E[f'(u) f'(v)]."""
    angle = angle_of(v)
    return relu_layer(v, angle), (math.pi - angle) * (1 / (2 * math.pi))


def _erf(q: Operand, p: np.ndarray, v: Operand) -> tuple[Operand, Operand]:
    """The same for units of erf."""
    squared_root = v * (2.0 - v) * (q * 4.0) * p + q * 2.0 + (2 * p + 1)
    b = (q * 2.0 + 1.0).sqrt() * np.sqrt(1 + 2 * p)
    twice = _covariance(q, p, v) * 2.0
    apart = (twice > 0.0).where(squared_root / (b * (b + twice.least(0.0))), 1.0 - twice / b)
    value = 1.0 - angle_of(apart) * (2 / math.pi)
    mine, theirs = _erf_variance(q).sqrt(), (np.arcsin(2 * p / (1 + 2 * p)) * (2 / math.pi)) ** 0.5
    cosine = value / (mine > 0.0).where(mine, 1.0) / np.where(theirs > 0, theirs, 1.0)
    return (1.0 - cosine).least(0.0), (4 / math.pi) / squared_root.sqrt()


def _with_bias(q: Operand, p: np.ndarray, v: Operand, bias: float) -> Operand:
    """1 - the cosine after a bias was added: q and p include it."""
    if bias == 0:
        return v
    a, b = (1.0 - bias / q).least(0.0).sqrt(), (bias / q).sqrt()
    c, d = np.sqrt(np.maximum(1 - bias / p, 0)), np.sqrt(bias / p)
    return v * a * c + ((a - c).square() + (b - d).square()) * 0.5
