"""Small random objects for kernels on them: sparse rows, strings, texts, sets, graphs; some are empty or alike."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from krepes.kernels import (
    CommonNeighbours,
    Linear,
    MeanEmbedding,
    Mismatch,
    NGrams,
    ObjectKernel,
    ShortestPath,
    Spectrum,
    Subsequence,
    WeisfeilerLehman,
)

WORDS = ["the", "cat", "sat", "on", "a", "mat", "The", "naïve", "dog"]


def sparse_rows(n: int, width: int, density: float, rng: np.random.Generator) -> scipy.sparse.csr_array:
    """Rows of normal numbers of which this share is there (scipy's own function has other arguments by version)."""
    return scipy.sparse.csr_array(rng.normal(size=(n, width)) * (rng.random((n, width)) < density))


def strings(n: int, seed: int = 0, alphabet: str = "abcé") -> list[str]:
    rng = np.random.default_rng(seed)
    found = ["".join(rng.choice(list(alphabet), rng.integers(0, 12))) for _ in range(n - 2)]
    return [*found, "", found[0]]


def texts(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    found = [", ".join(rng.choice(WORDS, rng.integers(0, 9))) for _ in range(n - 2)]
    return [*found, "...", found[0]]


def point_sets(n: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found = [rng.normal(size=(rng.integers(1, 6), 2)) for _ in range(n - 2)]
    return [*found, np.zeros((0, 2)), found[0]]


def string_sets(n: int, seed: int = 0) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    members = strings(50, seed)
    return [[members[i] for i in rng.integers(0, 50, rng.integers(0, 4))] for _ in range(n)]


def graphs(n: int, seed: int = 0) -> list[dict]:
    """Some with labels that are numbers or text, loops, nodes without edges, or nothing at all."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        size = int(rng.integers(0, 7))
        pairs = [(i, j) for i in range(size) for j in range(i + 1) if rng.random() < (0.1 if i == j else 0.4)]
        labels = [("C", "O", 1)[rng.integers(0, 3)] for _ in range(size)]
        edge_labels = [("", "=", 2)[rng.integers(0, 3)] for _ in pairs]
        found.append({"edges": pairs, "labels": labels, "edge_labels": edge_labels, "nodes": size})
    return found


def neighbour_lists(n: int, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 15, 6).tolist() for _ in range(n - 1)] + [[]]


# Every kernel on objects, with what makes objects for it; the first of a class is its default
CASES = [
    (Spectrum(), strings),
    (Spectrum(2, normalize=False), strings),
    (Mismatch(), strings),
    (Mismatch(3, 2), strings),
    (Subsequence(), strings),
    (Subsequence(2, decay=0.8, normalize=False), strings),
    (NGrams(), texts),
    (NGrams(lengths=(1, 2), weighting="tfidf"), texts),
    (NGrams("char", (2, 3), weighting="binary", lowercase=False), texts),
    (MeanEmbedding(), point_sets),
    (MeanEmbedding("gaussian", lengthscale="median"), point_sets),
    (MeanEmbedding(Linear()), point_sets),
    (MeanEmbedding(Spectrum(2)), string_sets),
    (WeisfeilerLehman(), graphs),
    (WeisfeilerLehman(1, normalize=False), graphs),
    (ShortestPath(), graphs),
    (CommonNeighbours(), neighbour_lists),
    (CommonNeighbours(normalize=False), neighbour_lists),
    (ShortestPath() + 2.0 * WeisfeilerLehman(1), graphs),
    (Spectrum(1) * Subsequence(2), strings),
]


def maker(cls: type[ObjectKernel]):
    """What makes objects for the kernels of a class."""
    return next(make for kernel, make in CASES if type(kernel) is cls)
