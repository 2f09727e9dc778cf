"""Running text as columns: how often each group of three characters occurs, hashed.

    c_b(x) = sum over groups u of x with hash b of +1 or -1 (by another hash),      x -> c(x) / |c(x)|

Small letters, one space for every gap, a space before and behind; groups are three bytes of UTF-8. The inner product of
two texts is on average the cosine of their counts; two texts that share nothing are at squared distance 2,
as two levels of a category are. No text can be read back. Cost O(characters).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BUCKETS = 128
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: multiplicative hashing


def hashed_groups(cells: pa.Array) -> np.ndarray:  # shape: (n, BUCKETS)
    """Rows of length 1, or 0 where a text is missing or empty.

    >>> rows = hashed_groups(pa.array(["the red house", "The  RED house", "a green tree", None]))
    >>> (rows @ rows.T).round(6)[0, [0, 1, 3]]
    array([1., 1., 0.])
    """
    text = pc.utf8_lower(pc.fill_null(cells, "").cast(pa.large_string()))
    text = pc.replace_substring_regex(pc.utf8_trim_whitespace(text), r"[\s\p{Zs}]+", " ")
    space, nothing = pa.scalar(" ", pa.large_string()), pa.scalar("", pa.large_string())
    text = pc.binary_join_element_wise(space, text, space, nothing)
    n = len(text)
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int64)[text.offset : text.offset + n + 1]
    data = np.frombuffer(text.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
    rows = np.repeat(np.arange(n), np.diff(offsets))
    groups = (data[:-2] << np.uint64(16)) | (data[1:-1] << np.uint64(8)) | data[2:]
    inside = rows[:-2] == rows[2:]
    hashed, rows = groups[inside] * _FACTOR, rows[:-2][inside]
    bucket = (hashed >> np.uint64(57)).astype(np.int64)  # the first 7 bits
    sign = np.where((hashed >> np.uint64(40)) & np.uint64(1), 1.0, -1.0)
    counts = np.bincount(rows * BUCKETS + bucket, weights=sign, minlength=n * BUCKETS).reshape(n, BUCKETS)
    length = np.linalg.norm(counts, axis=1, keepdims=True)
    return counts / np.where(length > 0, length, 1.0)
