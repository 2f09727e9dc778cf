"""The sum that every explanation takes apart, in its two forms, and the landmarks that it goes over.

    f(x) = gamma + sum_l k(x, x_l) a_l                       by terms: coefficients a_l
         = gamma + sum_l u_l(x) (z_l - gamma)                by values: z_l = f(x_l),  u(x) = K_mm^+ k_x

Both are exact. u_l(x) are the weights with which the kernel interpolates: f is the smoothest function with the values
z_l at the landmarks, so a row is a weighted mean of the landmarks' own representations, with weights that add up to
about 1. Terms may be many times larger than their sum, because similar landmarks have coefficients of opposite sign;
values mostly cancel far less (benchmarks/cancellation.py has figures). A = F W is in the range of K_mm^+ = F F^T, and
so K_mm^+ K_mm A = A, which is the second line.

The same landmarks serve any coefficients, so that a method can be asked what it says of other ones, A' = F W' with a
random W': see `krepes.explain.faithfulness`. The inverse of K_mm costs O(m^3), once, if a method needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from krepes.base.linalg import RELATIVE_CUT
from krepes.base.rows import SparseRows
from krepes.explain.top_landmarks import Explained, coefficient_tensor, n_landmarks, over_views


class LandmarkKernel:
    """Kernel values between all landmarks, float64, and what follows from them alone."""

    def __init__(self, model: Explained):
        landmarks = model.landmarks_
        wide = landmarks.double() if isinstance(landmarks, Tensor | SparseRows) else landmarks
        self.K = model.kernel_(wide).double()  # (p m, p m)
        self.n_landmarks, self.n_views = n_landmarks(model), model.views_per_landmark_
        self.F = model.features_.F  # (p m, r)
        self._cut, self._name = RELATIVE_CUT[model.space_.dtype], str(model.kernel_)

    @cached_property
    def damping(self) -> float:
        """eps, below which eigenvalues of K_mm count as zero."""
        return self._cut * torch.linalg.matrix_norm(self.K, 2).item()

    @cached_property
    def inverse(self) -> Tensor:
        """(K_mm + eps I)^-1."""
        damped = self.K.clone()
        damped.diagonal().add_(self.damping)
        L, failed = torch.linalg.cholesky_ex(damped)
        if failed:
            values = torch.linalg.eigvalsh(self.K)
            raise ValueError(
                f"Leaving landmarks out needs a positive semi-definite kernel, whose norm says which function is "
                f"nearest; {self._name} has eigenvalues from {values[0].item():.3g} to {values[-1].item():.3g} on the "
                "landmarks. Use influence or attribution, which need no norm, or fit with another kernel."
            )
        return torch.cholesky_inverse(L)

    def interpolation(self, K: Tensor) -> Tensor:
        """u(x) = F F^T k_x, from kernel values: (b, p m)."""
        return (K @ self.F) @ self.F.mT

    def by_landmark(self, M: Tensor) -> Tensor:
        """Sums over the p views of every landmark: (..., p m) -> (..., m)."""
        return over_views(M, self.n_views)

    @cached_property
    def centres(self) -> Tensor:
        """(m, p): the places of the views of every landmark among all p m."""
        return (
            torch.arange(self.n_views * self.n_landmarks, device=self.K.device).reshape(self.n_views, -1).mT
        )


@dataclass(frozen=True, eq=False)
class Expansion:
    """Coefficients on landmarks.

    Attributes
    ----------
    landmarks : LandmarkKernel
    A : Tensor of shape (p m, h), float64
    gamma : Tensor of shape (h,), float64
    """

    landmarks: LandmarkKernel
    A: Tensor
    gamma: Tensor

    @classmethod
    def of(cls, model: Explained) -> Expansion:
        A = coefficient_tensor(model, torch.float64)
        return cls(LandmarkKernel(model), A, torch.from_numpy(model.intercept_).to(A))

    def at(self, K: Tensor) -> Tensor:
        """f, from kernel values (b, p m): (b, h)."""
        return K @ self.A + self.gamma

    @cached_property
    def values(self) -> Tensor:
        """f at every view of a landmark, (p m, h)."""
        return self.at(self.landmarks.K)

    @cached_property
    def at_landmarks(self) -> Tensor:
        """z_l, (m, h); the mean over the views of a landmark."""
        return self.values.unflatten(0, (self.landmarks.n_views, -1)).mean(0)

    @cached_property
    def centre(self) -> Tensor:
        """The mean of the landmarks' representations, (h,)."""
        return self.at_landmarks.mean(0)

    def similarity(self, K: Tensor) -> Tensor:
        """k(x, x_l) / sqrt(k(x_l, x_l)), the mean over the views of a landmark, (b, m); ordered as the cosine."""
        sizes = self.landmarks.K.diagonal().clamp(min=0).sqrt()
        return (
            self.landmarks.by_landmark(K / torch.where(sizes > 0, sizes, torch.inf)) / self.landmarks.n_views
        )

    def own_position(self, K: Tensor) -> Tensor:
        """f(x) - centre, divided by its squared length, (b, h): z - centre has the value 1 along it."""
        own = self.at(K) - self.centre
        squares = own.square().sum(1, keepdim=True)
        return own / torch.where(squares > 0, squares, torch.inf)

    def terms_along(self, K: Tensor, v: Tensor) -> Tensor:
        """k(x, x_l) a_l . v, by landmark, (b, m): v is one direction (h,), or one for every row (b, h)."""
        return self.landmarks.by_landmark(K * (v @ self.A.mT))

    def values_along(self, K: Tensor, v: Tensor, origin: Tensor) -> Tensor:
        """u_l(x) (z_l - origin) . v, by landmark, (b, m)."""
        return self.landmarks.by_landmark(self.landmarks.interpolation(K) * (v @ (self.values - origin).mT))

    def random(self, generator: torch.Generator) -> Expansion:
        """The same norms in the kernel's space, other directions: A' = F W' with W' normal, columns as long as W's."""
        F, h = self.landmarks.F, self.A.shape[1]
        W = torch.randn(F.shape[1], h, dtype=torch.float64, generator=generator).to(F)
        # |w_j|, because A^T K A = W^T W
        sizes = (self.A * (self.landmarks.K @ self.A)).sum(0).clamp(min=0).sqrt()
        return replace(self, A=(F @ (W / W.norm(dim=0) * sizes)).to(self.A))
