"""The contrastive models of triplets as their representer theorems write them: in kernel matrices alone.

Simple contrastive  [esser, Thm. 3]. The minimiser of mean z_i^T (z_i^- - z_i^+) under W^T W = I lies in the span of
the 2n functions phi(x_i) and delta_i = phi(x_i^-) - phi(x_i^+):

    W = [Phi, Delta] A,   K_1 = [[K, K_3], [K_3^T, K_Delta]],   K_3 = K_- - K_+,   A^T K_1 A = I
    B = [K_3; K_Delta] [K, K_3] / n,   K_2 = -(B + B^T) / 2
    A = K_1^(-1/2) V,   V the leading eigenvectors of K_1^(-1/2) K_2 K_1^(-1/2)
    z(x) = A^T [k(X, x); k(X^-, x) - k(X^+, x)]

Spectral contrastive  [esser, Thm. 4]. Over the embeddings Z (h, 3n) of anchors, positives and negatives themselves:

    mean -2 z_i^T z_{n+i} + (z_i^T z_{2n+i})^2 + lam Tr(Z K^+ Z^T),      z(x) = Z K^+ k(X, x)

`KernelEmbedding(n_landmarks=None)` finds the same functions by way of features, with one r x r eigendecomposition for
the first and `FullBatch` for the second; these forms are for reading, and for checking it.

Differs from [esser]: losses are means over the triplets and not sums, so that lam is theirs divided by n; the lower
left block of K_1 is K_3^T, not K_3; where K_1 or K is singular, because points coincide, its pseudo-inverse is used,
and Z must lie in the row space of K; eigenvalues must be positive and not only non-negative, because otherwise the
condition of Theorem 2 fails and a component may as well be zero on all of the data. The second loss may have no minimum
where lam is small, see `krepes.losses.spectral_contrastive`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from krepes.base.linalg import RELATIVE_CUT, descending_eigh, truncated_eigh
from krepes.base.rows import Rows, concat_rows, count_rows
from krepes.kernels import Kernel

CUT = RELATIVE_CUT[torch.float64]


@dataclass(frozen=True, eq=False)
class ContrastiveForms:
    """K_1 and K_2 of [esser, Thm. 3].

    Attributes
    ----------
    K_1 : Tensor of shape (2n, 2n)
        Inner products of the functions phi(x_i) and delta_i.
    K_2 : Tensor of shape (2n, 2n)
        -loss = Tr(A^T K_2 A).

    Examples
    --------
    One triplet on a line, 1 with the positive 2 and the negative -1: phi = 1, delta = -3, and the loss of w = 1 is -3.

    >>> from krepes.kernels import Linear
    >>> points = (torch.tensor([[x]], dtype=torch.float64) for x in (1.0, 2.0, -1.0))
    >>> forms = ContrastiveForms.of(Linear(), *points)
    >>> forms.K_1.tolist()
    [[1.0, -3.0], [-3.0, 9.0]]
    >>> A = forms.minimiser(1)
    >>> round(forms.loss(A), 12), tuple(A.shape)
    (-3.0, (2, 1))
    """

    K_1: Tensor
    K_2: Tensor

    @classmethod
    def of(cls, kernel: Kernel, X: Rows, positives: Rows, negatives: Rows) -> ContrastiveForms:
        """The forms of n triplets: tensors of shape (n, ...), or lists of n objects."""
        n = count_rows(X)
        K = kernel(X, X).double()
        K_3 = (kernel(X, negatives) - kernel(X, positives)).double()
        K_np = kernel(negatives, positives).double()
        K_delta = (
            kernel(negatives, negatives).double() + kernel(positives, positives).double() - K_np - K_np.mT
        )
        B = torch.cat([K_3, K_delta]) @ torch.cat([K, K_3], dim=1) / n
        K_1 = torch.cat([torch.cat([K, K_3], dim=1), torch.cat([K_3.mT, K_delta], dim=1)])
        return cls(K_1, -(B + B.mT) / 2)

    def eigenpairs(self) -> tuple[Tensor, Tensor]:
        """Positive eigenvalues, largest first, and their A (2n, h'): [esser, Thm. 2] allows that many components."""
        s, U = truncated_eigh(self.K_1, CUT)
        root = U * s.rsqrt()  # K_1^(-1/2) up to a rotation, which the eigenvectors undo
        values, vectors = descending_eigh(root.mT @ self.K_2 @ root)
        kept = int((values > CUT * values.abs().max()).sum())
        return values[:kept], root @ vectors[:, :kept]

    def minimiser(self, n_components: int) -> Tensor:
        """A (2n, h), h <= n_components: the components that lower the loss."""
        return self.eigenpairs()[1][:, :n_components]

    def loss(self, A: Tensor) -> float:
        return -(A.mT @ self.K_2 @ A).trace().item()


def contrastive_embedding(
    kernel: Kernel, X: Rows, positives: Rows, negatives: Rows, A: Tensor, new: Rows
) -> Tensor:
    """z(x) of new points, (b, h), from the A of `ContrastiveForms`."""
    columns = [kernel(new, X), kernel(new, negatives) - kernel(new, positives)]
    return torch.cat(columns, dim=1).double() @ A


@dataclass(frozen=True, eq=False)
class TripletSpectralForms:
    """The spectral contrastive loss of n triplets over their embeddings Z (h, 3n)  [esser, Thm. 4].

    Attributes
    ----------
    K : Tensor of shape (3n, 3n)
        Of anchors, positives and negatives, in this order.
    lam : float

    Examples
    --------
    >>> forms = TripletSpectralForms(torch.eye(3, dtype=torch.float64), lam=0.5)
    >>> Z = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    >>> forms.loss(Z).item()                              # -2 * 1 * 2 + (1 * 3)^2 + 0.5 * (1 + 4 + 9)
    12.0
    >>> forms.gradient(Z).tolist()                        # -4 + 2 * 3 * 3 + 1, -2 + 2, 2 * 3 * 1 + 3
    [[15.0, 0.0, 9.0]]
    """

    K: Tensor
    lam: float

    @classmethod
    def of(
        cls, kernel: Kernel, X: Rows, positives: Rows, negatives: Rows, lam: float
    ) -> TripletSpectralForms:
        points = concat_rows([X, positives, negatives])
        return cls(kernel(points, points).double(), lam)

    @property
    def inverse(self) -> Tensor:
        """K^+, (3n, 3n)."""
        s, U = truncated_eigh(self.K, CUT)
        return (U / s) @ U.mT

    def in_row_space(self, Z: Tensor) -> Tensor:
        """Z K^+ K: the nearest embeddings that a function of finite norm can have; coinciding points share theirs."""
        _, U = truncated_eigh(self.K, CUT)
        return (Z @ U) @ U.mT

    def loss(self, Z: Tensor) -> Tensor:
        anchors, positives, negatives = Z.chunk(3, dim=1)
        aligned, squared = (anchors * positives).sum(0), (anchors * negatives).sum(0).square()
        return (squared - 2 * aligned).mean() + self.lam * ((Z @ self.inverse) * Z).sum()

    def gradient(self, Z: Tensor) -> Tensor:
        """The gradient as it is printed, (h, 3n); of K's row space, where K is singular."""
        n = self.K.shape[0] // 3
        anchors, positives, negatives = Z.chunk(3, dim=1)
        products = (anchors * negatives).sum(0)
        parts = [2 * products * negatives - 2 * positives, -2 * anchors, 2 * products * anchors]
        return self.in_row_space(torch.cat(parts, dim=1) / n) + 2 * self.lam * Z @ self.inverse

    def embedding(self, Z: Tensor, k: Tensor) -> Tensor:
        """z(x) = Z K^+ k(X, x), (h, b), for kernel values k (3n, b) with new points."""
        return Z @ self.inverse @ k
