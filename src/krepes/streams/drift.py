"""Drift: whether rows of a stream still look like a reference.

    rows -> features of a fitted model -> sums of blocks -> window against reference -> p-value -> alarm

A window of the last rows is compared with the reference whenever a block of rows is full, by the coverage of the
landmarks, the mean feature and the leading components. An alarm is a p-value of at most block_rows /
average_run_length: while nothing changes, one comparison in average_run_length / block_rows is an alarm, so that
alarms are average_run_length rows apart on average. Coverage is not compared with a reference of the rows that the
model was fitted on: landmarks were chosen among these, so that they are covered better than any new row. (1000 rows of
noise, 300 of them landmarks, at a nominal 5 %: 100 % false alarms with coverage, 23 % without the landmarks, at most
2 % with all rows and without coverage.)

Of every block are kept: the sum of coverage |phi|^2 / k(x, x), of the leading features phi, and of phi phi^T. From
these, for the blocks w of a window and the others r:

    coverage    |mean coverage of w - mean coverage of r|
    mean        d^T (C + g I)^-1 d,   d = mu_w - mu_r,   C the covariance of all rows       (a regularised T^2)
    angles      mean sin^2 of the principal angles between the leading h components of w and of r
                = 1 - |U_w^T U_r|_F^2 / h,   U an orthonormal basis of C^8 V, V the leading components of all rows

Eight steps of subspace iteration take a third of the time of eigenvectors, and V is the same for every choice.

Blocks are exchangeable while nothing changes, so that any choice of as many blocks could have been the window: the
p-value is the share of random choices whose largest statistic, each in its own standard deviations, is at least as
large. It is exact for independent blocks, whatever the distribution, and dependence within a block does no harm. Draws
end when enough of them were larger [besag]. Cost: O(B q + 16^3) per draw for B blocks of q features, whatever the
number of rows; memory O(B q^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import row_blocks
from krepes.base.reporting import warn
from krepes.base.rows import Rows
from krepes.base.validation import check_count, check_number
from krepes.engines import as_engine
from krepes.one_pass import OnePassEstimator

LEAST_REFERENCE = 2  # times as many blocks as a window has
DRAWS = 2  # random choices for every one that an alarm needs
MOST_DRAWS = 20_000  # for one comparison, which takes a second then
FITTED_ON = 0.1  # of the landmarks: a reference with more of them is rows that the model was fitted on


@dataclass(frozen=True)
class DriftReading:
    """What a monitor says when a block of a stream is full; print it.

    Attributes
    ----------
    n_rows : int
        Of the stream so far; the window ends there.
    p_value : float
    alarm : bool
    scores : dict
        How far "coverage", "mean" and "angles" are from what random choices of blocks give, in standard deviations;
        without "coverage" where the model was fitted on the reference.
    coverage, reference_coverage : float
        Means of the window and of the reference.
    angle : float
        Between the leading components of the window and of the reference, in degrees: the root of the mean sin^2.
    """

    n_rows: int
    p_value: float
    alarm: bool
    scores: dict[str, float]
    coverage: float
    reference_coverage: float
    angle: float

    def __str__(self) -> str:
        most = max(self.scores, key=self.scores.__getitem__)
        found = f"drift, most in {most}" if self.alarm else "no drift"
        return (
            f"row {self.n_rows:,}: {found} (p = {self.p_value:.2g}); coverage {self.coverage:.3f}, "
            f"{self.reference_coverage:.3f} in the reference; angle {self.angle:.0f}°"
        )


class DriftMonitor:
    """Compare the last rows of a stream with a reference, by what a fitted model sees of them.

    Parameters
    ----------
    model : fitted estimator with a `space_`
        Such as KernelEmbedding. Only its preprocessing, kernel and landmarks are used.
    window : int, default=1000
        How many of the last rows are compared with the reference.
    block_rows : int or None, default=None
        After how many rows a comparison is made. None is a tenth of the window.
    average_run_length : float or None, default=None
        How many rows pass between two false alarms, on average. None is a hundred windows. At most 10,000 blocks.
    n_features : int, default=64
        How many of the leading features are compared. More see finer changes.
    n_components : int, default=4
        How many leading components have their angles taken; at most 8.
    random_state : int, default=0

    Examples
    --------
    >>> from krepes import KernelEmbedding
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(6000, 4))
    >>> model = KernelEmbedding(4, n_landmarks=50, random_state=0).fit(X[:1000])
    >>> monitor = DriftMonitor(model, window=500, average_run_length=10_000).fit(X[1000:4000])
    >>> any(reading.alarm for reading in monitor.add(X[4000:5000]))
    False
    >>> any(reading.alarm for reading in monitor.add(X[5000:] + [1.0, 0, 0, 0]))
    True
    """

    def __init__(
        self,
        model: OnePassEstimator,
        *,
        window: int = 1000,
        block_rows: int | None = None,
        average_run_length: float | None = None,
        n_features: int = 64,
        n_components: int = 4,
        random_state: int = 0,
    ):
        model._fit()
        check_count("window", window, 2)
        if block_rows is None:
            block_rows = max(1, window // 10)
        counts = {"block_rows": block_rows, "n_features": n_features, "n_components": n_components}
        for name, value in counts.items():
            check_count(name, value)
        if window % block_rows or window // block_rows < 2:
            raise ValueError(
                f"window={window}, block_rows={block_rows}: expected a window of several whole blocks."
            )
        if average_run_length is None:
            average_run_length = 100.0 * window
        check_number("average_run_length", average_run_length, "two blocks of rows", least=2 * block_rows)
        if DRAWS * average_run_length > MOST_DRAWS * block_rows:
            raise ValueError(
                f"average_run_length={average_run_length:g}, block_rows={block_rows}: expected at most "
                f"{MOST_DRAWS // DRAWS * block_rows:,}, or larger blocks. Rarer alarms need too many random choices."
            )
        self.model, self.window, self.block_rows = model, window, block_rows
        self.average_run_length = average_run_length
        self.n_features = min(n_features, model.rank_)
        self.n_components = min(n_components, max(1, min(ANGLE_FEATURES, self.n_features) // 2))
        self._generator = np.random.default_rng(random_state)
        self.reference_: BlockSums | None = None

    @property
    def threshold(self) -> float:
        """The largest p-value that is an alarm."""
        return self.block_rows / self.average_run_length

    def fit(self, X: Any, *, first_row: int | None = None) -> Self:
        """Take rows as the reference: at least twice the window, better ten times; the stream begins again.

        Give rows that the model was not fitted on: of its own, which it recognises by its landmarks, coverage cannot
        be compared. `first_row`, the index of the first row of X in the data of the fit, says that they are its own.
        """
        found = self._features(X)
        reference = BlockSums.of_rows(found[:, 0], found[:, 1:], self.block_rows)
        least = LEAST_REFERENCE * self.window
        if len(reference) * self.block_rows < least:
            raise ValueError(
                f"The reference has {len(found):,} rows; expected at least {least:,}, twice the window. Give more, or "
                "a smaller window."
            )
        n_landmarks = self._n_landmarks_in(X) if first_row is None else 0
        if n_landmarks:
            warn(
                f"{n_landmarks:,} landmarks of the model are among the reference rows: it was fitted on them, so that "
                "coverage is not compared. Give rows that it was not fitted on."
            )
        self._covers = first_row is None and not n_landmarks
        self.reference_, self.n_rows_ = reference, 0
        self._rest, self._last = found[:0], reference[:0]
        return self

    def add(self, X: Any) -> list[DriftReading]:
        """The next rows of the stream: a reading for every block that they fill, once there is a whole window."""
        if self.reference_ is None:
            raise ValueError("Without a reference there is nothing to compare with: call fit(X) first.")
        rows = torch.cat([self._rest, self._features(X)])
        new = BlockSums.of_rows(rows[:, 0], rows[:, 1:], self.block_rows)
        self._rest = rows[len(new) * self.block_rows :]
        readings = []
        for place in range(len(new)):
            self._last = (self._last + new[place : place + 1])[-self._n_blocks :]
            self.n_rows_ += self.block_rows
            if len(self._last) == self._n_blocks:
                readings.append(self._reading())
        return readings

    @property
    def _n_blocks(self) -> int:
        return self.window // self.block_rows

    def _reading(self) -> DriftReading:
        assert self.reference_ is not None
        blocks = self.reference_ + self._last
        compared = WindowComparison(blocks, self._n_blocks, self.n_components, self._covers)
        most = math.ceil(DRAWS / self.threshold)
        p_value, scores, observed = compared.tested(most, self._generator)
        angle = math.degrees(math.asin(min(1.0, max(0.0, observed[2].item()) ** 0.5)))
        return DriftReading(
            self.n_rows_,
            p_value,
            p_value <= self.threshold,
            scores,
            self._last.mean_coverage,
            self.reference_.mean_coverage,
            angle,
        )

    def _n_landmarks_in(self, X: Any) -> int:
        """How many landmarks the rows hold, where these are the model's own; rows that recur everywhere are not."""
        space = self.model.space_
        if not isinstance(space.landmarks, Tensor):
            return 0
        known = {row.tobytes() for row in space.landmarks.cpu().numpy()}

        def recognised(rows: Rows) -> Tensor:
            assert isinstance(rows, Tensor)
            return torch.tensor([row.tobytes() in known for row in rows.cpu().numpy()])

        found = int(torch.cat(list(space.map(recognised, X, as_engine(self.model.engine)))).sum())
        return found if FITTED_ON * len(known) <= found <= len(known) else 0

    def _features(self, X: Any) -> Tensor:
        """Coverage and leading features of every row, (n, 1 + q), float64."""
        self.model.check_input(X)
        space = self.model.space_

        def covered(rows: Rows) -> Tensor:
            Phi = space.features(rows)
            whole = space.kernel.diag(rows).double()
            spanned = Phi.double().square().sum(1)
            share = torch.where(whole > 0, spanned / whole, torch.ones_like(whole)).clamp_(0, 1)
            return torch.cat([share[:, None], Phi[:, : self.n_features].double()], dim=1)

        return torch.cat([part.cpu() for part in space.map(covered, X, as_engine(self.model.engine))])


