"""Time series by their distances, under warping, from a few short random series.

    phi_r(x) = DTW(x, w_r) / t,    w_r random, of 1 to L steps,        k(x, y) = 1/R sum_r phi_r(x) phi_r(y)        [wu]

DTW(x, w) is the least sum of |x_s - w_u| over alignments, t the length of x. An inner product of R features, so
positive semi-definite by construction, and linear in the length of the series, because random series are short: O(n R t
L c) for features, then O(n m R). Differs from [wu]: distances are divided by t, so that long series are not large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.series import Series, as_series
from krepes.base.validation import check_count, check_number
from krepes.kernels.distances import compiled
from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.kernels.structured.series import (
    along_diagonals,
    data_series,
    like_rows,
    over_pairs,
    point_distances,
)


class RandomWarping(Kernel):
    """Inner products of DTW distances from random series; rows as in `GlobalAlignment`.

    Parameters
    ----------
    n_series : int, default=256
        R, the number of features.
    max_length : int, default=25
        L, the most steps of a random series; lengths are uniform from 1.
    scale : float or "auto", default="auto"
        Random points are normal around zero with this deviation. "auto" is the root mean square of the data's points,
        so center series whose level does not matter first.
    seed : int, default=0
        The same seed gives the same random series.

    Examples
    --------
    Two series of one point, and random series of one point:

    >>> K = RandomWarping(n_series=1000, max_length=1, scale=1.0)([[0.0], [3.0]])
    >>> round(K[0, 0].item())                                          # E |w|^2 = 1
    1
    """

    takes_objects = True

    def __init__(self, n_series: int = 256, max_length: int = 25, scale: float | str = "auto", seed: int = 0):
        self.n_series = n_series
        self.max_length = max_length
        self.scale = scale
        self.seed = seed

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> RandomWarping:
        if self.scale != "auto":
            return self
        points = np.concatenate([series.ravel() for series in data_series(X)])
        return clone(self).set_params(scale=float(np.sqrt(np.mean(points**2))) or 1.0)

    def against(self, Y: Any) -> KernelColumns:
        right = as_series(Y)
        features = self._features(right)
        return lambda X: like_rows(X, self._features(as_series(X, right)) @ features.T)

    def diag(self, X: Any) -> Tensor:
        return like_rows(X, np.square(self._features(as_series(X))).sum(1))

    def _features(self, series: Sequence[Series]) -> np.ndarray:
        """phi / sqrt R, (n, R)."""
        random = self.random_series(series[0].shape[1] if series else 1)
        distances = over_pairs(series, random, _shortest)
        lengths = np.array([len(x) for x in series], dtype=float).reshape(-1, 1)
        return distances / (lengths * len(random) ** 0.5)

    def random_series(self, n_channels: int) -> list[Series]:
        """w_1 ... w_R, each (steps, c)."""
        check_count("n_series", self.n_series)
        check_count("max_length", self.max_length)
        check_number("scale", self.scale, "'auto' and kernel.fitted(X) first, or a number", above=0)
        check_count("seed", self.seed, 0)
        rng = np.random.default_rng(self.seed)
        lengths = rng.integers(1, self.max_length + 1, size=self.n_series)
        return [float(self.scale) * rng.normal(size=(n, n_channels)) for n in lengths]


def _shortest(x: Tensor, points: Tensor, edges: np.ndarray) -> np.ndarray:
    """DTW distances of one series from those between the edges."""
    cost, fast = point_distances(x, points), compiled("shortest_alignments")
    if fast is not None:
        return fast(cost.numpy(), edges)
    widths = np.diff(edges)
    local = torch.full((len(widths), len(x), int(widths.max())), torch.inf, dtype=torch.float64)
    for j, width in enumerate(widths):
        local[j, :, :width] = cost[:, edges[j] : edges[j + 1]]
    return along_diagonals(local, widths, torch.inf, lambda three: three.amin(0))
