"""Second moments of the features of paired views: five of the losses need nothing else of the data.

    S_11 = mean phi(x) phi(x)^T,  S_22 = mean phi(x+) phi(x+)^T,  S_12 = mean phi(x) phi(x+)^T,  mu_1, mu_2

Kept as float64 sums over samples, so that moments of parts add up to the moments of the whole (`+`), parts
can be taken away again (`-`), and machines can share the work. Memory O(r^2), whatever n is.

Views of one sample are exchangeable when augmentations make them (any of the V views may come first): then
S_11 = S_22 = S, and S_12 = S_+ is the mean over all ordered pairs, without a loop over pairs,

    S_+ = mean [ (sum_v phi_v)(sum_v phi_v)^T - sum_v phi_v phi_v^T ] / (V (V - 1)).

Pairs given by the user (anchor, positive) keep their order. `OuterSum` adds up phi phi^T over blocks of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh, symmetric
from krepes.base.storage.codec import Bounds, SameAs, Shape


@dataclass(frozen=True)
class Moments:
    """Sums over n samples of the features' first and second moments, float64.

    Attributes
    ----------
    n : float
        Number of samples; with weights, their sum.
    sum_1, sum_2 : Tensor of shape (r,)
        Sum of the features of the first and of the second view.
    sum_11, sum_22 : Tensor of shape (r, r)
        Sum of phi phi^T in the first and in the second view.
    sum_12 : Tensor of shape (r, r), or None where every sample has one view (kernel PCA)
    sum_1n : Tensor of shape (r, r), or None
        Anchors times explicit negatives.
    trace : float
        Sum of k(x, x), averaged over the views.

    Examples
    --------
    >>> Phi = torch.tensor([[1.0], [3.0]])
    >>> part = Moments.of_rows(Phi)
    >>> float(part.mean_1), float(part.S), float((part + part - part).S)      # mean 2, mean square 5
    (2.0, 5.0, 5.0)
    """

    n: Annotated[float, Bounds(least=0)]
    sum_1: Annotated[Tensor, Shape("r")]
    sum_2: Annotated[Tensor, Shape("r"), SameAs("sum_1")]
    sum_11: Annotated[Tensor, Shape("r", "r")]
    sum_22: Annotated[Tensor, Shape("r", "r"), SameAs("sum_11")]
    sum_12: Annotated[Tensor | None, Shape("r", "r")] = None
    sum_1n: Annotated[Tensor | None, Shape("r", "r")] = None
    trace: float = 0.0

    @classmethod
    def of_rows(cls, Phi: Tensor, trace: float | None = None) -> Moments:
        """Moments of rows that have one view each: Phi of shape (n, r)."""
        Phi = Phi.double()
        total, outer = Phi.sum(0), Phi.mT @ Phi
        trace = outer.trace().item() if trace is None else trace
        return cls(len(Phi), total, total, outer, outer, trace=trace)

    @classmethod
    def of_pairs(cls, Phi1: Tensor, Phi2: Tensor, negatives: Tensor | None = None) -> Moments:
        """Moments of ordered pairs: Phi1, Phi2 and negatives of shape (n, r)."""
        Phi1, Phi2 = Phi1.double(), Phi2.double()
        sum_11, sum_22 = Phi1.mT @ Phi1, Phi2.mT @ Phi2
        return cls(
            len(Phi1),
            Phi1.sum(0),
            Phi2.sum(0),
            sum_11,
            sum_22,
            Phi1.mT @ Phi2,
            None if negatives is None else Phi1.mT @ negatives.double(),
            (sum_11.trace().item() + sum_22.trace().item()) / 2,
        )

    @classmethod
    def of_views(cls, *Phis: Tensor) -> Moments:
        """Moments of V >= 2 exchangeable views per sample, each of shape (n, r)."""
        V, views = len(Phis), [Phi.double() for Phi in Phis]
        total = sum(views[1:], start=views[0])
        outer = sum((Phi.mT @ Phi for Phi in views[1:]), start=views[0].mT @ views[0]) / V
        cross = (total.mT @ total - V * outer) / (V * (V - 1))
        mean = total.sum(0) / V
        return cls(len(views[0]), mean, mean, outer, outer, cross, trace=outer.trace().item())

    @property
    def rank(self) -> int:
        return len(self.sum_1)

    @property
    def paired(self) -> bool:
        """Whether there are two views per sample."""
        return self.sum_12 is not None

    @property
    def exchangeable(self) -> bool:
        """Whether the two views share their moments (S_11 and S_22 are one tensor)."""
        return self.sum_22 is self.sum_11

    @property
    def mean_1(self) -> Tensor:
        return self.sum_1 / self.n

    @property
    def mean_2(self) -> Tensor:
        return self.sum_2 / self.n

    @property
    def mean(self) -> Tensor:
        """The mean feature over both views, (r,)."""
        return (self.sum_1 + self.sum_2) / (2 * self.n)

    @property
    def S_11(self) -> Tensor:
        return self.sum_11 / self.n

    @property
    def S_22(self) -> Tensor:
        return self.sum_22 / self.n

    @property
    def S_12(self) -> Tensor:
        if self.sum_12 is None:
            raise ValueError(
                "These moments hold one view per sample, but the loss compares two views of a sample: "
                "fit with views= or positives=."
            )
        return self.sum_12 / self.n

    @property
    def S(self) -> Tensor:
        """(S_11 + S_22) / 2."""
        return self.S_11 if self.exchangeable else (self.sum_11 + self.sum_22) / (2 * self.n)

    @property
    def S_plus(self) -> Tensor:
        """The symmetric part of S_12."""
        return symmetric(self.S_12)

    @property
    def S_minus(self) -> Tensor:
        """The symmetric part of E phi(x) phi(x-)^T; independent negatives where none were given."""
        if self.sum_1n is not None:
            return symmetric(self.sum_1n / self.n)
        return symmetric(torch.outer(self.mean_1, self.mean_2))

    @property
    def covariance(self) -> Tensor:
        """S - mu mu^T over both views pooled, (r, r)."""
        return self.S - torch.outer(self.mean, self.mean)

    @property
    def mean_norm_sq(self) -> float:
        """Mean of k(x, x) = |phi(x)|^2, the part outside the landmarks' span included."""
        return self.trace / self.n

    @property
    def variance(self) -> float:
        """mean k(x, x) - |mu|^2: the centred variance in the kernel's space, spanned by the landmarks or not."""
        return max(self.mean_norm_sq - self.mean.square().sum().item(), 0.0)

    def with_feature_noise(self, amount: float) -> Moments:
        """The moments of views whose features have noise of variance amount * `variance` in every direction.

        Noise that is independent between the views adds a multiple of the identity to S_11 and S_22 and nothing
        to S_12: an augmentation that is exact for every kernel.
        """
        if amount == 0:
            return self
        noise = (
            self.n
            * amount
            * self.variance
            * torch.eye(self.rank, dtype=self.sum_11.dtype, device=self.sum_11.device)
        )
        sum_11 = self.sum_11 + noise
        sum_22 = sum_11 if self.exchangeable else self.sum_22 + noise
        return replace(self, sum_11=sum_11, sum_22=sum_22)

    def principal(self, n_components: int) -> Tensor:
        """The top eigenvectors of the covariance, (r, h): principal components of all the data."""
        return descending_eigh(self.covariance, n_components)[1]

    def __add__(self, other: Moments) -> Moments:
        return self._combined(other, 1.0)

    def __sub__(self, other: Moments) -> Moments:
        return self._combined(other, -1.0)

    def __mul__(self, factor: float) -> Moments:
        """The moments of samples that count `factor` times each."""
        if not 0 < factor < float("inf"):
            raise ValueError(f"Moments times {factor!r}: expected a finite number > 0.")
        scaled = {f.name: getattr(self, f.name) for f in fields(self)}
        scaled = {name: value if value is None else value * factor for name, value in scaled.items()}
        if self.exchangeable:
            scaled |= {"sum_2": scaled["sum_1"], "sum_22": scaled["sum_11"]}
        return Moments(**scaled)

    __rmul__ = __mul__

    def _combined(self, other: Moments, sign: float) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        result: dict[str, Any] = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if (mine is None) != (theirs is None):
                raise ValueError(f"Cannot combine moments: only one of them has {field.name}.")
            if isinstance(mine, Tensor) and mine.shape != theirs.shape:
                raise ValueError(f"Cannot combine moments of {self.rank} and {other.rank} features.")
            result[field.name] = mine if mine is None else mine + sign * theirs
        if self.exchangeable and other.exchangeable:
            result |= {"sum_2": result["sum_1"], "sum_22": result["sum_11"]}
        combined = Moments(**result)
        if combined.n <= 0:
            raise ValueError(f"Subtracting {other.n:g} samples from {self.n:g} leaves none.")
        return combined


