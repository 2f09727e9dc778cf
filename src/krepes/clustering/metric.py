"""The loop of Algorithm 1: express, project, normalise, and keep the iteration whose affinity has the largest gap.

Each iterate is a view of the same rows: x -> normalised(x M), M the product of the projections so far. It has a kernel
(its data-dependent parameters are computed again from the projected data), the leave-one-out regressions, their
affinity and its leading eigenvalues. [zou] takes the last iterate; more iterations can hurt, so the default is the one
with the largest relative eigengap, which needs no labels.

For more than a few thousand rows the regressions are in Nyström features, the metric is learned on a random subset of
the rows, and all of them are expressed once, in the metric found.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
from torch import Tensor

from krepes.base.components import resolve
from krepes.base.storage.codec import Bounds, Count
from krepes.base.validation import check_choice, check_count, check_number
from krepes.clustering.affinity import (
    Affinity,
    CoefficientRows,
    affinity,
    estimate_n_clusters,
    leading_eigenpairs,
    relative_gap,
)
from krepes.clustering.codings import Coding, NewCoefficients, Ridge
from krepes.clustering.normalization import NORMALIZATIONS, NormalizedRows
from krepes.clustering.projections import Projection, as_projection
from krepes.clustering.self_expression import DualExpression, PrimalExpression, SelfExpression
from krepes.features import FeatureSpace
from krepes.kernels import Gaussian, Kernel, Linear, as_kernel
from krepes.landmarks import PivotedCholesky

if TYPE_CHECKING:
    from krepes.clustering.estimator import SubspaceClustering

MOST_CLUSTERS = 50  # looked for when their number is not given
DEFAULT_WIDTH = f"{1.5 * 2**0.5} median"  # 1.5 median distances, which a Gaussian divides by sqrt(2)
LARGEST_DUAL = 4096  # rows; with more, no n x n array is made, and the metric is learned on this many rows
RIDGE = 1.0  # relative to the mean of k(x, x)
TRUNCATION = 7
LANDMARKS = 500  # where the number of rows asks for them and nobody gave a number

logger = logging.getLogger("krepes")


@dataclass(frozen=True)
class Settings:
    """The values of an estimator's parameters for given data."""

    kernel: Kernel
    coding: Coding
    projection: Projection | None
    normalization: str
    regularization: Annotated[float, Bounds(above=0)]
    truncation: Count | None
    n_clusters: Count | None
    n_landmarks: Count | None  # None: the n x n form
    n_iterations: Count


def settings_for(estimator: SubspaceClustering, n_given: int, n: int, d: int) -> Settings:
    """Settings for n rows that are not zero, of n_given, with d features."""
    check_parameters(estimator, n_given)
    default = is_auto(estimator.kernel)
    kernel = (
        Gaussian(DEFAULT_WIDTH)
        if default
        else as_kernel(Linear() if precomputed(estimator) else estimator.kernel)
    )
    affine = estimator.normalization == "affine"  # whose column of ones no metric may mix with the others
    projection = None if affine else as_projection(estimator.projection)
    if projection is not None and estimator.n_iterations > 0 and not default:
        nothing = np.zeros((1, d))
        kernel.fitted(nothing).slope(nothing, nothing)  # says what is wrong with it
    automatic = "global" if kernel.geometry == "dot_product" else "unit"
    kept = TRUNCATION if is_auto(estimator.truncation) else estimator.truncation
    truncation = None if kept is None else min(int(kept), n - 1)
    if truncation is None and n > LARGEST_DUAL:
        raise ValueError(
            f"truncation=None makes an affinity of {n:,} x {n:,} numbers: give a number, such as truncation=7."
        )
    return Settings(
        kernel=kernel,
        coding=Ridge() if is_auto(estimator.coding) else resolve(Coding, estimator.coding),
        projection=projection,
        normalization=automatic if estimator.normalization == "auto" else estimator.normalization,
        regularization=RIDGE if is_auto(estimator.regularization) else float(estimator.regularization),
        truncation=truncation,
        n_clusters=None if estimator.n_clusters is None else min(int(estimator.n_clusters), n),
        n_landmarks=number_of_landmarks(estimator.n_landmarks, n, d, kernel),
        n_iterations=int(estimator.n_iterations),
    )


def is_auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"


def precomputed(estimator: SubspaceClustering) -> bool:
    return isinstance(estimator.kernel, str) and estimator.kernel == "precomputed"


def tries_family(estimator: SubspaceClustering) -> bool:
    """Whether nothing was given that belongs to one method."""
    of_one = (estimator.coding, estimator.regularization, estimator.truncation, estimator.normalization)
    asked = isinstance(estimator.projection, str | None) and estimator.projection in ("precision", None)
    free = (is_auto(estimator.kernel) or precomputed(estimator)) and estimator.n_landmarks in ("auto", None)
    return free and asked and all(is_auto(value) for value in (*of_one, estimator.selection))


