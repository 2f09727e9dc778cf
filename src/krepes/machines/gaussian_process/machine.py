"""Gaussian processes as models of rows with targets: what regressor and classifier share.

The posterior on Nyström features, with the part that the landmarks do not span:

    mean(x)     = W^T phi(x) + b = A^T k_x + b
    k_p(x, x')  = a (k(x, x') - phi(x)^T phi(x')) + phi(x)^T R R^T phi(x')

The first part of the covariance is the prior's, for what no landmark knows of: far from all rows the variance is the
prior's, a k(x, x). The second is that of the weights, R R^T = (Phi^T D Phi + I / a)^-1, with D = 1 / s^2 in regression
and the curvature of the likelihood in classification. With all rows as landmarks this is the exact posterior
k_p = a k - a k_x^T (a K + s^2 I)^-1 a k_x [lecture]; in weight space and in function space it is the same.
Variances cost O(m r) for each row, and are never negative: both parts are sums of squares, or cut off at zero.

The probability of a class under a normal distribution of f:

    E sigmoid(f),  f = m + s z,      = sum over nodes z of  N(z; 0, 1) sigmoid(m + s z) h                  small s
                                     = sum over nodes u of  sigmoid'(u) Phi((m + u) / s) h                 large s

The two are equal: sigmoid is the distribution function of a logistic variable u. With evenly spaced nodes both sums
converge exponentially, because their terms are analytic; the error is below 1e-12 everywhere. Differs from
scikit-learn's classifier, which replaces the sigmoid by five error functions: that is off by up to 2e-4, and may leave
the interval from 0 to 1.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
import torch
from scipy.special import expit, ndtr
from torch import Tensor

from krepes.base.accumulator import Value
from krepes.base.linalg import descending_eigh
from krepes.base.rows import Rows
from krepes.base.storage.codec import Bounds, Shape, State
from krepes.base.validation import is_number
from krepes.features.space import FeatureSpace
from krepes.machines.cells.cell_model import CellModel
from krepes.machines.gaussian_process.sample_evidence import SampleEvidence
from krepes.machines.labelled_machine import LabelledMachine

T = TypeVar("T", bound=Value)
WIDE = 1.5  # deviation from which the logistic nodes are better
NORMAL = np.arange(-9.0, 9.01, 0.2)
LOGISTIC = np.arange(-40.0, 40.01, 0.25)
BLOCK = 4096  # rows at once


@dataclass(frozen=True, eq=False)
class Posterior:
    """A solved Gaussian process, in units of the encoded targets.

    Attributes
    ----------
    A : Tensor of shape (m, c)
    b : Tensor of shape (c,)
    roots : Tensor of shape (k, r, r)
        R; one that all outputs share, or one for each.
    amplitude : float
    noise : float or None
        The variance of the noise; None for classes.
    evidence : float
        The log marginal likelihood, or its bound.
    iterations : int or None
        Of Newton's method; None for quantities.
    deviations : Tensor of shape (n, c) or None
        |z| of few rows under processes that were chosen without them, once they are known.
    cells : CellModel or None
        A process in every cell, instead of A, b and R.
    """

    A: Annotated[Tensor, Shape("m", "c")]
    b: Annotated[Tensor, Shape("c")]
    roots: Annotated[Tensor, Shape("k", "r", "r")]
    amplitude: Annotated[float, Bounds(above=0)]
    noise: Annotated[float | None, Bounds(above=0)]
    evidence: float
    iterations: int | None = None
    deviations: Annotated[Tensor | None, Shape("n", "c"), Bounds(least=0)] = None
    cells: CellModel | None = None

    def moments(self, space: FeatureSpace, X: Rows) -> Tensor:
        """Means and variances of f at every row, (n, c + k)."""
        K = space.features.kernel_block(X).to(space.dtype)
        Phi = K @ _factors(space, K)
        mean = (K @ self.A.to(K) + self.b.to(K)).double()
        unspanned = (space.kernel.diag(X).double() - Phi.double().square().sum(1)).clamp_(min=0)
        of_weights = [(Phi @ R.to(Phi)).double().square().sum(1) for R in self.roots]
        variances = [self.amplitude * unspanned + part for part in of_weights]
        return torch.cat([mean, torch.stack(variances, dim=1)], dim=1)

    def covariances(self, space: FeatureSpace, X: Rows) -> Tensor:
        """Covariances of f between all rows, (k, n, n)."""
        K = space.features.kernel_block(X).to(space.dtype)
        Phi = (K @ _factors(space, K)).double()
        unspanned = self.amplitude * (space.kernel(X).double() - Phi @ Phi.mT)
        parts = []
        for R in self.roots:
            half = Phi @ R.to(Phi)
            C = unspanned + half @ half.mT
            C.diagonal().clamp_(min=0)
            parts.append((C + C.mT) / 2)
        return torch.stack(parts)

    def check_restored(self) -> None:
        if len(self.roots) not in (1, len(self.b)):
            raise ValueError(f"The file is damaged: {len(self.roots)} covariances for {len(self.b)} outputs.")


def _factors(space: FeatureSpace, like: Tensor) -> Tensor:
    """F in memory as it comes out of a file, so that a saved model gives the same bits."""
    return space.features.F.to(like).contiguous()


def samples(mean: np.ndarray, covariance: Tensor, n_samples: int, draws: np.random.RandomState) -> np.ndarray:
    """Draws from a normal distribution, (n, n_samples); directions of no variance stay at the mean."""
    values, vectors = descending_eigh(covariance)
    root = (vectors * values.clamp(min=0).sqrt()).cpu().numpy()
    return mean[:, None] + root @ draws.standard_normal((len(mean), n_samples))


def probability(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E sigmoid(f) for f ~ N(mean, variance), of the shape of the means.

    >>> probability(np.array([0.0, 2.0, 2.0]), np.array([4.0, 0.0, 1e8])).round(4).tolist()
    [0.5, 0.8808, 0.5001]
    """
    m, s = mean.ravel(), np.sqrt(variance).ravel()
    found = np.empty(len(m))
    for start in range(0, len(m), BLOCK):
        part = slice(start, start + BLOCK)
        found[part] = np.where(s[part] < WIDE, _narrow(m[part], s[part]), _wide(m[part], s[part]))
    return found.clip(0, 1).reshape(mean.shape)


