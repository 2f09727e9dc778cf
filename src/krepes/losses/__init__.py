"""Losses of embeddings: one file per loss. Adding one is a file here and a line below."""

from collections.abc import Callable
from typing import Any

from krepes.base.components import resolve
from krepes.losses.autoencoder import Autoencoder
from krepes.losses.barlow_twins import BarlowTwins
from krepes.losses.batch import Batch, Logits
from krepes.losses.byol import BYOL
from krepes.losses.checking import check_loss
from krepes.losses.custom import CallableLoss
from krepes.losses.directions import DirectionLoss
from krepes.losses.kernel_pca import KernelPCA
from krepes.losses.loss import ForeignLoss, Loss, MomentLoss
from krepes.losses.simclr import SimCLR
from krepes.losses.simple_contrastive import SimpleContrastive
from krepes.losses.spectral_contrastive import SpectralContrastive
from krepes.losses.statistics import MomentForms, Statistics
from krepes.losses.vicreg import VICReg

__all__ = [
    "BYOL",
    "Autoencoder",
    "BarlowTwins",
    "Batch",
    "CallableLoss",
    "DirectionLoss",
    "ForeignLoss",
    "KernelPCA",
    "Logits",
    "Loss",
    "MomentForms",
    "MomentLoss",
    "SimCLR",
    "SimpleContrastive",
    "SpectralContrastive",
    "Statistics",
    "VICReg",
    "as_loss",
    "check_loss",
]


def as_loss(value: str | Loss | Callable[..., Any] | type[Loss]) -> Loss:
    """A loss from a loss, a name, or any callable f(Z1, Z2) -> scalar."""
    if callable(value) and not isinstance(value, Loss | type):
        return CallableLoss(value)
    return resolve(Loss, value)
