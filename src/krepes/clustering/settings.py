"""The settings of a clustering for given data: parameters are checked, and "auto" becomes a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from krepes.base.components import resolve
from krepes.base.validation import check_choice, check_count, check_number
from krepes.clustering.codings import Coding
from krepes.clustering.projections import Projection, as_projection
from krepes.kernels import Gaussian, Kernel, as_kernel

if TYPE_CHECKING:
    from krepes.clustering.estimator import SubspaceClustering

LARGEST_DUAL = 4096  # rows; with more, no n x n array is made, and the metric is learned on this many rows
LANDMARKS = 500  # where the number of rows asks for them and nobody gave a number


@dataclass(frozen=True)
class Settings:
    """The values of an estimator's parameters for given data."""

    kernel: Kernel | None  # None: the default
    coding: Coding
    projection: Projection | None
    normalization: str
    regularization: float
    truncation: int | None
    n_clusters: int | None
    n_landmarks: int | None  # None: the n x n form
    n_iterations: int


def settings_for(estimator: SubspaceClustering, n_given: int, n: int, d: int) -> Settings:
    """Settings for n rows that are not zero, of n_given, with d features."""
    check_parameters(estimator, n_given)
    default = isinstance(estimator.kernel, str) and estimator.kernel == "auto"
    kernel = None if default else as_kernel(estimator.kernel)
    projection = as_projection(estimator.projection)
    if projection is not None and estimator.n_iterations > 0 and kernel is not None:
        nothing = np.zeros((1, d))
        kernel.fitted(nothing).slope(nothing, nothing)  # says what is wrong with it
    used = kernel or Gaussian()
    automatic = "global" if used.geometry == "dot_product" else "unit"
    truncation = None if estimator.truncation is None else min(int(estimator.truncation), n - 1)
    if truncation is None and n > LARGEST_DUAL:
        raise ValueError(
            f"truncation=None makes an affinity of {n:,} x {n:,} numbers; give a number of coefficients per row, "
            "such as truncation=7."
        )
    return Settings(
        kernel=kernel,
        coding=resolve(Coding, estimator.coding),
        projection=projection,
        normalization=automatic if estimator.normalization == "auto" else estimator.normalization,
        regularization=float(estimator.regularization),
        truncation=truncation,
        n_clusters=None if estimator.n_clusters is None else min(int(estimator.n_clusters), n),
        n_landmarks=number_of_landmarks(estimator.n_landmarks, n, d, used),
        n_iterations=int(estimator.n_iterations),
    )


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
        if getattr(estimator, name) is not None:
            check_count(name, getattr(estimator, name))
    if estimator.n_clusters is not None and estimator.n_clusters > n:
        raise ValueError(f"n_clusters={estimator.n_clusters}: there are only {n} rows.")
    check_number("regularization", estimator.regularization, above=0)
    check_choice("selection", estimator.selection, ("eigengap", "last"))
    check_choice("normalization", estimator.normalization, ("auto", "unit", "global", "none"))
