"""Projections: how the averaged local covariance Sigma = U diag(D) U^T changes the data.

    x <- P^(1/2) x,   P = U diag(g(D)) U^T / max g                                         [zou, Alg. 1, lines 5-10]

    precision    g = D / (D + s)^2     band-pass: about 1/D above s, about D/s^2 below, largest at D = s
    inverse      g = 1 / (D + s)       the precision matrix of the text [zou, Sec. 4.2]; amplifies small directions
    covariance   g = D                 of the data-space covariance [zou, Sec. 4.3]

Differs from [zou]: Algorithm 1 calls its band-pass an inverse, and has one lambda for the ridge (in units of k) and
for s (in units of k^2 / x^2). Here s is a separate parameter, by default relative to the largest eigenvalue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from krepes.base.components import Component, resolve
from krepes.base.linalg import descending_eigh
from krepes.base.validation import check_number


class Projection(Component, ABC):
    """A spectral filter of the local covariance; subclasses give its gains."""

    space: ClassVar[str] = "latent"

    @abstractmethod
    def gains(self, D: Tensor) -> Tensor:
        """g(D) >= 0 for eigenvalues D >= 0 in descending order, shape (d,)."""

    def root(self, Sigma: Tensor) -> Tensor:
        """P^(1/2), symmetric, of spectral norm 1; the identity where Sigma is zero."""
        if not torch.isfinite(Sigma).all():
            raise ValueError(
                "The local covariance has NaN or infinite entries: the kernel's slope overflows here."
            )
        D, U = descending_eigh(Sigma)
        if not D.numel() or not D[0] > 0:
            return torch.eye(len(Sigma), dtype=Sigma.dtype, device=Sigma.device)
        gains = self.gains(D.clamp(min=0))
        if gains.shape != D.shape or not torch.isfinite(gains).all() or not (gains >= 0).all():
            raise ValueError(f"{self}: a filter must give one finite number >= 0 for every eigenvalue.")
        if not gains.max() > 0:
            raise ValueError(
                f"{self}: the filter is zero at every eigenvalue; nothing of the data would be left."
            )
        return (U * (gains / gains.max()).sqrt()) @ U.mT


class Precision(Projection):
    """The band-pass D / (D + s)^2 of Algorithm 1.

    Parameters
    ----------
    filter : float, default=0.1
        s, as a share of the largest eigenvalue.
    relative : bool, default=True
        False takes `filter` itself for s, as Algorithm 1 does with its lambda.

    Examples
    --------
    With s = 1 the gains of D = 4 and D = 1 are 4/25 and 1/4; P^(1/2) has the roots of their ratio to the largest.

    >>> Precision(filter=0.25).root(torch.diag(torch.tensor([4.0, 1.0]))).diagonal().tolist()
    [0.8, 1.0]
    """

    name = "precision"

    def __init__(self, filter: float = 0.1, relative: bool = True):
        self.filter = filter
        self.relative = relative

    def gains(self, D: Tensor) -> Tensor:
        return D / (D + self._shift(D)) ** 2

    def _shift(self, D: Tensor) -> float:
        check_number("filter", self.filter, above=0)
        return float(self.filter) * (D[0].item() if self.relative else 1.0)


class Inverse(Precision):
    """The regularised precision matrix 1 / (D + s) of the text.

    Examples
    --------
    >>> Inverse(filter=0.25).gains(torch.tensor([4.0, 1.0])).tolist()
    [0.20000000298023224, 0.5]
    """

    name = "inverse"

    def gains(self, D: Tensor) -> Tensor:
        return 1 / (D + self._shift(D))


class Covariance(Projection):
    """The covariance of the reconstruction in data space: keep what varies along the subspaces.

    Examples
    --------
    >>> Covariance().root(torch.diag(torch.tensor([4.0, 1.0]))).diagonal().tolist()
    [1.0, 0.5]
    """

    name = "covariance"
    space = "data"

    def gains(self, D: Tensor) -> Tensor:
        return D


class Filter(Projection):
    """A user's filter: any function of the eigenvalues, which are given as shares of the largest.

    Examples
    --------
    >>> Filter(lambda share: (share > 0.5).double()).gains(torch.tensor([4.0, 1.0])).tolist()
    [1.0, 0.0]
    """

    def __init__(self, function: Callable[[Tensor], Tensor] | None = None):
        self.function = function

    def gains(self, D: Tensor) -> Tensor:
        if self.function is None:
            raise ValueError("Filter needs a function of the eigenvalues.")
        return torch.as_tensor(self.function(D / D[0]), dtype=D.dtype, device=D.device)


def as_projection(value: str | Projection | Callable[[Tensor], Tensor] | None) -> Projection | None:
    """A projection from one, a name, a function of the eigenvalues, or None for none."""
    if value is None:
        return None
    if callable(value) and not isinstance(value, Projection | type):
        return Filter(value)
    return resolve(Projection, value)
