"""What a command will need of memory and disk, checked before it begins."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from krepes.base.caller_warning import warn
from krepes.base.files import check_writable, readable_bytes

if TYPE_CHECKING:
    from krepes.features.space import FeatureSpace
    from krepes.sources import Source

MOST_DENSE_BYTES = 2**30  # to which sparse rows are made dense, to compare with other methods
# Matrices of m x m float64 that exist at once: K_mm and its vectors, F, three moments, and the solver's.
LEAST_MATRICES, USUAL_MATRICES = 8, 18


def available_memory() -> int:
    """Bytes that can be allocated without swapping."""
    from krepes.base.memory import available_memory as available

    return available()


def check_fit_memory(n_landmarks: int, more: int = 0) -> None:
    """Refuse landmarks whose matrices, `more` than usual, cannot fit into memory; warn where it will be tight."""
    free = available_memory()
    least, usual = (8 * (count + more) * n_landmarks**2 for count in (LEAST_MATRICES, USUAL_MATRICES))
    possible = int((free / (8 * (USUAL_MATRICES + more))) ** 0.5)
    if least > free:
        raise MemoryError(
            f"{n_landmarks:,} landmarks need at least {readable_bytes(least)} of memory, and "
            f"{readable_bytes(free)} are free. Use at most about {possible:,} (--n-landmarks)."
        )
    if usual > free:
        warn(
            f"{n_landmarks:,} landmarks may need {readable_bytes(usual)} of memory, and {readable_bytes(free)} are "
            f"free; about {possible:,} are safe (--n-landmarks).",
        )


def check_model_file(
    output: Path,
    overwrite: bool,
    source: Source,
    n_landmarks: int,
    width: int,
    matrices: int,
    n_kept: int = 0,
) -> None:
    """Refuse a model file that the disk cannot hold: landmarks, A, matrices of m x m numbers, kept rows."""
    d = row_width(source)
    numbers = n_landmarks * (d + width) // 2 + matrices * n_landmarks**2 + min(source.n_rows, n_kept) * d
    check_writable(output, overwrite, 8 * numbers)


def row_width(source: Source) -> int:
    """Numbers per row; for a table, whose encoding is not known yet, a few per column."""
    import numpy as np

    from krepes.sources import TableSource

    if isinstance(source, TableSource):
        return 4 * len(source.column_names)
    _, row = next(source.batches(1))
    return math.prod(np.shape(row)[1:])


def left_out_as_sparse(space: FeatureSpace, n_rows: int) -> str | None:
    """Why sparse rows are not compared as they are; None where dense copies of them are small enough."""
    if space.inputs.kind != "sparse":
        return None
    width = space.inputs.shape[0]
    size = 8 * n_rows * width
    if size <= MOST_DENSE_BYTES:
        return None
    return (
        f"Raw features are left out: {n_rows:,} rows of {width:,} sparse columns take {readable_bytes(size)} as "
        "dense rows."
    )


def check_rows_memory(n_rows: int, n_columns: int, advice: str) -> None:
    """Refuse to hold more rows in memory than there is room for, with the float64 copy that a probe makes."""
    needed, free = 12 * n_rows * n_columns, available_memory()
    if needed > free:
        raise MemoryError(
            f"{n_rows:,} rows × {n_columns:,} columns need about {readable_bytes(needed)} of memory, and "
            f"{readable_bytes(free)} are free. {advice}"
        )
