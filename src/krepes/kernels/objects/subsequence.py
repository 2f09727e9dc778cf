"""The subsequence kernel: strings that have the same characters in the same order, with gaps.

    c_u(x) = sum over places i_1 < ... < i_p with x[i_1] ... x[i_p] = u of  decay^(i_p - i_1 + 1)        [lodhi]

A subsequence that is spread over more of the string counts less. Found without listing subsequences, by

    K'_0 = 1,   K'_p(xa, y) = decay K'_p(x, y) + K''_p(xa, y)
    K''_p(xa, yb) = decay K''_p(xa, y) + decay^2 [a = b] K'_{p-1}(x, y)
    k(xa, y) = k(x, y) + decay^2 sum_j [y_j = a] K'_{p-1}(x, y_1 ... y_{j-1})

for all landmarks at once. Cost O(length |x| |y|) for every pair: far more than the kernels that count. Where the A
characters of the landmarks have few combinations, A^length <= 2^15, the weights c_u are computed instead, character
by character, in O(|x| A^(length - 1)); a block is then a matrix product, about a hundred times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.signal import lfilter

from krepes.base.validation import check_count, check_number
from krepes.kernels.objects.object_kernel import InnerProductKernel

MOST_WEIGHTS = 2**15  # of a string: a row of numbers for each landmark


class Subsequence(InnerProductKernel):
    """Subsequences in common: characters in the same order, not necessarily next to each other.

    Parameters
    ----------
    length : int, default=3
        Of the subsequences. Strings that are shorter are similar to nothing.
    decay : float in (0, 1], default=0.5
        By how much each further place that a subsequence spans lowers its weight; 1 ignores gaps.
    normalize : bool, default=True
        Whether to divide by sqrt(k(x, x) k(y, y)).

    Examples
    --------
    "cat" and "car" share the subsequence "ca", of weight 0.5^2 in both: 0.5^4.

    >>> Subsequence(length=2, decay=0.5, normalize=False)(["cat"], ["car"])
    tensor([[0.0625]], dtype=torch.float64)
    """

    name = "subsequence"
    known_elsewhere_as = ("ssk", "gappy")
    expects = "strings"

    def __init__(self, length: int = 3, decay: float = 0.5, normalize: bool = True):
        super().__init__(normalize)
        self.length = length
        self.decay = decay

    def check_parameters(self) -> None:
        super().check_parameters()
        check_count("length", self.length)
        check_number("decay", self.decay, above=0, most=1)

    def described(self, objects: list[str]) -> list[np.ndarray]:
        return [np.array([ord(letter) for letter in x], dtype=np.int32) for x in objects]

    def products_with(
        self, descriptions: Sequence[np.ndarray]
    ) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
        alphabet = np.unique(np.concatenate([np.zeros(0, dtype=np.int32), *descriptions]))
        if len(alphabet) ** min(int(self.length), 64) <= MOST_WEIGHTS:
            weights = self._weights(descriptions, alphabet).T.copy()
            return lambda some: self._weights(some, alphabet) @ weights
        landmarks = _padded(descriptions, -2)
        m = len(descriptions)
        return lambda some: np.array([self._products(x[None], landmarks) for x in some]).reshape(len(some), m)

    def squares(self, descriptions: Sequence[np.ndarray]) -> np.ndarray:
        return self._products(_padded(descriptions, -1), _padded(descriptions, -2))

    def _products(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """<c(x), c(y)> for rows of characters side by side, (n, |x|) or (1, |x|) and (n, |y|)."""
        decay, p = float(self.decay), int(self.length)
        n, width = y.shape
        K = np.zeros(n)
        if p > min(x.shape[1], width):
            return K
        # K'_q(x, y_1 ... y_{j-1}) at column j
        before = [np.ones((n, width)), *np.zeros((p - 1, n, width))]
        for i in range(x.shape[1]):
            same = x[:, i, None] == y
            K += np.where(same, before[p - 1], 0).sum(axis=1)
            for q in range(p - 1, 0, -1):
                added = lfilter([decay**2], [1.0, -decay], np.where(same, before[q - 1], 0), axis=1)
                before[q] *= decay
                before[q][:, 1:] += added[:, :-1]
        return K * decay**2

    def _weights(self, strings: Sequence[np.ndarray], alphabet: np.ndarray) -> np.ndarray:
        """c_u(x) for all u of the characters of an alphabet, (n, A^length)."""
        decay, p, n, A = float(self.decay), int(self.length), len(strings), len(alphabet)
        x = _padded(strings, -1)
        if p > x.shape[1]:
            return np.zeros((n, A**p))
        place = np.searchsorted(alphabet, x).clip(max=max(A - 1, 0))
        known = alphabet[place] == x if A else np.zeros(x.shape, dtype=bool)
        # by the last character
        c = [np.ones((n, 1)), *(np.zeros((n, A**q, A)) for q in range(p))]
        for i in range(x.shape[1]):
            rows = np.flatnonzero(known[:, i])
            for q in range(p, 0, -1):
                if q < p:
                    c[q] *= decay  # subsequences that go on span one place more
                c[q][rows, :, place[rows, i]] += decay * c[q - 1].reshape(n, A ** (q - 1))[rows]
        return c[p].reshape(n, A**p)


def _padded(strings: Sequence[np.ndarray], filling: int) -> np.ndarray:
    """Strings as rows of one array; what fills it up is no character, and equal to none."""
    rows = np.full((len(strings), max(map(len, strings), default=0) or 1), filling, dtype=np.int32)
    for row, string in zip(rows, strings):
        row[: len(string)] = string
    return rows
