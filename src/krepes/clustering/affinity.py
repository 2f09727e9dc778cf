"""From coefficients to clusters: an affinity, its leading eigenvectors, and K-means on their rows.

    W = |C| + |C|^T,   each c_i cut to its t largest magnitudes and divided by the largest           [zhen; elhamifar]
    N = D^(-1/2) W D^(-1/2),  eigenvalues 1 = l_1 >= l_2 >= ...                                      [ng]
    gap(k) = (l_k - l_(k+1)) / (1 - l_(k+1))                        in [0, 1]; 1 for k separate components

Truncation is the T of KTRR, the scaling is that of SSC's pipeline; [zou] names both and prints neither. Rows are
computed in blocks and only t per row are kept: memory O(n t), nothing n x n. Truncation may leave more connected
components than there are clusters, and then the spectral step is arbitrary. `linked` joins the smallest ones by the
strongest coefficient that leads out of each.

The gap needs no labels: it is 1 when W falls into k components and near 0 when the k-th eigenvector is as good as the
next one. It chooses the iteration whose affinity is used, and k itself if that is not given. It does not see the
scale of W or the size of n. Cost: a few dozen products with W for each eigenvector (Lanczos), O(n t) each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse
import torch
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.cluster import KMeans
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.reporting import warn
from krepes.clustering.self_expression import Index

Affinity: TypeAlias = np.ndarray | scipy.sparse.csr_array  # W, shape (n, n)
CoefficientRows = Callable[[Index], Tensor]  # some samples i -> c_i, shape (b, n)
BLOCK_BYTES = 128 * 2**20
DENSE_ROWS = 300  # below this all eigenvectors are as cheap as some
CERTAIN = 1e-9  # eigenvalues closer to 1 than this are 1


def affinity(rows: CoefficientRows, n: int, truncation: int | None) -> Affinity:
    """W, shape (n, n): a sparse array with `truncation` coefficients per row, a dense array without."""
    if truncation is None or truncation >= n:
        C = rows(slice(0, n)).abs()
        C = C / _positive(C.amax(dim=1, keepdim=True))
        return (C + C.mT).double().numpy()
    W = symmetric_sum(*_largest(rows, n, truncation))
    W.eliminate_zeros()
    return W


def symmetric_sum(values: np.ndarray, columns: np.ndarray) -> scipy.sparse.csr_array:
    """C + C^T of C (n, n), which has these values of every row in these columns, both (n, t)."""
    n, t = values.shape
    C = scipy.sparse.csr_array((values.ravel(), columns.ravel(), np.arange(0, n * t + 1, t)), shape=(n, n))
    return (C + C.T).tocsr()


def _largest(rows: CoefficientRows, n: int, t: int) -> tuple[np.ndarray, np.ndarray]:
    """The t largest magnitudes of every row, relative to the largest, and their columns: both (n, t)."""
    values, columns = np.empty((n, t)), np.empty((n, t), dtype=np.int32)
    for block in row_blocks(n, rows_within(BLOCK_BYTES, 16 * n)):
        values[block], columns[block] = strongest(rows(block), t)
    return values, columns


def strongest(C: Tensor, t: int) -> tuple[np.ndarray, np.ndarray]:
    """The t largest magnitudes of each row of C, relative to the largest, and their columns: both (b, t)."""
    found = C.abs().topk(t, dim=1)
    return (found.values / _positive(found.values[:, :1])).double().numpy(), found.indices.numpy()


def _positive(largest: Tensor) -> Tensor:
    return largest.where(largest > 0, 1.0)


def components(W: Affinity) -> tuple[int, np.ndarray]:
    """The number of connected components and the component of every row."""
    return connected_components(scipy.sparse.csr_array(W), directed=False)


def linked(W: Affinity, rows: CoefficientRows, n_clusters: int) -> Affinity:
    """W with its smallest components joined to others, until there are at most as many components as clusters.

    Components that no coefficient leaves stay as they are.
    """
    count, labels = components(W)
    while count > n_clusters:
        sizes = np.bincount(labels)
        strays = np.argsort(sizes, kind="stable")[: count - n_clusters]
        edges = [_strongest_link(rows, labels, stray) for stray in strays]
        found = [edge for edge in edges if edge is not None]
        if not found:
            return W
        i, j, weight = (np.array(part) for part in zip(*found))
        links = scipy.sparse.csr_array((weight, (i, j)), shape=W.shape)
        W = W + links + links.T
        W = W if isinstance(W, np.ndarray) else W.tocsr()
        before, (count, labels) = count, components(W)
        if count == before:
            return W
    return W


def _strongest_link(
    rows: CoefficientRows, labels: np.ndarray, component: int
) -> tuple[int, int, float] | None:
    """The largest relative coefficient from a component to a row outside it, as (i, j, weight)."""
    best: tuple[int, int, float] | None = None
    outside = torch.from_numpy(labels != component)
    members = torch.from_numpy(np.flatnonzero(labels == component))
    for block in row_blocks(len(members), rows_within(BLOCK_BYTES, 16 * len(labels))):
        C = rows(members[block]).abs()
        C = C / _positive(C.amax(dim=1, keepdim=True))
        values, columns = (C * outside).max(dim=1)
        i = int(values.argmax())
        weight = values[i].item()
        if weight > 0 and (best is None or weight > best[2]):
            best = int(members[block][i]), int(columns[i]), weight
    return best


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
    try:
        values, vectors = scipy.linalg.eigh(N, subset_by_index=[n - count, n - 1])
    except scipy.linalg.LinAlgError:  # some of the eigenvalues alone may be too close together
        values, vectors = (part[..., n - count :] for part in np.linalg.eigh(N))
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


def cut(W: Affinity, n_clusters: int, n_init: int, generator: np.random.Generator) -> np.ndarray:
    """Labels of the rows of an affinity, by its leading eigenvectors."""
    if not W.sum() > 0:
        raise ValueError(
            "No row is expressed by others, so that there is nothing to cluster by. Try kernel='gaussian'."
        )
    count, _ = components(W)
    if count > n_clusters:
        warn(f"The affinity has {count} components for {n_clusters} clusters: the smallest are put together.")
    _, vectors = leading_eigenpairs(W, max(n_clusters, count), generator)
    return assign(vectors, n_clusters, n_init, generator)


def shares(votes: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Votes (n, k) as shares of each row's sum; rows without votes take the shares given for them."""
    total = votes.sum(1, keepdims=True)
    return np.where(total > 0, votes / np.where(total > 0, total, 1), otherwise)
