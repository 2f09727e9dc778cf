"""The report's maps: where rows and landmarks are drawn, in two dimensions.

A neighbour-preserving map, the two leading principal components of Z, of the rows shown, and with labels discriminants.
The page's script, `template/map.js`, draws what is computed here. Every map says how far its neighbourhoods can be
trusted [venna]:

    T = 1 - 2 / (n k (2 n - 3 k - 1)) sum_i sum over j near i on the map, not in Z, of (rank of j in Z from i - k)

1 is a map whose neighbours are all neighbours in Z; places at random have 0.5. Cost O(n^2 log n), of at most TRUSTED
rows.

The neighbour-preserving map is t-SNE of scikit-learn; UMAP or PaCMAP, if installed.
At most FITTED rows are laid out. All other points (rows, and landmarks that are not shown as rows) are placed among
their nearest laid-out rows in the representation:

    y(x) = sum_i w_i y_i / sum_i w_i,    w_i = 1 / |z(x) - z_i|^2,    i among the PLACED_BY nearest

A point that has the representation of a laid-out row lies on it. Cost: O(FITTED log FITTED) per step of t-SNE,
O((n + m) FITTED h) for the nearest rows. One thread, so that the same rows give the same map.

The rows nearest to each row are found by Euclidean distance in the representation. Distances are given as shares of the
usual one, between two rows at random:

    d(x, y) = |z(x) - z(y)|,    usual distance = sqrt(E |z(x) - z(y)|^2) = sqrt(2 tr cov Z)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from scipy.linalg import eigh
from sklearn.manifold import TSNE, trustworthiness
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from krepes.base.validation import check_choice
from krepes.embedding import KernelEmbedding
from krepes.explain.expansion import Expansion
from krepes.report.shown_rows import ShownColumn

TRUSTED = 2000  # rows for trustworthiness
NEAREST = 10  # its k
N_NEAREST = 6  # rows listed beside a row
FITTED = 3000  # rows that are laid out
FEWEST = 8  # different rows, below which neighbours say nothing
PERPLEXITY = 30
STEPS = 500
PLACED_BY = 4

NAMES = {"tsne": "t-SNE", "umap": "UMAP", "pacmap": "PaCMAP"}
PACKAGES = {"umap": "umap-learn", "pacmap": "pacmap"}  # names to install
METHODS = (*NAMES, "none")


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
    centred, landmarks = Z - centre, Expansion.of(model).at_landmarks.cpu().numpy() - centre
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


def check_map(method: str) -> None:
    """Refuse a map that does not exist or is not installed."""
    check_choice("map", method, METHODS)
    if method in PACKAGES and find_spec(method) is None:
        raise ImportError(
            f"map={method!r} needs a package that is not here: pip install {PACKAGES[method]}, or take 'tsne'."
        )


def neighbour_places(
    Z: np.ndarray, landmarks: np.ndarray, method: str, random_state: int
) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Places of the rows (n, 2) and the landmarks (m, 2), and how many rows were laid out.

    None where two principal components show everything, or too few rows differ.
    """
    generator = np.random.default_rng(random_state)
    rows = np.arange(len(Z))
    if len(Z) > FITTED:
        rows = np.sort(generator.choice(len(Z), FITTED, replace=False))
    if Z.shape[1] <= 2 or len(np.unique(Z[rows], axis=0)) < FEWEST:
        return None
    scale = np.abs(Z).max()  # because squares of large numbers overflow
    fitted = Z[rows] / scale
    with threadpool_limits(limits=1):
        laid = np.asarray(LAYOUTS[method](fitted, random_state), dtype=np.float64)
    nearest = NearestNeighbors(n_neighbors=min(PLACED_BY, len(fitted)), algorithm="brute").fit(fitted)
    out = np.empty((len(Z), 2))
    out[rows] = laid
    others = np.setdiff1d(np.arange(len(Z)), rows)
    if len(others):
        out[others] = _placed(nearest, Z[others] / scale, laid)
    return out, _placed(nearest, landmarks / scale, laid), len(rows)


def _placed(nearest: NearestNeighbors, Z: np.ndarray, laid: np.ndarray) -> np.ndarray:
    """Points among the places of their nearest laid-out rows, (k, 2)."""
    distances, places = nearest.kneighbors(Z)
    squares = np.maximum(distances**2, 1e-6 * distances.max(1, keepdims=True) ** 2 + 1e-300)
    squares[distances <= 1e-6 * np.abs(Z).max()] = 1e-300  # single precision: the row itself
    weights = squares.min(1, keepdims=True) / squares
    weights /= weights.sum(1, keepdims=True)
    return np.einsum("nk,nkc->nc", weights, laid[places])


def _tsne(Z: np.ndarray, random_state: int) -> np.ndarray:
    """Starts from two principal components, which makes the large arrangement a stable one [kobak]."""
    centred = Z - Z.mean(0)
    vectors = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :2]
    start = centred @ (vectors * np.sign(vectors[np.abs(vectors).argmax(0), [0, 1]]))
    start *= 1e-4 / start[:, 0].std()
    perplexity = min(PERPLEXITY, (len(Z) - 1) / 3)
    machine = TSNE(2, perplexity=perplexity, max_iter=STEPS, init=start, random_state=random_state, n_jobs=1)
    return machine.fit_transform(Z)


def _umap(Z: np.ndarray, random_state: int) -> np.ndarray:
    from umap import UMAP

    return UMAP(n_neighbors=min(15, len(Z) - 1), random_state=random_state, n_jobs=1).fit_transform(Z)


def _pacmap(Z: np.ndarray, random_state: int) -> np.ndarray:
    from pacmap import PaCMAP

    machine = PaCMAP(n_neighbors=min(10, len(Z) - 1), random_state=random_state)
    return machine.fit_transform(Z.astype(np.float32))


LAYOUTS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "tsne": _tsne,
    "umap": _umap,
    "pacmap": _pacmap,
}


@dataclass(frozen=True)
class NearestRows:
    """For every row, the k nearest others, nearest first.

    Attributes
    ----------
    rows : ndarray of shape (n, k)
        Places among the rows given.
    distances : ndarray of shape (n, k)
        As shares of the usual distance.
    usual : float
        The usual distance, in the representation's own unit; 0 if rows do not differ.
    """

    rows: np.ndarray
    distances: np.ndarray
    usual: float


def nearest_rows(Z: np.ndarray, k: int = N_NEAREST) -> NearestRows:
    """The k nearest other rows of every row, or all of them if there are fewer.

    >>> found = nearest_rows(np.array([[0.0], [1.0], [5.0]]), 1)
    >>> found.rows[:, 0].tolist(), round(found.usual**2, 3)
    ([1, 0, 1], 9.333)
    """
    k = min(k, len(Z) - 1)
    if k < 1:
        return NearestRows(np.zeros((len(Z), 0), dtype=np.int64), np.zeros((len(Z), 0)), 0.0)
    largest = np.abs(Z).max() or 1.0  # because squares of large numbers overflow
    scaled = Z / largest
    usual = float(np.sqrt(2 * scaled.var(axis=0).sum()))
    distances, rows = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(scaled).kneighbors()
    return NearestRows(rows, distances / usual if usual > 0 else distances, float(usual * largest))
