"""What gradients are taken of: W in whitened coordinates, or A, the coefficients of the landmarks, as published.

    whitened     f(x) = W^T phi(x) + gamma      |W|^2
    landmarks    f(x) = A^T k_x + gamma         Tr(A^T K_mm A)                               [krepes, section 3]
    matched      f_v(x) = A^T k_x^v + gamma_v   k^v: against the v-th views of the landmarks [krepes, section 3, "BT"]

The functions are the same (A = F W), the gradients are not: gradient descent on W is gradient descent on A with
K_mm as its preconditioner. In the matched form all views share A but each is compared with its own views of the
landmarks; a new point is embedded by the mean of the f_v, which has coefficients A / p on every view.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from krepes.base.linalg import RELATIVE_CUT, descending_eigh, inverse_sqrt
from krepes.kernels.kernel import wide
from krepes.landmarks.nystrom import NystromMap
from krepes.solvers.sgd.feature_windows import FeatureFunction


class Coordinates(ABC):
    """A parametrisation P (width, h) of the embedding.

    Attributes
    ----------
    width : int
    functions : list of callables rows -> (b, width)
        The features that P acts on, one for all views or one for each.
    n_intercepts : int
        1, or one for each view.
    """

    width: int
    functions: list[FeatureFunction]
    n_intercepts = 1

    def __init__(self, features: NystromMap):
        self.features = features
        self.dtype = features.dtype
        self.device = features.F.device

    @abstractmethod
    def metric(self, P: Tensor) -> Tensor:
        """G P with |f|^2 = Tr(P^T G P): P itself, or K_mm P."""

    @abstractmethod
    def from_W(self, W: Tensor) -> Tensor:
        """The P of W (r, h)."""

    @abstractmethod
    def to_W(self, P: Tensor) -> Tensor:
        """The W of P, (r, h)."""

    @abstractmethod
    def kernel_solver(self, lam: float) -> Callable[[Tensor], Tensor]:
        """The function G -> P^-1 G of gradients, where P = K_mm + lam I acts on gradients of A."""

    def noise(self, n: int, generator: torch.Generator) -> Tensor:
        """Features (n, width) of independent unit noise in the kernel's feature space."""
        draw = torch.randn(n, self.features.rank, generator=generator, dtype=self.dtype)
        return self._as_features(draw.to(self.device))

    def _as_features(self, Phi: Tensor) -> Tensor:
        return Phi

    def to_phi(self, features: Tensor) -> Tensor:
        """Whitened features (b, r) of those that P acts on."""
        return features

    def gram(self, P: Tensor) -> Tensor:
        """W^T W, (h, h)."""
        return P.mT @ self.metric(P)

    def orthonormal(self, P: Tensor) -> Tensor:
        """The nearest P with W^T W = I: P (W^T W)^(-1/2)."""
        return P @ inverse_sqrt(self.gram(P)).to(P)

    def coefficients(self, P: Tensor) -> Tensor:
        """A on all centres, float64."""
        return self.features.coefficients(self.to_W(P))


class Whitened(Coordinates):
    """P = W."""

    def __init__(self, features: NystromMap):
        super().__init__(features)
        self.width, self.functions = features.rank, [features]

    def metric(self, P: Tensor) -> Tensor:
        return P

    def from_W(self, W: Tensor) -> Tensor:
        return W.to(self.dtype)

    def to_W(self, P: Tensor) -> Tensor:
        return P.double()

    def kernel_solver(self, lam: float) -> Callable[[Tensor], Tensor]:
        """A step P^-1 dL/dA of A is the step s / (s + lam) dL/dW of W, with s the eigenvalues of K_mm."""
        s = self.features.eigenvalues
        share = (s / (s + lam)).to(self.dtype)[:, None]
        return lambda G: share * G


class Landmarks(Coordinates):
    """P = A, one row for every centre."""

    def __init__(self, features: NystromMap):
        super().__init__(features)
        self.width, self.functions = features.n_landmarks, [features.kernel_block]
        self.K_mm = features.kernel(wide(features.landmarks)).double()
        self._metric = self.K_mm.to(self.dtype)
        self._back = features.eigenvalues[:, None] * features.F.mT  # F^+, (r, m)

    def metric(self, P: Tensor) -> Tensor:
        return self._metric @ P

    def from_W(self, W: Tensor) -> Tensor:
        return self.features.coefficients(W).to(self.dtype)

    def to_W(self, P: Tensor) -> Tensor:
        return self._back @ P.double()

    def _as_features(self, Phi: Tensor) -> Tensor:
        return Phi @ self._back.to(Phi)

    def to_phi(self, features: Tensor) -> Tensor:
        return self.features.project(features)

    def coefficients(self, P: Tensor) -> Tensor:
        return P.double()

    def kernel_solver(self, lam: float) -> Callable[[Tensor], Tensor]:
        if lam == 0:
            F = self.features.F
            return lambda G: (F @ (F.mT @ G.double())).to(self.dtype)
        factor = torch.linalg.cholesky(self.K_mm + lam * torch.eye(self.width).to(self.K_mm))
        return lambda G: torch.cholesky_solve(G.double(), factor).to(self.dtype)


class Matched(Landmarks):
    """P = A, one row for every landmark; view v is compared with the v-th views of the landmarks.

    Centres are ordered by view: all first views, then all second views.
    """

    def __init__(self, features: NystromMap, n_views: int):
        Coordinates.__init__(self, features)
        self.width, rest = divmod(features.n_landmarks, n_views)
        if n_views != 2 or rest:
            raise ValueError(
                "SGD(view_matched=True) compares the two views with the landmarks' first and second views; these "
                f"landmarks have {n_views} view{'s' * (n_views > 1)} each. Give "
                "landmarks=Uniform(views_per_landmark=2), or another rule with that parameter."
            )
        self.n_intercepts = n_views
        centres = [features.landmarks[v * self.width : (v + 1) * self.width] for v in range(n_views)]
        self.functions = [features.kernel.against(part) for part in centres]
        self.K_mm = torch.stack([features.kernel(wide(part)).double() for part in centres]).mean(0)
        self._metric = self.K_mm.to(self.dtype)
        values, U = descending_eigh(self.K_mm)
        kept = int((values > RELATIVE_CUT[self.dtype] * values[0]).sum())
        self._root = U[:, :kept] * values[:kept].sqrt()
        self._whiten = U[:, :kept] * values[:kept].rsqrt()

    def from_W(self, W: Tensor) -> Tensor:
        """The A whose function has the leading directions of the mean kernel for W's unit vectors."""
        kept = min(len(W), self._whiten.shape[1])
        return (self._whiten[:, :kept] @ W[:kept].to(self._whiten)).to(self.dtype)

    def to_W(self, P: Tensor) -> Tensor:
        F = self.features.F
        return self.features.eigenvalues[:, None] * (F.mT @ self.coefficients(P))

    def _as_features(self, Phi: Tensor) -> Tensor:
        return Phi[:, : self._root.shape[1]] @ self._root.mT.to(Phi)

    def to_phi(self, features: Tensor) -> Tensor:
        return features @ self._whiten.to(features)

    def coefficients(self, P: Tensor) -> Tensor:
        return P.double().repeat(self.n_intercepts, 1) / self.n_intercepts

    def kernel_solver(self, lam: float) -> Callable[[Tensor], Tensor]:
        if lam == 0:
            return lambda G: (self._whiten @ (self._whiten.mT @ G.double())).to(self.dtype)
        return super().kernel_solver(lam)
