"""How much of a concept there is in the landmarks that a sample's representation is made of.

    Score(l -> t, c) = (z_l . v_c) iota_l(t)      Psi_N(t, c) = sum of Score over the N largest iota    [krepes, Eq. 3]
    exact            = k(t, x_l) (a_l . v_c)      sum over all landmarks = (z_t - gamma) . v_c

The published score multiplies two lengths. Its sum is not a part of z_t, so its sign and size may differ from those
of the concept in the sample. The exact contributions do add up to that. Both are returned.

z_l . v_c depends on where zero is: here z_l is taken from the mean of the concept's negatives, so that a positive
alignment is more of the concept than they have. In the paper's Eq. 3, k(x_test, c_j) is k(x_test, x_l).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from krepes.embedding import KernelEmbedding
from krepes.explain.attribution import contributions
from krepes.explain.concept import Concept
from krepes.explain.expansion import Expansion
from krepes.explain.influence import influences
from krepes.explain.top_landmarks import TopLandmarks, top_landmarks_with


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


def landmark_representation(model: KernelEmbedding) -> np.ndarray:
    """Z_m: the representation of the landmarks, (m, h); the mean over the views of a landmark."""
    return Expansion.of(model).at_landmarks.cpu().numpy()
