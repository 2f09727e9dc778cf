"""How far few rows lie from predictions by processes that knew nothing of them, in standard deviations.

    z_i = (y_i - mean(x_i)) / std(x_i)         kernel, amplitude and noise were chosen without the fold of row i

An interval of a Gaussian process takes its hyper-parameters for known. From 40 rows they are not: at a nominal 0.9, .81
of a smooth function of three columns were covered. With the k-th smallest |z| in place of a normal quantile,
k = ceil(confidence (n + 1)), .90 to .92 are.

Cost: ten searches for a kernel.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor

from krepes.machines.fold_choices import fold_choices
from krepes.machines.gaussian_process.variational_bound import VariationalBound
from krepes.machines.kept_rows import KeptRows
from krepes.regression.ridge_algebra import NormalSums

if TYPE_CHECKING:
    from krepes.machines.gaussian_process.regressor import GaussianProcessRegressor

LEAST_NESTED, MOST_NESTED = 4, 100  # rows for which hyper-parameters are not taken for known


def nested_deviations(
    machine: GaussianProcessRegressor, kept: KeptRows, amplitude: float | None, noise: float | None
) -> Tensor:
    """|z| of the kept rows, (k, c); amplitude and noise may be given."""
    space = machine.space_
    Y, weight = (each.to(space.device) for each in (machine.targets_.matrix(kept.y), kept.weight))
    found = torch.empty_like(Y)
    for fold in fold_choices(machine, kept, kept.weight):
        inside, outside, Phi = fold.inside, fold.outside, fold.Phi
        sums = NormalSums.of_rows(Phi[outside], Y[outside], weight[outside])
        bound = VariationalBound(sums, machine.fit_intercept)
        best = bound.best(amplitude, noise)
        ratio, rows = best.noise / best.amplitude, Phi[inside]
        unspanned = (fold.diagonal[inside] - rows.square().sum(1)).clamp(min=0)
        variance = best.amplitude * unspanned + (rows @ bound.root(best.noise, ratio)).square().sum(1)
        apart = Y[inside] - rows @ bound.weights(ratio) - bound.mean
        found[inside] = apart.abs() / (variance + best.noise).sqrt()[:, None]
    return found.cpu()


def reach(confidence: float, deviations: np.ndarray | None) -> float | np.ndarray:
    """Standard deviations between mean and end of an interval; for every output, (c,), from deviations (n, c).

    >>> round(reach(0.9, None), 3), reach(0.5, np.array([[0.3], [2.0], [0.9]])).tolist()
    (1.645, [0.9])
    """
    normal = float(norm.ppf(0.5 + confidence / 2))
    if deviations is None:
        return normal
    rank = math.ceil(round(confidence * (len(deviations) + 1), 9))
    if rank > len(deviations):  # not even the largest is enough
        return np.maximum(deviations.max(axis=0), normal)
    return np.sort(deviations, axis=0)[rank - 1]
