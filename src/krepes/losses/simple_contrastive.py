"""Simple contrastive loss: anchors nearer to their positives than to negatives [esser, Def. 1].

    mean z^T (z- - z+)   subject to W^T W = I                    [esser, Eq. 4]

Without explicit negatives, every other sample's positive is one: mean z^T z- = mean(Z1)^T mean(Z2).
Closed form: the leading eigenvectors of S_+ - S_-, one r x r eigendecomposition instead of the 2n x 2n problem of
[esser, Thm. 3].
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.base.linalg import NOISE, descending_eigh
from krepes.losses.batch import Terms
from krepes.losses.loss import MomentLoss
from krepes.losses.statistics import Statistics
from krepes.moments import Moments


class SimpleContrastive(MomentLoss):
    """Align positives more than negatives, with an orthonormal W.

    Columns whose eigenvalue is not positive would only raise the loss ([esser, Thm. 3] assumes there are none);
    they are dropped.

    Examples
    --------
    >>> import torch
    >>> from krepes.losses import Batch
    >>> anchors, positives, negatives = torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.tensor([[-1.0]])
    >>> terms = SimpleContrastive().terms(Batch((anchors, positives, negatives)))
    >>> {name: float(term) for name, term in terms.items()}
    {'positive': -2.0, 'negative': -1.0}
    """

    name = "simple_contrastive"
    known_elsewhere_as = ("contrastive",)
    intercept = "zero"
    rotation_invariant = True
    uses_negatives = True
    quadratic_in_moments = True
    constraint = "orthogonal"

    def of_statistics(self, statistics: Statistics) -> Terms:
        return {"positive": -statistics.alignment, "negative": statistics.negative_alignment}

    def minimiser(self, moments: Moments, n_components: int, lam: float) -> tuple[Tensor, Tensor]:
        """The eigenvectors of S_+ - S_- with the largest positive eigenvalues; |W|^2 = h whatever lam is."""
        values, vectors = descending_eigh(moments.S_plus - moments.S_minus, n_components)
        kept = int((values > NOISE * moments.S.trace()).sum())
        return vectors[:, :kept], torch.zeros_like(values[:kept])
