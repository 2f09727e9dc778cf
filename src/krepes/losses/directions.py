"""Losses of directions z / |z|, which ignore how long the embeddings are.

    z / |z| does not change when (W, gamma) is multiplied by a number; it does when one column of W is.

The regulariser has to ignore that number too: lam |W|^2 / (sum of the components' variances) is what the solver makes
of `column_scale`. It is a sum and not a mean, because the loss does not grow with the number of components either. An
embedding of length zero has no direction: it counts as the zero vector, whose cosine with anything is 0, and has no
gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.losses.loss import Loss, inverse_root
from krepes.losses.statistics import Statistics


class DirectionLoss(Loss):
    """A loss that ignores the overall scale of the embedding."""

    finds_scale = True  # it has none; but components of equal or of natural variance point elsewhere
    scale_invariant = True

    @property
    def rotation_invariant(self) -> bool:
        return True

    def column_scale(self, statistics: Statistics) -> Tensor:
        """The sum of the components' variances, once for each of them, (h,)."""
        return overall_scale(statistics)


def overall_scale(statistics: Statistics) -> Tensor:
    """The sum of the h variances, repeated: (h,)."""
    variance = statistics.variance
    return variance.sum().expand(len(variance))


def directions(Z: Tensor) -> Tensor:
    """Rows of Z (b, h) divided by their length; zero rows stay zero.

    Rows are brought to entries of order one first, so that squares neither underflow nor overflow. The factor counts
    as a constant: the result does not depend on it, and so no derivative does.

    >>> directions(torch.tensor([[3.0, 4.0], [3e-30, 4e-30], [0.0, 0.0]])).tolist()
    [[0.6..., 0.8...], [0.6..., 0.8...], [0.0, 0.0]]
    """
    largest = Z.detach().abs().amax(1, keepdim=True)
    Z = Z / torch.where(largest > torch.finfo(Z.dtype).tiny, largest, torch.inf)
    return Z * inverse_root(Z.square().sum(1, keepdim=True))
