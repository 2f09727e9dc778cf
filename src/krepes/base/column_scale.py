"""Middle and spread of columns that a few wild cells cannot ruin.

    usual values    |x - median| <= 20 s,     s = (x_(n-k) - x_(k+1)) / 3.290,     k = ceil(n' / 20)

n' values differ from the median. Where few do (zeros and some counts) the k largest and smallest are cut off from these
alone, and the median stays between the ends. For Gaussian columns s is the standard deviation. Where s = 0 or n' < 10
there is too little to judge by, and all values are usual.

Mean and standard deviation are over the usual values. Where all are usual they are the plain ones, to the bit: for
Gaussian, uniform, exponential and bimodal columns, for counts, and for every column of two values (20 s is then six
times their difference). Only cells that lie very far out are left out. A single cell at v deviations among n
multiplies the plain deviation by sqrt(1 + v^2 / n); here by sqrt(1 + 400 / n) at most.

Quantiles are over at most 1024 rows, fewer (but 128) where columns are more than 512. Cost of a sort of half a
million numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

MOST_ROWS, LEAST_ROWS, MOST_CELLS = 1024, 128, 2**19  # that quantiles are taken from
REACH = 20.0  # times s
TAIL = 20  # one in this many is cut off at either end
FEWEST = 10  # values beside the median to judge by
TOGETHER = 512  # columns at once, for which as many rows are looked at as for one
WIDTH = 3.290  # of what is between the tails of a Gaussian, in deviations


def usual_range(X: Tensor) -> tuple[Tensor, Tensor]:
    """The ends of the usual values of every column of X, (n, d); float64, shape (d,) each.

    >>> cells = torch.cat([torch.linspace(-1, 1, 99), torch.tensor([1000.0])])
    >>> [round(end.item()) for end in usual_range(cells[:, None])]
    [-11, 11]
    """
    X = _some_rows(X)
    n, ordered = len(X), X.mT.contiguous().sort(dim=1).values  # (d, n)
    median = ordered[:, (n - 1) // 2]
    below, above = (ordered < median[:, None]).sum(1), (ordered > median[:, None]).sum(1)
    k = (below + above + TAIL - 1) // TAIL
    ends = torch.stack([torch.minimum(k, below), n - 1 - torch.minimum(k, above)], dim=1)  # (d, 2)
    s = ordered.gather(1, ends).diff(dim=1)[:, 0] / WIDTH
    reach = torch.where((s > 0) & (below + above >= FEWEST), REACH * s, torch.inf)
    return median - reach, median + reach


class ColumnSample(NamedTuple):
    """Some values of a column, none missing; their median and the ends of the usual ones, NaN where there are none."""

    values: np.ndarray
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> ColumnSample:
        return column_samples(values[None])[0]


def column_samples(M: np.ndarray) -> list[ColumnSample]:
    """What the rows of a matrix (k, n), NaN where a value is missing, say about each of k columns.

    >>> [(found.values.tolist(), found.median) for found in column_samples(np.array([[1, np.nan], [2, 4]]))]
    [([1.0], 1.0), ([2.0, 4.0], 3.0)]
    """
    missing = np.isnan(M)
    complete = np.flatnonzero(~missing.any(axis=1))
    found: dict[int, ColumnSample] = {}
    for first in range(0, len(complete), TOGETHER):
        rows = complete[first : first + TOGETHER]
        found.update(zip(rows.tolist(), _summaries(M[rows])))
    return [found[j] if j in found else _summaries(M[j : j + 1, ~missing[j]])[0] for j in range(len(M))]


def _summaries(M: np.ndarray) -> list[ColumnSample]:  # shape: (k, n), no value missing
    if not M.shape[1]:
        return [ColumnSample(row, np.nan, np.nan, np.nan) for row in M]
    low, high = usual_range(torch.from_numpy(M.T))
    return [*map(ColumnSample, M, np.median(M, axis=1).tolist(), low.tolist(), high.tolist())]


def column_scale(X: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the usual values of every column, from some rows; float64, (d,) each."""
    X = _some_rows(X)
    low, high = usual_range(X)
    usual = (low <= X) & (high >= X)
    n = usual.sum(0)
    mean = torch.where(usual, X, 0.0).sum(0) / n
    return mean, (torch.where(usual, X - mean, 0.0).square_().sum(0) / n).sqrt_()


def _some_rows(X: Tensor) -> Tensor:
    """Some of the rows, in double precision; drawn from a stream of their own, so that other draws stay."""
    most = max(LEAST_ROWS, min(MOST_ROWS, MOST_CELLS // max(1, X.shape[1])))
    if len(X) > most:
        chosen = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))[:most]
        X = X[chosen.to(X.device)]
    return X.detach().cpu().double()
