"""Kernels in model files: a user's function is only noted there, and has to be given again at load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from krepes.base.components import External
from krepes.base.rows import Rows
from krepes.kernels import Kernel
from krepes.kernels.kernel import kernel_parts

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
