"""Distances between blocks of rows, arranged so that the landmark side is computed once.

    |x - y|^2 = |x|^2 - 2 x.y + |y|^2 = [x, |x|^2, 1] . [-2y, 1, |y|^2]          one matrix product

Rows are shifted by the mean of Y first: distances do not change, and float32 does not lose the spread of
data that lie far from the origin. Results are clamped at zero in place.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def squared_distances_to(Y: Tensor, scale: float = 1.0) -> Callable[[Tensor], Tensor]:
    """A function X -> scale * |x - y|^2, shape (b, m), clamped to the sign of `scale`."""
    center = Y.mean(dim=0)
    Yc = Y - center
    right = torch.cat([-2 * Yc, torch.ones_like(Yc[:, :1]), Yc.square().sum(1, keepdim=True)], dim=1).mul_(
        scale
    )
    right_T = right.mT.contiguous()

    def block(X: Tensor) -> Tensor:
        left = X.new_empty(len(X), right.shape[1])
        Xc = left[:, :-2]
        torch.sub(X, center, out=Xc) if not X.requires_grad else Xc.copy_(X - center)
        left[:, -2] = Xc.square().sum(1)
        left[:, -1] = 1
        D = left @ right_T
        return D.clamp_(max=0) if scale < 0 else D.clamp_(min=0)

    return block


def manhattan_distances_to(Y: Tensor) -> Callable[[Tensor], Tensor]:
    """A function X -> sum_j |x_j - y_j|, shape (b, m); numba where it is installed, else torch."""
    fast = _numba_manhattan() if Y.device.type == "cpu" else None

    def block(X: Tensor) -> Tensor:
        if fast is None or X.requires_grad:
            return torch.cdist(X, Y, p=1)
        return torch.from_numpy(fast(X.detach().numpy(), Y.detach().numpy()))

    return block


_MANHATTAN: list[Callable | None] = []  # compiled on first use


def _numba_manhattan() -> Callable | None:
    if not _MANHATTAN:
        try:
            from krepes.kernels.manhattan import manhattan
        except ImportError:
            _MANHATTAN.append(None)
        else:
            _MANHATTAN.append(manhattan)
    return _MANHATTAN[0]


def median_distance(
    X: Tensor, distances_to: Callable[[Tensor], Callable[[Tensor], Tensor]], generator: torch.Generator | None
) -> float:
    """The median distance between two different rows, from at most 1000 rows of X.

    Falls back to the mean of the positive distances where more than half of the pairs coincide, and to 1
    for constant data, for which every lengthscale gives the same constant kernel.
    """
    if len(X) > 1000:
        order = torch.randperm(len(X), generator=generator)
        X = X[order[:1000].to(X.device)]
    D = distances_to(X.double())(X.double())
    pairs = D[tuple(torch.triu_indices(len(X), len(X), offset=1))]
    positive = pairs[pairs > 0]
    if positive.numel() == 0:
        return 1.0
    median = pairs.median().item()
    return median if median > 0 else positive.mean().item()
