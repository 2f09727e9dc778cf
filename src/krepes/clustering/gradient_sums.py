"""Sums over samples of quadratic forms in kernel gradients, as matrix products.

G_i, shape (m, d), has row j = dk(p_j, y)/dy at y = x_i, for m points p_j and n samples x_i. With the slopes
R = kernel.slope(P, X), shape (m, n),

    radial        G_i = diag(R_i) (P - 1 x_i^T)            R_ji (p_j - x_i)
    dot product   G_i = diag(R_i) P                        R_ji p_j

so that for one matrix Q and for one vector w_i per sample, Q of shape (m, m) and W of shape (m, n),

    sum_i G_i^T Q G_i = P^T (Q o R R^T) P - P^T E X - X^T E^T P + X^T diag(1^T E) X,      E = R o (Q R)
    G_i^T w_i         = row i of (R o W)^T P - diag(1^T (R o W)) X

where the terms with X occur for radial kernels only. Differs from [zou, Eq. 6] in the sign: for the quadratic
kernel the slope is 2 p_j.y, not the root of its square. Cost O(m^2 n + m n d + n d^2), without a loop over samples.
"""

from __future__ import annotations

from torch import Tensor

from krepes.kernels import Kernel


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

    >>> import torch
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
