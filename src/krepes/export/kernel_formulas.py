"""Kernels as formulas of a program: k(x, y_j) for rows x and all points y_j at once.

`values(kernel, x, Y)` is (b, m); `diagonal(kernel, x)` is k(x, x), (b, 1). Y is an array (m, d) or, where every row has
points of its own, a Operand (b, m, d). A kernel of your own joins in with

    @values.register
    def _(kernel: MyKernel, x, Y): ...

Square roots of distances and angles are taken of numbers in double precision: near a landmark single precision would
leave the root a thousandth off.
"""

from __future__ import annotations

import math
from functools import reduce, singledispatch
from typing import Any

import numpy as np
from torch import Tensor

from krepes.export.program import Operand, concat
from krepes.kernels import (
    ArcCosine,
    ChiSquared,
    ColumnKernel,
    Cosine,
    Custom,
    EmpiricalNTK,
    Gaussian,
    GlobalAlignment,
    Gower,
    Intersection,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Product,
    RandomWarping,
    Reweighted,
    Scaled,
    Sigmoid,
    Sum,
)
from krepes.kernels.vectors import RadialKernel

Points = Any  # an array (m, d), or a Operand (b, m, d)


REASONS: list[tuple[tuple[type[Kernel], ...], str]] = [
    ((EmpiricalNTK,), "runs a network and its gradients"),
    ((GlobalAlignment, RandomWarping), "aligns series step by step"),
]  # why a kernel has no formula


class ExportError(ValueError):
    """A model that has no program, with the reason."""


@singledispatch
def values(kernel: Kernel, x: Operand, Y: Points) -> Operand:
    """k(x, y_j), (b, m)."""
    if isinstance(kernel, Custom):
        raise ExportError(
            f"The kernel {kernel} is a function of yours, which no file can hold. Use this model in Python: "
            "krepes.load(path, kernel=...)."
        )
    reason = next((text for kinds, text in REASONS if isinstance(kernel, kinds)), "has no formula here")
    raise ExportError(
        f"The kernel {kernel} {reason}: this cannot be written in a file that runs without krepes. Use krepes.load, or "
        "krepes serve."
    )


@singledispatch
def diagonal(kernel: Kernel, x: Operand) -> Operand:
    """k(x, x), (b, 1)."""
    raise ExportError(f"k(x, x) of {kernel} is not written as a formula of numbers.")


# Pairs of rows and points


def dot(x: Operand, Y: Points) -> Operand:
    """x.y, (b, m)."""
    return (x.expand() * Y).sum().squeeze() if isinstance(Y, Operand) else x @ _array(Y).T


def squared(x: Operand, Y: Points) -> Operand:
    """|x - y|^2, (b, m)."""
    if isinstance(Y, Operand):
        return (x.expand() - Y).square().sum().squeeze()
    Y = _array(Y)
    centre = Y.mean(0)  # because far from zero the squares would swallow the differences
    xc, Yc = x - centre, Y - centre
    norms = np.square(Yc).sum(1)
    return (xc.square().sum() + norms - 2.0 * (xc @ Yc.T)).least(0.0)


def distance(x: Operand, Y: Points) -> Operand:
    """|x - y|, (b, m)."""
    Y = Y.cast("float64") if isinstance(Y, Operand) else Y
    return squared(x.cast("float64"), Y).sqrt().cast(x.dtype)


def manhattan_distance(x: Operand, Y: Points) -> Operand:
    """sum_j |x_j - y_j|, (b, m)."""
    if isinstance(Y, Operand):
        return (x.expand() - Y).abs().sum().squeeze()
    points = x.program.constant(_array(Y), x.dtype)
    return x.program.step("manhattan", x, points)


def of_landmarks(kernel: Kernel, Y: Points) -> np.ndarray:
    """Points that are the same for every row; those of cells are refused."""
    if isinstance(Y, Operand):
        raise ExportError(f"{kernel} is not written for cells.")
    return _array(Y)


def row_sums(Y: Points) -> Any:
    """Of points, as they stand beside kernel values."""
    return Y.sum().squeeze() if isinstance(Y, Operand) else _array(Y).sum(1)


def _array(Y: Any) -> np.ndarray:
    return Y.detach().cpu().double().numpy() if isinstance(Y, Tensor) else np.asarray(Y, dtype=np.float64)


def _part(Y: Points, places: list[int]) -> Points:
    return Y.columns(places) if isinstance(Y, Operand) else _array(Y)[:, places]


# Functions of the distance


def _in_lengthscales(kernel: RadialKernel, x: Operand, Y: Points) -> tuple[Operand, Points]:
    """Rows and points divided by the lengthscales."""
    shrink = 1 / np.asarray(kernel.lengthscale, dtype=np.float64)
    return x * shrink, (Y if isinstance(Y, Operand) else _array(Y)) * shrink


@values.register
def _(kernel: Gaussian, x: Operand, Y: Points) -> Operand:
    return (squared(*_in_lengthscales(kernel, x, Y)) * -0.5).exp()


