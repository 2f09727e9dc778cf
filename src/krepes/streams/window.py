"""A sliding window over a stream: the model of the last rows, by taking old ones away.

    window = sum of the sums of its pieces,        piece of a row = its index // rows per piece

One sum is kept for every piece, as for groups. When rows are added, pieces that lie before the window are dropped, and
the sums of the others are added up again, so that no rounding collects. Memory: n_pieces + 1 times that of the sums.
Cost: that of the new rows, and O(n_pieces r^2).
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

import numpy as np

from krepes.base.validation import check_count
from krepes.one_pass import OnePassEstimator
from krepes.tally import Fit

M = TypeVar("M", bound=OnePassEstimator)


class Window(Generic[M]):
    """The model of the last rows of a stream, to within a piece.

    Parameters
    ----------
    model : fitted estimator with `partial_fit`
        Its preprocessing, kernel, landmarks and views are used; its rows are not.
    n_rows : int
        Length of the window. It holds at least the last n_rows rows, once they have arrived, and less than a piece
        more.
    n_pieces : int, default=10
        Into how many pieces it is divided. More are finer, and take more memory.

    Attributes
    ----------
    model : estimator
        The model of the window; use it as any other.

    Examples
    --------
    >>> from krepes import KernelEmbedding
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> base = KernelEmbedding(2, n_landmarks=20, random_state=0).fit(X[:200])
    >>> window = Window(base, n_rows=300)
    >>> for start in range(200, 1000, 50):
    ...     window = window.add(X[start : start + 50])
    >>> window.model.n_samples_seen_, window.model.transform(X[-1:]).shape
    (320, (1, 2))
    """

    def __init__(self, model: M, n_rows: int, n_pieces: int = 10):
        check_count("n_pieces", n_pieces)
        check_count("n_rows", n_rows, n_pieces)
        self.n_rows, self.n_pieces = n_rows, n_pieces
        self.model = model.empty_copy()._own(Fit(model.space_))  # groups are pieces of the stream

    @property
    def piece_rows(self) -> int:
        """Rows in a piece."""
        return -(-self.n_rows // self.n_pieces)

    def add(self, X: Any, y: Any = None, **given: Any) -> Self:
        """Add rows at the end of the stream, as `partial_fit` takes them; old pieces are dropped."""
        first, n = self.model.next_row_, self.model.input_space_.open(X).n_rows
        pieces = np.arange(first, first + n) // self.piece_rows
        self.model.partial_fit(X, *(() if y is None else (y,)), groups=pieces, **given)
        oldest = max(0, self.model.next_row_ - self.n_rows) // self.piece_rows
        gone = [piece for piece in self.model.groups_ if int(piece) < oldest]
        if gone:
            self.model.forget_groups(gone)
        return self