def number_of_landmarks(value: int | str | None, n: int, d: int, kernel: Kernel) -> int | None:
    """m, or None for the n x n form."""
    if value == "auto":
        features = kernel.feature_count(min(n, d))
        if features is not None and features < n:
            return features
        return LANDMARKS if n > LARGEST_DUAL else None
    if value is None:
        return None
    check_count("n_landmarks", value)
    return min(int(value), n)


def check_parameters(estimator: SubspaceClustering, n: int) -> None:
    check_count("n_iterations", estimator.n_iterations, 0)
    check_count("n_init", estimator.n_init)
    for name in ("n_clusters", "truncation"):
        value = getattr(estimator, name)
        if value is not None and not (name == "truncation" and is_auto(value)):
            check_count(name, getattr(estimator, name))
    if estimator.n_clusters is not None and estimator.n_clusters > n:
        raise ValueError(f"n_clusters={estimator.n_clusters}: there are only {n} rows.")
    if not is_auto(estimator.regularization):
        check_number("regularization", estimator.regularization, above=0)
    check_choice("selection", estimator.selection, ("auto", "eigengap", "last"))
    check_choice("normalization", estimator.normalization, ("auto", *NORMALIZATIONS))


class Iterate:
    """The data in one metric, and what follows from it."""

    def __init__(
        self,
        rows: Tensor,
        M: Tensor | None,
        index: int,
        settings: Settings,
        seed: int,
        given: NormalizedRows | None = None,
    ):
        self.M, self.index, self.settings, self.seed = M, index, settings, seed
        self.rows = given or NormalizedRows(rows if M is None else rows @ M, settings.normalization)
        self.X, self.scale = self.rows.X, self.rows.scale
        self.width = rows.shape[1]
        generator = torch.Generator().manual_seed(seed)
        self.kernel = settings.kernel.fitted(self.X, generator)

    @cached_property
    def expression(self) -> SelfExpression:
        settings, kernel = self.settings, self.kernel
        mean = kernel.diag(self.X).mean().item()
        lam = settings.regularization * (mean if mean > 0 else 1.0)  # free of the kernel's scale
        if settings.n_landmarks is None:
            return DualExpression(kernel, self.X, lam, self.rows.kernel_matrix)
        generator = torch.Generator().manual_seed(self.seed)
        chosen = PivotedCholesky().select(self.X, kernel, settings.n_landmarks, generator)
        space = FeatureSpace.on(kernel, self.X[chosen], rows=chosen.numpy(), seed=self.seed)
        return PrimalExpression(space, self.X, lam)

    @cached_property
    def coefficients(self) -> CoefficientRows:
        return self.settings.coding.rows(self.expression)

    @property
    def new_rows(self) -> NewCoefficients:
        """Coefficients of projected and normalised rows that are new."""
        return self.settings.coding.new_rows(self.expression)

    @cached_property
    def affinity(self) -> Affinity:
        return affinity(self.coefficients, len(self.X), self.settings.truncation)

    @cached_property
    def spectrum(self) -> np.ndarray:
        """Leading eigenvalues of the affinity, one more than there are clusters."""
        wanted = self.settings.n_clusters or MOST_CLUSTERS
        return leading_eigenpairs(self.affinity, wanted + 1, np.random.default_rng(self.seed))[0]

    @property
    def n_clusters(self) -> int:
        return self.settings.n_clusters or estimate_n_clusters(self.spectrum)

    @property
    def gap(self) -> float:
        return relative_gap(self.spectrum, self.n_clusters)

    def slim(self) -> None:
        """Drop what new rows do not need."""
        for name in ("coefficients", "affinity", "spectrum"):
            vars(self).pop(name, None)
        vars(self.rows).pop("square_distances", None)

    def projected(self, projection: Projection) -> Tensor:
        """M of the next iterate."""
        P = projection.root(self.expression.local_covariance(projection.space))
        M = P if self.M is None else self.M @ P
        return M / M.abs().max().clamp(min=1e-300)  # the scale is normalised away; this keeps it in range


def iterates(rows: Tensor, settings: Settings, seed: int) -> Iterator[Iterate]:
    """The data as given, then after one projection, two, ...; ends early where a projection leaves nothing."""
    M: Tensor | None = None
    for index in range(settings.n_iterations + 1):
        current = Iterate(rows, M, index, settings, seed)
        if index and _collapsed(current.X):
            logger.info("After projection %d most rows coincide; iteration ends.", index)
            return
        yield current
        if settings.projection is None:
            return
        if index < settings.n_iterations:
            M = current.projected(settings.projection)


def _collapsed(X: Tensor) -> bool:
    """Whether rows are not finite, or more than half of all pairs coincide up to rounding."""
    if not torch.isfinite(X).all():
        return True
    some = X[:: max(1, len(X) // 200)]
    D = torch.cdist(some, some, p=float("inf"))
    return bool(D.median() <= 1e-9 * D.max()) or not bool(D.max() > 1e-9 * X.abs().max())
