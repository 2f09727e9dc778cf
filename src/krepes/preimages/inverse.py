"""The inverse of a representation: a decoder and the estimate of its errors, as one value that can be saved."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from krepes.base.blocks import row_blocks
from krepes.preimages.error_estimate import ErrorFigures, learn_errors, nearest
from krepes.preimages.ridge_decoder import RidgeDecoder, learn_decoder

LEAST_ROWS = 3  # one is left out, and two are not all the same
BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Decoded:
    """Rows in the model's input space, (n, d), and the estimate of their errors, each (n,)."""

    rows: Tensor
    expected: Tensor
    upper: Tensor
    trusted: Tensor


@dataclass(frozen=True)
class LearnedInverse:
    """From representations to rows of the input space; the last output of the decoder is g of the error estimate.

    Examples
    --------
    >>> Z = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    >>> inverse = LearnedInverse.learned(Z, torch.cat([Z, -Z], dim=1), Z, are_centres=True)
    >>> found = inverse(torch.tensor([[0.5], [9.0]], dtype=torch.float64))
    >>> found.rows[0].round(decimals=3), found.trusted
    (tensor([ 0.5000, -0.5000], dtype=torch.float64), tensor([ True, False]))
    """

    decoder: RidgeDecoder
    figures: ErrorFigures

    @classmethod
    def learned(cls, Z: Tensor, X: Tensor, centres: Tensor, are_centres: bool) -> LearnedInverse:
        """Learn from rows X (n, d) and their representations Z (n, h); `are_centres`: Z are the centres (m, h)."""
        if len(X) < LEAST_ROWS:
            raise ValueError(
                f"An inverse is learned from at least {LEAST_ROWS} rows; this model has {len(X)} landmark"
                f"{'s' * (len(X) != 1)}. Call fit_inverse with rows of the data."
            )
        found = learn_decoder(Z, X, centres)
        figures, coefficients, constant = learn_errors(found, X, Z, are_centres)
        d = found.decoder
        outputs = torch.cat([d.coefficients, coefficients[:, None]], dim=1)
        constants = torch.cat([d.constant, constant[None]])
        return cls(RidgeDecoder(d.kernel, d.centres, d.mean, d.scale, outputs, constants), figures)

    @property
    def width(self) -> int:
        """h, the number of components."""
        return len(self.decoder.mean)

    @property
    def spread(self) -> float:
        """The distance that errors are relative to."""
        return self.figures.spread

    def __call__(self, Z: Tensor) -> Decoded:
        """Decode representations (n, h)."""
        parts = [self._decoded(Z[rows]) for rows in row_blocks(len(Z), BLOCK_ROWS)]
        return Decoded(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Decoded)))

    def _decoded(self, Z: Tensor) -> Decoded:
        outputs = self.decoder(Z)
        distance = nearest(self.decoder.scaled(Z), self.decoder.centres)
        return Decoded(outputs[:, :-1], *self.figures.estimate(outputs[:, -1], distance))