def _narrow(m: np.ndarray, s: np.ndarray) -> np.ndarray:
    density = np.exp(-(NORMAL**2) / 2)
    return expit(m[:, None] + np.minimum(s, WIDE)[:, None] * NORMAL) @ (density / density.sum())


def _wide(m: np.ndarray, s: np.ndarray) -> np.ndarray:
    density = expit(LOGISTIC) * expit(-LOGISTIC)
    return ndtr((m[:, None] + LOGISTIC) / np.maximum(s, WIDE)[:, None]) @ (density / density.sum())


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianProcess(LabelledMachine[T, Posterior]):
    """The base of `GaussianProcessRegressor` and `GaussianProcessClassifier`.

    Parameters
    ----------
    kernel : "auto", str, Kernel, callable or list of them, default="auto"
        The covariance of the function, up to its amplitude. "auto" compares a Gaussian, two Matérn kernels and a
        Laplacian by their evidence on a sample of the rows, as a list of your own is compared.
    lengthscale : "auto", float, "median" or a multiple of it such as "4 median", default="auto"
        The distance over which the function changes. "auto" maximises the evidence of a sample.
    input_metric : None or "diagonal", default="diagonal"
        Whether each column may have a lengthscale of its own, where the evidence is higher by more than the number of
        lengthscales explains. Of lengthscale="auto" only.
    amplitude : float or "auto", default="auto"
        The variance of the function before any data, over k(x, x), in units of the variance of y. Of a
        classifier it has no unit, and is chosen on the sample, too.

    Attributes
    ----------
    amplitude_ : float
    metric_ : str or None
        What columns are to the kernel: "as given", "standardised", or "diagonal" with lengthscales of their own.
    """

    solution_type = Posterior

    amplitude: float | str = "auto"

    # What a subclass writes

    @abstractmethod
    def _evidence_of(self, Y: Tensor, weight: Tensor | None) -> SampleEvidence:
        """The evidence of rows with these targets, (n, c), encoded as numbers."""

    @property
    def _n_processes(self) -> int:
        """Columns of A."""
        return self.targets_.n_outputs

    # Fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_variance("amplitude", self.amplitude)
        if self.input_metric not in (None, "diagonal"):
            raise ValueError(f"input_metric={self.input_metric!r}: expected None or 'diagonal'.")

    # Using

    @property
    def amplitude_(self) -> float:
        """The variance of the prior is this times k(x, x), in units of the encoded targets."""
        return self._solved().amplitude

    @property
    def log_marginal_likelihood_(self) -> float:
        return self._solved().evidence

    def _moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means (n, c) and variances (n, k) of f, in units of the encoded targets."""
        found, space = self._solved(), self.space_
        both = self._mapped(lambda rows: found.moments(space, rows), X)
        c = len(found.b)
        return both[:, :c], both[:, c:]

    def _rows(self, X: Any) -> Rows:
        """All rows in the model's input space, in memory."""
        self.check_input(X)
        reader = self.space_.reader(X)
        return reader.take(np.arange(reader.n_rows)).inputs[0]

    # Files

    def _state(self, total: bool = True) -> State:
        # The factors stay, because the covariance of the weights is in their basis.
        return super()._state(total) | self.space_.state(factors=True)

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | {"c": self._n_processes}


def check_variance(name: str, value: object) -> None:
    """Refuse what is neither a positive number nor "auto"."""
    if value != "auto" and not is_number(value, above=0):
        raise ValueError(f"{name}={value!r:.60}: expected a number > 0 or 'auto'.")


def given(value: float | str) -> float | None:
    """The number, or None for "auto"."""
    return None if value == "auto" else float(value)
