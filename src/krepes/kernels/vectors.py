"""Kernels on vectors: rows as (n, d) tensors of one dtype and device, images flattened."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.validation import check_dense, check_squares
from krepes.kernels.base import Kernel, KernelColumns


def as_rows(X: Any, like: Tensor | None = None) -> Tensor:
    """Anything array-like as a (n, d) floating tensor; images are flattened, integers become float32."""
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
    """A kernel on vectors: subclasses see (n, d) floating tensors of one dtype and device."""

    @property
    def one_scale(self) -> bool:
        return True

    @abstractmethod
    def against_rows(self, Y: Tensor) -> KernelColumns:
        """`against` for Y of shape (m, d)."""

    @abstractmethod
    def diag_rows(self, X: Tensor) -> Tensor:
        """`diag` for X of shape (n, d)."""

    def against(self, Y: Any) -> KernelColumns:
        Y = as_rows(Y)
        block = self.against_rows(Y)

        def checked(X: Any) -> Tensor:
            X = as_rows(X, like=Y)
            if X.shape[1] != Y.shape[1]:
                raise ValueError(f"X has {X.shape[1]} features, but the landmarks have {Y.shape[1]}.")
            return block(X)

        return checked

    def diag(self, X: Any) -> Tensor:
        return self.diag_rows(as_rows(X))
