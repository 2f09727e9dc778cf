"""Kernel PCA: the reconstruction error of centred features in the span of W [krepes, section 3, "KPCA"].

    mean |phi(x) - mu - W z|^2 = mean |phi(x) - mu|^2 - 2 tr C + tr(C W^T W),   z = W^T (phi(x) - mu),  C = mean z z^T

Differs from [krepes]: the paper prints -1 for the cross term; expanding the square gives -2.
Closed form: one eigendecomposition, O(r^3).
"""

from __future__ import annotations

from torch import Tensor

from krepes.base.linalg import spanned
from krepes.losses.batch import Terms
from krepes.losses.loss import MomentLoss
from krepes.losses.statistics import Statistics
from krepes.moments import Moments


class KernelPCA(MomentLoss):
    """Reconstruct the features of a sample from their projection.

    Looks at one view of every sample; fit it on unaugmented rows. The value includes the part of k(x, x) that the
    landmarks do not span, which no W can reconstruct. With regularisation a component of variance s is shrunk by
    sqrt(1 - lam/(2 s)), and cut where that is negative.

    Examples
    --------
    Points 0 and 2 on a line have variance 1; W = 0 leaves it, W = 1 reconstructs everything:

    >>> import torch
    >>> moments = Moments.of_rows(torch.tensor([[0.0], [2.0]]))
    >>> loss = KernelPCA()
    >>> [float(loss.of_moments(moments, torch.tensor([[w]]), -w * moments.mean)["reconstruction"]) for w in (0.0, 1.0)]
    [1.0, 0.0]
    >>> W, gamma = loss.minimiser(moments, 1, lam=1.5)      # sqrt(1 - 1.5 / 2) = 1/2
    >>> W.item(), gamma.item()
    (0.5, -0.5)
    """

    name = "kernel_pca"
    known_elsewhere_as = ("pca", "kpca")
    intercept = "centered"
    rotation_invariant = True
    quadratic_in_moments = True
    views_needed = 1
    needs = ("phi_norm_sq", "gram")

    def of_statistics(self, statistics: Statistics) -> Terms:
        C = statistics.second_moment
        return {"reconstruction": statistics.phi_norm_sq - 2 * C.trace() + (C * statistics.gram).sum()}

    def minimiser(self, moments: Moments, n_components: int, lam: float) -> tuple[Tensor, Tensor]:
        """W = V_h diag(1 - lam/(2 s))_+^(1/2) with the leading eigenpairs (s, V_h) of the covariance."""
        values, vectors = spanned(moments.covariance, moments.S.trace().item())
        shrinkage = 1 - lam / (2 * values[:n_components])
        kept = int((shrinkage > 0).sum())
        W = vectors[:, :kept] * shrinkage[:kept].sqrt()
        return W, -W.mT @ moments.mean
