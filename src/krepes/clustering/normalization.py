"""Two meanings of "normalize the data" [zou, Alg. 1, line 11], which decide success.

unit      every row to length 1; zero rows stay zero. For kernels of distances: directions are compared.
global    all rows by one number, so that the mean of |x|^2 is 1. For kernels of x.y: lengths are kept.

Both commute with linear maps up to a scale per row, so that after several projections one normalisation is enough.
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.base.limits import check_choice

NORMALIZATIONS = ("auto", "unit", "global", "none")


def choose_normalization(name: str | None, geometry: str | None) -> str:
    """The normalisation to use: "auto" is global for kernels of x.y, else unit."""
    name = "none" if name is None else name
    check_choice("normalization", name, NORMALIZATIONS)
    if name != "auto":
        return name
    return "global" if geometry == "dot_product" else "unit"


def scale_of(X: Tensor, name: str) -> float | None:
    """The number by which "global" divides; None where each row has its own scale."""
    if name == "unit":
        return None
    largest = X.abs().max().item() if name == "global" else 0.0
    return largest * (X / largest).square().sum(1).mean().item() ** 0.5 if largest > 0 else 1.0


def normalized(X: Tensor, scale: float | None) -> Tensor:
    """The rows divided by one scale, or each by its length; rounding noise of projected zero rows counts as zero."""
    if scale is not None:
        return X / scale
    if not len(X):
        return X
    X = X / X.abs().max().clamp(min=torch.finfo(X.dtype).smallest_normal)  # because squares of 1e200 overflow
    norm = X.norm(dim=1, keepdim=True)
    noise = 1e-12 * norm.max()
    return X / norm.where(norm > noise, 1.0) * (norm > noise)
