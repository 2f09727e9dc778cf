"""Second moments of the features of paired views: all that five of the losses need to know of the data.

    S_aa = mean phi(x) phi(x)^T,  S_bb = mean phi(x+) phi(x+)^T,  S_ab = mean phi(x) phi(x+)^T,  mu_a, mu_b

Kept as float64 sums over samples, so that moments of parts add up to the moments of the whole (`+`), parts
can be taken away again (`-`), and machines can share the work. Memory O(r^2), whatever n is.

Views of one sample are exchangeable when augmentations make them (any of the V views may come first): then
S_aa = S_bb = S, and S_ab = S_+ is the mean over all ordered pairs, without a loop over pairs,

    S_+ = mean [ (sum_v phi_v)(sum_v phi_v)^T - sum_v phi_v phi_v^T ] / (V (V - 1)).

Pairs given by the user (anchor, positive) keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh, symmetric
from krepes.base.model_file import State
from krepes.base.schema import check_entries

# What a file says of moments.
STATE = dict.fromkeys(("scalars", "sum_a", "sum_b", "gram_aa", "gram_bb", "gram_ab", "gram_an"), Tensor)


@dataclass(frozen=True)
class Moments:
    """Sums over n samples of the features' first and second moments, float64.

    Attributes
    ----------
    n : float
        Number of samples; with weights, their sum.
    sum_a, sum_b : Tensor of shape (r,)
        Sum of the features of the first and of the second view.
    gram_aa, gram_bb : Tensor of shape (r, r)
    gram_ab : Tensor of shape (r, r), or None where every sample has one view (kernel PCA)
    gram_an : Tensor of shape (r, r), or None
        Anchors times explicit negatives.
    trace : float
        Sum of k(x, x), averaged over the views.

    Examples
    --------
    >>> Phi = torch.tensor([[1.0], [3.0]])
    >>> part = Moments.of_rows(Phi)
    >>> float(part.mean_a), float(part.S), float((part + part - part).S)      # mean 2, mean square 5
    (2.0, 5.0, 5.0)
    """

    n: float
    sum_a: Tensor
    sum_b: Tensor
    gram_aa: Tensor
    gram_bb: Tensor
    gram_ab: Tensor | None = None
    gram_an: Tensor | None = None
    trace: float = 0.0

    @classmethod
    def of_rows(cls, Phi: Tensor, trace: float | None = None) -> Moments:
        """Moments of rows that have one view each: Phi of shape (n, r)."""
        Phi = Phi.double()
        total, gram = Phi.sum(0), Phi.mT @ Phi
        trace = gram.trace().item() if trace is None else trace
        return cls(len(Phi), total, total, gram, gram, trace=trace)

    @classmethod
    def of_pairs(cls, Phi1: Tensor, Phi2: Tensor, negatives: Tensor | None = None) -> Moments:
        """Moments of ordered pairs: Phi1, Phi2 and negatives of shape (n, r)."""
        Phi1, Phi2 = Phi1.double(), Phi2.double()
        gram_aa, gram_bb = Phi1.mT @ Phi1, Phi2.mT @ Phi2
        return cls(
            len(Phi1),
            Phi1.sum(0),
            Phi2.sum(0),
            gram_aa,
            gram_bb,
            Phi1.mT @ Phi2,
            None if negatives is None else Phi1.mT @ negatives.double(),
            (gram_aa.trace().item() + gram_bb.trace().item()) / 2,
        )

    @classmethod
    def of_views(cls, *Phis: Tensor) -> Moments:
        """Moments of V >= 2 exchangeable views per sample, each of shape (n, r)."""
        V, views = len(Phis), [Phi.double() for Phi in Phis]
        total = sum(views[1:], start=views[0])
        gram = sum((Phi.mT @ Phi for Phi in views[1:]), start=views[0].mT @ views[0]) / V
        cross = (total.mT @ total - V * gram) / (V * (V - 1))
        mean = total.sum(0) / V
        return cls(len(views[0]), mean, mean, gram, gram, cross, trace=gram.trace().item())

    @property
    def rank(self) -> int:
        return len(self.sum_a)

    @property
    def paired(self) -> bool:
        """Whether there are two views per sample."""
        return self.gram_ab is not None

    @property
    def exchangeable(self) -> bool:
        """Whether the two views share their moments (S_aa and S_bb are one tensor)."""
        return self.gram_bb is self.gram_aa

    @property
    def mean_a(self) -> Tensor:
        return self.sum_a / self.n

    @property
    def mean_b(self) -> Tensor:
        return self.sum_b / self.n

    @property
    def mean(self) -> Tensor:
        """The mean feature over both views, (r,)."""
        return (self.sum_a + self.sum_b) / (2 * self.n)

    @property
    def S_aa(self) -> Tensor:
        return self.gram_aa / self.n

    @property
    def S_bb(self) -> Tensor:
        return self.gram_bb / self.n

    @property
    def S_ab(self) -> Tensor:
        if self.gram_ab is None:
            raise ValueError(
                "These moments hold one view per sample, but the loss compares two views of a sample: "
                "fit with views= or positives=."
            )
        return self.gram_ab / self.n

    @property
    def S(self) -> Tensor:
        """(S_aa + S_bb) / 2."""
        return self.S_aa if self.exchangeable else (self.gram_aa + self.gram_bb) / (2 * self.n)

    @property
    def S_plus(self) -> Tensor:
        """The symmetric part of S_ab."""
        return symmetric(self.S_ab)

    @property
    def S_minus(self) -> Tensor:
        """The symmetric part of E phi(x) phi(x-)^T; independent negatives where none were given."""
        if self.gram_an is not None:
            return symmetric(self.gram_an / self.n)
        return symmetric(torch.outer(self.mean_a, self.mean_b))

    @property
    def covariance(self) -> Tensor:
        """S - mu mu^T over both views pooled, (r, r)."""
        return self.S - torch.outer(self.mean, self.mean)

    @property
    def mean_norm(self) -> float:
        """Mean of k(x, x)."""
        return self.trace / self.n

    def with_feature_noise(self, amount: float) -> Moments:
        """The moments of views whose features have noise of variance amount * tr(S) / r in every direction.

        Noise that is independent between the views adds a multiple of the identity to S_aa and S_bb and nothing
        to S_ab: an augmentation that is exact for every kernel.
        """
        if amount == 0:
            return self
        variance = amount * self.S.trace() / self.rank
        noise = self.n * variance * torch.eye(self.rank, dtype=self.gram_aa.dtype, device=self.gram_aa.device)
        gram_aa = self.gram_aa + noise
        gram_bb = gram_aa if self.exchangeable else self.gram_bb + noise
        return replace(self, gram_aa=gram_aa, gram_bb=gram_bb)

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
            scaled |= {"sum_b": scaled["sum_a"], "gram_bb": scaled["gram_aa"]}
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
            result |= {"sum_b": result["sum_a"], "gram_bb": result["gram_aa"]}
        combined = Moments(**result)
        if combined.n <= 0:
            raise ValueError(f"Subtracting {other.n:g} samples from {self.n:g} leaves none.")
        return combined

    def state(self) -> State:
        """Tensors for a file, scalars included."""
        scalars = torch.tensor([self.n, self.trace], dtype=torch.float64)
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if self._is_tensor(f.name)}
        if self.exchangeable:
            del tensors["gram_bb"], tensors["sum_b"]
        return {"scalars": scalars, **tensors}

    @classmethod
    def from_state(cls, state: State) -> Moments:
        check_entries("The moments", state, STATE, optional=set(STATE) - {"scalars", "sum_a", "gram_aa"})
        r = len(state["sum_a"])
        for name, value in state.items():
            expected = {"scalars": (2,)}.get(name, (r,) if name.startswith("sum") else (r, r))
            if name not in STATE or tuple(value.shape) != expected or value.dtype != torch.float64:
                raise ValueError(f"The moments are damaged: {name} has the shape {tuple(value.shape)}.")
        if not state["scalars"][0] > 0:
            raise ValueError("The moments are damaged: they are of no samples.")
        n, trace = state["scalars"].tolist()
        tensors = {name: value for name, value in state.items() if name != "scalars"}
        tensors.setdefault("gram_bb", tensors["gram_aa"])
        tensors.setdefault("sum_b", tensors["sum_a"])
        return cls(n=n, trace=trace, **tensors)

    def _is_tensor(self, name: str) -> bool:
        return isinstance(getattr(self, name), Tensor)
