"""Partitions of rows into cells: a small tree of linear splits.

    node:   x goes left where <x, v> <= t,          v a direction, t about the median of <x, v> over a sample

A tree is grown from a sample, so that cells of all rows are about as large as asked for. Cells that turn out too large
are split again from their own rows. Where a direction does not split, such as one along which more than half of the
rows are the same, the column that splits best is taken: only rows that are all equal stay together.

Routing is computed in double precision, whatever the rows are, so that blocks and workers agree. Cost: O(s d) for every
row and s splits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from krepes.base.blocks import row_blocks
from krepes.base.storage.codec import Shape

BLOCK = 8192  # rows routed at once
LEAST_SHARE = 0.1  # of the rows on the smaller side of a split; else another direction is taken

Directions = Callable[[Tensor, torch.Generator], Tensor]  # rows (n, d) of a node -> (d,)


def through_two_rows(rows: Tensor, generator: torch.Generator) -> Tensor:
    """The direction from one random row to another."""
    a, b = torch.randint(len(rows), (2,), generator=generator).tolist()
    return rows[a] - rows[b]


def along_a_column(rows: Tensor, generator: torch.Generator) -> Tensor:
    """One column, drawn by its variance."""
    spread = rows.var(0, unbiased=False) + torch.finfo(rows.dtype).tiny
    direction = torch.zeros_like(rows[0])
    direction[torch.multinomial(spread, 1, generator=generator)] = 1.0
    return direction


def leading(rows: Tensor, generator: torch.Generator) -> Tensor:
    """The direction of the largest variance."""
    centred = rows - rows.mean(0)
    return torch.linalg.eigh(centred.mT @ centred).eigenvectors[:, -1]


DIRECTIONS: dict[str, Directions] = {
    "pairs": through_two_rows,
    "columns": along_a_column,
    "leading": leading,
}


@dataclass(frozen=True, eq=False)
class Partition:
    """A tree of splits; node 0 is the root.

    Attributes
    ----------
    directions : Tensor of shape (s, d), float64
    thresholds : Tensor of shape (s,), float64
    children : Tensor of shape (s, 2), int64
        The nodes below: i >= 0 is split i, -1 - i is cell i.

    Examples
    --------
    >>> x = torch.arange(8.0)[:, None]
    >>> halves = grown(x, 4, through_two_rows, torch.Generator().manual_seed(0))
    >>> halves.n_cells, halves.cells_of(x).bincount().tolist()
    (2, [4, 4])
    """

    directions: Annotated[Tensor, Shape("s", "d")]
    thresholds: Annotated[Tensor, Shape("s")]
    children: Annotated[Tensor, Shape("s", 2, dtype="int64")]

    def check_restored(self) -> None:
        below = self.children.flatten()
        splits, cells = below[below >= 0], -1 - below[below < 0]
        s = len(self.thresholds)
        tree = sorted(splits.tolist()) == list(range(1, s)) and sorted(cells.tolist()) == list(range(s + 1))
        parents = torch.arange(s)[:, None].expand(s, 2)
        if s and not (tree and bool((self.children > parents)[self.children >= 0].all())):
            raise ValueError("The file is damaged: the splits of its cells are not a tree.")

    @property
    def n_cells(self) -> int:
        return len(self.thresholds) + 1

    def cells_of(self, X: Tensor) -> Tensor:
        """The cell of every row, (n,), int64."""
        found = torch.zeros(len(X), dtype=torch.int64)
        if not len(self.thresholds):
            return found
        left = self.directions.mT
        for part in row_blocks(len(X), BLOCK):
            above = (X[part].cpu().double() @ left > self.thresholds).long()
            node = torch.zeros(len(above), dtype=torch.int64)
            inside = torch.ones(len(above), dtype=torch.bool)
            while bool(inside.any()):
                places = inside.nonzero()[:, 0]
                at = node[places]
                node[places] = self.children[at, above[places, at]]
                inside = node >= 0
            found[part] = -1 - node
        return found

    def split_again(self, cell: int, other: Partition) -> Partition:
        """With another tree in the place of a cell; the other's first cell keeps the number, new ones follow."""
        if not len(other.thresholds):
            return self
        s, extra = len(self.thresholds), other.children.clone()
        cells = extra < 0
        numbers = -1 - extra[cells]
        extra[cells] = -1 - torch.where(numbers == 0, cell, numbers - 1 + self.n_cells)
        extra[~cells] += s
        children = self.children.clone()
        if s:
            children[children == -1 - cell] = s
        return Partition(
            torch.cat([self.directions, other.directions]),
            torch.cat([self.thresholds, other.thresholds]),
            torch.cat([children, extra]),
        )


