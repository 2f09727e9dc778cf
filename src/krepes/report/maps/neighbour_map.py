"""A map that keeps neighbours together: t-SNE of scikit-learn; UMAP or PaCMAP, if installed.

At most FITTED rows are laid out. All other points (rows, and landmarks that are not shown as rows) are placed among
their nearest laid-out rows in the representation:

    y(x) = sum_i w_i y_i / sum_i w_i,    w_i = 1 / |z(x) - z_i|^2,    i among the PLACED_BY nearest

A point that has the representation of a laid-out row lies on it. Cost: O(FITTED log FITTED) per step of t-SNE,
O((n + m) FITTED h) for the nearest rows. One thread, so that the same rows give the same map.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from krepes.base.validation import check_choice

FITTED = 3000  # rows that are laid out
FEWEST = 8  # different rows, below which neighbours say nothing
PERPLEXITY = 30
STEPS = 500
PLACED_BY = 4

NAMES = {"tsne": "t-SNE", "umap": "UMAP", "pacmap": "PaCMAP"}
PACKAGES = {"umap": "umap-learn", "pacmap": "pacmap"}  # names to install
METHODS = (*NAMES, "none")


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
