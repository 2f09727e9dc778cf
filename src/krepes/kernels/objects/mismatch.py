"""The mismatch kernel: strings that have nearly the same substrings.

    c_u(x) = how many substrings of x differ from u in at most m places, |u| = length        [mismatch]

Each substring counts for all strings in its neighbourhood, which has sum_{j <= m} C(length, j) (A - 1)^j of them for an
alphabet of A characters. That many steps per character of x is the cost: fine for one mismatch, or small alphabets.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import combinations, product
from typing import Any

import torch
from sklearn.base import clone

from krepes.base.limits import check_count
from krepes.kernels.objects.count_kernel import CountKernel, Counts
from krepes.kernels.objects.object_kernel import read_text
from krepes.kernels.objects.spectrum import substrings


class Mismatch(CountKernel):
    """Substrings of one length in common, up to some characters that differ.

    Parameters
    ----------
    length : int, default=4
        Of the substrings.
    mismatches : int, default=1
        In how many places two substrings may differ from a string that both are counted for.
    alphabet : str, default=None
        Characters that may stand in these places. None takes those of the data.
    normalize : bool, default=True
        Whether to divide by sqrt(k(x, x) k(y, y)).

    Examples
    --------
    "ab" counts for ab, aa and bb; "aa" for aa, ba and ab: two of them in common.

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
        if self.alphabet is None:
            raise ValueError(
                "alphabet=None depends on data: call kernel.fitted(X) first, or give the characters, such as "
                "alphabet='ACGT' (estimators do this for you)."
            )
        if not isinstance(self.alphabet, str):
            raise ValueError(f"alphabet={self.alphabet!r:.60}: expected a string of characters, or None.")

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Mismatch:
        if self.alphabet is not None:
            return self
        return clone(self).set_params(alphabet="".join(sorted(set().union(*self.read_all(X)))))

    def read(self, x: str) -> str:
        return read_text(x)

    def counts(self, x: str) -> Counts:
        found: Counter[str] = Counter()
        for piece, count in Counter(substrings(x, self.length)).items():
            for near in neighbourhood(piece, self.mismatches, str(self.alphabet)):
                found[near] += count
        return found


@lru_cache(maxsize=2**14)
def neighbourhood(piece: str, mismatches: int, alphabet: str) -> tuple[str, ...]:
    """All strings that differ from a piece in at most so many places.

    >>> neighbourhood("ab", 1, "ab")
    ('ab', 'bb', 'aa')
    """
    found = [piece]
    for places in (some for j in range(1, mismatches + 1) for some in combinations(range(len(piece)), j)):
        others = ([letter for letter in dict.fromkeys(alphabet) if letter != piece[i]] for i in places)
        for letters in product(*others):
            changed = list(piece)
            for i, letter in zip(places, letters):
                changed[i] = letter
            found.append("".join(changed))
    return tuple(found)