@values.register
def _(kernel: Laplacian, x: Operand, Y: Points) -> Operand:
    near = manhattan_distance if kernel.norm == 1 else distance
    return near(*_in_lengthscales(kernel, x, Y)).neg().exp()


@values.register
def _(kernel: Matern, x: Operand, Y: Points) -> Operand:
    v = (distance(*_in_lengthscales(kernel, x, Y)) * math.sqrt(2 * kernel.nu)).most(1000.0)
    decay = v.neg().exp()
    if kernel.nu == 0.5:
        return decay
    return decay * (v + 1.0) if kernel.nu == 1.5 else decay * (v.square() * (1 / 3) + v + 1.0)


@diagonal.register(RadialKernel)
@diagonal.register(Gower)
def _(kernel: RadialKernel | Gower, x: Operand) -> Operand:
    return _ones(x)


def _ones(x: Operand) -> Operand:
    return x.columns([0]) * 0.0 + 1.0


# Functions of the inner product


@values.register
def _(kernel: Linear, x: Operand, Y: Points) -> Operand:
    return dot(x, Y)


@diagonal.register
def _(kernel: Linear, x: Operand) -> Operand:
    return x.square().sum()


def _polynomial(kernel: Polynomial, product: Operand) -> Operand:
    return reduce(
        lambda a, b: a * b, [product * float(kernel.scale) + float(kernel.offset)] * int(kernel.degree)
    )


@values.register
def _(kernel: Polynomial, x: Operand, Y: Points) -> Operand:
    return _polynomial(kernel, dot(x, Y))


@diagonal.register
def _(kernel: Polynomial, x: Operand) -> Operand:
    return _polynomial(kernel, x.square().sum())


@values.register
def _(kernel: Sigmoid, x: Operand, Y: Points) -> Operand:
    return (dot(x, Y) * float(kernel.scale) + float(kernel.offset)).tanh()


@diagonal.register
def _(kernel: Sigmoid, x: Operand) -> Operand:
    return (x.square().sum() * float(kernel.scale) + float(kernel.offset)).tanh()


def _inverse_norm(x: Operand) -> Operand:
    """1 / |x|, and 0 where x = 0: (b, 1)."""
    norms = x.square().sum()
    return (norms > 0.0).where(1.0 / norms.least(np.finfo(x.dtype).tiny).sqrt(), 0.0)


@values.register
def _(kernel: Cosine, x: Operand, Y: Points) -> Operand:
    if isinstance(Y, Operand):
        return dot(x * _inverse_norm(x), Y * _inverse_norm(Y))
    norms = np.linalg.norm(_array(Y), axis=1, keepdims=True)
    return dot(x * _inverse_norm(x), _array(Y) / np.where(norms > 0, norms, np.inf))


@diagonal.register
def _(kernel: Cosine, x: Operand) -> Operand:
    return (x.square().sum() > 0.0).where(1.0, 0.0, x.dtype)


@values.register
def _(kernel: ArcCosine, x: Operand, Y: Points) -> Operand:
    v, norm, y_norm = one_minus_cosine(x.cast("float64"), of_landmarks(kernel, Y))
    for _ in range(kernel.depth):
        angle = angle_of(v)
        v = angle * (1 / math.pi) if kernel.degree == 0 else relu_layer(v, angle)
    cosine = 1.0 - v
    return (cosine if kernel.degree == 0 else cosine * norm * y_norm).cast(x.dtype)


def one_minus_cosine(x: Operand, points: np.ndarray) -> tuple[Operand, Operand, np.ndarray]:
    """v = 1 - cos t of rows and points (b, m), and their norms (b, 1), (m,)."""
    norm, y_norm = x.square().sum().sqrt(), np.linalg.norm(points, axis=1)
    zero, y_zero = (norm > 0.0).where(0.0, 1.0, "float64"), (y_norm == 0).astype(float)
    unit = np.column_stack([points / (y_norm + y_zero)[:, None], y_zero])
    return squared(concat([x / (norm + zero), zero]), unit) * 0.5, norm, y_norm


def relu_layer(v: Operand, angle: Operand) -> Operand:
    """One ReLU layer, from 1 - cos t to 1 - cos t'."""
    return v + (angle * angle.cos() - angle.sin()) * (1 / math.pi)


def angle_of(v: Operand) -> Operand:
    """The angle t of v = 1 - cos t."""
    return _angle((v * 0.5).most(1.0).least(0.0))


def _angle(half: Operand) -> Operand:
    """2 arcsin sqrt(half), of numbers from 0 to 1: near 0 from both ends, where single precision is enough."""
    flip = half > 0.5
    near = flip.where(1.0 - half, half).sqrt().asin() * 2.0
    return flip.where(math.pi - near, near)


@diagonal.register
def _(kernel: ArcCosine, x: Operand) -> Operand:
    return x.square().sum() if kernel.degree == 1 else _ones(x)


# Histograms


