"""Descent on a product of spheres: rows of Z (m, h) keep length one.

    gradient   g = P_Z(df/dZ),     P_Z(V)_i = v_i - (v_i.z_i) z_i           the tangent part of every row
    step       Z' = (Z + t d) / |rows|,                                     retraction by normalisation
    direction  d = -P_Z(H g), H from the last pairs of steps and changes of g (L-BFGS); pairs move along by P_Z'

Steps are halved until f(Z') <= f(Z) + 1e-4 t <g, d> (Armijo), so that f never rises. L-BFGS starts from a given
positive definite matrix, which is what makes it fast where f is stiff. O(m h) beside f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

MEMORY = 10  # pairs that L-BFGS keeps
ARMIJO = 1e-4
HALVINGS = 30
WINDOW = 5  # steps over which progress is judged
LONGEST = 0.5  # first step of a row, in radians or so

Function = Callable[[Tensor], tuple[float, Tensor]]  # Z -> f, df/dZ
Pairs = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Descended:
    """Where a descent ended.

    Attributes
    ----------
    Z : Tensor of shape (m, h)
    values : f at the start and after every step, never rising.
    converged : whether progress had ended before the steps had.
    """

    Z: Tensor
    values: list[float]
    converged: bool


def tangent(Z: Tensor, V: Tensor) -> Tensor:
    """The part of V (m, h) along the spheres at Z.

    >>> tangent(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([[0., 4.]])
    """
    return V - (V * Z).sum(1, keepdim=True) * Z


def descend(
    function: Function,
    Z: Tensor,  # shape: (m, h), rows of length one
    precondition: Callable[[Tensor], Tensor],
    max_iter: int,
    tol: float,
) -> Descended:
    """Minimise; ends when five steps gain less than `tol` times the value."""
    value, gradient = function(Z)
    g, values, pairs = tangent(Z, gradient), [value], Pairs()
    while len(values) <= max_iter:
        d = -tangent(Z, _quasi_newton(g, pairs, precondition))
        slope = (g * d).sum().item()
        if not slope < 0:  # at a minimum, or the pairs have gone stale
            if not pairs:
                return Descended(Z, values, True)
            pairs = []
            continue
        found = _searched(function, Z, d, value, slope)
        if found is None:
            if not pairs:
                return Descended(Z, values, True)  # rounding hides any further descent
            pairs = []
            continue
        t, Z_new, value, gradient = found
        g_new = tangent(Z_new, gradient)
        pairs = [(tangent(Z_new, s), tangent(Z_new, y)) for s, y in pairs[1 - MEMORY :]]
        s, y = tangent(Z_new, t * d), g_new - tangent(Z_new, g)
        if (s * y).sum() > 1e-10 * s.norm() * y.norm():
            pairs.append((s, y))
        Z, g = Z_new, g_new
        values.append(value)
        if len(values) > WINDOW and values[-1 - WINDOW] - value <= tol * abs(value):
            return Descended(Z, values, True)
    return Descended(Z, values, False)


def _quasi_newton(g: Tensor, pairs: Pairs, precondition: Callable[[Tensor], Tensor]) -> Tensor:
    """H g, by the two loops of L-BFGS; the first step is at most `LONGEST`."""
    if not pairs:
        d = precondition(g)
        longest = d.norm(dim=1).max().item()
        return d * min(1.0, LONGEST / longest) if longest > 0 else d
    q, shares = g.clone(), []
    for s, y in reversed(pairs):
        a = (s * q).sum() / (s * y).sum()
        q -= a * y
        shares.append(a)
    s, y = pairs[-1]
    q = precondition(q) * ((s * y).sum() / (y * precondition(y)).sum())
    for (s, y), a in zip(pairs, reversed(shares)):
        q += (a - (y * q).sum() / (s * y).sum()) * s
    return q


def _searched(
    function: Function, Z: Tensor, d: Tensor, value: float, slope: float
) -> tuple[float, Tensor, float, Tensor] | None:
    """Step length, point, value and gradient; None if no step descends."""
    t = 1.0
    for _ in range(HALVINGS):
        point = torch.nn.functional.normalize(Z + t * d, dim=1)
        found, gradient = function(point)
        if found <= value + ARMIJO * t * slope:
            return t, point, found, gradient
        t /= 2
    return None
