"""Which columns matter, from the gradients of a fitted function: the average gradient outer product.

    G = mean over rows of  sum over outputs of  grad f grad f^T,          M = G^(1/2)      [Radhakrishnan et al. 2024]

A column in which f does not change gets no weight, one in which it changes fast gets much: the kernel then compares
rows by what matters for the target. "diagonal" keeps the diagonal of G, one weight per column, "full" all of it.
Encoded columns that belong to one column of a table share their mean. Cost: O(n m d c) for gradients at n rows.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from krepes.kernels import Kernel

METRICS: dict[str | None, tuple[str, ...]] = {
    None: (),
    "diagonal": ("diagonal",),
    "full": ("full",),
    "auto": ("diagonal", "full"),
}
FLOOR = 1e-8  # of the largest weight: no column is lost for good
BLOCK = 256  # rows whose gradients are held at once


def gradient_outer_product(
    kernel: Kernel,
    rows: Tensor,  # (n, d)
    points: Tensor,  # (m, d)
    A: Tensor,  # (m, c)
    full: bool = False,
) -> Tensor:  # (d,) or (d, d)
    """G of f(x) = A^T k(points, x), or its diagonal.

    >>> from krepes.kernels import Linear
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> gradient_outer_product(Linear(), x, x, torch.tensor([[3.0], [0.0]]))         # f(x) = 3 x_1
    tensor([9., 0.])
    """
    total: Tensor | float = 0.0
    for part in rows.split(BLOCK):
        D = kernel.gradients(part, points, A).flatten(0, 1)  # (c b, d)
        total = total + (D.mT @ D if full else D.square().sum(0))
    assert isinstance(total, Tensor)
    return total / len(rows)


def metric_of(
    G: Tensor,  # (d,) or (d, d)
    groups: list[list[int]] | None = None,
    units: np.ndarray
    | None = None,  # (d,), 1 / scale^2 of columns that are standardised: G is in their units
    squared: bool = False,
) -> np.ndarray | None:
    """M = G^(1/2), or G itself, its largest weight 1; None where the function is constant."""
    G = G.double().cpu()
    if units is not None:
        each = units if G.ndim == 1 else np.outer(np.sqrt(units), np.sqrt(units))
        unitless = metric_of(G / torch.from_numpy(each), groups, None, squared)
        return None if unitless is None else unitless * each
    if G.ndim == 1:
        G = G.clone()
        for columns in groups or ():  # one weight for all encoded columns of a column
            G[columns] = G[columns].mean()
        M = G.sqrt()
        largest = M.max()
        floored = M.clamp(min=FLOOR * largest.item())
    else:
        values, vectors = torch.linalg.eigh(G)
        roots = values.clamp(min=0).sqrt()
        largest = roots.max()
        floored = (vectors * roots.clamp(min=FLOOR * largest.item())) @ vectors.mT
    if not (torch.isfinite(largest) and largest > 0):
        return None
    M = floored / largest
    if squared:
        M = M.square().clamp(min=FLOOR) if M.ndim == 1 else M @ M
    return (M if M.ndim == 1 else (M + M.mT) / 2).numpy()
