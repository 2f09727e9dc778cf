"""How far a decoded row is from the true one: an estimate for every representation, checked on rows left out.

    e_i = |x_i - x_(-i)(z_i)| / spread,    spread^2 = mean |x_i - mean|^2
    log e(z) = a + u g(z) + v log r(z),    u, v >= 0

x_(-i) is learned without row i. g is kernel ridge regression of log e_i on z_i, r(z) the mean distance to the nearest
centres. e = 0 is exact, e = 1 no better than the mean of all rows. The mean of e over rows left out is right, and a
share of 0.9 of them lies below `upper`: both hold for new rows like those that the estimate was learned from. Farther
away than these, e grows with the distance, and is not trusted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from krepes.preimages.ridge_decoder import Learned

CONFIDENCE = 0.9
NEIGHBOURS = 5
FAR = 1.5  # times the distance that 99 % of the rows have
SMALLEST = 1e-6  # error that is told apart from zero
PENALTIES = np.logspace(-8, 1, 10)  # for each row


@dataclass(frozen=True)
class ErrorEstimate:
    """How far decoded rows are from the true ones, relative to the spread of the data: 0 is exact, 1 the mean's error.

    Attributes
    ----------
    expected : ndarray of shape (n,)
        The error to expect.
    upper : ndarray of shape (n,)
        Nine of ten errors are smaller.
    trusted : ndarray of shape (n,), bool
        False where the representation is far from all that was learned from, where the error is expected to be as
        large as that of the mean row, or, if rows were given, where landmarks hardly represent the row.
    actual : ndarray of shape (n,) or None
        The distance from the row that was given; None where only the representation was.
    """

    expected: np.ndarray
    upper: np.ndarray
    trusted: np.ndarray
    actual: np.ndarray | None = None


@dataclass(frozen=True)
class ErrorFigures:
    """What an estimate needs besides g and the centres; see above."""

    spread: float
    offset: float  # a, such that the mean is right
    of_errors: float  # u
    of_distance: float  # v
    upper: float  # what to add to log e for the bound
    farthest: float  # that is trusted, as a mean distance to the nearest centres
    smallest: float  # value of g among the rows learned from
    largest: float

    def estimate(self, g: Tensor, distance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Expected error, upper bound and trust."""
        known = g.clamp(
            self.smallest, self.largest
        )  # because beyond the rows learned from it may be anything
        log = self.offset + self.of_errors * known + self.of_distance * distance.clamp(min=SMALLEST).log()
        expected = log.exp() * (distance / self.farthest).clamp(min=1)
        return expected, expected * math.exp(self.upper), (distance <= self.farthest) & (expected < 1)


def learn_errors(
    learned: Learned, X: Tensor, Z: Tensor, are_centres: bool
) -> tuple[ErrorFigures, Tensor, Tensor]:
    """Figures, and g as coefficients (m,) and a constant, from rows left out.

    Parameters
    ----------
    learned : of the rows X (n, c) and their representations Z (n, h).
    are_centres : whether the rows are the centres, in their order; each is then not its own neighbour.
    """
    spread = (X - X.mean(0)).square().sum(1).mean().sqrt().item() or 1.0
    error = (X - learned.predictions).norm(dim=1) / spread
    log = error.clamp(min=SMALLEST).log()
    of_log = learned.left_out.of_targets(log[:, None])
    penalties = PENALTIES * len(X)
    penalty = float(penalties[of_log.errors(penalties).argmin()])
    W, constant = of_log.coefficients(penalty)
    g = of_log.predictions(penalty)[:, 0]
    distance = nearest(learned.decoder.scaled(Z), learned.decoder.centres, are_centres)
    columns = torch.stack([g, distance.clamp(min=SMALLEST).log()], dim=1)
    centred = columns - columns.mean(0)
    centred = torch.where(
        centred.abs().amax(0) > SMALLEST, centred, 0.0
    )  # because rounding would get a huge factor
    slopes = torch.from_numpy(nnls(centred.numpy(), (log - log.mean()).numpy())[0])
    fitted = centred @ slopes
    level = (error.mean() / fitted.exp().mean()).clamp(min=SMALLEST).log()
    figures = ErrorFigures(
        spread,
        (level - columns.mean(0) @ slopes).item(),
        slopes[0].item(),
        slopes[1].item(),
        _upper_quantile(log - fitted - level),
        FAR * distance.quantile(0.99).clamp(min=SMALLEST).item(),
        g.min().item(),
        g.max().item(),
    )
    return figures, learned.features.coefficients(W)[:, 0], constant[0]


def nearest(Z: Tensor, centres: Tensor, are_centres: bool = False) -> Tensor:
    """The mean distance to the nearest centres, shape (n,); a row that is a centre is not its own neighbour."""
    D = torch.cdist(Z, centres)
    if are_centres:
        D.fill_diagonal_(torch.inf)
    k = max(1, min(NEIGHBOURS, len(centres) - are_centres))
    return D.topk(k, dim=1, largest=False).values.mean(1)


def _upper_quantile(values: Tensor) -> float:
    """The value that a new one is below with probability CONFIDENCE, if it is drawn as these were."""
    rank = min(len(values), math.ceil((len(values) + 1) * CONFIDENCE))
    return values.sort().values[rank - 1].item()
