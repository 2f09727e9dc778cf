"""A user's function, checked when a model is fitted: on a few candidate rows, and between landmarks.

    error      NaN or infinite values; k(x, y) != k(y, x); k(x, x) that depends on the rows beside x
    warning    rows and coefficients with a^T K a < 0

Landmarks alone would not do: rules that look at the kernel choose rows between which it is positive. The values between
landmarks are needed anyway; those of 64 candidates, and k(x, x) in blocks of 16, are 5120 more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh
from krepes.base.rows import Rows, take_rows
from krepes.base.sparse_rows import SparseRows
from krepes.kernels.checking.matrix_faults import (
    SAME,
    ValueDifference,
    asymmetry,
    difference,
    negative_points,
    precision,
    row_names,
    scales,
)
from krepes.kernels.custom import Custom
from krepes.kernels.kernel import Kernel

FEW = 64  # rows that are checked before a fit


def check_candidates(kernel: Kernel, candidates: Rows, indices: np.ndarray) -> str | None:
    """Refuse a user's function with faults; what proves that it is not positive, None if nothing does.

    Parameters
    ----------
    kernel : Kernel
        Kernels of krepes are not looked at.
    candidates : rows in the input space
    indices : ndarray of shape (n,)
        The rows of the data that they are, for messages.
    """
    if not any(map(is_of_user, kernel_parts(kernel))):
        return None
    places = np.unique(np.linspace(0, len(indices) - 1, FEW).astype(np.int64))
    rows, indices = take_rows(candidates, places), indices[places]
    K, noise = landmark_matrix(kernel, rows, indices)
    negative = negative_points(K, descending_eigh(K)[1][:, -1], noise)
    return None if negative is None else negative.words(row_names(negative.rows, indices))


def landmark_matrix(kernel: Kernel, landmarks: Rows, rows: np.ndarray | None = None) -> tuple[Tensor, float]:
    """k between landmarks, (m, m), in float64, and how far values that should be equal differ, by rounding.

    `rows` are the rows of the data that they are, for messages. Kernels of krepes are taken to be exact.
    """
    wide: Any = landmarks.double() if isinstance(landmarks, Tensor | SparseRows) else landmarks
    K = kernel(wide).double()
    if not torch.isfinite(K).all():
        raise ValueError(f"The kernel {kernel} has NaN or infinite values between landmarks.")
    if not any(map(is_of_user, kernel_parts(kernel))):
        return K, 0.0
    same, crossed = SAME[precision(K)], asymmetry(K)
    if crossed.size > same:
        raise ValueError(not_symmetric(title(kernel), K, crossed, row_names(crossed.rows, rows)))
    beside = diagonal_difference(kernel, wide[:FEW], K)
    if beside.size > same:
        raise ValueError(depends_on_batch(title(kernel), row_names(beside.rows, rows)))
    return K, max(crossed.size, beside.size)


def diagonal_difference(kernel: Kernel, rows: Any, K: Tensor) -> ValueDifference:
    """The row whose k(x, x) in `diag` differs most from that in K; `rows` are the first rows of K."""
    n, s = len(rows), scales(K)[: len(rows)]
    found = difference(kernel.diag(rows).double()[:, None], K.diagonal()[:n, None], s.square(), s.new_ones(1))
    return ValueDifference(found.size, found.rows[:1])


def not_symmetric(subject: str, K: Tensor, found: ValueDifference, names: str) -> str:
    i, j = found.rows
    return (
        f"{subject} is not symmetric: for {names}, k(x, y) is {K[i, j].item():.4g} and k(y, x) is "
        f"{K[j, i].item():.4g}. In a kernel both are equal. Take their mean instead, and check that."
    )


def depends_on_batch(subject: str, names: str) -> str:
    return (
        f"{subject} depends on the batch: the values for {names} change with the rows beside them, or "
        "`diagonal` does not give k(x, x). A kernel sees two rows only: compute means and scales beforehand. Where "
        "rounding is the cause, subtract the means of the rows and compute in double precision."
    )


def kernel_parts(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel and the kernels that it is made of."""
    yield kernel
    for part in _kernels_in(list(vars(kernel).values())):
        yield from kernel_parts(part)


def _kernels_in(value: object) -> Iterator[Kernel]:
    """The kernels in lists and dictionaries of parameters."""
    if isinstance(value, Kernel):
        yield value
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _kernels_in(each)


def is_of_user(kernel: Kernel) -> bool:
    """Whether a kernel is a function or a class of the user's."""
    return isinstance(kernel, Custom) or not type(kernel).__module__.startswith("krepes.")


def title(kernel: Kernel) -> str:
    """A kernel as messages call it; a function by its name."""
    name = getattr(kernel.function, "__name__", None) if isinstance(kernel, Custom) else None
    return " ".join(str(kernel).split()) if name is None else f"The function {name}"
