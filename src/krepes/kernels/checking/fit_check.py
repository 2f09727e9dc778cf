"""A user's function, checked when a model is fitted: on a few candidate rows, and between landmarks.

    error      NaN or infinite values; k(x, y) != k(y, x); k(x, x) that depends on the rows beside x
    warning    rows and coefficients with a^T K a < 0

Landmarks alone would not do: rules that look at the kernel choose rows between which it is positive. The values between
landmarks are needed anyway; those of 64 candidates, and k(x, x) in blocks of 16, are 5120 more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh
from krepes.base.rows import Rows, SparseRows, take_rows
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
    K, noise = landmark_matrix(kernel, take_rows(candidates, places), indices[places])
    negative = negative_points(K, descending_eigh(K)[1][:, -1], noise, indices[places])
    return None if negative is None else str(negative)


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
    kind, numbers = ("landmark", np.arange(len(K))) if rows is None else ("row", rows)
    crossed = asymmetry(K, numbers)
    if not crossed.rounding:
        raise ValueError(not_symmetric(title(kernel), crossed, kind))
    beside = diagonal_difference(kernel, wide[:FEW], K, numbers)
    if not beside.rounding:
        raise ValueError(depends_on_batch(title(kernel), beside, kind))
    return K, max(crossed.size, beside.size)


def diagonal_difference(kernel: Kernel, rows: Any, K: Tensor, numbers: np.ndarray) -> ValueDifference:
    """The row whose k(x, x) in `diag` differs most from that in K; `rows` are the first rows of K."""
    n = len(rows)
    scale = scales(K)[:n, None].square()
    found = difference(K.diagonal()[:n, None], kernel.diag(rows).double()[:, None], scale, numbers)
    return replace(found, rows=found.rows[:1], rounding=found.size <= SAME[precision(K)])


def not_symmetric(subject: str, found: ValueDifference, kind: str = "row") -> str:
    first, second = found.values
    return (
        f"{subject} is not symmetric: for {row_names(found.rows, kind)}, k(x, y) is {first:.4g} and k(y, x) is "
        f"{second:.4g}. In a kernel both are equal. Take their mean instead, and check that."
    )


def depends_on_batch(subject: str, found: ValueDifference, kind: str = "row") -> str:
    return (
        f"{subject} depends on the batch: the values for {row_names(found.rows, kind)} change with the rows beside "
        "them, or `diagonal` does not give k(x, x). A kernel sees two rows only: compute means and scales beforehand. "
        "Where rounding is the cause, subtract the means of the rows and compute in double precision."
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
