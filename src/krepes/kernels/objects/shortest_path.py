"""The shortest-path kernel: graphs whose nodes are equally far apart.

    c_u(x) = how many pairs of nodes of x have the labels and the distance of u = (label, distance, label)  [borgwardt]

The distance is the number of edges on a shortest path; pairs without a path are left out, as are labels of edges. Cost
O(nodes * edges) per graph.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from krepes.kernels.objects.count_kernel import CountKernel, Counts
from krepes.kernels.objects.graph import LabelledGraph, read_graph


class ShortestPath(CountKernel):
    """Pairs of nodes with the same labels and the same distance.

    Parameters
    ----------
    normalize : bool, default=True
        Whether to divide by sqrt(k(x, x) k(y, y)).

    Notes
    -----
    Graphs are dictionaries of edges and labels, or of networkx: `krepes.kernels.objects.graph`. A graph without edges
    is similar to nothing.

    Examples
    --------
    A path of three nodes has two pairs at distance 1 and one at distance 2; a triangle has three at distance 1.

    >>> path, triangle = {"edges": [(0, 1), (1, 2)]}, {"edges": [(0, 1), (1, 2), (0, 2)]}
    >>> ShortestPath(normalize=False)([path], [path, triangle])
    tensor([[5., 6.]], dtype=torch.float64)
    """

    name = "shortest_path"
    expects = "graphs"

    def read(self, x: Any) -> LabelledGraph:
        return read_graph(x)

    def stored(self, x: LabelledGraph) -> dict[str, Any]:
        return x.plain()

    def counts(self, x: LabelledGraph) -> Counts:
        around = [[j for j, _ in found] for found in x.neighbours()]
        found: Counter[tuple] = Counter()
        for first in range(x.n_nodes):
            for other, distance in _distances(first, around).items():
                if other > first:
                    ends = sorted((x.labels[first], x.labels[other]), key=repr)
                    found[ends[0], distance, ends[1]] += 1
        return found


def _distances(first: int, around: list[list[int]]) -> dict[int, int]:
    """Numbers of edges from one node to all that can be reached, nearest first."""
    found, newest, distance = {first: 0}, [first], 0
    while newest:
        distance += 1
        newest = [j for j in dict.fromkeys(j for i in newest for j in around[i]) if j not in found]
        found |= dict.fromkeys(newest, distance)
    return found
