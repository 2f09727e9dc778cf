"""How much every landmark moves a representation: as published, and by leaving it out.

    iota_l(x) = k(x, x_l) |a_l|                                                       [krepes, section 5.1]
    delta_l(x) = |f(x) - f_-l(x)| = |a_l| |(k_x^T B)_l| / B_ll,    B = (K_mm + eps I)^-1

iota is the length of the landmark's own term. Where landmarks are near-duplicates, large terms cancel, and iota says
that both matter. f_-l is the model without landmark l, that is the nearest function to f (in the kernel's own norm)
that the other landmarks can express: a duplicate takes over, and delta is small. Use iota to ask which examples a
representation is made of, delta to ask which ones it needs. delta costs O(m^3) once and O(n m^2).

If a landmark has p views, iota is the sum over its views, and delta leaves all of them out.
Differs from [krepes]: rows of A, not columns; x_l, not c_j; |iota| ranks, because k may be negative.

How many of the strongest landmarks it takes to see every class.

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
from torch import Tensor

from krepes.base.validation import check_finite, generator_of
from krepes.explain.expansion import (
    Expansion,
    Explained,
    TopLandmarks,
    Values,
    all_values,
    coefficient_tensor,
    in_range,
    landmark_rows,
    largest_values,
    over_views,
    row_norms,
)
from krepes.preprocessing.labels import label_vector, present_labels

N_ORDERS = 1000


def influence(model: Explained, X: Any) -> np.ndarray:
    """iota of every landmark on every row, (n, m). `top_influence` does not hold that many numbers.

    Examples
    --------
    One landmark at 0 with |a| = 2 and a Gaussian kernel of lengthscale 1, so iota(x) = 2 exp(-x^2 / 2):

    >>> from krepes import KernelEmbedding
    >>> X = np.array([[0.0], [1.0]])
    >>> model = KernelEmbedding(1, loss="kernel_pca", landmarks=[[0.0]], random_state=0, dtype="float64")
    >>> scaled = influence(model.fit(X), X) / np.linalg.norm(model.coefficients_)
    >>> bool(np.allclose(scaled[:, 0], [1, model.kernel_(torch.tensor(X[1:]), torch.tensor(X[:1])).item()]))
    True
    """
    return all_values(model, X, influences(model))


def top_influence(model: Explained, X: Any, n_top: int = 5) -> TopLandmarks:
    """The most influential landmarks of every row."""
    return largest_values(model, X, influences(model), n_top)


def leave_out(model: Explained, X: Any) -> np.ndarray:
    """delta: how far every row moves when a landmark is left out, (n, m)."""
    return all_values(model, X, changes(Expansion.of(model)))


def top_leave_out(model: Explained, X: Any, n_top: int = 5) -> TopLandmarks:
    """The landmarks that every row's representation depends on most."""
    return largest_values(model, X, changes(Expansion.of(model)), n_top)


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


def influences(model: Explained) -> Values:
    """k_x -> iota."""
    norms = in_range(row_norms(coefficient_tensor(model, torch.float64)), model, "Coefficients")
    return lambda K: over_views(K * norms.to(K), model.views_per_landmark_)


def changes(expansion: Expansion) -> Values:
    """k_x -> delta, with p = 1 or the p x p blocks of B for landmarks with p views."""
    B, views = expansion.landmarks.inverse, expansion.landmarks.centres
    within = B[views[:, :, None], views[:, None, :]]  # (m, p, p)
    moves = torch.linalg.solve(within, expansion.A[views])  # (m, p, h): what one unit of (k_x B) moves
    gram = moves @ moves.mT  # (m, p, p)

    def lengths(K: Tensor) -> Tensor:
        parts = (K.double() @ B)[:, views]  # (b, m, p)
        squares = torch.einsum("bmp,mpq,bmq->bm", parts, gram, parts)
        return squares.clamp_(min=0).sqrt().to(K.dtype)

    return lengths


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
