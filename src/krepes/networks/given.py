"""A user's own module as a network: no registration, no copy, nothing about it changed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from krepes.networks.network import Network


class GivenModule(Network):
    """A user's module, with the numbers that it has.

    `build` returns the module itself, whatever the shape of the rows: its mode, device, dtype and gradients are
    left alone. `clone` shares it instead of copying it. A model file keeps a note of its class, and the module is
    asked for again when the model is loaded.

    Parameters
    ----------
    module : torch.nn.Module
        From rows (b, ...) to features (b, f).

    Examples
    --------
    >>> layer = nn.Linear(3, 2)
    >>> GivenModule(layer).build((3,)) is layer
    True
    """

    weights = None
    weights_digest = None

    def __init__(self, module: nn.Module | None = None):
        self.module = module

    def architecture(self, input_shape: tuple[int, ...]) -> nn.Module:
        if not isinstance(self.module, nn.Module):
            raise TypeError(f"module={self.module!r}: expected a torch.nn.Module.")
        return self.module

    def build(self, input_shape: tuple[int, ...], generator: torch.Generator | None = None) -> nn.Module:
        return self.architecture(input_shape)

    def __sklearn_clone__(self) -> GivenModule:
        return type(self)(self.module)

    def __deepcopy__(self, memo: dict[int, Any]) -> GivenModule:
        return type(self)(self.module)
