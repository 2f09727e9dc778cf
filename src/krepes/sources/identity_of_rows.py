"""A hash of rows in memory, by which a checkpoint knows whether its data changed.

Every number counts. Bytes are taken in pieces of 8 KB, x_0 ... x_1023 of 64 bits, and each piece is folded to

    sum_j w_j (x_j xor (x_j >> 32))   modulo 2^64,   w_j odd and fixed

and the sums go through SHA-256. One changed number always changes the hash, because an odd factor can be undone modulo
2^64; other changes leave it as it is with a chance of about 1 in 2^40. The arithmetic is that of integers, so every
machine finds the same. Arrays are hashed at the speed of memory (about 5 GB/s, where SHA-256 alone has 0.3 to 2);
tables are turned into Arrow on the way, like in any scan of them; lists take about 2 µs for an object. Memory is 1 MB.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from krepes.base.rows import Rows, SparseRows, is_tensor

_WORDS = 1024  # per piece
_BATCH_BYTES = 1 << 20
_BATCH_CELLS = 1 << 18  # of a table
_BATCH_OBJECTS = 1 << 16


def content_hash(batches: Iterable[Rows]) -> str:
    """A hash of all values in some batches, with their types; it depends on where the batches are cut.

    >>> a, b = np.zeros((5, 2)), np.zeros((5, 2))
    >>> b[3, 1] = 5e-324
    >>> content_hash([a]) == content_hash([a.copy()]), content_hash([a]) == content_hash([b])
    (True, False)
    """
    found = hashlib.sha256()
    for batch in batches:
        for part in _parts(batch):
            data = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part
            found.update(len(data).to_bytes(8, "little"))
            end = len(data) - len(data) % (8 * _WORDS)
            found.update(_folded(data[:end].view(np.uint64)).data)
            found.update(data[end:].data)
    return found.hexdigest()[:32]


def batch_rows(row: Rows) -> int:
    """Rows per batch for which a batch is about 1 MB; `row` is the first of them."""
    if isinstance(row, pa.Table):
        return max(1, _BATCH_CELLS // row.num_columns)
    if isinstance(row, list):
        return _BATCH_OBJECTS
    return max(1, min(_BATCH_OBJECTS, _BATCH_BYTES // max(1, row.nbytes)))


def _weights() -> np.ndarray:
    """Odd numbers without a pattern (SplitMix64); they must never change."""
    w = np.arange(1, _WORDS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    w = (w ^ (w >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (w ^ (w >> np.uint64(27))) | np.uint64(1)


_W = _weights()


def _folded(words: np.ndarray) -> np.ndarray:
    # because short numbers, such as 1.0 and 2.0, differ in high bits alone
    mixed = words ^ (words >> np.uint64(32))
    return np.einsum("ij,j->i", mixed.reshape(-1, _WORDS), _W)


def _parts(batch: Rows) -> Iterator[np.ndarray | bytes]:
    """The bytes of a batch, each array of them preceded by its type."""
    if isinstance(batch, pa.Table):
        for name, column in zip(batch.column_names, batch.columns):
            yield f"{name}: {column.type}, {len(column)}".encode()
            yield from _column_parts(column)
    elif isinstance(batch, list):
        yield "\n".join(map(_text, batch)).encode()
    else:
        yield f"{batch.dtype}, {tuple(batch.shape)}".encode()
        parts = (batch.values, batch.columns, batch.edges) if isinstance(batch, SparseRows) else (batch,)
        yield from map(_number_bytes, parts)


def _number_bytes(batch: Any) -> np.ndarray:
    if is_tensor(batch):
        import torch

        return batch.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return np.ascontiguousarray(batch).reshape(-1).view(np.uint8)


def _column_parts(column: pa.ChunkedArray) -> Iterator[np.ndarray | bytes]:
    """Which values are missing, and the other values: what Arrow keeps in the place of a missing one is undefined."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    for chunk in column.chunks:
        if chunk.null_count:
            yield chunk.is_null().to_numpy(zero_copy_only=False).view(np.uint8)
        values = chunk.drop_null() if chunk.null_count else chunk
        yield np.frombuffer(pa.record_batch([values], ["x"]).serialize(), np.uint8)


def _text(value: Any) -> str:
    """An object as JSON text. What JSON cannot hold counts by its type alone."""
    try:
        return json.dumps(value, default=_plain)
    except (TypeError, ValueError, RecursionError):  # keys that are not strings, circles, deep nesting
        return _type_name(value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if is_tensor(value) or (isinstance(value, np.ndarray) and value.dtype.kind in "biufc"):
        return content_hash([value])
    return _type_name(value)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
