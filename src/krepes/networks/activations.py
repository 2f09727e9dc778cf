"""Activations by name: each use is a separate module, and none works in place, so that hooks see every value."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from krepes.base.limits import check_choice


class Erf(nn.Module):
    """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(x)


ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "erf": Erf}


def activation_layer(name: str) -> nn.Module:
    """A new activation module.

    >>> activation_layer("relu")(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    check_choice("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]()
