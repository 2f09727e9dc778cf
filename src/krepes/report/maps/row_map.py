"""The report's maps: where rows and landmarks are drawn, in two dimensions.

A neighbour-preserving map, the two leading principal components of Z, of the rows shown, and with labels discriminants.
The page's script, `template/map.js`, draws what is computed here. Every map says how far its neighbourhoods can be
trusted [venna]:

    T = 1 - 2 / (n k (2 n - 3 k - 1)) sum_i sum over j near i on the map, not in Z, of (rank of j in Z from i - k)

1 is a map whose neighbours are all neighbours in Z; places at random have 0.5. Cost O(n^2 log n), of at most TRUSTED
rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from sklearn.manifold import trustworthiness

from krepes.embedding import KernelEmbedding
from krepes.explain.concept_scores import landmark_representation
from krepes.report.maps.neighbour_map import NAMES, neighbour_places
from krepes.report.shown_rows import ShownColumn

TRUSTED = 2000  # rows for trustworthiness
NEAREST = 10  # its k


@dataclass(frozen=True)
class Places:
    """Rows and landmarks on a map, and what the map is.

    Attributes
    ----------
    name, about : str
    rows : ndarray of shape (n, 2)
    landmarks : ndarray of shape (m, 2)
    trust : float or None
        Trustworthiness; None for too few rows.
    """

    name: str
    about: str
    rows: np.ndarray
    landmarks: np.ndarray
    trust: float | None


def maps(
    model: KernelEmbedding,
    Z: np.ndarray,
    labels: ShownColumn | None,
    method: str = "tsne",
    random_state: int = 0,
) -> list[Places]:
    """A neighbour-preserving map, principal components, and discriminants of labels."""
    centre = Z.mean(0, dtype=np.float64)
    centred, landmarks = Z - centre, landmark_representation(model) - centre
    basis, shares = _principal(centred)
    about = (
        f"Principal components 1 (across, {100 * shares[0]:.0f} % of the variance) and 2 (up, {100 * shares[1]:.0f} %) "
        "of the representation."
    )
    drawn = [("principal components", about, centred @ basis, landmarks @ basis)]
    axes = None if labels is None else _discriminants(centred, labels.values)
    if labels is not None and axes is not None:
        about = (
            f"Linear discriminants 1 (across) and 2 (up) of {labels.name}: chosen with the labels, so that classes "
            "look further apart than they are."
        )
        drawn.append((f"discriminants of {labels.name}", about, centred @ axes, landmarks @ axes))
    near = None if method == "none" else neighbour_places(centred, landmarks, method, random_state)
    if near is not None:
        rows, of_landmarks, n_laid = near
        drawn.insert(0, (f"neighbours ({NAMES[method]})", _about(method, n_laid, len(Z)), rows, of_landmarks))
    measured = _some(len(Z), random_state)
    return [Places(*each, _trust(centred[measured], each[2][measured])) for each in drawn]


def _about(method: str, n_laid: int, n: int) -> str:
    name = NAMES[method]
    text = (
        f"{name} of the representation: rows that are near each other in it are near here. Large distances and sizes "
        "of groups mean little."
    )
    if n_laid < n:
        text += (
            f" {n_laid:,} rows are laid out; the others lie among their nearest rows in the representation."
        )
    return text


def _some(n: int, random_state: int) -> np.ndarray:
    """The rows on which maps are measured."""
    if n <= TRUSTED:
        return np.arange(n)
    return np.sort(np.random.default_rng(random_state).choice(n, TRUSTED, replace=False))


def _trust(Z: np.ndarray, places: np.ndarray) -> float | None:
    k = min(NEAREST, (len(Z) - 1) // 3)
    if k < 1 or not np.ptp(Z, axis=0).any():
        return None
    return float(trustworthiness(Z / np.abs(Z).max(), places, n_neighbors=k))


def _principal(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(h, 2) leading directions, each with its largest loading positive, and their shares of the variance."""
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    basis, shares = np.zeros((centred.shape[1], 2)), np.zeros(2)
    leading = vectors[:, ::-1][:, :2]
    basis[:, : leading.shape[1]] = leading * _signs(leading)
    total = values.clip(min=0).sum()
    if total > 0:
        shares[: leading.shape[1]] = values[::-1][:2].clip(min=0) / total
    return basis, shares


def _discriminants(centred: np.ndarray, codes: np.ndarray) -> np.ndarray | None:
    """(h, 2) directions along which classes differ most, relative to the spread within them.

    Two classes have one such direction; across it goes the leading principal component of the rest.
    """
    classes, counts = np.unique(codes[codes >= 0], return_counts=True)
    if len(classes) < 2 or counts.sum() <= 2 * len(classes) or centred.shape[1] < 2:
        return None
    X = centred[codes >= 0]
    places = np.searchsorted(classes, codes[codes >= 0])
    means = np.stack([X[places == c].mean(0) for c in range(len(classes))])
    within = np.cov((X - means[places]).T, bias=True)
    within += 1e-3 * np.trace(within) / len(within) * np.eye(len(within))
    between = np.cov(means.T, fweights=counts, bias=True)
    if not np.trace(within) > 0:
        return None
    axes = eigh(between, within)[1][:, ::-1][:, :2]
    if len(classes) == 2:
        first = axes[:, :1] / np.linalg.norm(axes[:, 0])
        rest = centred - centred @ first @ first.T
        axes = np.hstack([first, _principal(rest)[0][:, :1]])
    return axes * _signs(axes)


def _signs(vectors: np.ndarray) -> np.ndarray:
    signs = np.sign(vectors[np.abs(vectors).argmax(0), np.arange(vectors.shape[1])])
    return np.where(signs == 0, 1.0, signs)
