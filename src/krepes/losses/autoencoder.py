"""Kernel autoencoder: reconstruct samples from the directions of their embeddings, by kernel ridge [esser, Def. 3].

    min over Q of  |X - Q|^2 + lam tr(Q^T K^-1 Q)  =  lam tr(X^T G X),     G = (K + lam I)^-1,   Q = K G X

K = k(z_i, z_j) is the decoder's kernel on embeddings with |z_i| = 1, Q (b, d) the reconstruction, X centred. The
decoder is not trained but solved for (variable projection): X - Q = lam G X and Q^T K^-1 Q = X^T G K G X add up to
lam X^T G (lam I + K) G X. This is the decoder's part of [esser, Thm. 5]; the encoder's is the solver's regulariser.

    leave one out:   mean |e_i|^2 / variance,   e_i = [G X]_i / G_ii,     the error at x_i of the decoder of all others
    in sample:       lam tr(X^T G X) / (b variance),                      as published

Both are fractions of X's variance, mean |x_i|^2: 0 for perfect reconstruction, 1 for that by the mean alone.
Cost O(b^2 (b + d + h)).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from krepes.base.validation import check_choice, check_number
from krepes.kernels.vectors import as_rows
from krepes.losses.batch import Batch, Terms
from krepes.losses.directions import DirectionLoss, directions
from krepes.losses.loss import check_weights, inverse_root
from krepes.losses.ridge_decoder import decoder_factor, in_sample_errors, left_out_errors

SMALLEST_REGULARIZATION = 1e-6  # K is singular where embeddings coincide
DECODERS = ("gaussian", "linear")
RECONSTRUCTIONS = ("leave_one_out", "in_sample")


@dataclass(eq=False, repr=False)
class Autoencoder(DirectionLoss):
    """Reconstruct samples from their embeddings, with the best decoder for every embedding.

    Parameters
    ----------
    decoder_kernel : "gaussian" or "linear", default="gaussian"
        exp(-|z - z'|^2 / (2 l^2)), or z.z'.
    lengthscale : float, default=1.0
        l of the Gaussian kernel; embeddings lie on the unit sphere, at distances up to 2.
    decoder_regularization : float, default=0.01
        lam, at least 1e-6; k(z, z) is 1.
    reconstruction : "leave_one_out" or "in_sample", default="leave_one_out"
        In sample, embeddings that are merely far apart reconstruct everything (K = I gives lam / (1 + lam)), the more
        so the smaller lam; left out, they reconstruct nothing (K = I gives 1).
    covariance_weight : float, default=0.0
        Weight of sum_{i != j} C_ij^2, where C is the covariance of the directions, (h, h), of trace at most 1.

    Notes
    -----
    With one view (`views=None`) it encodes samples as they are. With two (`views="auto"` or given), each is encoded and
    the unchanged sample reconstructed: the de-noising autoencoder of [esser, Remark 2].

    Differs from [esser]: the constraint |z_i| = 1 is part of the formula, X is centred on the batch, and the decoder
    serves a batch, not all samples. Computed in float64, because K is nearly singular.

    Examples
    --------
    Embeddings at right angles and a linear decoder, K = I: see `reconstruction`, with lam = 1.

    >>> batch = Batch((torch.eye(2),), X=torch.tensor([[-1.0], [1.0]]))
    >>> for reconstruction in ("in_sample", "leave_one_out"):
    ...     loss = Autoencoder("linear", decoder_regularization=1.0, reconstruction=reconstruction)
    ...     print(round(float(loss.terms(batch)["reconstruction"]), 6))
    0.5
    1.0
    """

    name = "autoencoder"
    known_elsewhere_as = ("ae", "reconstruction")
    views_needed = 1
    needs = ("X",)

    decoder_kernel: str = "gaussian"
    lengthscale: float = 1.0
    decoder_regularization: float = 0.01
    reconstruction: str = "leave_one_out"
    covariance_weight: float = 0.0

    def views_for(self, views: object) -> int:
        """Two where they are "auto", and so de-noised: without, it learns what pixels and columns say linearly."""
        return 2 if isinstance(views, str) and views == "auto" else self.views_needed

    @property
    def rotation_invariant(self) -> bool:
        return self.covariance_weight == 0

    def terms(self, batch: Batch) -> Terms:
        return {name: residuals.square().sum() for name, residuals in self._residuals(batch).items()}

    def residuals(self, batch: Batch) -> Tensor:
        """Errors of reconstruction and weighted covariances, flattened to (v (b d + h^2),) for v views."""
        return torch.cat([residuals.flatten() for residuals in self._residuals(batch).values()])

    def _residuals(self, batch: Batch) -> dict[str, Tensor]:
        """By term, (v, b, d) and (v, h, h); the squared length of each is the term."""
        self._check()
        views, X = batch.Z[:2], _samples(batch)
        X = X - X.mean(0)
        X = X * inverse_root(X.square().sum())  # then |e|^2 is a fraction of the variance
        errors, covariances = [], []
        for Z in views:
            unit = directions(Z).double()
            errors.append(self._errors(unit, X).to(Z.dtype))
            C = (unit - unit.mean(0)).mT @ (unit - unit.mean(0)) / len(unit)
            covariances.append((C - torch.diag(C.diagonal())).to(Z.dtype))
        share = len(views) ** -0.5
        return {
            "reconstruction": share * torch.stack(errors),
            "covariance": share * self.covariance_weight**0.5 * torch.stack(covariances),
        }

    def _errors(self, unit: Tensor, X: Tensor) -> Tensor:
        """(b, d), from directions (b, h) and centred samples (b, d), both float64."""
        lam = self.decoder_regularization
        K = self._kernel(unit @ unit.mT)
        L = decoder_factor(K, lam)
        return in_sample_errors(L, X, lam) if self.reconstruction == "in_sample" else left_out_errors(L, X)

    def _kernel(self, cosines: Tensor) -> Tensor:
        if self.decoder_kernel == "linear":
            return cosines
        return ((cosines - 1) / self.lengthscale**2).exp()  # |z - z'|^2 = 2 - 2 cos

    def _check(self) -> None:
        check_weights(covariance_weight=self.covariance_weight)
        check_choice("decoder_kernel", self.decoder_kernel, DECODERS)
        check_choice("reconstruction", self.reconstruction, RECONSTRUCTIONS)
        check_number("lengthscale", self.lengthscale, above=1e-150, below=1e150)  # its square is finite
        # where k(z, z) is 1
        check_number("decoder_regularization", self.decoder_regularization, least=SMALLEST_REGULARIZATION)


def _samples(batch: Batch) -> Tensor:
    """X as float64 rows (b, d), beside the embeddings."""
    X = batch.required("X")
    try:
        return as_rows(X).to(batch.Z[0].device, torch.float64)
    except TypeError:
        raise ValueError(
            "The autoencoder reconstructs vectors, but the samples are objects that are not numbers: "
            "use another loss."
        ) from None
