"""Rows of a batch, whatever the batch is: an array, a tensor, sparse rows, a pyarrow table or a list.

The few operations that sources, samplers and passes need on all five, so that nothing after them asks for a type: a
new kind of rows (ragged) is one more branch in each. Nothing here copies more than the rows asked for. `RowLayout` is
what a kernel may know of the rows that it will compare:

kind            rows
vectors         (d,)
sparse          (d,), mostly zeros
images          (h, w[, c])
table           (d,), where each column of the table has become one number or several
series          (t, c); tensors (t_i, c) where lengths differ
precomputed     (1 + n,), a row of a kernel matrix after its number
objects         anything; of a table, records: encoded numbers, then columns as they are
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, TypeVar

import numpy as np
import pyarrow as pa
import scipy.sparse
from numpy.typing import ArrayLike, DTypeLike

from krepes.base.storage.files import readable_bytes

if TYPE_CHECKING:
    import torch

# b rows: numbers, a table, or objects
Rows: TypeAlias = "np.ndarray | torch.Tensor | SparseRows | pa.Table | list[Any]"
R = TypeVar("R", bound="np.ndarray | torch.Tensor | SparseRows | pa.Table | list[Any]")


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Whether a value is a torch tensor, without importing torch to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def dense(rows: Rows) -> torch.Tensor:
    """Rows that must be a tensor; an error where they are sparse or objects."""
    if is_tensor(rows):
        return rows
    if isinstance(rows, SparseRows):
        raise TypeError(f"This needs dense rows, and these are sparse. {dense_remedy(rows.shape[1])}")
    raise TypeError("This needs rows of numbers, and these rows are objects.")


def number_columns(rows: Rows) -> np.ndarray:
    """Rows as a matrix (n, d) in memory. Sparse ones are made dense: whoever asks has checked that there is room."""
    if isinstance(rows, SparseRows):
        return rows.toarray()
    found = dense(rows)
    return found.reshape(len(found), -1).cpu().numpy()


def count_rows(batch: Rows) -> int:
    return batch.num_rows if isinstance(batch, pa.Table) else len(batch)


def slice_rows(rows: R, start: int, stop: int) -> R:
    batch: Any = rows
    if isinstance(batch, pa.Table):
        return batch.slice(start, max(stop - start, 0))
    return batch[start:stop]


def take_rows(rows: R, indices: np.ndarray) -> R:
    """The rows at `indices`, in that order, as a copy."""
    batch: Any = rows
    if isinstance(batch, pa.Table):
        return _compact(batch).take(pa.array(indices))
    if is_tensor(rows):
        taken: Any = rows[sys.modules["torch"].as_tensor(indices, device=rows.device)]
    elif isinstance(batch, np.ndarray | SparseRows):
        taken = batch[indices]
    else:
        taken = [batch[i] for i in indices]
    return taken


def concat_rows(parts: Sequence[R]) -> R:
    """The parts one after the other; a single part is returned as it is."""
    first: Any = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, pa.Table):
        return pa.concat_tables(parts)
    if isinstance(first, np.ndarray):
        joined: Any = np.concatenate(parts)
        return joined
    if isinstance(first, SparseRows):
        sparse: Any = parts
        joined = SparseRows.concatenated(sparse)
        return joined
    if is_tensor(first):
        return sys.modules["torch"].cat(parts)
    rows: Any = [row for part in parts for row in part]
    return rows


def rebatch(parts: Iterable[R], batch_rows: int, start: int = 0) -> Iterator[tuple[int, R]]:
    """Cut a stream of parts of any size into batches of exactly `batch_rows` rows (the last may be short).

    >>> [(i, b.tolist()) for i, b in rebatch([np.array([1, 2, 3]), np.array([4, 5])], 2)]
    [(0, [1, 2]), (2, [3, 4]), (4, [5])]
    """
    held: list[R] = []
    n_held = 0
    for part in parts:
        n_part, offset = count_rows(part), 0
        while offset < n_part:
            piece = slice_rows(part, offset, offset + batch_rows - n_held)
            offset += count_rows(piece)
            n_held += count_rows(piece)
            held.append(piece)
            if n_held == batch_rows:
                yield start, concat_rows(held)
                start, held, n_held = start + n_held, [], 0
    if held:
        yield start, concat_rows(held)


def _compact(table: pa.Table) -> pa.Table:
    """One chunk per column and one dictionary, because `take` on differing dictionaries is not defined."""
    if any(column.num_chunks > 1 for column in table.columns):
        return table.unify_dictionaries().combine_chunks()
    return table


Matrix: TypeAlias = scipy.sparse.sparray | scipy.sparse.spmatrix
REDUCE = "Reduce them first, sklearn.decomposition.TruncatedSVD(100).fit_transform(X)"
UNKNOWN_DIAGONAL = -3e38  # in front of a new row of kernel values, where k(x, x) is not known
MOST_COLUMNS = 2**31 - 1  # whose indices have 32 bits


class SparseRows:
    """n sparse rows of d columns: only the entries that are not zero.

        row i = values[edges[i] : edges[i+1]] in columns[edges[i] : edges[i+1]],   compressed sparse rows

    A thin cover of a scipy CSR array with the few operations that sources, kernels, views and model files need. Columns
    are sorted within a row and occur once: rows in another form are copied. Memory is 12 bytes per entry in float64 and
    8 in float32; nothing here has n d numbers but `toarray`.

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


@dataclass(frozen=True)
class EncodedColumn:
    """Where the numbers of one column of a table are in an encoded row.

    Attributes
    ----------
    name : str
    kind : "number", "category" or "point"
        A point is a vector of length 1: a place on a circle, a text.
    places : tuple of int
        All numbers of the column.
    values : tuple of int
        The places to compare: without indicators of missing values, and of a date only how late it is.
    missing : int or None
        The place that is 1 where the value is missing.
    """

    name: str
    kind: Literal["number", "category", "point"]
    places: tuple[int, ...]
    values: tuple[int, ...]
    missing: int | None = None

    def moved(self, by: int) -> EncodedColumn:
        """The same column, its numbers this many places further on."""
        places, values = (tuple(place + by for place in each) for each in (self.places, self.values))
        return replace(
            self, places=places, values=values, missing=None if self.missing is None else self.missing + by
        )


@dataclass(frozen=True)
class RowLayout:
    """The kind of rows, and where things are in them.

    Attributes
    ----------
    kind : str
    width : int or None
        Numbers in a row; None for objects and for series of different lengths.
    columns : tuple of EncodedColumn
        The columns of an encoded table, in their order.
    names : tuple of str
        All columns of the table, used or not.
    raw : tuple of str
        Columns of the table that come as they are, after the encoded numbers.
    left_out : mapping of str to str
        Why a column of the table is not encoded; columns that were excluded are not in it.
    shape : tuple of int
        Of one row, for images.
    """

    kind: str
    width: int | None = None
    columns: tuple[EncodedColumn, ...] = ()
    names: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    shape: tuple[int, ...] = ()

    @property
    def only_categories(self) -> bool:
        """Whether the rows are a table whose columns are all categories."""
        return bool(self.columns) and all(column.kind == "category" for column in self.columns)

    def part(self, names: Sequence[str]) -> RowLayout:
        """Rows of these columns of an encoded table alone."""
        kept: list[EncodedColumn] = []
        width = 0
        for column in self.columns:
            if column.name in names:
                kept.append(column.moved(width - column.places[0]))
                width += len(column.places)
        return RowLayout("table", width, tuple(kept), tuple(names))
