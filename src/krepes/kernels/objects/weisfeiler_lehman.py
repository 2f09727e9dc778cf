"""The Weisfeiler-Lehman kernel: graphs whose nodes have the same surroundings.

    l_0(v) = label of v,     l_{h+1}(v) = (l_h(v), sorted (label of the edge, l_h(u)) over neighbours u of v)
    c_u(x) = how many nodes of x have the label u in one of the rounds 0 ... H        [shervashidze]

A label of round h describes the tree of depth h around a node. Labels are kept as hashes of 16 bytes that are the same
in every process. Cost O(H edges) per graph.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from hashlib import blake2b

from krepes.base.validation import check_count
from krepes.kernels.objects.graph import GraphKernel, Label, LabelledGraph
from krepes.kernels.objects.object_kernel import Counts


class WeisfeilerLehman(GraphKernel):
    """Subtrees around nodes that two graphs have in common.

    Parameters
    ----------
    rounds : int, default=3
        How far a node's surroundings reach. 0 counts the labels of nodes only.
    normalize : bool, default=True
        Whether to divide by sqrt(k(x, x) k(y, y)).

    Notes
    -----
    Graphs are dictionaries of edges and labels, or of networkx: `krepes.kernels.objects.graph`. Labels of edges
    count. A graph without nodes is similar to nothing.

    Examples
    --------
    C-O and C-C: round 0 has C in common, once and twice; in round 1 no node has the same neighbours.

    >>> carbon_oxygen = {"edges": [(0, 1)], "labels": ["C", "O"]}
    >>> two_carbons = {"edges": [(0, 1)], "labels": ["C", "C"]}
    >>> WeisfeilerLehman(rounds=1, normalize=False)([carbon_oxygen], [two_carbons])
    tensor([[2.]], dtype=torch.float64)
    """

    name = "weisfeiler_lehman"
    known_elsewhere_as = ("wl", "subtree")

    def __init__(self, rounds: int = 3, normalize: bool = True):
        super().__init__(normalize)
        self.rounds = rounds

    def check_parameters(self) -> None:
        super().check_parameters()
        check_count("rounds", self.rounds, 0)

    def counts(self, x: LabelledGraph) -> Counts:
        labels = [_of_label(label) for label in x.labels]
        along = [[(j, _of_label(label)) for j, label in found] for found in x.neighbours()]
        counts = Counter(labels)
        for _ in range(self.rounds):
            around = (sorted(edge + labels[j] for j, edge in found) for found in along)
            labels = [_hashed(b"".join([own, *others])) for own, others in zip(labels, around)]
            counts.update(labels)
        return counts


@lru_cache(maxsize=2**12)
def _of_label(label: Label) -> bytes:
    return _hashed(repr(label).encode())


def _hashed(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
