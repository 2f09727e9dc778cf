"""Leave-one-out self-expression: every sample from all the others, and how that changes with the sample.

Each sample is a ridge regression on the other n - 1 in feature space [zou, Eq. 3]; f_i is its reconstruction and

    Sigma = (1/n) sum_i J_i^T J_i,    J_i = d f_i / dx at x_i                                      [zou, Alg. 1, line 4]

the averaged local covariance. One factorisation gives all n of them. Two forms, which agree where both are exact:

**Dual**, B = (K + lam I)^-1, beta = diag B, b = B e_i:

    c_i = -b / beta_i off the diagonal, 0 on it;    zero-padded (K_-i + lam I)^-1 = P_i = B - b b^T / beta_i
    latent   J_i^T J_i = G_i^T P_i K P_i G_i,    P_i K P_i = T - (1/beta_i + lam B2_ii / beta_i^2) b b^T
                                                             + (lam/beta_i)(d b^T + b d^T)
    data     J_i = X^T B K P_i G_i,              B K P_i = T - t b^T / beta_i

with B2 = B^2, T = B K B = B - lam B2, d = B2 e_i, t = T e_i. O(n^3), memory a few n x n.

**Primal**, features Phi (n, r) on m landmarks, phi(x) = F^T k_x, M = (Phi^T Phi + lam I)^-1, h_i = phi_i^T M phi_i:

    c_ji = H_ji / (1 - h_i),  H = Phi M Phi^T
    J_i = E^(1/2) N_i F^T G_i,   N_i = I - lam M_i = N - kappa_i v v^T,   v = M phi_i, kappa_i = lam / (1 - h_i)

with E = I (latent) or M Phi^T X X^T Phi M (data), O(n m^2 + n m d). It is exact where the landmarks span the data:
for kernels of few features (quadratic, d (d + 1) / 2 of them) it is also the accurate form, because the dual one
loses digits when K is singular and lam small. For other kernels it is the Nyström approximation for large n.

The data form of [zou, App. C] uses K with sample i in it; here f_i leaves it out as everywhere else, while the
regression g back to the data uses all. (App. C prints alpha* = (..)^-1 phi(X)^T X^T; it should be phi(X) X^T.)

Sums of quadratic forms in kernel gradients are matrix products. G_i, shape (m, d), has row j = dk(p_j, y)/dy at
y = x_i, for m points p_j and n samples x_i. With the slopes R = kernel.slope(P, X), shape (m, n),

    radial        G_i = diag(R_i) (P - 1 x_i^T)            R_ji (p_j - x_i)
    dot product   G_i = diag(R_i) P                        R_ji p_j

so that for one matrix Q and for one vector w_i per sample, Q of shape (m, m) and W of shape (m, n),

    sum_i G_i^T Q G_i = P^T (Q o R R^T) P - P^T E X - X^T E^T P + X^T diag(1^T E) X,      E = R o (Q R)
    G_i^T w_i         = row i of (R o W)^T P - diag(1^T (R o W)) X

where the terms with X occur for radial kernels only. Differs from [zou, Eq. 6] in the sign: for the quadratic
kernel the slope is 2 p_j.y, not the root of its square. Cost O(m^2 n + m n d + n d^2), without a loop over samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from krepes.base.rows import dense
from krepes.features import FeatureSpace
from krepes.kernels import Kernel

SPACES = ("latent", "data")
Index = slice | Tensor  # some of the samples
DOUBLE_ROWS = 10_000  # beyond it, all coefficients of all rows are computed in single precision


class SelfExpression(ABC):
    """All leave-one-out regressions of n samples.

    Attributes
    ----------
    X : Tensor of shape (n, d)
    kernel : Kernel
    lam : float
        The ridge, in units of k.
    """

    X: Tensor
    kernel: Kernel
    lam: float

    def square_distances(self, rows: Index) -> Tensor:
        """|x_i - x_j|^2 for some samples i, one per row, shape (b, n)."""
        return torch.cdist(self.X[rows], self.X).square_()

    @abstractmethod
    def coefficients(self, rows: Index) -> Tensor:
        """c_i for some samples i, one per row, shape (b, n); zero at the sample itself.  [zou, Eq. 3]"""

    @abstractmethod
    def coefficients_of(self, Y: Tensor) -> Tensor:
        """c(y) = (K + lam I)^-1 k_y for new samples, one per row, shape (b, n).  [zou, Eq. 4]"""

    @abstractmethod
    def local_covariance(self, space: str = "latent") -> Tensor:
        """Sigma, the mean of J_i^T J_i, shape (d, d), in "latent" or in "data" space."""


class DualExpression(SelfExpression):
    """From the n x n kernel matrix.

    Examples
    --------
    Two equal samples, lam = 1: each is c = k / (k + lam) = 1/2 of the other.

    >>> from krepes.kernels import Linear
    >>> DualExpression(Linear(), torch.tensor([[1.0], [1.0]]), 1.0).coefficients(slice(None))
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])
    """

    def __init__(
        self, kernel: Kernel, X: Tensor, lam: float, matrix: Callable[[Kernel], Tensor] | None = None
    ):
        self.kernel, self.X, self.lam = kernel, X, lam
        self.matrix = matrix  # k of all pairs, where somebody has their distances already

    @cached_property
    def B(self) -> Tensor:
        K = self.kernel(self.X) if self.matrix is None else self.matrix(self.kernel)
        K.diagonal().add_(self.lam)
        return torch.cholesky_inverse(_cholesky(K, self.kernel, self.lam))

    @property
    def beta(self) -> Tensor:
        return self.B.diagonal()

    def coefficients(self, rows: Index) -> Tensor:
        return without_own(self.B[rows] / -self.beta[rows][:, None], rows)

    def coefficients_of(self, Y: Tensor) -> Tensor:
        return self.kernel(Y, self.X) @ self.B

    def local_covariance(self, space: str = "latent") -> Tensor:
        sums = GradientSums(self.kernel, self.X, self.X)
        B2, beta, lam = self.B @ self.B, self.beta, self.lam
        A = sums.rows(self.B)
        if space == "latent":
            A2 = sums.rows(B2)
            own, mixed = -(1 / beta + lam * B2.diagonal() / beta**2), lam / beta
            S = torch.sub(self.B, B2, alpha=lam)
        else:
            XT = (self.B @ self.X).sub_(B2 @ self.X, alpha=lam)  # T X
            S = XT @ XT.mT
            A2 = sums.rows(S)
            own, mixed = S.diagonal() / beta**2, -1 / beta
        return (sums.quadratic(S) + _symmetric_sum(A, own, A2, mixed)) / len(self.X)


class PrimalExpression(SelfExpression):
    """From r features on m landmarks; nothing is n x n.

    Examples
    --------
    The same two samples, which one landmark spans:

    >>> from krepes.kernels import Linear
    >>> X = torch.tensor([[1.0], [1.0]], dtype=torch.float64)
    >>> PrimalExpression(FeatureSpace.on(Linear(), X[:1]), X, 1.0).coefficients(slice(None))
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]], dtype=torch.float64)
    """

    def __init__(self, space: FeatureSpace, X: Tensor, lam: float):
        self.kernel, self.X, self.lam, self.landmarks = space.kernel, X, lam, dense(space.landmarks)
        self.features = space.features
        self.Phi = self.features(X)
        gram = self.Phi.mT @ self.Phi
        gram.diagonal().add_(lam)
        # H = Z Z^T with Z = Phi L^-T and L L^T = Phi^T Phi + lam I
        self.L = _cholesky(gram, self.kernel, lam)
        self.Z = torch.linalg.solve_triangular(self.L, self.Phi.mT, upper=False).mT.contiguous()
        self.leverage = self.Z.square().sum(1)

    @cached_property
    def codes(self) -> Tensor:
        """Z as it enters products of all rows with all: in single precision where these are very many."""
        return self.Z.float() if len(self.X) > DOUBLE_ROWS else self.Z

    def coefficients(self, rows: Index) -> Tensor:
        C = (self.codes[rows] @ self.codes.mT).div_((1 - self.leverage[rows]).to(self.codes)[:, None])
        return without_own(C, rows)

    def coefficients_of(self, Y: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self.L, self.features(Y).mT, upper=False).mT @ self.Z.mT

    def local_covariance(self, space: str = "latent") -> Tensor:
        sums, lam = GradientSums(self.kernel, self.landmarks, self.X), self.lam
        F, identity = self.features.F.to(self.X), torch.eye(self.features.rank).to(self.X)
        M = torch.cholesky_inverse(self.L)
        N, V = identity - lam * M, M @ self.Phi.mT  # V: (r, n)
        alpha = identity if space == "latent" else V @ self.X  # E = alpha alpha^T
        kappa = lam / (1 - self.leverage)
        EV = alpha @ (alpha.mT @ V)
        FN = F @ N
        A, A2 = sums.rows(F @ V), sums.rows(FN @ EV)
        own = kappa**2 * (V * EV).sum(0)
        half = FN @ alpha
        return (sums.quadratic(half @ half.mT) + _symmetric_sum(A, own, A2, -kappa)) / len(self.X)


class GradientSums:
    """The gradients of a kernel between `points` and every sample, never formed.

    Parameters
    ----------
    kernel : Kernel
        It must have a `geometry`, and its data-dependent parameters must be numbers already.
    points : Tensor of shape (m, d)
    samples : Tensor of shape (n, d)

    Examples
    --------
    k(x, y) = x y on the line has dk/dy = x: with Q = 1 the sum over two samples is 3^2 + 3^2.

    >>> from krepes.kernels import Linear
    >>> sums = GradientSums(Linear(), torch.tensor([[3.0]]), torch.tensor([[1.0], [2.0]]))
    >>> sums.quadratic(torch.tensor([[1.0]])).item()
    18.0
    """

    def __init__(self, kernel: Kernel, points: Tensor, samples: Tensor):
        self.R = kernel.slope(points, samples)
        self.radial = kernel.geometry == "radial"
        self.points, self.samples = points, samples

    def quadratic(self, Q: Tensor) -> Tensor:  # Q: (m, m), symmetric
        """sum_i G_i^T Q G_i, shape (d, d)."""
        P, X = self.points, self.samples
        H = (self.R @ self.R.mT).mul_(Q)
        if not self.radial:
            return P.mT @ (H @ P)
        E = (Q @ self.R).mul_(self.R)
        if P is X:  # then all terms are X^T (...) X
            H -= E
            H -= E.mT
            H.diagonal().add_(E.sum(0))
            return P.mT @ (H @ P)
        total = P.mT @ (H @ P)
        cross = P.mT @ (E @ X)
        total -= cross + cross.mT
        return total + X.mT @ (E.sum(0)[:, None] * X)

    def rows(self, W: Tensor) -> Tensor:  # W: (m, n)
        """G_i^T w_i for every sample, shape (n, d)."""
        E = self.R * W
        rows = E.mT @ self.points
        return rows - E.sum(0)[:, None] * self.samples if self.radial else rows


def _symmetric_sum(A: Tensor, own: Tensor, A2: Tensor, mixed: Tensor) -> Tensor:
    """A^T diag(own) A + A^T diag(mixed) A2 + A2^T diag(mixed) A, by one product."""
    half = A.mT @ (own[:, None] / 2 * A + mixed[:, None] * A2)
    return half + half.mT


def without_own(C: Tensor, rows: Index) -> Tensor:
    """C, shape (b, n), with zero where a sample meets itself; in place."""
    columns = torch.arange(C.shape[1])[rows]
    C[torch.arange(len(C)), columns] = 0
    return C


def _cholesky(S: Tensor, kernel: Kernel, lam: float) -> Tensor:
    L, failed = torch.linalg.cholesky_ex(S)
    if failed or not torch.isfinite(L.diagonal()).all():
        raise ValueError(
            f"{kernel} is not positive semi-definite on these rows, or the ridge {lam:.3g} is too small: raise "
            "regularization, or use another kernel."
        )
    return L
