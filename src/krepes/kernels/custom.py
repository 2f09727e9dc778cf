"""Any callable as a kernel, on vectors or on lists of arbitrary objects.

k(X, Y) -> (n, m)           called with blocks of samples
k(x, y) -> number           with pairwise=True, called once per pair
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.kernels.kernel import Kernel, KernelColumns

# without a `diagonal` function, k(x, x) is read off small blocks
DIAGONAL_BLOCK = 16


class NotFiniteError(ValueError):
    """A function of the user's returned NaN or infinite values."""


@dataclass(eq=False, repr=False)
class Custom(Kernel):
    """A user's function as a kernel.

    Parameters
    ----------
    function : callable, default=None
        `function(X, Y) -> (n, m)` array or tensor, for blocks of samples as they were given: tensors for
        arrays, lists for lists of objects.
    diagonal : callable, default=None
        `diagonal(X) -> (n,)`, the values k(x, x). Without it they are read off 16 x 16 blocks.
    pairwise : bool, default=False
        Call `function(x, y) -> float` for every pair instead: convenient and slow.

    Notes
    -----
    A function cannot be stored in a model file. Give it again: `krepes.load(path, kernel=function)`.

    Examples
    --------
    >>> overlap = Custom(lambda a, b: len(set(a) & set(b)), pairwise=True)
    >>> overlap(["abc", "xyz"], ["abx"])
    tensor([[2.],
            [1.]], dtype=torch.float64)
    """

    takes_objects = True
    of_user = True
    external = "function"

    function: Callable[[Any, Any], Any] | None = None
    diagonal: Callable[[Any], Any] | None = None
    pairwise: bool = False

    def against(self, Y: Any) -> KernelColumns:
        return lambda X: self._matrix(X, Y)

    def diag(self, X: Any) -> Tensor:
        if self.diagonal is not None:
            return self._values(self.diagonal(X), (len(X),), X)
        starts = range(0, max(1, len(X)), DIAGONAL_BLOCK)
        parts = [X[i : i + DIAGONAL_BLOCK] for i in starts]
        return torch.cat([self._matrix(part, part).diagonal() for part in parts])

    def _matrix(self, X: Any, Y: Any) -> Tensor:
        if self.function is None:
            raise ValueError(
                "Custom() has no function: give one, Custom(function), where function(X, Y) -> (n, m)."
            )
        if self.pairwise:
            values = np.array([[float(self.function(x, y)) for y in Y] for x in X]).reshape(len(X), len(Y))
        else:
            values = self.function(X, Y)
        return self._values(values, (len(X), len(Y)), X)

    def _values(self, values: Any, shape: tuple[int, ...], X: Any) -> Tensor:
        K = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values, dtype=float))
        if tuple(K.shape) != shape:
            raise ValueError(
                f"The kernel function returned shape {tuple(K.shape)}; expected {shape}, for blocks of samples. "
                "For a function of one pair use Custom(function, pairwise=True)."
            )
        if not torch.isfinite(K).all():
            raise NotFiniteError("The kernel function returned NaN or infinite values.")
        # A copy, because the function may return an array that it keeps, and callers work in place.
        if isinstance(X, Tensor) and X.is_floating_point():
            return K.to(device=X.device, dtype=X.dtype, copy=True)
        return K.to(torch.float64, copy=True)
