"""The mismatch kernel: strings that have nearly the same substrings.

    c_u(x) = how many substrings of x differ from u in at most m places, |u| = length        [mismatch]

Each substring counts for all strings in its neighbourhood, which has sum_{j <= m} C(length, j) (A - 1)^j of them for an
alphabet of A characters. That is the cost of every different substring in a block of strings, and the memory for
every one of the landmarks: fine for one mismatch, or for small alphabets such as ACGT.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, vstack
from sklearn.base import clone

from krepes.base.blocks import row_blocks
from krepes.base.validation import check_count
from krepes.kernels.objects.object_kernel import InnerProductKernel

ENTRIES = 2**22  # of neighbourhoods that are listed at a time
FEW_PIECES = 2**14  # whose similarities to the landmarks are computed once


class Mismatch(InnerProductKernel):
    """Substrings of one length in common, up to some characters that differ.

    Parameters
    ----------
    length : int, default=4
        Of the substrings.
    mismatches : int, default=1
        In how many places two substrings may differ from a string that both are counted for.
    alphabet : str, default=None
        The characters that count; None takes all characters of the data. Substrings with others are left out.
    normalize : bool, default=True
        Whether to divide by sqrt(k(x, x) k(y, y)).

    Examples
    --------
    "ab" counts for ab, bb and aa; "aa" for aa, ba and ab: two of them in common.

    >>> Mismatch(length=2, mismatches=1, alphabet="ab", normalize=False)(["ab"], ["aa"])
    tensor([[2.]], dtype=torch.float64)
    """

    name = "mismatch"
    expects = "strings"

    def __init__(
        self, length: int = 4, mismatches: int = 1, alphabet: str | None = None, normalize: bool = True
    ):
        super().__init__(normalize)
        self.length = length
        self.mismatches = mismatches
        self.alphabet = alphabet

    def check_parameters(self) -> None:
        super().check_parameters()
        check_count("length", self.length)
        check_count("mismatches", self.mismatches, 0)
        if self.mismatches >= self.length:
            raise ValueError(
                f"mismatches={self.mismatches}, length={self.length}: expected fewer mismatches than characters."
            )
        if not isinstance(self.alphabet, str):
            raise ValueError(
                f"alphabet={self.alphabet!r:.60}: expected characters such as 'ACGT', or kernel.fitted(X) first."
            )
        if self.length * math.log2(max(2, len(set(self.alphabet)))) >= 63:
            raise ValueError(
                f"length={self.length}: too long for {len(set(self.alphabet))} characters. Give a shorter one."
            )

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Mismatch:
        if self.alphabet is not None:
            return self
        return clone(self).set_params(alphabet="".join(sorted(set().union(*self.read_all(X)))))

    def described(self, objects: list[str]) -> list[np.ndarray]:
        """Substrings as numbers, whose digits are characters."""
        digit = {letter: i for i, letter in enumerate(dict.fromkeys(str(self.alphabet)))}
        values, found = self._place_values(), []
        for x in objects:
            windows = _windows([digit.get(letter, -1) for letter in x], len(values))
            found.append(windows[(windows >= 0).all(axis=1)] @ values)
        return found

    def squares(self, descriptions: Sequence[np.ndarray]) -> np.ndarray:
        longest = max(map(len, descriptions), default=0)
        found = [np.zeros(0)]
        for rows in row_blocks(len(descriptions), max(1, ENTRIES // max(1, longest * self._n_near()))):
            S, pieces = _occurrences(descriptions[rows])
            near = self._neighbourhoods(pieces)
            counts = S @ _incidence(near, np.unique(near))
            found.append(counts.multiply(counts).sum(axis=1))
        return np.concatenate(found)

    def products_with(
        self, descriptions: Sequence[np.ndarray]
    ) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
        S, pieces = _occurrences(descriptions)
        known = np.unique(np.concatenate([pieces, *map(np.unique, self._listed(pieces))]))
        near = [_incidence(near, known) for near in self._listed(pieces)]
        landmarks = (S @ vstack(near)).T.tocsr() if near else csr_array((0, len(descriptions)))

        def similar(pieces: np.ndarray) -> np.ndarray:
            """Of every piece to every landmark, (pieces, m)."""
            parts = [(_incidence(near, known) @ landmarks).toarray() for near in self._listed(pieces)]
            return np.concatenate([np.zeros((0, len(descriptions))), *parts])

        def products(some: Sequence[np.ndarray]) -> np.ndarray:
            T, pieces = _occurrences(some)
            return T @ similar(pieces)

        n_pieces = self._alphabet_size() ** int(self.length)
        if n_pieces > FEW_PIECES:
            return products
        table = similar(np.arange(n_pieces))
        return lambda some: _counted(some, n_pieces) @ table

    def _alphabet_size(self) -> int:
        return len(set(str(self.alphabet)))

    def _n_near(self) -> int:
        """How many strings a neighbourhood has."""
        A, m = self._alphabet_size(), int(self.mismatches)
        return sum(math.comb(int(self.length), j) * max(0, A - 1) ** j for j in range(m + 1))

    def _place_values(self) -> np.ndarray:
        return max(1, self._alphabet_size()) ** np.arange(int(self.length), dtype=np.int64)

    def _listed(self, pieces: np.ndarray) -> Iterator[np.ndarray]:
        """The neighbourhoods of all pieces, of some at a time."""
        for some in row_blocks(len(pieces), max(1, ENTRIES // self._n_near())):
            yield self._neighbourhoods(pieces[some])

    def _neighbourhoods(self, pieces: np.ndarray) -> np.ndarray:
        """All strings that differ from each piece in at most `mismatches` places, (pieces, strings)."""
        values, A = self._place_values(), self._alphabet_size()
        digits = pieces[:, None] // values % max(1, A)
        found = [pieces]
        for j in range(1, int(self.mismatches) + 1):
            for places in map(list, combinations(range(len(values)), j)):
                old = digits[:, places]
                # to the other letters of the alphabet, in a circle
                for steps in product(range(1, A), repeat=j):
                    found.append(pieces + ((old + steps) % A - old) @ values[places])
        return np.stack(found, axis=1)


def _incidence(near: np.ndarray, known: np.ndarray) -> csr_array:
    """Which of the known strings are in each neighbourhood, (pieces, known)."""
    if not len(known):
        return csr_array((len(near), 0))
    place = np.searchsorted(known, near.ravel()).clip(max=len(known) - 1)
    hit = known[place] == near.ravel()
    edges = np.concatenate([[0], hit.reshape(near.shape).sum(axis=1).cumsum()])
    return csr_array((np.ones(edges[-1]), place[hit], edges), shape=(len(near), len(known)))


def _windows(digits: list[int], length: int) -> np.ndarray:
    """All stretches of one length, (stretches, length)."""
    if len(digits) < length:
        return np.zeros((0, length), dtype=np.int64)
    return np.lib.stride_tricks.sliding_window_view(np.array(digits, dtype=np.int64), length)


def _counted(descriptions: Sequence[np.ndarray], n_pieces: int) -> csr_array:
    """How often each piece occurs in each string, (n, n_pieces); pieces are numbers from 0."""
    codes = np.concatenate([np.zeros(0, dtype=np.int64), *descriptions])
    edges = np.cumsum([0, *map(len, descriptions)])
    return csr_array((np.ones(len(codes)), codes, edges), shape=(len(descriptions), n_pieces))


def _occurrences(descriptions: Sequence[np.ndarray]) -> tuple[csr_array, np.ndarray]:
    """`_counted` for the pieces that occur, and these pieces."""
    pieces, places = np.unique(
        np.concatenate([np.zeros(0, dtype=np.int64), *descriptions]), return_inverse=True
    )
    parts = np.split(places, np.cumsum([len(codes) for codes in descriptions])[:-1]) if descriptions else []
    return _counted(parts, len(pieces)), pieces
