"""Kernels that count: two objects are similar if they contain the same pieces equally often.

    k(x, y) = sum over pieces u of  c_u(x) c_u(y)

A subclass says how one object is counted, and that is all. The pieces of the landmarks get numbers once; a block is
then one product of sparse matrices. Pieces that no landmark has count in |c(x)| only. Cost O(pieces of X) to count,
and for the product as many steps as there are pairs of an object and a landmark with a piece in common, piece by piece.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from krepes.kernels.objects.object_kernel import InnerProductKernel

Counts = Mapping[Any, float]  # pieces, which may be anything that a dictionary can hold


class CountKernel(InnerProductKernel):
    """k(x, y) = <c(x), c(y)> with counts c. Subclasses write `read` and `counts`.

    Parameters
    ----------
    normalize : bool, default=True
        Whether to divide by sqrt(k(x, x) k(y, y)).

    Examples
    --------
    >>> class Letters(CountKernel):
    ...     def read(self, x):
    ...         return str(x)
    ...     def counts(self, x):
    ...         return {letter: x.count(letter) for letter in x}
    >>> Letters(normalize=False)(["aab"], ["ab", "bc"])
    tensor([[3., 1.]], dtype=torch.float64)
    """

    @abstractmethod
    def counts(self, x: Any) -> Counts:
        """How often each piece occurs in an object that `read` has checked."""

    def described(self, objects: list[Any]) -> list[Counts]:
        return [self.counts(x) for x in objects]

    def squares(self, descriptions: Sequence[Counts]) -> np.ndarray:
        return np.array([sum(c * c for c in counts.values()) for counts in descriptions], dtype=float)

    def products_with(self, descriptions: Sequence[Counts]) -> Callable[[Sequence[Counts]], np.ndarray]:
        numbers: dict[Hashable, int] = {}
        for counts in descriptions:
            for piece in counts:
                numbers.setdefault(piece, len(numbers))
        landmarks = _matrix(descriptions, numbers).T.tocsr()
        return lambda some: (_matrix(some, numbers) @ landmarks).toarray()


def _matrix(descriptions: Sequence[Counts], numbers: dict[Hashable, int]) -> csr_array:
    """Counts of the pieces that have a number, shape (n, pieces)."""
    columns, values, edges = [], [], [0]
    for counts in descriptions:
        for piece, count in counts.items():
            column = numbers.get(piece)
            if column is not None:
                columns.append(column)
                values.append(count)
        edges.append(len(columns))
    found = (
        np.array(values, dtype=float),
        np.array(columns, dtype=np.int64),
        np.array(edges, dtype=np.int64),
    )
    return csr_array(found, shape=(len(descriptions), max(1, len(numbers))))
