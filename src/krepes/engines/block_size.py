"""How many rows a block has: as many as a memory budget allows, and never more than make it faster."""

from __future__ import annotations

from krepes.base.linalg import rows_within

MEMORY_BUDGET = 512 * 2**20  # bytes that one block may take
SMALLEST_BLOCK, LARGEST_BLOCK = 16, 2048
BLOCKS_PER_BATCH = 4  # a batch is what is read at once


def block_rows(bytes_per_row: int, budget: int | None = None) -> int:
    """Rows per block within a memory budget: a power of two, up to where matrix products have their full rate.

    >>> block_rows(30_000), block_rows(1_000_000), block_rows(10**9)
    (2048, 512, 16)
    """
    allowed = MEMORY_BUDGET if budget is None else budget
    rows = rows_within(allowed, bytes_per_row, SMALLEST_BLOCK, LARGEST_BLOCK)
    return 2 ** (rows.bit_length() - 1)
