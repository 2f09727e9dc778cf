"""The way back from a representation: a decoder, and an estimate of its error for every row, as one value to save.

    x(z) = C^T k_z + b,    k(z, z') = z.z'   or   exp(-|z - z'|^2 / 2 l^2) + z.z'

Kernel ridge regression of rows on their representations. z is centred and scaled as a whole. Centres of the kernel are
the representations of landmarks, which are real rows. Lengthscale and penalty have the smallest exact leave-one-out
error. The linear kernel alone is taken unless another one is better by a hundredth, and the smallest penalty whose
error is within a thousandth of the best: what is linear comes back as from PCA. A random part of the rows is enough to
choose the kernel. Cost O(n m (m + d) + m^3) for n rows and m centres, memory O(n m).

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
from typing import Annotated, NamedTuple

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from krepes.base.blocks import row_blocks
from krepes.base.storage.codec import Bounds, Shape
from krepes.kernels import Gaussian, Kernel, Linear
from krepes.landmarks.nystrom import NystromMap
from krepes.regression.ridge_algebra import LeaveOneOut

MEDIANS = (0.5, 1.0, 2.0, 4.0)  # lengthscales, in median distances
PENALTIES = np.logspace(-11, -2, 10)  # for each row
CUT = 1e-10  # of the eigenvalues of the centres' kernel matrix
BETTER, AS_GOOD = 0.99, 1.001  # times an error
PROJECTED = 64  # columns that are enough to compare errors
FEW_ROWS, FEW_CENTRES = 1500, 300  # that are enough to choose a kernel
CONFIDENCE = 0.9
NEIGHBOURS = 5
FAR = 1.5  # times the distance that 99 % of the rows have
SMALLEST = 1e-6  # error that is told apart from zero
ERROR_PENALTIES = np.logspace(-8, 1, 10)  # for each row, of g
LEAST_ROWS = 3  # one is left out, and two are not all the same
BLOCK_ROWS = 4096


@dataclass(frozen=True)
class RidgeDecoder:
    """A function of representations.

    Attributes
    ----------
    kernel : Kernel
        Of scaled representations.
    centres : Tensor of shape (m, h)
        Scaled.
    mean : Tensor of shape (h,)
    scale : float
        Representations enter the kernel as (z - mean) / scale.
    coefficients : Tensor of shape (m, c)
        C.
    constant : Tensor of shape (c,)
        b.

    Examples
    --------
    >>> Z = torch.tensor([[0.0], [1.0], [2.0], [4.0]], dtype=torch.float64)
    >>> decoder = learn_decoder(Z, 3 * Z + 1, Z).decoder
    >>> decoder(torch.tensor([[3.0]])).round(decimals=4)
    tensor([[10.]], dtype=torch.float64)
    """

    kernel: Kernel
    centres: Annotated[Tensor, Shape("m", "h")]
    mean: Annotated[Tensor, Shape("h")]
    scale: Annotated[float, Bounds(above=0)]
    coefficients: Annotated[Tensor, Shape("m", "c")]
    constant: Annotated[Tensor, Shape("c")]

    def scaled(self, Z: Tensor) -> Tensor:
        return (Z.double() - self.mean) / self.scale

    def __call__(self, Z: Tensor) -> Tensor:
        """Rows, shape (n, c)."""
        return self.kernel(self.scaled(Z), self.centres) @ self.coefficients + self.constant


@dataclass(frozen=True)
class Learned:
    """A decoder, and what it was chosen by.

    Attributes
    ----------
    decoder : RidgeDecoder
    features : NystromMap
        Of the decoder's kernel, on its centres.
    left_out : LeaveOneOut
        Of all penalties.
    predictions : Tensor of shape (n, c)
        Every row as it is decoded by what the others teach.
    """

    decoder: RidgeDecoder
    features: NystromMap
    left_out: LeaveOneOut
    predictions: Tensor


def learn_decoder(Z: Tensor, X: Tensor, centres: Tensor) -> Learned:
    """Learn from rows X (n, c) and their representations Z (n, h), with centres (m, h); all float64."""
    mean = Z.mean(0)
    scale = (Z - mean).square().sum(1).mean().sqrt().item() or 1.0
    units, points = (Z - mean) / scale, (centres - mean) / scale
    targets, penalties = _few_columns(X), PENALTIES * len(Z)
    kernel = _chosen_kernel(units, targets, points)
    features = NystromMap(kernel, points, torch.float64, CUT)
    left_out = LeaveOneOut.of_features(features(units), X)
    errors = left_out.of_targets(targets).errors(penalties)
    penalty = float(penalties[np.flatnonzero(errors <= AS_GOOD * errors.min())[0]])
    W, constant = left_out.coefficients(penalty)
    decoder = RidgeDecoder(kernel, points, mean, scale, features.coefficients(W), constant)
    return Learned(decoder, features, left_out, left_out.predictions(penalty))


def _chosen_kernel(units: Tensor, targets: Tensor, points: Tensor) -> Kernel:
    """By the leave-one-out error of some rows, with some centres."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randperm(len(units), generator=generator)[:FEW_ROWS]
    points = points[torch.randperm(len(points), generator=generator)[:FEW_CENTRES]]
    smallest, chosen = np.inf, None
    for kernel in _kernels(points):
        Phi = NystromMap(kernel, points, torch.float64, CUT)(units[rows])
        error = LeaveOneOut.of_features(Phi, targets[rows]).errors(PENALTIES * len(rows)).min()
        if chosen is None or error < BETTER * smallest:
            smallest, chosen = error, kernel
    assert chosen is not None
    return chosen


