"""How many clusters there are, from the graphs of several codings.

    score(k) = k Q(k) mean log(e_(k+1) / e_k),    e the eigenvalues of the Laplacian, ascending
    Q(k) = sum_c [ W_cc / w - (d_c / w)^2 ]       modularity of the cut into k: W_cc the affinity within cluster c,
                                                  d_c its degrees, w their sum                                  [newman]

Without clusters e_k grows as a power of k (Weyl's law), and k log(e_(k+1) / e_k) is the same for every k: the factor k
makes gaps comparable. Gaps alone see many clusters badly, modularity alone splits dense samples finer and finer; the
product is better than each (docs/clustering.md has the figures). Where subspaces have hardly any noise, gaps alone are
right. The largest score wins. Where another k, not next to it, scores nearly as much, the answer is not sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from sklearn.cluster._spectral import cluster_qr

from krepes.clustering.affinity import Affinity

NEARLY = 0.8  # of the largest score
SMALLEST_VALUE = 1e-4  # eigenvalues below it are the same

Graph = tuple[Affinity, np.ndarray, np.ndarray]  # W, its leading eigenvalues, their vectors


@dataclass(frozen=True)
class Count:
    """The number of clusters found.

    Attributes
    ----------
    n_clusters : int
    scores : dict
        The best five numbers with their scores, relative to the largest.
    structure : bool
        Whether the graphs have more structure than normal rows have; without it n_clusters is 1.
    """

    n_clusters: int
    scores: dict[int, float]
    structure: bool = True

    @property
    def sure(self) -> bool:
        """Whether no other number, but its neighbours, scores nearly as much."""
        others = [score for k, score in self.scores.items() if abs(k - self.n_clusters) > 1]
        return self.structure and max(others, default=0.0) < NEARLY


def count_clusters(graphs: Sequence[Graph], most: int, by_gap: bool = False) -> Count:
    """The number of clusters, from 2 to `most`, from graphs of the same rows; by gaps alone if asked."""
    curves = [scores(values, *parts) for parts, values in _parts(graphs, most)]
    if not len(curves[0]):
        return Count(1, {1: 1.0}, False)
    log_gaps, modular = (np.mean([curve[:, i] for curve in curves], axis=0) for i in (0, 1))
    ks = np.arange(2, 2 + len(log_gaps))
    score = log_gaps if by_gap else ks * np.maximum(modular, 0) * log_gaps
    best = np.argsort(-score)[:5]
    largest = max(float(score[best[0]]), 1e-300)
    return Count(int(ks[best[0]]), {int(ks[i]): round(float(score[i]) / largest, 3) for i in best})


def _parts(graphs: Sequence[Graph], most: int) -> list[tuple[tuple[Affinity, np.ndarray], np.ndarray]]:
    most = min(most, *(len(values) - 1 for _, values, _ in graphs))
    return [((W, vectors[:, :most]), values[: most + 1]) for W, values, vectors in graphs]


def scores(values: np.ndarray, W: Affinity, vectors: np.ndarray) -> np.ndarray:
    """log(e_(k+1) / e_k) and Q(k) for k = 2, 3, ..., shape (., 2)."""
    e = np.maximum(1 - values, SMALLEST_VALUE)
    return np.array(
        [
            (np.log(e[k] / e[k - 1]), modularity(W, cluster_qr(vectors[:, :k])))
            for k in range(2, vectors.shape[1] + 1)
        ]
    ).reshape(-1, 2)


def modularity(W: Affinity, labels: np.ndarray) -> float:
    """The affinity within clusters beyond what their degrees would give by chance.

    >>> W = np.array([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> modularity(W, np.array([0, 0, 1, 1]))
    0.5
    """
    degree = np.asarray(W.sum(axis=1)).ravel()
    total = degree.sum()
    place = scipy.sparse.csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)))
    within = (place.T @ scipy.sparse.csr_array(W) @ place).diagonal() / total
    return float((within - (place.T @ degree / total) ** 2).sum())
