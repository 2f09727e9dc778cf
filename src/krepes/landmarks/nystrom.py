"""Nyström features: an explicit map whose inner products approximate the kernel.

    phi(x) = F^T k_x,   K_mm = U diag(s) U^T,   F = U diag(s)^(-1/2)      [krepes, Eq. 2]

k_x holds the kernel values between x and the m landmarks; eigenvalues below a relative cut are dropped and
r remain. <phi(x), phi(y)> equals k(x, y) where the landmarks span the data. A model f(x) = A^T k_x + gamma
is W^T phi(x) + gamma with A = F W, and Tr(A^T K_mm A) = |W|^2.

Cost O(m^3) once, then O(n m d + n m r); memory O(b m) in blocks of b rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import RELATIVE_CUT, descending_eigh
from krepes.base.reporting import warn
from krepes.kernels import Kernel
from krepes.kernels.checking import faults
from krepes.kernels.kernel import KernelColumns, is_of_user, kernel_matrix, wide


class NystromMap:
    """Features of a kernel on a set of landmarks.

    Parameters
    ----------
    kernel : Kernel
        With data-dependent parameters already numbers (`kernel.fitted`).
    landmarks : Tensor of shape (m, ...) or list of m objects
    dtype : torch.dtype, default=torch.float32
        The dtype of the features; K_mm and its decomposition are float64.
    cut : float, default=None
        Eigenvalues of K_mm below `cut` times the largest are dropped: 1e-6 for float32, 1e-12 for float64.
    rows : ndarray of shape (m,), default=None
        The rows of the data that the landmarks are, for messages.

    Attributes
    ----------
    F : Tensor of shape (m, r), float64
    eigenvalues : Tensor of shape (r,), float64
        The eigenvalues of K_mm, largest first.
    rank : int
        r, the number of features; m for a map that was never decomposed.

    Examples
    --------
    With every point a landmark the kernel is reproduced:

    >>> from krepes.kernels import Gaussian
    >>> X = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64)
    >>> features = NystromMap(Gaussian(1.0), X, dtype=torch.float64)
    >>> Phi = features(X)
    >>> bool(torch.allclose(Phi @ Phi.T, Gaussian(1.0)(X)))
    True
    """

    # whether K_mm was found to have negative eigenvalues, and a warning said so
    indefinite = False

    def __init__(
        self,
        kernel: Kernel,
        landmarks: Any,
        dtype: torch.dtype = torch.float32,
        cut: float | None = None,
        rows: np.ndarray | None = None,
    ):
        self.kernel = kernel
        self.landmarks = landmarks
        self.dtype = dtype
        self.cut = RELATIVE_CUT[dtype] if cut is None else cut
        self.factors: tuple[Tensor, Tensor] | None = self._decompose(rows)
        self.rank = len(self.eigenvalues)

    @classmethod
    def restored(
        cls,
        kernel: Kernel,
        landmarks: Any,
        dtype: torch.dtype,
        factors: tuple[Tensor, Tensor] | None = None,
        rank: int | None = None,
    ) -> NystromMap:
        """The map of a saved model; without (eigenvalues, F) they are computed when they are first needed."""
        self = cls.__new__(cls)
        self.kernel, self.landmarks, self.dtype = kernel, landmarks, dtype
        self.cut, self.factors = RELATIVE_CUT[dtype], factors
        self.rank = len(landmarks if factors is None else factors[0]) if rank is None else rank
        return self

    @property
    def eigenvalues(self) -> Tensor:
        self.factors = self.factors or self._decompose()
        return self.factors[0]

    @property
    def F(self) -> Tensor:
        self.factors = self.factors or self._decompose()
        return self.factors[1]

    @cached_property
    def kernel_block(self) -> KernelColumns:
        """X -> k(X, landmarks), (b, m)."""
        return self.kernel.against(self.landmarks)

    @cached_property
    def _projection(self) -> Tensor:
        return self.F.to(self.dtype)

    def __getstate__(self) -> dict[str, Any]:
        made = ("kernel_block", "_projection")
        return {name: value for name, value in vars(self).items() if name not in made}

    def _decompose(self, rows: np.ndarray | None = None) -> tuple[Tensor, Tensor]:
        K_mm, noise = landmark_matrix(self.kernel, self.landmarks, rows)
        values, vectors = descending_eigh(K_mm)
        largest, smallest = values[0].item(), values[-1].item()
        if not largest > 0:
            raise ValueError(
                f"The kernel {self.kernel} is zero or negative between all landmarks: nothing to represent."
            )
        if smallest < -faults.LEAST_ROUNDING * largest:
            allowed = faults.rounding(K_mm) * largest + noise * len(K_mm) * K_mm.abs().max().item()
            self.indefinite = smallest < -allowed
        if self.indefinite:
            negative = faults.negative_points(K_mm, vectors[:, -1], noise, rows)
            proof = "" if negative is None else f": {negative}"
            warn(
                f"{faults.title(self.kernel)} is not positive semi-definite (K_mm has eigenvalues from "
                f"{smallest:.3g} to {largest:.3g}){proof}. Its negative part is dropped."
            )
        elif not self.kernel.positive_semidefinite:
            warn(
                f"{faults.title(self.kernel)} is not positive semi-definite in general, but it is for these landmarks."
            )
        kept = int((values > self.cut * largest).sum())
        # contiguous, as when it is read from a file: products with other strides differ in their last bits
        return values[:kept], (vectors[:, :kept] * values[:kept].rsqrt()).contiguous()

    @property
    def n_landmarks(self) -> int:
        return len(self.landmarks)

    def project(self, K: Tensor) -> Tensor:
        """Features from kernel values: (b, m) -> (b, r)."""
        return K.to(self.dtype) @ self._projection

    def __call__(self, X: Any) -> Tensor:
        """phi(X), shape (b, r)."""
        return self.project(self.kernel_block(X))

    def residual(self, X: Any) -> Tensor:
        """k(x, x) - |phi(x)|^2 >= 0: what the landmarks do not span, shape (n,)."""
        return (self.kernel.diag(X) - self(X).double().square().sum(1)).clamp_(min=0)

    def coverage(self, X: Any) -> Tensor:
        """|phi(x)|^2 / k(x, x) in [0, 1], shape (n,); 1 where k(x, x) = 0, which any landmarks span."""
        total = self.kernel.diag(X).double()
        spanned = self(X).double().square().sum(1)
        return torch.where(total > 0, spanned / total, torch.ones_like(total)).clamp_(0, 1)

    def coefficients(self, W: Tensor) -> Tensor:
        """A = F W, shape (m, h)."""
        return self.F @ W.to(self.F)

    def principal(self, n_components: int) -> Tensor:
        """W_0 of the paper's principal component initialisation, A_0 = U_h diag(s_h)^(-1/2).  [krepes, 3.1]

        It uses the landmarks only; `Moments.principal` uses all the data.
        """
        return torch.eye(self.rank, min(n_components, self.rank), dtype=self.F.dtype, device=self.F.device)


def landmark_matrix(kernel: Kernel, landmarks: Any, rows: np.ndarray | None = None) -> tuple[Tensor, float]:
    """k between landmarks, (m, m), in float64, and how far values that should be equal differ, by rounding.

    `rows` are the rows of the data that they are, for messages.
    """
    points = wide(landmarks)
    K = kernel_matrix(kernel, points)
    return K, faults.rounding_of_user(kernel, points, K, rows) if is_of_user(kernel) else 0.0
