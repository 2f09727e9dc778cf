"""The scale of the output: from the components that a loss minimised to those that `transform` gives.

    Z = Z_loss T,    A = A_loss T,    gamma = T^T gamma_loss,    W = W_loss T

A loss fixes the variance of its components whatever their norm in the kernel's space is, so weak and wiggly directions
come out as large as smooth ones, and a classifier with few labels cannot tell them apart. Four scales:

    kernel        columns w_j of norm 1 in the kernel's space: a component's variance is what the kernel gives it
    orthonormal   W^T W = I: ridge regression on the components is kernel ridge regression within their span
    unit          components of variance 1
    loss          as the loss left them, T = I

Where the loss does not change under rotations, the components are first rotated to principal axes: W^T S W is diagonal,
largest first, with S the second moment of the features, about their mean where the loss centres. A loss that fixes its
basis keeps it (except for "orthonormal", which no other basis allows).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from krepes.base.codec import Shape
from krepes.base.limits import check_choice
from krepes.base.linalg import descending_eigh, inverse_sqrt
from krepes.losses import Loss
from krepes.moments import Moments

SCALES = ("kernel", "orthonormal", "loss", "unit")
CUT = 1e-14  # of the largest variance or norm: smaller ones are rounding


def check_scale(scale: object) -> None:
    check_choice("scale", scale, SCALES)


@dataclass(frozen=True, eq=False)
class Spread:
    """How the components of a loss lie in the kernel's space and over the data, as a change of scale needs it.

    Attributes
    ----------
    second : Tensor of shape (h, h)
        W^T S W, the second moment of W^T phi(x).
    mean : Tensor of shape (h,)
        W^T mu.
    gram : Tensor of shape (h, h)
        W^T W.
    """

    second: Annotated[Tensor, Shape("h", "h")]
    mean: Annotated[Tensor, Shape("h")]
    gram: Annotated[Tensor, Shape("h", "h")]

    @classmethod
    def of(cls, W: Tensor, moments: Moments) -> Spread:  # W: (r, h)
        W = W.double()
        return cls(W.mT @ moments.S @ W, W.mT @ moments.mean, W.mT @ W)

    @property
    def covariance(self) -> Tensor:
        return self.second - torch.outer(self.mean, self.mean)

    def change(self, scale: str, loss: Loss) -> Tensor | None:
        """T (h, h'), for components ordered by their variance; None where nothing changes.

        >>> from krepes.losses import KernelPCA
        >>> spread = Spread(torch.diag(torch.tensor([1.0, 4.0])), torch.zeros(2), torch.diag(torch.tensor([4.0, 4.0])))
        >>> spread.change("kernel", KernelPCA()).tolist()
        [[0.0, 0.5], [0.5, 0.0]]
        """
        check_scale(scale)
        if scale == "loss":
            return None
        moment = self.covariance if loss.intercept != "zero" else self.second
        if scale == "orthonormal":
            B = inverse_sqrt(self.gram.double(), CUT)
            return B @ descending_eigh(B.mT @ moment @ B)[1]
        Q = descending_eigh(moment)[1] if loss.rotation_invariant else torch.eye(len(moment)).to(moment)
        measured = self.gram if scale == "kernel" else self.covariance
        sizes = (Q * (measured.to(Q) @ Q)).sum(0)
        return Q / torch.where(sizes > CUT * sizes.max(), sizes, 1.0).sqrt()
