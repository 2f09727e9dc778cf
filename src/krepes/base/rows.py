"""Rows of a batch, whatever the batch is: an array, a tensor, sparse rows, a pyarrow table or a list.

The few operations that sources, samplers and passes need on all five, so that nothing after them asks for a type: a
new kind of rows (ragged) is one more branch in each. Nothing here copies more than the rows asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
import pyarrow as pa

from krepes.base.sparse_rows import SparseRows, dense_remedy

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
