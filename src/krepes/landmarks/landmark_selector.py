"""The selector contract: which m of N candidates become landmarks.

`selector.select(candidates, kernel, n_landmarks, generator)` returns distinct indices into the candidates,
in the order in which they were chosen. All randomness comes from the given generator, so the same seed
gives the same landmarks. Sources larger than memory hand over a uniform subsample of
`selector.n_candidates(n_landmarks)` rows; given more, the selector draws that subsample itself.

Proposals by blocks: while the weights w_i of a sequential rule can only fall as indices are chosen, a block
of proposals drawn from the weights at its start, each accepted with probability

    w_i now / w_i at the start of the block

is a draw from the sequential rule itself: given everything before, the next accepted index is i with
probability proportional to (w_i at the start) * (w_i now / w_i at the start) = w_i now. So N weights need an
update once per block, with one matrix product, and not once per index. This is the idea of accelerated
randomly pivoted Cholesky [epperly]; D^2 sampling has falling weights too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from krepes.base.components import Component
from krepes.base.rows import Rows, take_rows
from krepes.base.validation import check_count
from krepes.kernels import Kernel

LARGEST_BLOCK = 256  # proposals
# without max_candidates, an N x m float32 matrix of this size bounds N
FACTOR_BYTES = 2 * 2**30


class LandmarkSelector(Component, ABC):
    """A rule that chooses landmarks; subclasses implement `choose`.

    Parameters
    ----------
    max_candidates : int, default=None
        Selection works on a uniform subsample of at most this many candidates. None is a rule: ten per
        landmark and at least 20 000, but no more than an N x m float32 matrix of 2 GiB allows.
    views_per_landmark : int, default=1
        How many views of a landmark the model keeps, p in [krepes, Sec. 3]. Stored here for the model to
        read; it does not influence which landmarks are chosen.
    """

    fewest_candidates: ClassVar[int] = 20_000
    candidates_per_landmark: ClassVar[int] = 10

    def __init__(self, max_candidates: int | None = None, views_per_landmark: int = 1):
        self.max_candidates = max_candidates
        self.views_per_landmark = views_per_landmark

    def stand_in(self) -> LandmarkSelector:
        """A file keeps what the rule was called, and the landmarks themselves."""
        return ForeignRule(repr(self), self.max_candidates, self.views_per_landmark)

    @abstractmethod
    def choose(
        self,
        candidates: Any,  # tensor of shape (N, ...) or list of N objects
        kernel: Kernel,
        n_landmarks: int,  # 1 <= n_landmarks < N
        generator: torch.Generator,
    ) -> Tensor:  # (m,), int64, m <= n_landmarks
        """The rule itself, on all the candidates given."""

    @torch.no_grad()
    def select(self, candidates: Any, kernel: Kernel, n_landmarks: int, generator: torch.Generator) -> Tensor:
        """Indices of the landmarks among the candidates.

        Parameters
        ----------
        candidates : tensor or array of shape (N, ...), or list of N objects
        kernel : Kernel
            Its data-dependent parameters must be numbers already (`kernel.fitted`).
        n_landmarks : int
            If there are no more candidates than that, all of them become landmarks.
        generator : torch.Generator
            The only source of randomness.

        Returns
        -------
        indices : tensor of shape (m,), int64, on the CPU
            Distinct. A rule that finds that further landmarks add nothing returns fewer than `n_landmarks`.
        """
        allowed = self.n_candidates(n_landmarks)
        candidates = _as_candidates(candidates)
        n_given = len(candidates)
        if n_landmarks >= n_given:
            return torch.arange(n_given)
        if n_given <= allowed:
            return self._chosen(candidates, kernel, int(n_landmarks), generator)
        subsample = permutation(n_given, generator)[:allowed]
        if n_landmarks == allowed:
            return subsample
        return subsample[self._chosen(take(candidates, subsample), kernel, int(n_landmarks), generator)]

    def _chosen(
        self, candidates: Any, kernel: Kernel, n_landmarks: int, generator: torch.Generator
    ) -> Tensor:
        """What the rule chooses, as indices: rules of users may return lists and numpy arrays."""
        given = torch.as_tensor(self.choose(candidates, kernel, n_landmarks, generator)).cpu()
        indices, n = given.to(torch.int64), len(candidates)
        if given.ndim != 1 or not torch.equal(indices.to(given.dtype), given) or given.dtype == torch.bool:
            raise ValueError(
                f"{self} returned {given.dtype} of shape {tuple(given.shape)}; expected indices (m,)."
            )
        if (
            not len(indices)
            or indices.min() < 0
            or indices.max() >= n
            or len(indices.unique()) < len(indices)
        ):
            raise ValueError(
                f"{self} must return distinct indices from 0 to {n - 1}; got {indices[:8].tolist()}, ..."
            )
        return indices

    def values_to_choose(self, n_candidates: int, n_landmarks: int) -> int:
        """Kernel values that the rule computes, to estimate its time; between candidates and landmarks by default."""
        return n_candidates * n_landmarks

    def n_candidates(self, n_landmarks: int) -> int:
        """How many candidates, drawn uniformly, a source should offer.

        >>> from krepes.landmarks import Uniform
        >>> Uniform().n_candidates(100), Uniform().n_candidates(5000), Uniform(max_candidates=300).n_candidates(100)
        (20000, 50000, 300)
        """
        check_count("n_landmarks", n_landmarks)
        if self.max_candidates is None:
            wanted = max(self.fewest_candidates, self.candidates_per_landmark * int(n_landmarks))
            affordable = max(2 * int(n_landmarks), FACTOR_BYTES // (4 * int(n_landmarks)))
            return min(wanted, affordable)
        check_count("max_candidates", self.max_candidates)
        if self.max_candidates < n_landmarks:
            raise ValueError(
                f"max_candidates={self.max_candidates} is smaller than n_landmarks={n_landmarks}: raise it."
            )
        return int(self.max_candidates)


class ForeignRule(LandmarkSelector):
    """A landmark rule of a saved model that krepes does not define. The landmarks are in the file.

    Parameters
    ----------
    description : str
        Its class and parameters, in words.
    max_candidates, views_per_landmark
        As in `LandmarkSelector`.
    """

    def __init__(self, description: str = "", max_candidates: int | None = None, views_per_landmark: int = 1):
        super().__init__(max_candidates, views_per_landmark)
        self.description = description

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # scikit-learn's name
        return f"<the landmark rule {self.description}, not in the file>"

    def choose(self, candidates: Any, kernel: Kernel, n_landmarks: int, generator: torch.Generator) -> Tensor:
        raise ValueError(
            f"The landmarks of this model were chosen by {self.description}, a class that a model file cannot hold. "
            "Set a rule before fitting again: model.set_params(landmarks=...).fit(X)."
        )


def take(candidates: Any, indices: Tensor) -> Rows:
    """Some of the candidates, in the order of the indices."""
    return take_rows(candidates, indices.cpu().numpy())


def require_finite(values: Tensor, kernel: Kernel) -> Tensor:
    """The values, or an error that names the kernel."""
    # The sum is one cheap pass; it may overflow where the values do not.
    if not torch.isfinite(values.sum()) and not torch.isfinite(values).all():
        raise ValueError(
            f"The kernel {kernel} has NaN or infinite values between landmark candidates: check data and kernel."
        )
    return values


def _as_candidates(candidates: Any) -> Rows:
    if isinstance(candidates, np.ndarray) and candidates.dtype != object:
        candidates = torch.as_tensor(candidates)
    if len(candidates) == 0:
        raise ValueError("There are no landmark candidates: the data are empty. Give at least one row.")
    return candidates


def permutation(n: int, generator: torch.Generator) -> Tensor:
    """A random order of 0, ..., n-1, on the CPU."""
    return torch.randperm(n, generator=generator, device=generator.device).cpu()


def draw_uniforms(n: int, generator: torch.Generator) -> Tensor:
    """n numbers in [0, 1), float64, on the CPU."""
    return torch.rand(n, dtype=torch.float64, generator=generator, device=generator.device).cpu()


def draw(weights: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """n independent indices with probabilities proportional to non-negative weights, not all zero.

    >>> draw(torch.tensor([0.0, 3.0, 0.0]), 2, torch.Generator().manual_seed(0)).tolist()
    [1, 1]
    """
    cumulative = weights.detach().to("cpu", torch.float64).cumsum(0)
    u = draw_uniforms(n, generator)
    # An index is hit by u in [cumulative before it, cumulative at it): never one of weight zero, except
    # that u * total may round up to the total itself.
    indices = torch.searchsorted(cumulative, u * cumulative[-1], right=True)
    last_positive = torch.searchsorted(cumulative, cumulative[-1])
    return indices.clamp_(max=int(last_positive))


def draw_distinct(weights: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """n distinct indices, drawn one after the other with probabilities proportional to the weights left.

    When fewer than n weights are positive, the others are filled in uniformly.

    >>> sorted(draw_distinct(torch.tensor([0.0, 3.0, 1.0]), 2, torch.Generator().manual_seed(0)).tolist())
    [1, 2]
    """
    weights = weights.detach().to("cpu", torch.float64)
    shuffled = permutation(len(weights), generator)
    u = draw_uniforms(len(weights), generator)
    positive, rest = (weights > 0).nonzero()[:, 0], shuffled[~(weights[shuffled] > 0)]
    # A race: index i arrives after an exponential time of rate w_i, and the first arrival is i with
    # probability w_i / sum of w; so is the next among those left, because exponential times have no memory.
    arrival = -torch.log1p(-u[positive]) / weights[positive]
    return torch.cat([positive[torch.argsort(arrival)], rest])[:n]


def n_proposals(block_size: int | None, wanted: int, n_candidates: int) -> int:
    """Proposals in the next block: `block_size`, or as many as wanted while a block is cheap beside its update.

    Twice as many as were accepted before are wanted: about half of them pass when the weights fall at the same pace.
    """
    if block_size is None:
        return max(1, min(LARGEST_BLOCK, wanted, n_candidates // 8))
    check_count("block_size", block_size)
    return block_size
