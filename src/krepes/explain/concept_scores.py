"""How much of a concept there is in the landmarks that a sample's representation is made of.

    Score(l -> t, c) = (z_l . v_c) iota_l(t)      Psi_N(t, c) = sum of Score over the N largest iota    [krepes, Eq. 3]
    exact            = k(t, x_l) (a_l . v_c)      sum over all landmarks = (z_t - gamma) . v_c

The published score multiplies two lengths. Its sum is not a part of z_t, so its sign and size may differ from those
of the concept in the sample. The exact contributions do add up to that. Both are returned.

z_l . v_c depends on where zero is: here z_l is taken from the mean of the concept's negatives, so that a positive
alignment is more of the concept than they have. In the paper's Eq. 3, k(x_test, c_j) is k(x_test, x_l).

The TCAV score: for how large a share of a class a little more of a concept makes the class more likely.

    sensitivity(z) = log odds of the class at z + step v - those at z - step v,      v of unit length
    score = share of rows of the class with sensitivity > 0                                       [kim, Eq. 2]

A random direction has a score, too: 0 or 1 for a linear classifier of two classes, whose sensitivity has one sign
everywhere. So the score is compared with scores of the concept's rows with permuted labels; its p-value is the share
of these that are as far from one half on either side [kim, section 3.3 compares with random concepts by a t-test].
Differs from [kim]: the head is any classifier on the representation, and the derivative a difference over a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from krepes.base.validation import as_matrix, check_number
from krepes.embedding import KernelEmbedding
from krepes.evaluation.linear import LinearClassifier
from krepes.evaluation.probe_result import Label
from krepes.explain.attribution import class_place, classes_of, contributions
from krepes.explain.concept import Concept
from krepes.explain.expansion import (
    Expansion,
    TopLandmarks,
    Values,
    coefficient_tensor,
    in_range,
    over_views,
    row_norms,
    top_landmarks_with,
)

LEAST_PROBABILITY = 1e-12


@dataclass(frozen=True)
class ConceptProfile:
    """A concept in the most influential landmarks of n samples.

    Attributes
    ----------
    top : TopLandmarks
        The N most influential landmarks of every sample; `top.values` is iota.
    alignment : ndarray of shape (m,)
        (z_l - origin) . v_c of every landmark.
    scores : ndarray of shape (n, N)
        Score(l -> t, c), as published.
    psi : ndarray of shape (n,)
        Psi_N.
    exact : ndarray of shape (n, N)
        Exact contributions of the same landmarks to z . v_c.
    exact_total : ndarray of shape (n,)
        The sum over all landmarks: (z - gamma) . v_c.
    sample : ndarray of shape (n,)
        (z - origin) . v_c: how much of the concept the sample itself has.
    """

    top: TopLandmarks
    alignment: np.ndarray
    scores: np.ndarray
    psi: np.ndarray
    exact: np.ndarray
    exact_total: np.ndarray
    sample: np.ndarray


def concept_profile(model: KernelEmbedding, X: Any, concept: Concept, n_top: int = 5) -> ConceptProfile:
    """Score and Psi as published, together with the exact contributions, which add up.

    Parameters
    ----------
    model : KernelEmbedding
    X : rows, in any form that the model takes
    concept : Concept, fitted on this model
    n_top : int, default=5
        N.
    """
    check_is_fitted(concept, "direction_")
    top, exact = top_landmarks_with(model, X, influences(model), contributions(model, concept), n_top)
    alignment = concept.scores(landmark_representation(model))
    scores = alignment[top.landmarks] * top.values
    Z = model.transform(X).astype(np.float64)
    total = (Z - model.intercept_) @ concept.direction_
    return ConceptProfile(top, alignment, scores, scores.sum(1), exact, total, concept.scores(Z))


def influences(model: KernelEmbedding) -> Values:
    """k_x -> iota_l(x) = k(x, x_l) |a_l|, the length of a landmark's term [krepes, section 5.1]."""
    norms = in_range(row_norms(coefficient_tensor(model, torch.float64)), model, "Coefficients")
    return lambda K: over_views(K * norms.to(K), model.views_per_landmark_)


def landmark_representation(model: KernelEmbedding) -> np.ndarray:
    """Z_m: the representation of the landmarks, (m, h); the mean over the views of a landmark."""
    return Expansion.of(model).at_landmarks.cpu().numpy()


@dataclass(frozen=True)
class TcavScore:
    """How many rows of a class a concept speaks for.

    Attributes
    ----------
    score : float
        The share with positive sensitivity, between 0 and 1.
    error : float
        Its standard error over the rows.
    by_chance : ndarray of shape (permutations,)
        Scores of the concept's rows with permuted labels.
    p_value : float or None
        The share of these that are at least as far from 1/2; None without permutations.
    sensitivities : ndarray of shape (n,)
    """

    score: float
    error: float
    by_chance: np.ndarray
    p_value: float | None
    sensitivities: np.ndarray


def tcav(
    concept: Concept,
    Z: ArrayLike,
    classifier: LinearClassifier | ClassifierMixin,
    label: Label,
    step: float = 0.1,
) -> TcavScore:
    """The share of rows of a class that become more likely to be of it with more of a concept.

    Parameters
    ----------
    concept : Concept, fitted
    Z : array of shape (n, h)
        Representations of rows of the class.
    classifier : a fitted classifier on representations, with `classes` or `classes_` and `predict_proba`
        `linear_probe(...).model`, or any of scikit-learn's.
    label : the class
    step : float, default=0.1
        Half the step along the concept, in standard deviations of Z along it.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.standard_normal((300, 3)); kind = (Z[:, 0] > 0).astype(int)
    >>> concept = Concept(random_state=0).fit_representation(Z[Z[:, 0] > 1], Z[Z[:, 0] < 0])
    >>> found = tcav(concept, Z[kind == 1], LogisticRegression().fit(Z, kind), 1)
    >>> found.score
    1.0
    """
    check_is_fitted(concept, "direction_")
    Z = as_matrix(Z, "Z").astype(np.float64)
    if len(Z) == 0 or Z.shape[1] != len(concept.direction_):
        raise ValueError(f"Z has the shape {Z.shape}; expected rows of {len(concept.direction_)} components.")
    check_number("step", step, above=0)
    classes = classes_of(classifier)
    if not classes or not hasattr(classifier, "predict_proba"):
        raise TypeError(
            f"A {type(classifier).__name__} is not a fitted classifier with probabilities: expected classes_ and "
            "predict_proba, as linear_probe(...).model has."
        )
    place = class_place(label, classes)
    values = _sensitivities(classifier, Z, concept.direction_, place, step)
    score = float((values > 0).mean())
    chance = np.array(
        [(_sensitivities(classifier, Z, v, place, step) > 0).mean() for v in concept.random_directions_]
    )
    as_far = np.abs(chance - 0.5) >= abs(score - 0.5) - 1e-12
    p_value = (1 + int(as_far.sum())) / (1 + len(chance)) if len(chance) else None
    return TcavScore(score, float(np.sqrt(score * (1 - score) / len(Z))), chance, p_value, values)


def _sensitivities(classifier: Any, Z: np.ndarray, v: np.ndarray, place: int, step: float) -> np.ndarray:
    size = step * ((Z @ v).std() or np.abs(Z).max() or 1.0)
    odds = []
    for end in (Z + size * v, Z - size * v):
        p = classifier.predict_proba(end)[:, place].clip(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        odds.append(np.log(p) - np.log1p(-p))
    return odds[0] - odds[1]
