"""Random numbers that belong to a row: the same row gets the same draws in every block, order and process.

    draw(seed, key, row, column) = mix(row_key + column * G),  row_key = mix(stream_key(seed, *key) + row * G)

`mix` is the finaliser of SplitMix64 [steele]
and G its odd increment 2^64 / golden ratio. Nothing is stored and nothing is drawn in sequence, so results do
not depend on block size, order of rows, partitions or workers, and a shuffled batch costs no more than a
contiguous one. Draws are made on the CPU in float32 whatever the dtype and device of the data, so all of them
see the same augmentations. About 10 ns per draw.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

INCREMENT = np.uint64(0x9E3779B97F4A7C15)
FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
FACTOR_2 = np.uint64(0x94D049BB133111EB)
BITS_64 = 2**64 - 1


def uniform(rows: Any, width: int, seed: int, *key: int) -> Tensor:
    """Uniform draws on {0, 1, ..., 2^24 - 1} / 2^24, float32, shape (b, width).

    Parameters
    ----------
    rows : integers of shape (b,)
        Global row indices, in any order.
    width : int
        Draws per row.
    seed : int
    key : int
        What the draws are for: view index, purpose, ... Different keys give independent streams.

    Examples
    --------
    >>> bool((uniform([7, 3], 4, 0)[1] == uniform([3], 4, 0)[0]).all())
    True
    """
    return _integers(rows, width, seed, key).mul_(2.0**-24)[:, :width]


def uniform_at(rows: Any, columns: ArrayLike, seed: int, *key: int) -> Tensor:
    """The draws of `uniform` at single places: row and column i give number i, shape (n,); other arguments likewise.

    >>> bool((uniform_at([7, 3], [2, 5], 0) == uniform([7, 3], 6, 0)[[0, 1], [2, 5]]).all())
    True
    """
    places = np.ascontiguousarray(columns, dtype=np.int64).view(np.uint64)
    words = _mix(_row_keys(rows, seed, key) + (places // np.uint64(2) + np.uint64(1)) * INCREMENT)
    halves = words.view(np.uint32).reshape(-1, 2)[np.arange(len(places)), places % np.uint64(2)]
    return torch.from_numpy((halves >> np.uint32(8)).astype(np.float32)).mul_(2.0**-24)


def normal(rows: Any, width: int, seed: int, *key: int) -> Tensor:
    """Standard normal draws (Box-Muller), float32, shape (b, width); arguments as in `uniform`."""
    pairs = _integers(rows, width, seed, key).reshape(len(rows), (width + 1) // 2, 2)
    radius = pairs[..., 0].add(1).mul_(2.0**-24).log_().mul_(-2).sqrt_()  # of a uniform draw on (0, 1]
    angle = pairs[..., 1].mul(2 * math.pi * 2.0**-24)
    torch.mul(radius, angle.cos(), out=pairs[..., 0])
    torch.mul(radius, angle.sin(), out=pairs[..., 1])
    return pairs.flatten(1)[:, :width]


def _integers(rows: Any, width: int, seed: int, key: tuple[int, ...]) -> Tensor:
    """24-bit integers as float32, two from each 64-bit word, shape (b, width rounded up to even)."""
    row_keys = _row_keys(rows, seed, key)
    columns = np.arange(1, (width + 1) // 2 + 1, dtype=np.uint64) * INCREMENT
    words = _mix(row_keys[:, None] + columns[None, :]).view(np.uint32)
    words >>= np.uint32(8)
    return torch.from_numpy(words.astype(np.float32))


def _row_keys(rows: Any, seed: int, key: tuple[int, ...]) -> np.ndarray:
    """One 64-bit word for every row, shape (b,)."""
    rows = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
    rows = np.ascontiguousarray(rows, dtype=np.int64).view(np.uint64)
    return _mix(rows * INCREMENT + np.uint64(stream_key(seed, *key)))


def stream_key(seed: int, *key: int) -> int:
    state = np.zeros(1, dtype=np.uint64)
    seed_words = (seed & BITS_64, (seed >> 64) & BITS_64)  # Python integers have no fixed width
    for part in (*seed_words, *key):
        state = _mix(state + INCREMENT + np.uint64(part & BITS_64))
    return int(state[0])


def _mix(z: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit words in which every input bit reaches every output bit; overwrites z."""
    z ^= z >> np.uint64(30)
    z *= FACTOR_1
    z ^= z >> np.uint64(27)
    z *= FACTOR_2
    z ^= z >> np.uint64(31)
    return z
