"""Functions of a user's as kernels: are they kernels on these data, and how does a model file refer to them?

A file only notes such a function, which has to be given again at load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import Placement
from krepes.base.components import External
from krepes.base.rows import Rows
from krepes.base.validation import check_count, generator_of
from krepes.kernels import Kernel, KernelCheck, as_kernel
from krepes.kernels.automatic import is_precomputed
from krepes.kernels.checking.kernel_check import checked_kernel
from krepes.kernels.kernel import kernel_parts
from krepes.preprocessing.preparing import Sampling, prepare_inputs
from krepes.sources import open_source

PROBE = 4  # landmarks whose mutual kernel values identify a user's function


def with_function(saved: Kernel, given: Kernel | Callable[..., Any] | None) -> Kernel:
    """Put a user's function back where the file has only a note, also inside sums and products."""
    places = list(missing_functions(saved))
    if not places:
        if given is not None:
            raise ValueError(f"kernel= was given, but this model's kernel {saved} is stored in its file.")
        return saved
    found = [_external(place) for place in places]
    descriptions = sorted({note.description for note in found if isinstance(note, External)})
    notes = ", ".join(descriptions)
    if given is None:
        raise ValueError(
            f"This model's kernel uses {notes}, which a file cannot hold: give it, krepes.load(path, kernel=function)."
        )
    if isinstance(given, Kernel):
        return given  # the whole kernel, rebuilt by the user
    if len(descriptions) > 1:
        raise ValueError(
            f"This model's kernel uses {notes}: give the whole kernel, krepes.load(path, kernel=...)."
        )
    for place in places:
        setattr(place, str(place.external), given)
    return saved


def _external(kernel: Kernel) -> object:
    """What a kernel takes from outside its file; None if there is nothing."""
    return None if kernel.external is None else getattr(kernel, kernel.external)


def missing_functions(kernel: Kernel) -> Iterator[Kernel]:
    """The kernels, inside a kernel, whose function or module is only noted in the file."""
    return (part for part in kernel_parts(kernel) if isinstance(_external(part), External))


def kernel_probe(kernel: Kernel, landmarks: Rows) -> Tensor:
    """Kernel values between the first landmarks, float64."""
    return kernel(landmarks[:PROBE]).double()


def check_probe(kernel: Kernel, landmarks: Rows, expected: Tensor) -> None:
    """The kernel must give the values it gave when the model was saved."""
    found, expected = kernel_probe(kernel, landmarks).cpu(), expected.cpu().double()
    if not torch.allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item()):
        raise ValueError(
            "The kernel given is not the one this model was fitted with: its values between the first "
            "landmarks differ from those in the file."
        )


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
    draw = Sampling(n_rows, seed)
    inputs, sample = prepare_inputs(source, "auto", draw, placement, table_columns=given.table_columns)
    fitted = given.suited(inputs.layout).fitted(sample.rows, torch.Generator().manual_seed(seed))
    return checked_kernel(fitted, sample.rows, seed, sample.indices)