STRIPS = 4  # of the lower triangle
FLUSH_ROWS = 8192  # that are summed in the precision of the blocks

OUTER_BYTES = 12  # of a sum, for every entry of the matrix: float64, and a buffer of float32


@dataclass(frozen=True, eq=False)
class OuterSum:
    """A sum of X^T X over blocks of rows, in their precision for a while and in float64 for good.

        total + sum over the last rows of X^T X,   only the lower triangle, in a few strips

    which saves 3/8 of a general product. BLAS `syrk` would save half, but it runs in another thread pool than torch,
    and two pools that wait for one another on the same cores cost the whole pass twice its time. Memory: 8 r^2 + 4 r^2
    bytes, and as much again while a sum is replaced by the next. It is a value, which `plus` does not change.

    Attributes
    ----------
    total : Tensor of shape (r, r), float64
        The sum over the rows that were flushed; entries above the diagonal mean nothing.
    strips : tuple of Tensors
        The lower triangle of the rows since then, in their own dtype.
    buffered : int
        How many these are.

    Examples
    --------
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> OuterSum.zero(2).plus(X[:1]).plus(X[1:]).result().tolist()
    [[10.0, 14.0], [14.0, 20.0]]
    """

    total: Annotated[Tensor, Shape("r", "r")]
    strips: tuple[Tensor, ...] = ()
    buffered: int = 0

    @classmethod
    def zero(cls, width: int, device: torch.device | str = "cpu") -> OuterSum:
        return cls(torch.zeros(width, width, dtype=torch.float64, device=device))

    def plus(self, *parts: Tensor) -> OuterSum:
        """The sum with more rows, each part of shape (b, r)."""
        sum_ = self
        if self.strips and (self.buffered >= FLUSH_ROWS or self.strips[0].dtype != parts[0].dtype):
            sum_ = self.flushed()
        first, *others = parts
        strips = []
        for i, rows in enumerate(_strips(first.shape[1])):
            left, right = first[:, rows].mT, first[:, : rows.stop]
            strip = torch.addmm(sum_.strips[i], left, right) if sum_.strips else left @ right
            for X in others:
                strip.addmm_(X[:, rows].mT, X[:, : rows.stop])
            strips.append(strip)
        return OuterSum(sum_.total, tuple(strips), sum_.buffered + sum(map(len, parts)))

    def flushed(self) -> OuterSum:
        """The same sum, all of it in float64."""
        if not self.strips:
            return self
        total = self.total.clone()
        for rows, strip in zip(_strips(len(total)), self.strips):
            total[rows, : rows.stop] += strip
        return OuterSum(total)

    def __add__(self, other: OuterSum) -> OuterSum:
        mine, theirs = self.flushed(), other.flushed()
        return replace(mine, total=mine.total + theirs.total)

    def result(self) -> Tensor:
        """The symmetric float64 sum, (r, r)."""
        lower = self.flushed().total.tril()
        return lower + lower.tril(-1).mT


def _strips(width: int) -> list[slice]:
    step = max(64, -(-width // STRIPS))
    return [slice(start, min(start + step, width)) for start in range(0, width, step)]
