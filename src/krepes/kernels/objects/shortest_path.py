"""The shortest-path kernel: graphs whose nodes are equally far apart.

    c_u(x) = how many pairs of nodes of x have the labels and the distance of u = (label, distance, label)  [borgwardt]

The distance is the number of edges on a shortest path; pairs without a path are left out, as are labels of edges. Cost
O(nodes * edges) per graph.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from krepes.kernels.objects.graph import GraphKernel, LabelledGraph
from krepes.kernels.objects.object_kernel import Counts


class ShortestPath(GraphKernel):
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

    >>> graphs = [{"edges": [(0, 1), (1, 2)]}, {"edges": [(0, 1), (1, 2), (0, 2)]}]
    >>> ShortestPath(normalize=False)(graphs)
    tensor([[5., 6.],
            [6., 9.]], dtype=torch.float64)
    """

    name = "shortest_path"

    def counts(self, x: LabelledGraph) -> Counts:
        n = x.n_nodes
        if not x.edges:
            return {}
        places = np.array(list(x.edges), dtype=np.int32).T  # scipy 1.12 takes no longer ones
        edges = csr_array((np.ones(places.shape[1]), tuple(places)), shape=(n, n))
        D = shortest_path(edges, directed=False, unweighted=True)
        names, label = np.unique([repr(label) for label in x.labels], return_inverse=True)
        i, j = np.nonzero(np.triu(np.isfinite(D), k=1))
        ends = np.sort(np.stack([label[i], label[j]]), axis=0)
        shape = (len(names), len(names), n)
        codes = np.ravel_multi_index((ends[0], ends[1], D[i, j].astype(int)), shape)
        kinds, times = np.unique(codes, return_counts=True)
        first, second, distance = np.unravel_index(kinds, shape)
        pairs = zip(names[first].tolist(), names[second].tolist(), distance.tolist())
        return dict(zip(pairs, times.tolist()))
