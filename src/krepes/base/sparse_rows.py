"""Sparse rows: a block that holds only the entries that are not zero.

    row i = values[edges[i] : edges[i+1]] in columns[edges[i] : edges[i+1]],   compressed sparse rows

A thin cover of a scipy CSR array with the few operations that sources, kernels, views and model files need. Columns are
sorted within a row and occur once: whatever is given is brought into this form, and what is given is never changed.
Memory is 12 bytes per entry in float64 and 8 in float32; nothing here has n d numbers but `toarray`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, DTypeLike

from krepes.base.files import readable_bytes

Matrix: TypeAlias = scipy.sparse.sparray | scipy.sparse.spmatrix
REDUCE = "Reduce them first, sklearn.decomposition.TruncatedSVD(100).fit_transform(X)"
MOST_COLUMNS = 2**31 - 1  # whose indices have 32 bits


class SparseRows:
    """n sparse rows of d columns.

    Parameters
    ----------
    matrix : scipy.sparse matrix or array of two dimensions, in any format

    Examples
    --------
    >>> rows = SparseRows(scipy.sparse.csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])))
    >>> len(rows), rows.shape, rows[1:].toarray().tolist()
    (2, (2, 3), [[1.0, 0.0, 3.0]])
    """

    device = "cpu"

    def __init__(self, matrix: Matrix | np.ndarray):
        self.csr = scipy.sparse.csr_array(matrix)  # shares memory where it can
        if not self.csr.has_canonical_format:
            self.csr = self.csr.copy()
            self.csr.sum_duplicates()

    @classmethod
    def of_parts(
        cls, values: np.ndarray, columns: np.ndarray, edges: np.ndarray, n_columns: int
    ) -> SparseRows:
        """Rows from their three arrays; what contradicts itself is an error, because nobody checks it later."""
        problems = {
            "the arrays must have one dimension": not values.ndim == columns.ndim == edges.ndim == 1,
            "indices must be integers": not columns.dtype.kind == edges.dtype.kind == "i",
            "values must be numbers": values.dtype.kind not in "biuf",
            f"their width must be between 1 and {MOST_COLUMNS:,}": not (
                isinstance(n_columns, int) and 1 <= n_columns <= MOST_COLUMNS
            ),
        }
        _refuse(problems)
        _refuse({"indptr must begin with 0": len(edges) == 0 or edges[0] != 0})
        _refuse(
            {
                "indptr must not fall": bool((np.diff(edges) < 0).any()),
                f"indptr must end where the entries do, not at {edges[-1]:,} ({len(values):,} values and "
                f"{len(columns):,} column indices)": not edges[-1] == len(values) == len(columns),
                f"column indices must lie between 0 and {n_columns - 1:,}": bool(
                    len(columns) and not (columns.min() >= 0 and columns.max() < n_columns)
                ),
            }
        )
        return cls(scipy.sparse.csr_array((values, columns, edges), shape=(len(edges) - 1, n_columns)))

    def __len__(self) -> int:
        return self.csr.shape[0]

    def __getitem__(self, part: slice | ArrayLike) -> SparseRows:
        """Rows by a slice, by indices or by a mask (arrays or tensors)."""
        return self._of(self.csr[part if isinstance(part, slice) else np.asarray(part)])

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("Sparse rows come in blocks, not one by one.")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError(
            f"This needs a dense array; got sparse rows, {self.describe()}. {dense_remedy(self.shape[1])}"
        )

    def __repr__(self) -> str:
        return f"SparseRows({self.describe()})"

    def describe(self) -> str:
        """Their number, width and density in words."""
        n, d = self.shape
        return f"{n:,} × {d:,}, {self.dtype}, {100 * self.csr.nnz / max(1, n * d):.2g} % not zero"

    @property
    def shape(self) -> tuple[int, int]:
        return self.csr.shape

    @property
    def dtype(self) -> np.dtype:
        return self.csr.dtype

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.columns.nbytes + self.edges.nbytes

    @property
    def values(self) -> np.ndarray:
        return self.csr.data

    @property
    def columns(self) -> np.ndarray:
        return self.csr.indices

    @property
    def edges(self) -> np.ndarray:
        return self.csr.indptr

    @property
    def row_of_entry(self) -> np.ndarray:
        """The row of every entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.edges))

    def equals(self, other: object) -> bool:
        """Whether both are the same rows, to the bit."""
        if not isinstance(other, SparseRows):
            return False
        parts = ((self.values, other.values), (self.columns, other.columns), (self.edges, other.edges))
        return self.shape == other.shape and all(np.array_equal(one, two) for one, two in parts)

    def astype(self, dtype: DTypeLike) -> SparseRows:
        return self if self.dtype == dtype else self._of(self.csr.astype(dtype))

    def double(self) -> SparseRows:
        return self.astype(np.float64)

    def with_values(self, values: np.ndarray) -> SparseRows:
        """Other numbers in the same places."""
        return self._of(scipy.sparse.csr_array((values, self.columns, self.edges), shape=self.shape))

    def times_columns(self, factors: np.ndarray) -> SparseRows:
        """Every column times a number of its own, factors of shape (d,), in float64."""
        return self.with_values(self.values * factors[self.columns])

    def square_norms(self) -> np.ndarray:
        """|x|^2 of every row, float64."""
        return self.row_sums(np.square(self.values, dtype=np.float64))

    def row_sums(self, numbers: np.ndarray) -> np.ndarray:
        """The sums over the entries of every row of numbers that belong to entries, float64."""
        return np.bincount(self.row_of_entry, numbers, minlength=len(self)).astype(np.float64, copy=False)

    def toarray(self) -> np.ndarray:
        return self.csr.toarray()

    @staticmethod
    def concatenated(parts: Sequence[SparseRows]) -> SparseRows:
        """The parts one after the other."""
        return SparseRows(scipy.sparse.vstack([part.csr for part in parts], format="csr"))

    def _of(self, csr: scipy.sparse.csr_array) -> SparseRows:
        """Rows that are in order because these are."""
        rows = SparseRows.__new__(SparseRows)
        csr.has_canonical_format = True  # also spares scipy a look at every index
        rows.csr = csr
        return rows


def as_sparse(X: Any) -> SparseRows | Any:
    """A scipy.sparse matrix as SparseRows; everything else as it is."""
    return SparseRows(X) if scipy.sparse.issparse(X) else X


def dense_remedy(n_columns: int) -> str:
    """What to do with sparse rows of this width where dense ones are needed."""
    memory = readable_bytes(8000 * n_columns)
    return f"{REDUCE}, or give X.toarray(), which takes {memory} of memory for a thousand rows."


def _refuse(problems: dict[str, bool]) -> None:
    wrong = [what for what, broken in problems.items() if broken]
    if wrong:
        raise ValueError(f"These are not sparse rows: {'; '.join(wrong)}.")
