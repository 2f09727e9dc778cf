"""What a machine tried on a sample of rows before its pass, and what it chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from krepes.kernels import Kernel, Reweighted


@dataclass(frozen=True, eq=False)
class TriedKernel:
    """One kernel, and how it did on the sample.

    Attributes
    ----------
    kernel : Kernel
        With numbers for its parameters, and its metric.
    metric : str
        "as given", "standardised", "diagonal 1", "full 2", ...
    error : float
        The lower, the better.
    """

    kernel: Kernel
    metric: str
    error: float


@dataclass(frozen=True, eq=False)
class KernelChoice:
    """What was tried, in order, and what was chosen.

    Attributes
    ----------
    chosen : TriedKernel
    tried : sequence of TriedKernels
    n_rows : int
        Rows of the sample.
    """

    chosen: TriedKernel
    tried: Sequence[TriedKernel]
    n_rows: int


def short_name(kernel: Kernel) -> str:
    """A short name.

    >>> from krepes.kernels import Laplacian
    >>> short_name(Laplacian(norm=1))
    'Laplacian(norm=1)'
    """
    if isinstance(kernel, Reweighted) and kernel.kernel is not None:
        return short_name(kernel.kernel)
    given = {k: v for k, v in kernel.get_params(deep=False).items() if k != "lengthscale"}
    return repr(type(kernel)(**given))
