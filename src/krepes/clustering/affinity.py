"""From coefficients to an affinity: truncation, scaling, symmetry, and links between stray components.

    W = |C| + |C|^T,   each c_i cut to its t largest magnitudes and divided by the largest           [zhen; elhamifar]

Truncation is the T of KTRR, the scaling is that of SSC's pipeline; [zou] names both and prints neither. Rows are
computed in blocks and only t per row are kept: memory O(n t), nothing n x n.

Truncation may leave more connected components than there are clusters, and then the spectral step is arbitrary.
`linked` joins the smallest ones by the strongest coefficient that leads out of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.clustering.self_expression import Index

Affinity: TypeAlias = np.ndarray | scipy.sparse.csr_array  # W, shape (n, n)
CoefficientRows = Callable[[Index], Tensor]  # some samples i -> c_i, shape (b, n)
BLOCK_BYTES = 128 * 2**20


def affinity(rows: CoefficientRows, n: int, truncation: int | None) -> Affinity:
    """W, shape (n, n): a sparse array with `truncation` coefficients per row, a dense array without."""
    if truncation is None or truncation >= n:
        C = rows(slice(0, n)).abs()
        C = C / _positive(C.amax(dim=1, keepdim=True))
        return (C + C.mT).double().numpy()
    values, columns = _largest(rows, n, truncation)
    starts = np.arange(0, n * truncation + 1, truncation)
    C = scipy.sparse.csr_array((values.ravel(), columns.ravel(), starts), shape=(n, n))
    W = (C + C.T).tocsr()
    W.eliminate_zeros()
    return W


def _largest(rows: CoefficientRows, n: int, t: int) -> tuple[np.ndarray, np.ndarray]:
    """The t largest magnitudes of every row, relative to the largest, and their columns: both (n, t)."""
    values, columns = np.empty((n, t)), np.empty((n, t), dtype=np.int32)
    for block in row_blocks(n, rows_within(BLOCK_BYTES, 16 * n)):
        found = rows(block).abs().topk(t, dim=1)
        values[block] = (found.values / _positive(found.values[:, :1])).double().numpy()
        columns[block] = found.indices.numpy()
    return values, columns


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
