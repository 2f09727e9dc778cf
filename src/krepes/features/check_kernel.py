"""Is this function a kernel on these data? The question of a user, answered from a sample of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from krepes.base.blocks import Placement
from krepes.base.reporting import Silent
from krepes.base.validation import check_count, generator_of
from krepes.engines.engine import Local
from krepes.kernels import Kernel, KernelCheck, as_kernel
from krepes.kernels.automatic import is_precomputed
from krepes.kernels.checking.kernel_check import checked_kernel
from krepes.preprocessing.preparing import prepare_inputs
from krepes.sources import open_source


def check_kernel(
    kernel: str | Kernel | Callable[[Any, Any], Any] | type[Kernel],
    X: Any,
    *,
    n_rows: int = 500,
    random_state: int | np.random.Generator | None = 0,
) -> KernelCheck:
    """Whether a function is a kernel on some rows, and whether it suits them.

    Parameters
    ----------
    kernel : name, Kernel, or callable k(X, Y) -> (n, m)
    X : array, frame, list of objects, or one path
        As an estimator takes it: frames are encoded, arrays are used as they are.
    n_rows : int, default=500
        How many rows of X are looked at, drawn at random.
    random_state : int, Generator or None, default=0

    Returns
    -------
    KernelCheck
        Print it, or look at `ok`, `problems` and `advice`.

    Examples
    --------
    Nearer than 1 is not a kernel: 0 is near 0.9 and 0.9 near 1.8, but 0 is not near 1.8.

    >>> def near(X, Y):
    ...     return (abs(X - Y.T) < 1) * 1.0
    >>> found = check_kernel(near, [[0.0], [0.9], [1.8]])
    >>> found.ok, found.negative.rows
    (False, (0, 1, 2))
    """
    check_count("n_rows", n_rows, least=2)
    if is_precomputed(kernel):
        raise ValueError(
            "check_kernel looks at functions. A fit with kernel='precomputed' checks the matrix that it is given."
        )
    source = open_source(X)
    if source.n_rows < 2:
        raise ValueError(f"Found {source.n_rows} row(s); at least 2 are needed to check a kernel.")
    seed = int(generator_of(random_state).integers(2**31))
    placement, given = Placement(torch.float64, torch.device("cpu")), as_kernel(kernel)
    inputs, sample = prepare_inputs(
        source, "auto", n_rows, seed, placement, Local(), Silent(), table_columns=given.table_columns
    )
    fitted = given.suited(inputs.layout).fitted(sample.rows, torch.Generator().manual_seed(seed))
    return checked_kernel(fitted, sample.rows, seed, sample.indices)
