"""What was tried before a kernel was chosen: a value to look at and to print."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from krepes.kernels import Kernel, Reweighted
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates

DOUBT = 2.0  # standard errors that chance explains


class ChosenKernel(NamedTuple):
    """A kernel with numbers for its parameters, what columns are to it, and how it was chosen."""

    kernel: Kernel
    metric: str | None = None
    choice: KernelChoice[Tried] | None = None


ChooseKernel = Callable[[Candidates, InputSpace], ChosenKernel]


@dataclass(frozen=True, eq=False)
class Tried:
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

    @property
    def name(self) -> str:
        return short_name(self.kernel)

    def line(self, width: int) -> str:
        """One line of the printed choice, the name in a column of this width."""
        return f"{self.name:<{width}} {self.metric:<14} {self.error:.4f}"

    @property
    def key(self) -> Hashable:
        """Of several with the same key, the best one is printed."""
        return id(self)


T = TypeVar("T", bound=Tried, covariant=True)


@dataclass(frozen=True, eq=False)
class KernelChoice(Generic[T]):
    """What was tried, in order, and what was chosen; print it.

    Attributes
    ----------
    chosen : Tried
    tried : sequence of Tried
    n_rows : int
        Rows of the sample.
    title : str
        How they were compared.
    """

    chosen: T
    tried: Sequence[T]
    n_rows: int
    title: str

    def __str__(self) -> str:
        best: dict[Hashable, T] = {}
        for each in self.tried:
            known = best.get(each.key)
            better = known is None or (known is not self.chosen and each.error < known.error)
            if better or each is self.chosen:
                best[each.key] = each
        marks = {True: "  <- chosen", False: ""}
        width = max(len(each.name) for each in best.values())
        return "\n".join(
            [self.title, *(f"  {t.line(width)}{marks[t is self.chosen]}" for t in best.values())]
        )


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


def clearly_lower(
    errors: np.ndarray,  # shape: (n,)
    others: np.ndarray,  # shape: (n,)
) -> bool:
    """Whether errors of rows are lower than others by more than chance explains.

    >>> clearly_lower(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]))
    True
    """
    difference = others - errors
    return bool(difference.mean() > DOUBT * difference.std() / math.sqrt(len(difference)))
