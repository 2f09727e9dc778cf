"""The way back from a representation: kernel ridge regression of rows on their representations.

    x(z) = C^T k_z + b,    k(z, z') = z.z'   or   exp(-|z - z'|^2 / 2 l^2) + z.z'

z is centred and scaled as a whole. Centres of the kernel are the representations of landmarks, which are real rows.
Lengthscale and penalty have the smallest exact leave-one-out error. The linear kernel alone is taken unless another one
is better by a hundredth, and the smallest penalty whose error is within a thousandth of the best: what is linear comes
back as from PCA. A random part of the rows is enough to choose the kernel.

Cost O(n m (m + d) + m^3) for n rows and m centres, memory O(n m).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from krepes.base.codec import Bounds, Shape
from krepes.kernels import Gaussian, Kernel, Linear
from krepes.landmarks.nystrom import NystromMap
from krepes.regression.leave_one_out import LeaveOneOut

MEDIANS = (0.5, 1.0, 2.0, 4.0)  # lengthscales, in median distances
PENALTIES = np.logspace(-11, -2, 10)  # for each row
CUT = 1e-10  # of the eigenvalues of the centres' kernel matrix
BETTER, AS_GOOD = 0.99, 1.001  # times an error
PROJECTED = 64  # columns that are enough to compare errors
FEW_ROWS, FEW_CENTRES = 1500, 300  # that are enough to choose a kernel


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