STATISTICS = ("coverage", "mean", "angles")
BATCH = 99  # draws at once; the first of them give the statistics their units
ENOUGH = 10  # draws that are larger, after which a window is taken for unchanged
ANGLE_FEATURES = 16  # of the leading ones, in which angles are taken
SQUARINGS = 3  # of a covariance, for its leading components
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
        Phi = Phi[: B * size].double().reshape(B, size, Phi.shape[1])
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
    with_coverage : bool
        Whether coverage is compared, too.
    """

    blocks: BlockSums
    n_window: int
    n_components: int
    with_coverage: bool = True

    def statistics(self, chosen: Tensor, angles: bool = True) -> Tensor:  # shape: (P, B) -> (P, 3)
        """Of windows that are rows of zeros and ones; zeros in place of angles, which take most of the time."""
        blocks = self.blocks
        share = torch.stack([chosen / self.n_window, (1 - chosen) / (len(blocks) - self.n_window)])
        share = share / blocks.size  # (2, P, B): means over the rows of a window, and of the others
        coverage, mean = share @ blocks.coverage, share @ blocks.total
        difference = mean[0] - mean[1]
        distance = (difference @ self._precision * difference).sum(1)
        parts = [torch.zeros(len(chosen), dtype=torch.float64)]
        if angles:
            parts = [self._angles(share[:, part], mean[:, part]) for part in row_blocks(len(chosen), 128)]
        covered = (coverage[0] - coverage[1]).abs() * self.with_coverage
        return torch.stack([covered, distance, torch.cat(parts)], dim=1)

    @cached_property
    def _precision(self) -> Tensor:
        """(C + g I)^-1 of all rows: the same for every choice."""
        C = self._covariance
        ridge = RIDGE * C.trace() / len(C)
        return torch.linalg.inv(C + max(ridge.item(), 1e-300) * torch.eye(len(C), dtype=C.dtype))

    @cached_property
    def _covariance(self) -> Tensor:
        """Of all rows."""
        n = len(self.blocks) * self.blocks.size
        mean = self.blocks.total.sum(0) / n
        return self.blocks.outer.sum(0) / n - torch.outer(mean, mean)

    @cached_property
    def _leading(self) -> Tensor:
        """V: leading components of all rows, (q, h)."""
        q = min(ANGLE_FEATURES, len(self._covariance))
        return torch.linalg.eigh(self._covariance[:q, :q])[1][:, -self.n_components :]

    def _angles(self, share: Tensor, mean: Tensor) -> Tensor:
        q = len(self._leading)
        mean = mean[..., :q]
        second = (share @ self.blocks.outer[:, :q, :q].reshape(-1, q * q)).unflatten(-1, (q, q))
        C = second - mean[..., :, None] * mean[..., None, :]
        powered = C / C.diagonal(dim1=-2, dim2=-1).sum(-1).clamp(min=1e-300)[..., None, None]
        for _ in range(SQUARINGS):
            powered = powered @ powered
        U = torch.linalg.qr(powered @ self._leading)[0]
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
        angles = bool((1 - centre[2]) / unit[2] >= largest)  # or not even right angles would be as large
        while larger < ENOUGH and drawn < most:
            n = min(BATCH, most - drawn)
            more = (self.statistics(self._draws(n, generator), angles) - centre) / unit
            larger, drawn = larger + int((more.amax(1) >= largest).sum()), drawn + n
        p_value = (larger + 1) / (drawn + 1)
        named = dict(zip(STATISTICS, scores[0].tolist()))
        if not self.with_coverage:
            del named["coverage"]
        return p_value, named, first[0]

    def _draws(self, n: int, generator: np.random.Generator) -> Tensor:
        """Random windows, (n, B)."""
        B = len(self.blocks)
        places = np.argsort(generator.random((n, B)), axis=1)[:, : self.n_window]
        chosen = torch.zeros(n, B, dtype=torch.float64)
        return chosen.scatter_(1, torch.from_numpy(places), 1.0)
