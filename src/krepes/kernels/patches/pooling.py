"""Weights of positions in regions, and maps of features that are half as fine as the picture."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from krepes.kernels.patches.layer import PatchLayer


def map_of(layer: PatchLayer, images: Tensor) -> Tensor:
    """A layer's features, pooled to every second pixel: (b, h, w, c) -> (b, ceil(h / 2), ceil(w / 2), m)."""
    sizes, weights = halving(*images.shape[1:3])
    return layer.pooled(images, weights).view(len(images), *sizes, -1)


def halving(height: int, width: int) -> tuple[tuple[int, int], Tensor]:
    """Every second pixel: sizes, and bells around them, (h' w', h w)."""
    sizes = math.ceil(height / 2), math.ceil(width / 2)
    weights = torch.einsum("ci,dj->cdij", bells(height, sizes[0]), bells(width, sizes[1]))
    return sizes, weights.flatten(0, 1).flatten(1)


def means(n: int, cells: int) -> Tensor:
    """Means over cells of n positions, which overlap where n is not a multiple: (cells, n), rows sum to one.

    >>> means(3, 2).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    """
    cells = min(cells, n)
    weights = torch.zeros(cells, n, dtype=torch.float64)
    for i in range(cells):
        weights[i, i * n // cells : -(-(i + 1) * n // cells)] = 1
    return weights / weights.sum(1, keepdim=True)


def bells(n: int, cells: int) -> Tensor:
    """Gaussian bells around the middles of cells, half a cell wide: (cells, n), rows sum to one."""
    cells = min(cells, n)
    places, middles = (torch.arange(n) + 0.5) / n, (torch.arange(cells) + 0.5) / cells
    weights = ((places - middles[:, None]).double() * (2 * cells)).square_().mul_(-0.5).exp_()
    return weights / weights.sum(1, keepdim=True)
