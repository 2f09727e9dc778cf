"""Spectral contrastive loss over all pairs [haochen; esser, Def. 2].

    -2 mean z1^T z2 + |(Z1^T Z1 + Z2^T Z2) / (2n)|_F^2

Differs from [esser, Def. 2]: the second term there is mean (z^T z-)^2 over given triplets, which needs fourth
moments; this is its expectation over independent negatives, with every sample of both views a negative.
Closed form: two eigendecompositions, O(r^3).
"""

from __future__ import annotations

from torch import Tensor

from krepes.losses.base import MomentLoss, Terms
from krepes.losses.forms import low_rank_factor
from krepes.losses.statistics import Statistics
from krepes.moments import Moments


class SpectralContrastive(MomentLoss):
    """Factorise the normalised similarity of positive pairs.

    Its minimiser is W = S^(-1/2) V_h diag(e_h)_+^(1/2), where (e, V) are the leading eigenpairs of
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
    """

    name = "spectral_contrastive"

    @property
    def intercept(self) -> str:
        return "zero"

    def of_statistics(self, statistics: Statistics) -> Terms:
        return {
            "positive": -2 * statistics.alignment,
            "negative": statistics.second_moment.square().sum(),
        }

    def minimiser(self, moments: Moments, n_components: int, lam: float) -> tuple[Tensor, Tensor]:
        """See `low_rank_factor`; the value, regulariser included, is -sum_i (e_i)_+^2."""
        W = low_rank_factor(moments.S, moments.S_plus, lam, n_components, moments.S.trace().item())
        return W, W.new_zeros(W.shape[1])
