"""The spectral step: eigenvectors of the normalised affinity, their gap, and K-means on their rows.

    N = D^(-1/2) W D^(-1/2),  eigenvalues 1 = l_1 >= l_2 >= ...                                            [ng]
    gap(k) = (l_k - l_(k+1)) / (1 - l_(k+1))                        in [0, 1]; 1 for k separate components

The gap needs no labels: it is 1 when W falls into k components and near 0 when the k-th eigenvector is as good as the
next one. It chooses the iteration whose affinity is used, and k itself where that is not given. It does not see the
scale of W or the size of n. Cost: a few dozen products with W for each eigenvector (Lanczos), O(n t) each.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.cluster import KMeans

from krepes.clustering.affinity import Affinity

DENSE_ROWS = 300  # below this all eigenvectors are as cheap as some
CERTAIN = 1e-9  # eigenvalues closer to 1 than this are 1


def leading_eigenpairs(
    W: Affinity, count: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of the normalised affinity, (k,), descending, and their vectors, (n, k).

    Rows without affinity have zero entries.

    >>> values, _ = leading_eigenpairs(np.array([[0.0, 1.0], [1.0, 0.0]]), 2, np.random.default_rng(0))
    >>> np.round(values, 12).tolist()
    [1.0, -1.0]
    """
    n = W.shape[0]
    degree = np.asarray(W.sum(axis=1)).ravel()
    scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    if scipy.sparse.issparse(W):
        N = scipy.sparse.diags_array(scale) @ W @ scipy.sparse.diags_array(scale)
    else:
        N = scale[:, None] * W * scale
    count = min(count, n)
    if n <= DENSE_ROWS or count > n // 3:
        return _dense(N, count)
    start = generator.standard_normal(n)
    try:
        values, vectors = eigsh(N, count, which="LA", v0=start, ncv=min(n - 1, max(3 * count + 1, 40)))
    except ArpackNoConvergence:
        return _dense(N, count)
    order = np.argsort(-values)
    return values[order], vectors[:, order]


def _dense(N: Affinity, count: int) -> tuple[np.ndarray, np.ndarray]:
    N = N if isinstance(N, np.ndarray) else N.toarray()
    n = len(N)
    values, vectors = scipy.linalg.eigh(N, subset_by_index=[n - count, n - 1])
    return values[::-1], vectors[:, ::-1]


def relative_gap(values: np.ndarray, n_clusters: int) -> float:
    """gap(k) from the leading eigenvalues; 1 if there are at most k.

    >>> relative_gap(np.array([1.0, 0.9, 0.5]), 2)
    0.8
    """
    if n_clusters >= len(values):
        return 1.0
    this, following = 1 - values[n_clusters - 1], 1 - values[n_clusters]
    return float(np.clip((following - this) / following, 0, 1)) if following > CERTAIN else 0.0


def estimate_n_clusters(values: np.ndarray) -> int:
    """The k with the largest difference l_k - l_(k+1) among the leading eigenvalues.

    >>> estimate_n_clusters(np.array([1.0, 0.99, 0.4, 0.35]))
    2
    """
    return int(np.argmax(values[:-1] - values[1:])) + 1 if len(values) > 1 else 1


def assign(vectors: np.ndarray, n_clusters: int, n_init: int, generator: np.random.Generator) -> np.ndarray:
    """Labels 0 .. k-1 from K-means on the rows of the eigenvectors, brought to unit length.  [ng]"""
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    points = vectors / np.where(norm > 0, norm, 1)
    seed = int(generator.integers(2**31))
    return KMeans(n_clusters, n_init=n_init, random_state=seed).fit(points).labels_
