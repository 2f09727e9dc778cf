"""Graphs as a model file can hold them: a dictionary of edges and labels. Graphs of networkx are read, too.

    {"edges": [(0, 1), (1, 2)], "labels": ["C", "C", "O"], "edge_labels": [1, 2], "nodes": 3}

Nodes are 0, 1, 2 ... `labels` has one label per node, `edge_labels` one per edge; both may be left out, and so may
`nodes`, the number of them, unless nodes without edges come last. Labels are text or integers. Edges have no direction;
those given twice count once.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.validation import check_count, is_integer
from krepes.kernels.objects.object_kernel import CountKernel

if TYPE_CHECKING:
    import networkx

Label = str | int
ENTRIES = {"edges", "labels", "edge_labels", "nodes"}


@dataclass(frozen=True)
class LabelledGraph:
    """A checked graph.

    Attributes
    ----------
    n_nodes : int
    edges : dict of labels by pair (i, j), i <= j
    labels : tuple of n_nodes labels; "" where there are none
    """

    n_nodes: int
    edges: dict[tuple[int, int], Label]
    labels: tuple[Label, ...]

    def neighbours(self) -> list[list[tuple[int, Label]]]:
        """For every node, its neighbours and the labels of the edges that lead there."""
        found: list[list[tuple[int, Label]]] = [[] for _ in range(self.n_nodes)]
        for (i, j), label in self.edges.items():
            found[i].append((j, label))
            if i != j:
                found[j].append((i, label))
        return found

    def plain(self) -> dict[str, Any]:
        """The dictionary that a model file holds."""
        return {
            "nodes": self.n_nodes,
            "edges": [list(pair) for pair in self.edges],
            "labels": list(self.labels),
            "edge_labels": list(self.edges.values()),
        }


def read_graph(x: object) -> LabelledGraph:
    """A graph from a dictionary or from networkx.

    >>> read_graph({"edges": [(0, 1)], "labels": ["C", "O"]})
    LabelledGraph(n_nodes=2, edges={(0, 1): ''}, labels=('C', 'O'))
    """
    if isinstance(x, LabelledGraph):
        return x
    library = sys.modules.get("networkx")
    if library is not None and isinstance(x, library.Graph):
        x = _of_networkx(x)
    if not isinstance(x, Mapping):
        raise TypeError('expected a graph of networkx or a dictionary such as {"edges": [(0, 1)]}.')
    if "edges" not in x or not ENTRIES.issuperset(x):
        raise ValueError(
            f"a graph has the entries {', '.join(sorted(ENTRIES))}, of which 'edges' is required; it has "
            f"{', '.join(map(str, list(x)[:5]))}."
        )
    return _checked(x["edges"], x.get("labels"), x.get("edge_labels"), x.get("nodes"))


class GraphKernel(CountKernel):
    """A kernel that counts pieces of graphs."""

    expects = "graphs"

    def read(self, x: Any) -> LabelledGraph:
        return read_graph(x)

    def stored(self, x: LabelledGraph) -> dict[str, Any]:
        return x.plain()


def _checked(edges: object, labels: object, edge_labels: object, nodes: Any) -> LabelledGraph:
    pairs = [_pair(edge) for edge in _entries(edges, "edges")]
    needed = 1 + max((node for pair in pairs for node in pair), default=-1)
    if nodes is not None:
        check_count("nodes", nodes, 0)
    n = needed if nodes is None else int(nodes)
    given = [""] * n if labels is None else [_label(label) for label in _entries(labels, "labels")]
    if len(given) < needed or (nodes is not None and len(given) != n):
        counts = f"{len(given)} {'nodes' if labels is None else 'labels'}"
        counts += "" if nodes is None else f" for nodes={nodes}"
        raise ValueError(f"its nodes do not fit: edges reach node {needed - 1}, and there are {counts}.")
    along = [""] * len(pairs) if edge_labels is None else _entries(edge_labels, "edge_labels")
    if len(along) != len(pairs):
        raise ValueError(f"it has {len(along)} edge_labels for {len(pairs)} edges; expected one per edge.")
    return LabelledGraph(len(given), dict(zip(pairs, map(_label, along))), tuple(given))


def _entries(values: object, name: str) -> Sequence[Any]:
    if isinstance(values, np.ndarray):
        return values.tolist()
    if not isinstance(values, list | tuple):
        raise TypeError(f"its {name!r} are a {type(values).__name__}; expected a list.")
    return values


def _pair(edge: Any) -> tuple[int, int]:
    listed = isinstance(edge, list | tuple | np.ndarray) and len(edge) == 2
    if not (listed and all(is_integer(i, 0) for i in edge)):
        raise ValueError(f"its edge {edge!r:.40} is not a pair of node numbers 0, 1, 2 ...")
    i, j = int(edge[0]), int(edge[1])
    return (i, j) if i <= j else (j, i)


def _label(label: object) -> Label:
    if isinstance(label, str):
        return label
    if isinstance(label, numbers.Integral):
        return int(label)
    raise TypeError(f"its label {label!r:.40} is neither text nor an integer.")


def _of_networkx(graph: networkx.Graph) -> dict[str, Any]:
    """Nodes in their order; labels are the attribute "label" of nodes and edges."""
    if graph.is_directed() or graph.is_multigraph():
        raise ValueError("its edges have directions or occur twice. Give networkx.Graph(graph).")
    numbered = {node: i for i, node in enumerate(graph)}
    return {
        "nodes": len(numbered),
        "edges": [(numbered[u], numbered[v]) for u, v in graph.edges],
        "labels": [label for _, label in graph.nodes(data="label", default="")],
        "edge_labels": [label for _, _, label in graph.edges(data="label", default="")],
    }