def _kernels(points: Tensor) -> list[Kernel]:
    """The linear kernel, then those with a Gaussian part."""
    if not (points - points[0]).any():
        return [Linear()]
    generator = torch.Generator().manual_seed(0)
    gaussians = [Gaussian(f"{multiple} median").fitted(points, generator) for multiple in MEDIANS]
    return [Linear(), *(gaussian + Linear() for gaussian in gaussians)]


def _few_columns(X: Tensor) -> Tensor:
    """The rows, or where they are long a random projection of them, whose squared lengths are the same on average."""
    d = X.shape[1]
    if d <= 2 * PROJECTED:
        return X
    generator = torch.Generator().manual_seed(0)
    return X @ torch.randn(d, PROJECTED, generator=generator, dtype=X.dtype).to(X.device) / PROJECTED**0.5


class ErrorEstimate(NamedTuple):
    """How far decoded rows are from the true ones, relative to the spread of the data: 0 is exact, 1 the mean's error.

    Attributes
    ----------
    expected : ndarray of shape (n,)
        The error to expect.
    upper : ndarray of shape (n,)
        Nine of ten errors are smaller.
    trusted : ndarray of shape (n,), bool
        False where the representation is far from those learned from, where the error is expected to be as
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
        # Because beyond the rows learned from, g may be anything.
        known = g.clamp(self.smallest, self.largest)
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
    penalties = ERROR_PENALTIES * len(X)
    penalty = float(penalties[of_log.errors(penalties).argmin()])
    W, constant = of_log.coefficients(penalty)
    g = of_log.predictions(penalty)[:, 0]
    distance = nearest(learned.decoder.scaled(Z), learned.decoder.centres, are_centres)
    columns = torch.stack([g, distance.clamp(min=SMALLEST).log()], dim=1)
    centred = columns - columns.mean(0)
    # Because rounding would get a huge factor.
    centred = torch.where(centred.abs().amax(0) > SMALLEST, centred, 0.0)
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


class Decoded(NamedTuple):
    """Rows in the model's input space, (n, d), and the estimate of their errors, each (n,)."""

    rows: Tensor
    expected: Tensor
    upper: Tensor
    trusted: Tensor


@dataclass(frozen=True)
class LearnedInverse:
    """From representations to rows of the input space; the last output of the decoder is g of the error estimate.

    Examples
    --------
    >>> Z = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    >>> inverse = LearnedInverse.learned(Z, torch.cat([Z, -Z], dim=1), Z, are_centres=True)
    >>> found = inverse(torch.tensor([[0.5], [9.0]], dtype=torch.float64))
    >>> found.rows[0].round(decimals=3), found.trusted
    (tensor([ 0.5000, -0.5000], dtype=torch.float64), tensor([ True, False]))
    """

    decoder: RidgeDecoder
    figures: ErrorFigures

    @classmethod
    def learned(cls, Z: Tensor, X: Tensor, centres: Tensor, are_centres: bool) -> LearnedInverse:
        """Learn from rows X (n, d) and their representations Z (n, h); `are_centres`: Z are the centres (m, h)."""
        if len(X) < LEAST_ROWS:
            raise ValueError(
                f"{len(X)} landmarks are too few: call fit_inverse with at least {LEAST_ROWS} rows of the data."
            )
        found = learn_decoder(Z, X, centres)
        figures, coefficients, constant = learn_errors(found, X, Z, are_centres)
        d = found.decoder
        outputs = torch.cat([d.coefficients, coefficients[:, None]], dim=1)
        constants = torch.cat([d.constant, constant[None]])
        return cls(RidgeDecoder(d.kernel, d.centres, d.mean, d.scale, outputs, constants), figures)

    @property
    def width(self) -> int:
        """h, the number of components."""
        return len(self.decoder.mean)

    def __call__(self, Z: Tensor) -> Decoded:
        """Decode representations (n, h)."""
        parts = [self._decoded(Z[rows]) for rows in row_blocks(len(Z), BLOCK_ROWS)]
        return Decoded(*map(torch.cat, zip(*parts)))

    def _decoded(self, Z: Tensor) -> Decoded:
        outputs = self.decoder(Z)
        distance = nearest(self.decoder.scaled(Z), self.decoder.centres)
        return Decoded(outputs[:, :-1], *self.figures.estimate(outputs[:, -1], distance))
