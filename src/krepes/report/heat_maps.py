"""Which parts of a row its representation depends on: pixels of an image, columns of a table.

    heat_p(x) = |z(x) - z(x with part p at its mean)|

The mean goes over the rows shown, in the model's input space, so that a missing part is one that says nothing. A part
is a column with all of its encoded features, or a patch of an image. Cost: n P kernel rows for P parts. WORK bounds
n P m d: larger images get larger patches, and if that is not enough only the first rows have a heat map.

For kernels on patches nothing is covered up: |z| is a sum over positions, and the heat of a position is what it adds,
where that is more than nothing (`krepes.explain.position_maps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.rows import dense
from krepes.embedding import KernelEmbedding
from krepes.explain.expansion import Explained, coefficient_tensor
from krepes.explain.position_maps import own_maps
from krepes.kernels import Patches
from krepes.sources import Source
from krepes.sources.row_subset import subset

WORK = 3e11  # multiplications: about half a minute on one core
SIDES = (8, 7, 6, 5, 4)  # patches along the longer side of an image
MAPPED = 200  # rows with maps of positions
SLOW_ROWS = 32  # of kernels whose cost is not that of a product, such as a network's


@dataclass(frozen=True)
class Heat:
    """How far the representation moves without each part.

    Attributes
    ----------
    values : ndarray of shape (n_rows, P)
        Of the first n_rows rows.
    grid : (int, int) or None
        Patches down and across; None where parts are columns.
    exact : bool
        Whether heat is what a position adds, and not how far the row moves without it.
    """

    values: np.ndarray
    grid: tuple[int, int] | None = None
    exact: bool = False


def patches(shape: tuple[int, ...], side: int) -> tuple[list[np.ndarray], tuple[int, int]]:
    """Pixels of each patch, as places in a flattened image (h, w[, c]), and the grid, at most side x side.

    >>> places, grid = patches((2, 4), 2)
    >>> grid, [part.tolist() for part in places]
    ((1, 2), [[0, 1, 4, 5], [2, 3, 6, 7]])
    """
    height, width = shape[:2]
    step = -(-max(height, width) // side)
    places = np.arange(int(np.prod(shape))).reshape(height, width, -1)
    down, across = range(0, height, step), range(0, width, step)
    found = [places[y : y + step, x : x + step].ravel() for y in down for x in across]
    return found, (len(down), len(across))


def image_heat(model: KernelEmbedding, source: Source, shape: tuple[int, ...]) -> Heat | None:
    """Of images: the finest patches that stay within WORK."""
    if isinstance(model.kernel_, Patches):
        shown = subset(source, np.arange(min(source.n_rows, MAPPED)))
        maps = own_maps(model, shown).values
        return Heat(maps.clip(min=0).reshape(len(maps), -1), maps.shape[1:], exact=True)
    unit = source.n_rows * len(model.landmarks_) * int(np.prod(shape))
    side = next((side for side in SIDES if side * side * unit <= WORK), SIDES[-1])
    parts, grid = patches(shape, side)
    return Heat(moved_without(model, source, parts), grid)


def moved_without(model: Explained, source: Source, parts: Sequence[Any]) -> np.ndarray:
    """heat of every part, (n_rows, P), for as many of the first rows as WORK allows; of a machine, z is its scores."""
    width = int(np.prod(dense(model.landmarks_).shape[1:]))
    allowed = WORK / (max(1, len(parts)) * len(model.landmarks_) * width)
    fast = model.kernel_.geometry is not None or model.kernel_.product_terms() is not None
    n = int(min(source.n_rows, max(1, allowed) if fast else SLOW_ROWS))
    shown = source if n == source.n_rows else subset(source, np.arange(n))
    sums = model.map_rows(lambda rows: dense(rows).double().flatten(1).sum(0, keepdim=True), source)
    mean = torch.cat([block.cpu() for block in sums]).sum(0) / source.n_rows
    places = [torch.as_tensor(np.asarray(part, dtype=np.int64)) for part in parts]
    A = coefficient_tensor(model, model.space_.dtype)

    def moved(rows: Any) -> Tensor:
        given = dense(rows)
        Z = model.features_.kernel_block(given).to(A) @ A
        found = []
        for part in places:
            without = given.flatten(1).clone()
            without[:, part] = mean[part].to(without)
            found.append(
                (model.features_.kernel_block(without.reshape(given.shape)).to(A) @ A - Z).norm(dim=1)
            )
        return torch.stack(found, dim=1)

    return np.concatenate([block.cpu().numpy() for block in model.map_rows(moved, shown)]).astype(np.float64)