def whole(d: int) -> Partition:
    """One cell for rows of d columns."""
    empty = torch.zeros(0, d, dtype=torch.float64)
    return Partition(
        empty, empty[:, 0] if d else torch.zeros(0, dtype=torch.float64), torch.zeros(0, 2).long()
    )


def grown(
    rows: Tensor,  # (n, d)
    size: float,
    direction: Directions,
    generator: torch.Generator,
    scale: Tensor | None = None,  # (d,) or (d, d)
) -> Partition:
    """Median splits until no cell has more than `size` of the rows.

    Directions are chosen for x * scale, or x @ scale, the metric's space; splits are of x itself.
    """
    rows = rows.cpu().double()
    if scale is None:
        weighed = rows
    else:
        scale = scale.cpu().double()
        weighed = rows * scale if scale.ndim == 1 else rows @ scale
    directions: list[Tensor] = []
    thresholds: list[float] = []
    children: list[list[int]] = []
    n_cells = 0
    waiting: list[tuple[Tensor, int, int]] = [(torch.arange(len(rows)), -1, 0)]  # rows, parent, side
    while waiting:
        inside, parent, side = waiting.pop()
        found = None
        if len(inside) > size:
            found = _split(rows[inside], weighed[inside], direction, generator, scale)
        if found is None:
            node, n_cells = -1 - n_cells, n_cells + 1
        else:
            node = len(thresholds)
            directions.append(found[0])
            thresholds.append(found[1])
            children.append([0, 0])
            above = rows[inside] @ found[0] > found[1]
            waiting += [(inside[above], node, 1), (inside[~above], node, 0)]
        if parent >= 0:
            children[parent][side] = node
    if not thresholds:
        return whole(rows.shape[1])
    return Partition(
        torch.stack(directions), torch.tensor(thresholds, dtype=torch.float64), torch.tensor(children)
    )


def _split(
    rows: Tensor, weighed: Tensor, direction: Directions, generator: torch.Generator, scale: Tensor | None
) -> tuple[Tensor, float] | None:
    """A direction and a threshold with rows on both sides; None for rows that are all equal."""
    v = direction(weighed, generator)
    if scale is not None:
        v = v * scale if scale.ndim == 1 else scale @ v
    threshold, share = _middle(rows @ v)
    if share >= LEAST_SHARE:
        return v, threshold
    best, share = None, 0.0
    for j in range(rows.shape[1]):
        middle, balance = _middle(rows[:, j])
        if balance > share:
            best, share = (torch.eye(rows.shape[1], dtype=rows.dtype)[j], middle), balance
    return best


def _middle(places: Tensor) -> tuple[float, float]:
    """The threshold nearest the median that has rows on both sides, and the share of the smaller side."""
    ordered = places.sort().values
    steps = (ordered[1:] > ordered[:-1]).nonzero()[:, 0]  # the last of each run of equal numbers
    if not len(steps):
        return 0.0, 0.0
    n = len(ordered)
    last = int(steps[(steps + 1 - n / 2).abs().argmin()].item())
    low, high = ordered[last].item(), ordered[last + 1].item()
    threshold = low + (high - low) / 2
    threshold = threshold if low <= threshold < high else low
    return threshold, min(last + 1, n - last - 1) / n
