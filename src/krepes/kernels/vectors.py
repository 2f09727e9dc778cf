"""Kernels on vectors: rows as (n, d) tensors of one dtype and device, images flattened.

A kernel that says so (`takes_sparse`) also takes sparse rows. It computes in float64 then, and its values are rounded
to the dtype of the landmarks.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.rows import SparseRows, dense_remedy
from krepes.base.validation import check_dense, check_squares
from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.kernels.products import Vectors


def as_rows(X: Any, like: Tensor | None = None) -> Tensor:
    """Anything array-like as a (n, d) floating tensor; images are flattened, integers become float32."""
    if isinstance(X, SparseRows):
        raise TypeError(
            f"This works on dense rows only; got sparse ones, {X.describe()}. {dense_remedy(X.shape[1])}"
        )
    if isinstance(X, Tensor):
        check_dense(X, "X")
    else:
        try:
            array = np.asarray(X)
            X = torch.as_tensor(array)
        except (TypeError, ValueError):
            raise TypeError(
                "This kernel compares vectors, but got objects that are not numbers. Give a kernel on objects, such "
                "as krepes.kernels.Spectrum() for strings, a callable k(X, Y) -> (n, m), or "
                "krepes.kernels.Custom(function, pairwise=True)."
            ) from None
        if array.dtype.kind == "f":
            check_squares(array, "X")
    if X.ndim < 2:
        raise ValueError(f"Expected rows of features, shape (n, d); got shape {tuple(X.shape)}.")
    if not X.is_floating_point():
        X = X.to(torch.float32)
    if like is not None:
        X = X.to(device=like.device, dtype=like.dtype)
    return X.reshape(len(X), int(np.prod(X.shape[1:])))


class VectorKernel(Kernel):
    """A kernel on vectors: subclasses see (n, d) floating tensors of one dtype and device, or sparse rows."""

    @property
    def one_scale(self) -> bool:
        return True

    @abstractmethod
    def against_rows(self, Y: Any) -> KernelColumns:
        """`against` for Y of shape (m, d), a tensor or, where the kernel takes them, sparse rows."""

    @abstractmethod
    def diag_rows(self, X: Any) -> Tensor:
        """`diag` for X of shape (n, d), likewise."""

    def against(self, Y: Any) -> KernelColumns:
        Y = self._rows(Y)
        block = self.against_rows(Y)

        def checked(X: Any) -> Tensor:
            X = as_rows(X, like=Y) if isinstance(Y, Tensor) else self._sparse(X)
            if X.shape[1] != Y.shape[1]:
                raise ValueError(f"X has {X.shape[1]} features, but the landmarks have {Y.shape[1]}.")
            return block(X) if isinstance(Y, Tensor) else _rounded(block(X), Y)

        return checked

    def diag(self, X: Any) -> Tensor:
        X = self._rows(X)
        return self.diag_rows(X) if isinstance(X, Tensor) else _rounded(self.diag_rows(X), X)

    def _rows(self, X: Any) -> Vectors:
        """Rows as this kernel takes them."""
        return X if self.takes_sparse and isinstance(X, SparseRows) else as_rows(X)

    def _sparse(self, X: Any) -> SparseRows:
        if isinstance(X, SparseRows):
            return X
        raise TypeError(
            "The landmarks are sparse rows; give sparse rows to compare with them, X of scipy.sparse."
        )


def _rounded(values: Tensor, rows: SparseRows) -> Tensor:
    return values.to(torch.float32 if rows.dtype == np.float32 else torch.float64)
