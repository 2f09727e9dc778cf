"""Nodes of one network that have the same neighbours; also sets that have the same members.

    c_v(x) = 1 if node v is a neighbour of node x, else 0:   k(x, y) counts their common neighbours        [lecture]

A node is given as the list of its neighbours, so that a new node needs its own list only. Cost O(neighbours).
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from krepes.kernels.objects.object_kernel import CountKernel, Counts


class CommonNeighbours(CountKernel):
    """How many neighbours two nodes of a network share. An object is the list of a node's neighbours.

    Parameters
    ----------
    normalize : bool, default=True
        Whether to divide by sqrt(k(x, x) k(y, y)), the geometric mean of the numbers of neighbours.

    Notes
    -----
    Neighbours are names or integers. Lists, tuples, sets and arrays will do, and a neighbour that is listed twice
    counts once. For a networkx graph: `[list(graph[node]) for node in graph]`.

    Examples
    --------
    >>> CommonNeighbours(normalize=False)([["Ann", "Bob"]], [["Bob", "Cem"], ["Dan"]])
    tensor([[1., 0.]], dtype=torch.float64)
    """

    name = "common_neighbours"
    known_elsewhere_as = ("intersection",)
    expects = "lists of neighbours"

    def read(self, x: Sequence[str | int]) -> list[str | int]:
        if isinstance(x, np.ndarray | Tensor):
            x = x.tolist()
        if not isinstance(x, list | tuple | set | frozenset):
            raise TypeError("expected a list of names or integers, the neighbours of one node.")
        return sorted({_node(node) for node in x}, key=lambda node: (isinstance(node, str), node))

    def counts(self, x: list[str | int]) -> Counts:
        return dict.fromkeys(x, 1)


def _node(node: object) -> str | int:
    if isinstance(node, str):
        return node
    if isinstance(node, numbers.Integral) and not isinstance(node, bool):
        return int(node)
    raise TypeError(f"its neighbour {node!r:.40} is neither a name nor an integer.")