@values.register
def _(kernel: Intersection, x: Operand, Y: Points) -> Operand:
    return ((x.sum() + row_sums(Y) - manhattan_distance(x, Y)) * 0.5).least(0.0)


@diagonal.register
def _(kernel: Intersection, x: Operand) -> Operand:
    return x.sum()


@values.register
def _(kernel: ChiSquared, x: Operand, Y: Points) -> Operand:
    tiny, parts = float(np.finfo(x.dtype).tiny), []
    for j, y in enumerate(of_landmarks(kernel, Y).T):
        each = x.columns([j])
        parts.append((each - y).square() / (each + y + tiny))
    chi = reduce(lambda a, b: a + b, parts)
    if kernel.additive:
        return ((x.sum() + row_sums(Y) - chi) * 0.5).least(0.0)
    return (chi * (-1 / float(kernel.lengthscale))).exp()


@diagonal.register
def _(kernel: ChiSquared, x: Operand) -> Operand:
    return x.sum() if kernel.additive else _ones(x)


# Kernels made of others


@values.register(Sum)
@values.register(Product)
def _(kernel: Sum | Product, x: Operand, Y: Points) -> Operand:
    left, right = (values(each, x, Y) for each in kernel.kernels())
    return left + right if isinstance(kernel, Sum) else left * right


@diagonal.register(Sum)
@diagonal.register(Product)
def _(kernel: Sum | Product, x: Operand) -> Operand:
    left, right = (diagonal(each, x) for each in kernel.kernels())
    return left + right if isinstance(kernel, Sum) else left * right


@values.register
def _(kernel: Scaled, x: Operand, Y: Points) -> Operand:
    return values(kernel.kernels()[0], x, Y) * float(kernel.factor)


@diagonal.register
def _(kernel: Scaled, x: Operand) -> Operand:
    return diagonal(kernel.kernels()[0], x) * float(kernel.factor)


@values.register
def _(kernel: Reweighted, x: Operand, Y: Points) -> Operand:
    root, points = kernel._root().numpy(), Y if isinstance(Y, Operand) else _array(Y)
    if root.ndim == 1:
        return values(kernel._inner(), x * root, points * root)
    return values(kernel._inner(), x @ root, points @ root)


@diagonal.register
def _(kernel: Reweighted, x: Operand) -> Operand:
    root = kernel._root().numpy()
    return diagonal(kernel._inner(), x * root if root.ndim == 1 else x @ root)


@values.register
def _(kernel: ColumnKernel, x: Operand, Y: Points) -> Operand:
    return _of_columns(kernel, x, lambda part, at: values(part, x.columns(at), _part(Y, at)))


@diagonal.register
def _(kernel: ColumnKernel, x: Operand) -> Operand:
    return _of_columns(kernel, x, lambda part, at: diagonal(part, x.columns(at)))


def _of_columns(kernel: ColumnKernel, x: Operand, of: Any) -> Operand:
    parts = kernel._checked()
    if kernel.places is None:
        raise ExportError(f"{kernel} compares records, which are not numbers.")
    found = [of(part, places) for (_, part, _), places in zip(parts, kernel.places)]
    if kernel.combine == "product":
        return reduce(lambda a, b: a * b, found)
    weights = np.ones(len(parts)) if kernel.weights is None else np.asarray(kernel.weights, dtype=float)
    return reduce(lambda a, b: a + b, (part * float(w) for part, w in zip(found, weights)))


@values.register
def _(kernel: Gower, x: Operand, Y: Points) -> Operand:
    points, gaussian = of_landmarks(kernel, Y), kernel.profile == "gaussian"
    columns = kernel._columns(points.shape[1])
    scale = -1 / (kernel._reach * float(kernel.lengthscale)) ** (2 if gaussian else 1)

    def similarity(some: list[dict[str, Any]]) -> Operand:
        """exp(- powers / l) of some columns."""
        places = [place for column in some for place in column["places"]]
        weight = np.array([0.5 if column["category"] else 1.0 for column in some for _ in column["places"]])
        weight = np.sqrt(weight) if gaussian else weight
        pair = x.columns(places) * weight, points[:, places] * weight
        return ((squared(*pair) if gaussian else manhattan_distance(*pair)) * scale).exp()

    def with_missing(s: Operand, place: int | None) -> Operand:
        if place is None:
            return s
        c, a, b = float(kernel.missing), x.columns([place]), points[:, place]
        return s * ((1 - c * c) * (1.0 - a)) * (1 - b) + (a * (1 - c) + c) * (c + (1 - c) * b)

    if kernel.combine == "mean":
        singles = [with_missing(similarity([column]), column["missing"]) for column in columns]
        return reduce(lambda a, b: a + b, singles) * (1 / len(columns))
    alone = [column for column in columns if column["missing"] is not None]
    together = [column for column in columns if column["missing"] is None]
    found = [similarity(together)] * bool(together)
    found += [with_missing(similarity([column]), column["missing"]) for column in alone]
    return reduce(lambda a, b: a * b, found)
