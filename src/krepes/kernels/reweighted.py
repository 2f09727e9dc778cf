"""A kernel in another metric: inputs are stretched, turned or left out before they are compared.

    k_M(x, y) = k(M^(1/2) x, M^(1/2) y),        grad_x f = M^(1/2) grad f at M^(1/2) x

For a kernel of |x - y| that is the distance sqrt((x - y)^T M (x - y)). M says which inputs matter: a diagonal M
weighs the columns, a full one also turns them. Kernel machines learn M from the gradients of what they have fitted
(`krepes.machines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.kernels.kernel import CoordinateProduct, Kernel, KernelColumns, ProductTerms
from krepes.kernels.vectors import VectorKernel, as_rows


class Reweighted(VectorKernel, CoordinateProduct):
    """k(M^(1/2) x, M^(1/2) y).

    Parameters
    ----------
    kernel : Kernel
        On vectors.
    M : array of shape (d,) or (d, d)
        The metric: weights >= 0 of the columns, or a symmetric positive semi-definite matrix.

    Examples
    --------
    >>> from krepes.kernels import Gaussian
    >>> Reweighted(Gaussian(1.0), [4.0, 0.0])([[0.0, 0.0]], [[0.5, 9.0]])       # exp(-|2 * 0.5|^2 / 2)
    tensor([[0.6065]], dtype=torch.float64)
    """

    one_scale = False  # the metric is the scale

    def __init__(self, kernel: Kernel | None = None, M: Sequence[Any] | np.ndarray | Tensor | None = None):
        self.kernel = kernel
        self.M = M

    def check_restored(self) -> None:
        self._root()

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        return self._inner().positive_semidefinite

    @property
    def shift_invariant(self) -> bool:
        return self._inner().shift_invariant

    def against_rows(self, Y: Tensor) -> KernelColumns:
        root = self._root(Y)
        block = self._inner().against(_times(Y, root))
        return lambda X: block(_times(X, root))

    def diag_rows(self, X: Tensor) -> Tensor:
        return self._inner().diag(self.weighed(X))

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Reweighted:
        return Reweighted(self._inner().fitted(self.weighed(as_rows(X)), generator), self.M)

    def weighed(self, X: Tensor) -> Tensor:
        """M^(1/2) x for every row, (n, d)."""
        return _times(X, self._root(X))

    def gradients(self, X: Tensor, Y: Tensor, A: Tensor) -> Tensor:
        root = self._root(Y)
        return _times(self._inner().gradients(_times(X, root), _times(Y, root), A), root)

    def product_terms(self) -> ProductTerms | None:
        terms = self._inner().product_terms()
        if terms is None or self._root().ndim != 1:
            return None
        found: ProductTerms = [
            (weight, Reweighted(kernel, self.M)) for weight, kernel in terms if isinstance(kernel, Kernel)
        ]
        return found if len(found) == len(terms) else None

    def coordinate_product(self, columns: list[int], X: Tensor, Z: Tensor, noise: Sequence[float]) -> Tensor:
        inner, weights = self._inner(), self._root()[columns]
        if not isinstance(inner, CoordinateProduct):
            raise TypeError(f"{inner} is not a product over coordinates.")
        scaled = [w * s for w, s in zip(weights.tolist(), noise, strict=True)]
        return inner.coordinate_product(columns, X * weights.to(X), Z * weights.to(Z), scaled)

    def _inner(self) -> Kernel:
        if self.kernel is None or self.M is None:
            raise ValueError("Reweighted needs a kernel and a metric: Reweighted(kernel, M).")
        return self.kernel

    def _root(self, rows: Tensor | None = None) -> Tensor:
        """M^(1/2), (d,) or (d, d), in the dtype and on the device of some rows, float64 without them."""
        self._inner()
        try:
            given = self.M.detach().cpu() if isinstance(self.M, Tensor) else self.M
            M = torch.from_numpy(np.array(given, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"M={self.M!r:.60}: expected numbers, weights (d,) or a matrix (d, d)."
            ) from error
        square = M.ndim == 2 and M.shape[0] == M.shape[1]
        if (
            not (M.ndim == 1 or square)
            or not len(M)
            or not torch.isfinite(M).all()
            or (square and not torch.allclose(M, M.mT))
        ):
            raise ValueError(
                f"M, of shape {tuple(M.shape)}: expected finite weights (d,) or a symmetric matrix (d, d) of them."
            )
        if rows is not None and len(M) != rows.shape[1]:
            raise ValueError(f"The metric M is for {len(M)} features, but the rows have {rows.shape[1]}.")
        values, vectors = (M, None) if M.ndim == 1 else torch.linalg.eigh(M)
        if (values < -1e-12 * values.abs().max()).any():
            raise ValueError(f"M has negative weights (down to {values.min():.3g}); expected none below 0.")
        roots = values.clamp(min=0).sqrt()
        root = roots if vectors is None else (vectors * roots) @ vectors.mT
        return root if rows is None else root.to(rows)


def _times(X: Tensor, root: Tensor) -> Tensor:
    """M^(1/2) x for every row."""
    return X * root if root.ndim == 1 else X @ root
