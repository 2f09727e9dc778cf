"""Time series of unequal length, compared over all ways to align them.

    kappa(x_s, y_t) = w k / (2 - w k),   k = exp(-|x_s - y_t|^2 / (2 l^2)),   w = max(0, 1 - |s - t| / triangular)
    G(x, y) = sum over alignments pi of  prod over (s, t) in pi of  kappa(x_s, y_t)             [cuturi; cuturi-fast]
    GlobalAlignment(x, y) = G(x, y) / sqrt(G(x, x) G(y, y))

An alignment goes from (1, 1) to the ends of both series in steps (1, 0), (0, 1) and (1, 1), so that

    G[s, t] = kappa(x_s, y_t) (G[s - 1, t] + G[s, t - 1] + G[s - 1, t - 1])

It is positive semi-definite for series of any lengths and for every lengthscale, because kappa / (1 + kappa) = w k / 2
is: that is the condition [cuturi, Thm. 1], and both the Gaussian k and the triangular w are definite. A plain Gaussian
in the place of kappa does not meet it.

G leaves the range of floating-point numbers quickly. It is kept as a row of numbers and a common logarithm; pairs in
which a number of a row becomes too small beside the others are computed once more with logarithms throughout.
Cost O(n m t^2 c) for series of t steps and c channels; memory O(t) per pair and one block of local kernel values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.series import Series, as_series
from krepes.base.validation import check_count
from krepes.kernels.distances import compiled
from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.kernels.vectors import fixed_lengthscale, medians

BLOCK_NUMBERS = 2**23  # local kernel values held at once
# that the median distance of points is taken from
MEDIAN_SERIES, MEDIAN_POINTS = 200, 1000


class GlobalAlignment(Kernel):
    """The global alignment kernel of time series, normalised: k(x, x) = 1.

    Rows are a list of arrays (t_i,) or (t_i, c), whose lengths may differ; arrays of shape (n, t) or (n, t, c) are n
    series of t steps.

    Parameters
    ----------
    lengthscale : float or "median", default="median"
        l of the Gaussian between two points. "median" is the median distance between points of the data times the
        square root of the median length, because alignments of long series multiply more terms; "4 median" is four
        times as long.
    triangular : int, default=None
        Points that are this many steps apart, or more, are not aligned; the nearer in time, the more they count. None
        aligns all. Series whose lengths differ by `triangular` or more have similarity 0.

    Notes
    -----
    Equal values count at any speed, so scale and shift the series first where their level should not matter. Definite
    for all lengths and parameters.

    Examples
    --------
    A series of one point that is aligned with itself and with one at distance 1, k = exp(-1/2):

    >>> GlobalAlignment(lengthscale=1.0)([[0.0], [0.0, 0.0]], [[1.0]])           # k / (2 - k), and its square / sqrt 3
    tensor([[0.4353],
            [0.1094]], dtype=torch.float64)
    """

    takes_objects = True

    def __init__(self, lengthscale: float | str = "median", triangular: int | None = None):
        self.lengthscale = lengthscale
        self.triangular = triangular

    def against(self, Y: Any) -> KernelColumns:
        right, length, band = as_series(Y), fixed_lengthscale(self.lengthscale), self._band()
        own = self_alignments(right, length, band)

        def block(X: Any) -> Tensor:
            left = as_series(X, right)
            logs = alignments(left, right, length, band)
            logs -= (self_alignments(left, length, band)[:, None] + own) / 2
            return like_rows(X, np.exp(np.minimum(logs, 0.0, out=logs)))

        return block

    def diag(self, X: Any) -> Tensor:
        return like_rows(X, np.ones(len(as_series(X))))

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> GlobalAlignment:
        if not isinstance(self.lengthscale, str):
            return self
        multiple = medians(self.lengthscale)
        series = data_series(X)
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        order = torch.randperm(len(series), generator=generator)[:MEDIAN_SERIES].tolist()
        points = torch.from_numpy(np.concatenate([series[i] for i in order]))
        points = points[torch.randperm(len(points), generator=generator)[:MEDIAN_POINTS]]
        distances = torch.pdist(points)
        positive = distances[distances > 0]
        middle = positive.median().item() if len(positive) else 1.0
        n_steps = float(np.median([len(s) for s in series]))
        return clone(self).set_params(lengthscale=multiple * middle * n_steps**0.5)

    def _band(self) -> int:
        """Steps from which points are not aligned; 0 is no limit."""
        if self.triangular is None:
            return 0
        check_count("triangular", self.triangular)
        return int(self.triangular)


def data_series(X: Any) -> list[Series]:
    """Series that a parameter is taken from: at least one."""
    found = as_series(X)
    if not found:
        raise ValueError("There are no series to take a parameter of the kernel from: give at least one.")
    return found


def like_rows(X: Any, values: np.ndarray) -> Tensor:
    K = torch.from_numpy(values)
    return K.to(X) if isinstance(X, Tensor) and X.is_floating_point() else K


def self_alignments(series: Sequence[Series], lengthscale: float, band: int) -> np.ndarray:
    """log G(x, x) for every series."""
    return np.array([alignments([x], [x], lengthscale, band)[0, 0] for x in series])


def alignments(left: Sequence[Series], right: Sequence[Series], lengthscale: float, band: int) -> np.ndarray:
    """log G(x, y) for all pairs, (n, m); -inf where the band leaves no alignment.

    The points of all series on the right stand side by side, so that local kernel values are matrix products.
    """

    def summed(x: Tensor, points: Tensor, edges: np.ndarray) -> np.ndarray:
        log_k = point_distances(x, points).div_(lengthscale).square_().mul_(-0.5)
        return _summed(log_k, edges, band)

    return over_pairs(left, right, summed)


def over_pairs(
    left: Sequence[Series],
    right: Sequence[Series],
    values_of: Callable[..., np.ndarray],
) -> np.ndarray:
    """A function of all pairs, (n, m), in blocks of the right side and with as many threads as torch uses.

    `values_of(x, points, edges)` gives the values of one series with those between the edges, (k,).
    """
    found = np.empty((len(left), len(right)))
    lengths = [len(y) for y in right]
    longest = max((len(x) for x in left), default=1)
    first = 0
    while first < len(right):
        last, total = first, 0
        while last < len(right) and (last == first or (total + lengths[last]) * longest <= BLOCK_NUMBERS):
            total += lengths[last]
            last += 1
        points = torch.from_numpy(np.concatenate(right[first:last]))
        edges = np.cumsum([0, *lengths[first:last]])

        value = partial(values_of, points=points, edges=edges)
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            each = pool.map if len(left) > 1 else map
            for i, values in enumerate(each(value, map(torch.from_numpy, left))):
                found[i, first:last] = values
        first = last
    return found


def point_distances(x: Tensor, points: Tensor) -> Tensor:
    """|x_s - y_t|, (t, all points), from differences."""
    return torch.cdist(x, points, compute_mode="donot_use_mm_for_euclid_dist")


def _summed(log_k: Tensor, edges: np.ndarray, band: int) -> np.ndarray:
    """log G of one series with those between the edges, by numba where it is installed."""
    fast = compiled("alignment_sums")
    if fast is None:
        return _in_logarithms(log_k, edges, band, range(len(edges) - 1))
    logs, lost = fast(log_k.exp().numpy(), edges, band)
    if lost.any():
        again = np.flatnonzero(lost)
        logs[again] = _in_logarithms(log_k, edges, band, again)
    return logs


def _in_logarithms(
    log_k: Tensor, edges: np.ndarray, band: int, which: Sequence[int] | np.ndarray
) -> np.ndarray:
    """log G of one series with some of those between the edges, along anti-diagonals, all of them at once."""
    t, widths = len(log_k), np.diff(edges)[list(which)]
    u = int(widths.max())
    log_kappa = torch.full((len(widths), t, u), -torch.inf, dtype=torch.float64)
    steps = torch.arange(t, dtype=torch.float64)[:, None] - torch.arange(u)
    weight = (1 - steps.abs() / band).clamp_(min=0) if band else torch.ones_like(steps)
    for place, j in enumerate(which):
        w, part = weight[:, : widths[place]], log_k[:, edges[j] : edges[j + 1]]
        log_kappa[place, :, : widths[place]] = w.log() + part - (2 - w * part.exp()).log()
    return along_diagonals(log_kappa, widths, -torch.inf, lambda three: three.logsumexp(0))


def along_diagonals(
    local: Tensor,  # (m, t, u)
    # (m,), the lengths of the series on the right, at most u
    widths: np.ndarray,
    nothing: float,
    join: Callable[[Tensor], Tensor],  # (3, m, cells) -> (m, cells)
) -> np.ndarray:
    """What comes to the ends of all pairs, (m,), where a cell is its local value plus what joins in it.

    Cells of one anti-diagonal do not depend on each other, so that they are computed at once.
    """
    m, t, u = local.shape
    # by s, of one anti-diagonal
    none = torch.full((m, t + 1), nothing, dtype=local.dtype)
    before, last = none.clone(), none.clone()
    before[:, 0] = 0.0  # the cell before the first
    ends = torch.empty(m, dtype=local.dtype)
    # s + t of the cells, both counted from 1
    for diagonal in range(2, t + u + 1):
        s = torch.arange(max(1, diagonal - u), min(t, diagonal - 1) + 1)
        new = none.clone()
        new[:, s] = (
            join(torch.stack([last[:, s - 1], last[:, s], before[:, s - 1]]))
            + local[:, s - 1, diagonal - s - 1]
        )
        before, last = last, new
        at_end = torch.from_numpy(widths == diagonal - t)
        ends[at_end] = new[at_end, t]
    return ends.numpy()
