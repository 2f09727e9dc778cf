"""How much every landmark weighs in a model, and how many of the strongest it takes to see every class.

    kappa = min { k : the k landmarks with the largest omega_l = |a_l| have all classes among them }  [krepes, sec. 5]

The paper leaves some cases open. Here landmarks of equal norm enter together, so kappa does not depend on their
order; a landmark with p views is one landmark, with the norm of all its rows of A; a class without any landmark leaves
kappa undefined and is named. kappa of landmarks in random order is reported too, because a small kappa means little
if a random order has one as small; and kappa depends on the kernel's scale, so compare models of one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from krepes.base.validation import check_finite, generator_of
from krepes.explain.expansion import Explained, coefficient_tensor, landmark_rows, row_norms
from krepes.preprocessing.labels import label_vector, present_labels

N_ORDERS = 1000


def landmark_norms(model: Explained) -> np.ndarray:
    """omega_l = |a_l| of every landmark, over all its views, (m,)."""
    norms = row_norms(coefficient_tensor(model, torch.float64)).cpu().numpy()
    return np.hypot.reduce(norms.reshape(model.views_per_landmark_, -1), axis=0)


def coefficient_spectrum(model: Explained) -> np.ndarray:
    """Eigenvalues of A^T A, largest first, (h,) [krepes, Figure 1]; `effective_rank` says how many matter."""
    A = coefficient_tensor(model, torch.float64)
    values = np.zeros(A.shape[1])
    found = torch.linalg.svdvals(A).cpu().numpy()
    with np.errstate(over="ignore"):
        values[: len(found)] = found**2
    check_finite(values, "The spectrum of the coefficients")
    return values


@dataclass(frozen=True)
class ClassCoverage:
    """kappa and what it is made of.

    Attributes
    ----------
    kappa : int or None
        None if a class has no landmark.
    ranks : dict
        For every class, the place of its first landmark, counted from 1.
    missing : list
        Classes without a landmark.
    by_chance : float or None
        The mean of kappa over random orders of the same landmarks.
    p_value : float or None
        The share of random orders whose kappa is at most as large.
    """

    kappa: int | None
    ranks: dict[Any, int]
    missing: list[Any]
    by_chance: float | None
    p_value: float | None


def class_coverage(
    model: Explained, labels: Any, *, of_landmarks: bool = False, random_state: int = 0
) -> ClassCoverage:
    """kappa of a fitted model.

    Parameters
    ----------
    model : KernelEmbedding, KernelRidgeClassifier or KernelRidgeRegressor
    labels : array of shape (n,)
        The labels of all training rows, in order; with `of_landmarks`, of the m landmarks. A landmark
        whose label is missing (None or NaN) belongs to no class.
    of_landmarks : bool, default=False
    random_state : int
        Seed of the random orders.
    """
    labels = label_vector(labels, "labels")
    classes = np.unique(present_labels(labels, "labels")[0])
    omega = landmark_norms(model)
    found = labels if of_landmarks else _of_rows(model, labels)
    if len(found) != len(omega):
        raise ValueError(f"There are {len(omega)} landmarks and {len(found)} labels of landmarks.")
    return _coverage(omega, found, classes, generator_of(random_state))


def _of_rows(model: Explained, labels: np.ndarray) -> np.ndarray:
    rows = landmark_rows(model)
    if rows is None:
        raise ValueError(
            "The landmarks were given as points, not rows: give the labels of landmarks, with of_landmarks=True."
        )
    if rows.max() >= len(labels):
        raise ValueError(
            f"Got {len(labels)} labels, but row {rows.max()} is a landmark: give the labels of all training rows."
        )
    return labels[rows]


def _coverage(
    omega: np.ndarray, labels: np.ndarray, classes: np.ndarray, generator: np.random.Generator
) -> ClassCoverage:
    """
    >>> omega, labels = np.array([3.0, 2.0, 2.0, 1.0]), np.array(list("aabb"))
    >>> found = _coverage(omega, labels, np.array(["a", "b"]), np.random.default_rng(0))
    >>> found.kappa, found.ranks  # the second and third are tied, and enter together
    (3, {'a': 1, 'b': 3})
    """
    order = np.argsort(-omega, kind="stable")
    sizes = omega[order]
    place = np.searchsorted(-sizes, -sizes, side="right")  # the last place among equals, from 1
    names, sorted_labels = classes.tolist(), labels[order]
    ranks = {c: int(place[sorted_labels == c].min()) for c in names if (labels == c).any()}
    missing = [c for c in names if c not in ranks]
    if missing:
        return ClassCoverage(None, ranks, missing, None, None)
    kappa = max(ranks.values())
    orders = (generator.permutation(labels) for _ in range(N_ORDERS))
    random = np.array([1 + max(int(np.argmax(drawn == c)) for c in names) for drawn in orders])
    p_value = (1 + int((random <= kappa).sum())) / (N_ORDERS + 1)
    return ClassCoverage(kappa, ranks, missing, float(random.mean()), p_value)
