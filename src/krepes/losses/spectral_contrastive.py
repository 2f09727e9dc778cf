"""Spectral contrastive loss, over all pairs [haochen] or over triplets [esser, Def. 2].

    all:      -2 mean z1^T z2 + |(Z1^T Z1 + Z2^T Z2) / (2n)|_F^2
    triplet:  -2 mean z1^T z2 + mean (z1^T z-)^2

The triplet form needs fourth moments, and so samples. The form over all pairs is its expectation over independent
negatives, with every sample of both views a negative; it needs second moments only.
Closed form of the latter: two eigendecompositions, O(r^3).

The triplet form with lam |W|^2 may have no minimum, which [esser, Thm. 4] does not say: a w that is zero on all
negatives pays nothing for its size, and lowers the loss without bound if w^T S_+ w > lam/2 |w|^2. Where the points are
linearly independent, as for a universal kernel, there is always such a w for a small lam.
"""

from __future__ import annotations

from scipy.optimize import minimize_scalar
from torch import Tensor

from krepes.base.linalg import descending_eigh, low_rank_factor
from krepes.losses.batch import Batch, Terms
from krepes.losses.loss import MomentLoss
from krepes.losses.statistics import Statistics
from krepes.moments import Moments


class SpectralContrastive(MomentLoss):
    """Factorise the normalised similarity of positive pairs.

    Parameters
    ----------
    negatives : "all" or "triplet", default="all"
        Every sample is a negative of every other; or each has one, given as a third view, or else the next sample
        of the batch.

    Notes
    -----
    The minimiser over all pairs is W = S^(-1/2) V_h diag(e_h)_+^(1/2), where (e, V) are the leading eigenpairs of
    S^(-1/2) (S_+ - lam/2 I) S^(-1/2): a component with correlation rho between the views has variance about rho.

    Examples
    --------
    Identical views of second moment 1, without regularisation: -2 w^2 + w^4 is least at w = 1.

    >>> import torch
    >>> Phi = torch.tensor([[1.0], [-1.0]])
    >>> moments = Moments.of_views(Phi, Phi)
    >>> W, gamma = SpectralContrastive().minimiser(moments, 1, lam=0.0)
    >>> terms = SpectralContrastive().of_moments(moments, W)
    >>> W.item(), {name: round(float(term), 12) for name, term in terms.items()}
    (1.0, {'positive': -2.0, 'negative': 1.0})

    A triplet: -2 * (1 * 2) and (1 * 3)^2.

    >>> batch = Batch((torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.tensor([[3.0]])))
    >>> {name: float(term) for name, term in SpectralContrastive(negatives="triplet").terms(batch).items()}
    {'positive': -4.0, 'negative': 9.0}
    """

    name = "spectral_contrastive"
    known_elsewhere_as = ("spectral", "scl")
    intercept = "zero"
    rotation_invariant = True

    def __init__(self, negatives: str = "all"):
        self.negatives = negatives

    @property
    def uses_negatives(self) -> bool:
        return self.negatives == "triplet"

    @property
    def quadratic_in_moments(self) -> bool:
        return self.negatives == "all"

    def offers(self, method: str) -> bool:
        if method in ("of_statistics", "minimiser"):
            return self.negatives == "all"
        if method == "sufficient_lam":
            return self.negatives == "triplet"
        return super().offers(method)

    def of_statistics(self, statistics: Statistics) -> Terms:
        self.require("of_statistics")
        return {
            "positive": -2 * statistics.alignment,
            "negative": statistics.second_moment.square().sum(),
        }

    def terms(self, batch: Batch) -> Terms:
        if self.negatives == "all":
            return super().terms(batch)
        if self.negatives != "triplet":
            raise ValueError(f"negatives={self.negatives!r}: expected 'all' or 'triplet'.")
        Z1, Z2 = self.views(batch)
        negatives = Z1.roll(-1, 0) if batch.negatives is None else batch.negatives
        return {
            "positive": -2 * (Z1 * Z2).sum(1).mean(),
            "negative": (Z1 * negatives).sum(1).square().mean(),
        }

    def sufficient_lam(self, moments: Moments) -> float:
        """min over c of the largest eigenvalue of 2 S_+ - c S_-: from there on the triplet form is at least -c^2 / 4.

        With M = W W^T and u_i = z_i^T z_i^-, c mean u = c tr(S_- M), so that
        loss + lam tr M = tr((lam - 2 S_+ + c S_-) M) + mean (u^2 - c u) >= mean (u - c/2)^2 - c^2 / 4.
        """
        self.require("sufficient_lam")
        S_plus, S_minus = moments.S_plus, moments.S_minus

        def largest(c: float) -> float:
            return descending_eigh(2 * S_plus - c * S_minus, 1)[0].item()

        return max(0.0, float(minimize_scalar(largest, bounds=(0, 4), options={"maxiter": 12}).fun))

    def minimiser(self, moments: Moments, n_components: int, lam: float) -> tuple[Tensor, Tensor]:
        """See `low_rank_factor`; the value, regulariser included, is -sum_i (e_i)_+^2."""
        self.require("minimiser")
        W = low_rank_factor(moments.S, moments.S_plus, lam, n_components, moments.S.trace().item())
        return W, W.new_zeros(W.shape[1])
