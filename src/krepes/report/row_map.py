"""The report's maps: where rows and landmarks are drawn, in two dimensions.

The two leading principal components of Z, of the rows shown; with labels, discriminants too. The page's script,
`template/map.js`, draws what is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from krepes.embedding import KernelEmbedding
from krepes.explain.concept_profile import landmark_representation


@dataclass(frozen=True)
class Places:
    """Rows and landmarks on a map, and what the map is."""

    name: str
    about: str
    rows: np.ndarray  # shape: (n, 2)
    landmarks: np.ndarray  # shape: (m, 2)


def maps(model: KernelEmbedding, Z: np.ndarray, codes: np.ndarray | None, label: str) -> list[Places]:
    """Principal components, and with labels (codes, -1 is none) the discriminants of their classes."""
    centre = Z.mean(0, dtype=np.float64)
    centred, landmarks = Z - centre, landmark_representation(model) - centre
    basis, shares = _principal(centred)
    about = (
        f"Principal components 1 (across, {100 * shares[0]:.0f} % of the variance) and 2 (up, {100 * shares[1]:.0f} %) "
        "of the representation."
    )
    found = [Places("principal components", about, centred @ basis, landmarks @ basis)]
    axes = None if codes is None else _discriminants(centred, codes)
    if axes is not None:
        about = (
            f"Linear discriminants 1 (across) and 2 (up) of {label}: chosen with the labels, so that classes look "
            "further apart than they are."
        )
        found.append(Places(f"discriminants of {label}", about, centred @ axes, landmarks @ axes))
    return found


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
