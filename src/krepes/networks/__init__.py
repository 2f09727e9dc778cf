"""Networks whose tangent kernels are used: one file per architecture. Adding one is a file here and a line below."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from krepes.base.components import resolve
from krepes.networks.convnet import ConvNet
from krepes.networks.efficientnet_lite import EfficientNetLite0
from krepes.networks.mlp import MLP
from krepes.networks.mobilenet import MobileNetV2
from krepes.networks.network import GivenModule, Network, n_parameters
from krepes.networks.resmlp import ResMLP
from krepes.networks.resnet import ResNet, ResNet18, ResNet34, ResNet50
from krepes.networks.weights import file_digest

__all__ = [
    "MLP",
    "ConvNet",
    "EfficientNetLite0",
    "GivenModule",
    "MobileNetV2",
    "Network",
    "ResMLP",
    "ResNet",
    "ResNet18",
    "ResNet34",
    "ResNet50",
    "as_network",
    "file_digest",
    "n_parameters",
]


def as_network(value: str | Network | Callable[..., Any]) -> Network:
    """A network from a network, a name such as "efficientnet-lite0", or any torch module.

    >>> as_network("resmlp")
    ResMLP()
    """
    if isinstance(value, nn.Module):
        return GivenModule(value)
    if inspect.isclass(value) and issubclass(value, nn.Module):
        raise TypeError(f"Give a module, not its class: {value.__name__}(...).")
    return resolve(Network, value)
