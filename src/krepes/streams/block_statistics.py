"""Whether some blocks of rows differ from others, by sums over blocks alone.

Of every block: the sum of coverage |phi|^2 / k(x, x), of the leading features phi, and of phi phi^T. From these, for
the blocks w of a window and the others r:

    coverage    |mean coverage of w - mean coverage of r|
    mean        d^T (C + g I)^-1 d,   d = mu_w - mu_r,   C the covariance of all rows       (a regularised T^2)
    angles      mean sin^2 of the principal angles between the leading h components of w and of r
                = 1 - |U_w^T U_r|_F^2 / h

Blocks are exchangeable while nothing changes, so that any choice of as many blocks could have been the window: the
p-value is the share of random choices whose largest statistic, each in its own standard deviations, is at least as
large. It is exact for independent blocks, whatever the distribution, and dependence within a block does no harm. Draws
end when enough of them were larger [besag]. Cost: O(B q + 16^3) per draw for B blocks of q features, whatever the
number of rows; memory O(B q^2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import row_blocks

STATISTICS = ("coverage", "mean", "angles")
BATCH = 99  # draws at once; the first of them give the statistics their units
ENOUGH = 10  # draws that are larger, after which a window is taken for unchanged
ANGLE_FEATURES = 16  # of the leading ones, in which angles are taken
RIDGE = 0.1  # of the mean variance of a feature, in (C + g I)^-1


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Sums over blocks of the same number of rows.

    Attributes
    ----------
    size : int
        Rows in every block.
    coverage : Tensor of shape (B,)
    total : Tensor of shape (B, q)
    outer : Tensor of shape (B, q, q)
    """

    size: int
    coverage: Tensor
    total: Tensor
    outer: Tensor

    @classmethod
    def of_rows(cls, coverage: Tensor, Phi: Tensor, size: int) -> BlockSums:
        """Of rows in blocks of `size`; rows that do not fill the last block are left out."""
        B = len(Phi) // size
        Phi = Phi[: B * size].double().reshape(B, size, -1)
        covered = coverage[: B * size].double().reshape(B, size).sum(1)
        return cls(size, covered, Phi.sum(1), Phi.mT @ Phi)

    def __len__(self) -> int:
        return len(self.coverage)

    def __getitem__(self, part: slice) -> BlockSums:
        return BlockSums(self.size, self.coverage[part], self.total[part], self.outer[part])

    def __add__(self, other: BlockSums) -> BlockSums:
        """The blocks of both, one after the other."""
        pairs = zip(
            (self.coverage, self.total, self.outer), (other.coverage, other.total, other.outer), strict=True
        )
        return BlockSums(self.size, *(torch.cat(pair) for pair in pairs))

    @property
    def mean_coverage(self) -> float:
        return self.coverage.mean().item() / self.size


@dataclass(frozen=True, eq=False)
class WindowComparison:
    """The blocks of two samples together, and what any choice of a window among them gives.

    Attributes
    ----------
    blocks : BlockSums
    n_window : int
        Blocks in a window.
    n_components : int
        h.
    """

    blocks: BlockSums
    n_window: int
    n_components: int

    def statistics(self, chosen: Tensor) -> Tensor:  # shape: (P, B) -> (P, 3)
        """Of windows that are rows of zeros and ones."""
        blocks = self.blocks
        share = torch.stack([chosen / self.n_window, (1 - chosen) / (len(blocks) - self.n_window)])
        share = share / blocks.size  # (2, P, B): means over the rows of a window, and of the others
        coverage, mean = share @ blocks.coverage, share @ blocks.total
        difference = mean[0] - mean[1]
        distance = (difference @ self._precision() * difference).sum(1)
        parts = [self._angles(share[:, part], mean[:, part]) for part in row_blocks(len(chosen), 64)]
        return torch.stack([(coverage[0] - coverage[1]).abs(), distance, torch.cat(parts)], dim=1)

    def _precision(self) -> Tensor:
        """(C + g I)^-1 of all rows: the same for every choice."""
        n = len(self.blocks) * self.blocks.size
        mean = self.blocks.total.sum(0) / n
        C = self.blocks.outer.sum(0) / n - torch.outer(mean, mean)
        ridge = RIDGE * C.trace() / len(C)
        return torch.linalg.inv(C + max(ridge.item(), 1e-300) * torch.eye(len(C), dtype=C.dtype))

    def _angles(self, share: Tensor, mean: Tensor) -> Tensor:
        q = min(ANGLE_FEATURES, mean.shape[-1])
        mean = mean[..., :q]
        second = torch.einsum("spb,bij->spij", share, self.blocks.outer[:, :q, :q])
        C = second - mean[..., :, None] * mean[..., None, :]
        U = torch.linalg.eigh(C)[1][..., -self.n_components :]
        return 1 - (U[0].mT @ U[1]).square().sum((1, 2)) / self.n_components

    def tested(self, most: int, generator: np.random.Generator) -> tuple[float, dict[str, float], Tensor]:
        """The p-value of the last blocks as the window, its statistics in standard deviations, and as they are."""
        B = len(self.blocks)
        observed = torch.zeros(1, B, dtype=torch.float64)
        observed[0, B - self.n_window :] = 1
        first = self.statistics(torch.cat([observed, self._draws(BATCH, generator)]))
        centre, unit = first.mean(0), first.std(0).clamp(min=1e-300)
        scores = (first - centre) / unit
        largest = scores[0].max()
        larger, drawn = int((scores[1:].amax(1) >= largest).sum()), BATCH
        while larger < ENOUGH and drawn < most:
            n = min(BATCH, most - drawn)
            more = (self.statistics(self._draws(n, generator)) - centre) / unit
            larger, drawn = larger + int((more.amax(1) >= largest).sum()), drawn + n
        p_value = (larger + 1) / (drawn + 1)
        return p_value, dict(zip(STATISTICS, scores[0].tolist())), first[0]

    def _draws(self, n: int, generator: np.random.Generator) -> Tensor:
        """Random windows, (n, B)."""
        B = len(self.blocks)
        places = np.argsort(generator.random((n, B)), axis=1)[:, : self.n_window]
        chosen = torch.zeros(n, B, dtype=torch.float64)
        return chosen.scatter_(1, torch.from_numpy(places), 1.0)
