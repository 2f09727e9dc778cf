"""The spectrum kernel: strings that have the same substrings.

    c_u(x) = how often u occurs in x, for all strings u of a given length        [leslie]

Cost O(|x|) to count a string.
"""

from __future__ import annotations

from collections import Counter

from krepes.base.validation import check_count
from krepes.kernels.objects.object_kernel import CountKernel, Counts


class Spectrum(CountKernel):
    """Substrings of one length in common.

    Parameters
    ----------
    length : int, default=3
        Of the substrings. Strings that are shorter have none, and are similar to nothing.
    normalize : bool, default=True
        Whether to divide by sqrt(k(x, x) k(y, y)).

    Examples
    --------
    >>> Spectrum(length=2, normalize=False)(["banana"], ["ananas"])      # an: 2 * 2, na: 2 * 2
    tensor([[8.]], dtype=torch.float64)
    """

    name = "spectrum"
    known_elsewhere_as = ("string", "kmer")
    expects = "strings"

    def __init__(self, length: int = 3, normalize: bool = True):
        super().__init__(normalize)
        self.length = length

    def check_parameters(self) -> None:
        super().check_parameters()
        check_count("length", self.length)

    def counts(self, x: str) -> Counts:
        return Counter(substrings(x, self.length))


def substrings(x: str, length: int) -> list[str]:
    """All substrings of one length, in order.

    >>> substrings("abcd", 3)
    ['abc', 'bcd']
    """
    return [x[i : i + length] for i in range(len(x) - length + 1)]
