"""Sparse matrices as sources of rows: scipy.sparse matrices, and their `.npz` files (`scipy.sparse.save_npz`).

Rows come from a CSR matrix; other formats are converted once. In an uncompressed file the entries of a block of rows
are read from their place, so that resident memory is one block and the n + 1 edges of the rows. Compressed files, and
formats other than CSR, are read into memory as they are stored, never as dense rows. Headers are checked before
anything is allocated, and nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse

from krepes.base.blocks import available_memory
from krepes.base.rows import MOST_COLUMNS, Matrix, Rows, SparseRows
from krepes.base.storage.files import readable_bytes
from krepes.sources.arrays.in_memory import check_array
from krepes.sources.arrays.numpy_files import npz_header, npz_names, read_array, reading_npz
from krepes.sources.arrays.rows_in_file import ArrayHeader, RowFile
from krepes.sources.identity_of_files import files_identity
from krepes.sources.source import IndexedSource, Source

PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}


class SparseSource(IndexedSource):
    """Rows of a sparse matrix in memory.

    >>> source = SparseSource(scipy.sparse.csr_array(np.eye(3)))
    >>> source.describe(), [(start, len(batch)) for start, batch in source.batches(2)]
    ('sparse matrix, 3 × 3, float64, 33 % not zero', [(0, 2), (2, 1)])
    """

    kind = "sparse"

    def __init__(self, matrix: Matrix, paths: Sequence[Path] = ()):
        super().__init__(paths)
        check_array(tuple(matrix.shape), matrix.dtype)
        self.X = SparseRows(matrix)
        self.n_rows = len(self.X)

    def _rows(self, which: slice | np.ndarray) -> Rows:
        return self.X[which]

    def describe(self) -> str:
        return f"sparse {'npz' if self._paths else 'matrix'}, {self.X.describe()}"


class SparseFileSource(Source):
    """Rows of a CSR matrix that lies uncompressed in an `.npz` file, read from their place."""

    kind = "sparse"
    random_access = True

    def __init__(self, values: ArrayHeader, columns: ArrayHeader, edges: np.ndarray, n_columns: int):
        self.values, self.columns, self.edges, self.n_columns = values, columns, edges, n_columns
        self.n_rows = len(edges) - 1

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        with self._opened() as files:
            for first in range(start, self.n_rows, batch_rows):
                edges = self.edges[first : first + batch_rows + 1]
                values, columns = (file.rows(int(edges[0]), int(edges[-1])) for file in files)
                yield first, self._rows(values, columns, edges - edges[0])

    def take(self, indices: np.ndarray) -> Rows:
        indices = self._checked_indices(indices)
        starts, stops = self.edges[indices], self.edges[indices + 1]
        edges = np.concatenate([[0], np.cumsum(stops - starts)])
        values, columns = np.empty(edges[-1], self.values.dtype), np.empty(edges[-1], self.columns.dtype)
        with self._opened() as files:
            for file, found in zip(files, (values, columns)):
                for (low, high), start, stop in zip(pairwise(edges), starts, stops):
                    found[low:high] = file.rows(int(start), int(stop))
        return self._rows(values, columns, edges)

    def _rows(self, values: np.ndarray, columns: np.ndarray, edges: np.ndarray) -> SparseRows:
        with reading_npz(str(self.values.path)):
            return SparseRows.of_parts(values, columns, edges, self.n_columns)

    @contextmanager
    def _opened(self) -> Iterator[tuple[RowFile, RowFile]]:
        with RowFile(self.values) as values, RowFile(self.columns) as columns:
            if values.stamp != self.values.stamp:
                raise ValueError(f"{self.values.path} was changed after it was opened. Open it again.")
            with reading_npz(str(self.values.path)):
                yield values, columns

    @property
    def paths(self) -> list[Path]:
        return [self.values.path]

    def identity(self) -> dict[str, object]:
        return {"sparse": [self.n_rows, self.n_columns, self.values.dtype.str], **files_identity(self.paths)}

    def describe(self) -> str:
        share = 100 * int(self.edges[-1]) / (self.n_rows * self.n_columns)
        size = f"{self.n_rows:,} × {self.n_columns:,}, {self.values.dtype}"
        return f"sparse npz read in parts, {size}, {share:.2g} % not zero"


def is_sparse_npz(path: Path, array: str) -> bool:
    """Whether an `.npz` file is one that `scipy.sparse.save_npz` wrote, and has no array of that name besides."""
    names = npz_names(path)
    return array not in names and {"format", "shape", "data"} <= set(names)


def open_sparse_npz(path: Path) -> Source:
    """The rows of a sparse matrix in a file: read in parts where that is possible, else in memory."""
    kind, shape = _format(path), _shape(path)
    names = PARTS[kind]
    headers, compressed = zip(*(npz_header(path, name) for name in names))
    check_array(shape, headers[0].dtype, f"{path}: ")
    with reading_npz(str(path)):
        _check_parts(kind, shape, headers)
    size = 8 * max(shape) + sum(header.nbytes for header in headers)
    if kind == "csr" and not any(compressed):
        edges, n = read_array(path, "indptr"), headers[0].shape[0]
        if edges[0] != 0 or edges[-1] != n or (np.diff(edges) < 0).any():
            raise ValueError(f"{path}: indptr must rise from 0 to the {n:,} entries of the file.")
        return SparseFileSource(headers[0], headers[1], edges.astype(np.int64), shape[1])
    if size > available_memory() // 3:  # because a conversion needs it twice
        raise MemoryError(
            f"{path}: {readable_bytes(size)} of entries do not fit into memory. Save the matrix with "
            "scipy.sparse.save_npz(path, X.tocsr(), compressed=False), which is read in parts."
        )
    parts = [read_array(path, name) for name in names]
    with reading_npz(str(path)):
        return SparseSource(_matrix(kind, shape, parts), [path])


def _format(path: Path) -> str:
    found = read_array(path, "format")
    kind = found.item() if found.size == 1 and found.dtype.kind in "US" else None
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else kind
    if kind not in PARTS:
        raise ValueError(f"{path}: expected a matrix in csr, csc or coo; got {kind!r:.60}. Save X.tocsr().")
    return kind


def _shape(path: Path) -> tuple[int, int]:
    found = read_array(path, "shape")
    if found.shape != (2,) or found.dtype.kind not in "iu" or found.min() < 0 or found.max() > MOST_COLUMNS:
        raise ValueError(f"{path}: the shape of the matrix, {found.tolist()!r:.60}, cannot be.")
    return int(found[0]), int(found[1])


def _check_parts(kind: str, shape: tuple[int, ...], headers: Sequence[ArrayHeader]) -> None:
    """Raise unless the arrays of a file have the lengths that its shape says."""
    if any(len(header.shape) != 1 for header in headers):
        raise ValueError("its arrays must have one dimension")
    values, first, second = (header.shape[0] for header in headers)
    if any(header.dtype.kind not in "iu" for header in headers[1:]):
        raise ValueError("its indices must be integers")
    lanes = {"csr": shape[0] + 1, "csc": shape[1] + 1, "coo": values}[kind]
    if first != values or second != lanes:
        found = f"{values:,} values with {first:,} and {second:,} indices"
        raise ValueError(f"the shape {shape} does not fit the arrays: {found}")


def _matrix(kind: str, shape: tuple[int, ...], parts: Sequence[np.ndarray]) -> scipy.sparse.csr_array:
    """A checked CSR matrix."""
    values = parts[0]
    first, second = (found if found.dtype.kind == "i" else found.astype(np.int64) for found in parts[1:])
    if kind == "coo":  # scipy checks the indices
        return scipy.sparse.coo_array((values, (first, second)), shape=shape).tocsr()
    rows = SparseRows.of_parts(values, first, second, shape[1] if kind == "csr" else shape[0]).csr
    return rows if kind == "csr" else rows.T.tocsr()
