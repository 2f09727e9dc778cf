"""Exact signed contributions: what every landmark adds to a representation along a direction.

    z . v = gamma . v + sum_l k(x, x_l) (a_l . v)                                      by terms, to round-off
          = gamma . v + sum_l u_l(x) (z_l - gamma) . v                                 by values, u = K_mm^+ k_x

Nothing is approximated: the model is this sum. Terms of similar landmarks cancel; values mostly do so far less, see
`krepes.explain.expansion`. v is a component, the weights of a class in a linear probe, a concept,
or any vector; between two samples the differences of contributions add up to (z - z') . v.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from krepes.base.validation import check_choice
from krepes.explain.concept import Concept
from krepes.explain.directions import as_direction
from krepes.explain.expansion import Expansion
from krepes.explain.top_landmarks import (
    Explained,
    TopLandmarks,
    Values,
    all_values,
    coefficient_tensor,
    in_range,
    largest_values,
    over_views,
)

FORMS = ("terms", "values")


def attribution(model: Explained, X: Any, direction: ArrayLike | Concept, form: str = "terms") -> np.ndarray:
    """Contributions (n, m) whose row sums, plus `intercept_ @ direction`, are `transform(X) @ direction`.

    Of a kernel ridge machine, they add up to its scores along a direction; see `class_direction` for the classes of
    a classifier and `target_direction` for the unit of a regression.

    Parameters
    ----------
    model : KernelEmbedding, KernelRidgeClassifier or KernelRidgeRegressor
    X : rows, in any form that the model takes
    direction : array of shape (h,), int (a component, or an output) or fitted Concept
    form : "terms" or "values", default="terms"
        What a landmark adds: its own term k(x, x_l) a_l, or its own representation times its weight in the row's. Both
        add up to the same; values mostly cancel far less.

    Examples
    --------
    >>> from krepes import KernelEmbedding
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> model = KernelEmbedding(2, n_landmarks=10, random_state=0, dtype="float64").fit(X)
    >>> parts = attribution(model, X[:4], direction=1)
    >>> bool(np.allclose(parts.sum(1) + model.intercept_[1], model.transform(X[:4])[:, 1]))
    True
    """
    return all_values(model, X, contributions(model, direction, form))


def top_attribution(model: Explained, X: Any, direction: ArrayLike | Concept, n_top: int = 5) -> TopLandmarks:
    """The landmarks with the largest contributions, of either sign, for every row."""
    return largest_values(model, X, contributions(model, direction), n_top)


def contrast(model: Explained, X: Any, Y: Any, direction: ArrayLike | Concept) -> np.ndarray:
    """Why rows of X lie further along a direction than rows of Y: (n, m), row sums (z_x - z_y) . v.

    Rows are paired; one row of Y serves all of X.
    """
    parts, others = attribution(model, X, direction), attribution(model, Y, direction)
    if len(others) not in (1, len(parts)):
        raise ValueError(
            f"X has {len(parts)} rows and Y {len(others)}; expected equally many rows, or one row of Y."
        )
    return parts - others


def contributions(model: Explained, direction: ArrayLike | Concept, form: str = "terms") -> Values:
    """k_x -> the contributions of the landmarks."""
    check_choice("form", form, FORMS)
    if form == "values":
        expansion, v = Expansion.of(model), as_direction(model, direction)
        return lambda K: expansion.values_along(K.double(), v.to(K.device), expansion.gamma)
    A = coefficient_tensor(model, torch.float64)
    along = A @ as_direction(model, direction).to(A)
    kept = in_range(along, model, "Coefficients along the direction")
    return lambda K: over_views(K * kept.to(K), model.views_per_landmark_)
