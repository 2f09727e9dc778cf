"""Fully connected networks, in the standard or in the tangent-kernel parametrisation.

    standard    h = W x + b,                       W_ij ~ N(0, s_w / fan_in),  b_i ~ N(0, s_b)
    ntk         h = sqrt(s_w / fan_in) W x + sqrt(s_b) b,     W_ij, b_i ~ N(0, 1)                [jacot]

Both are the same random function. Their tangent kernels differ: only that of the second has a limit as the
widths grow, which `krepes.kernels.InfiniteWidth` computes in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from krepes.base.validation import check_choice, check_number
from krepes.networks.network import (
    Flatten,
    Network,
    Weights,
    activation_layer,
    check_widths,
    normal,
    standard_normal,
)

PARAMETRIZATIONS = ("standard", "ntk")


class ScaledLinear(nn.Module):
    """sqrt(s_w / fan_in) W x + sqrt(s_b) b, with an ordinary Linear layer inside.

    The scales act on the layer's input and output, so that the layer's own gradients are products of what goes in
    and what comes back, as for any Linear layer. Without bias variance there is no bias.
    """

    def __init__(self, n_inputs: int, n_outputs: int, weight_variance: float, bias_variance: float):
        super().__init__()
        self.linear = nn.Linear(n_inputs, n_outputs, bias=bias_variance > 0)
        self.after = bias_variance**0.5 if bias_variance > 0 else 1.0
        self.before = (weight_variance / n_inputs) ** 0.5 / self.after

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x * self.before) * self.after


@dataclass(eq=False, repr=False)
class MLP(Network):
    """Hidden layers of the given widths; the features are the last hidden layer.

    Parameters
    ----------
    widths : sequence of int, default=(512, 512)
    activation : "relu", "gelu", "tanh" or "erf", default="relu"
    parametrization : "standard" or "ntk", default="standard"
    weight_variance, bias_variance : float, default=2.0, 0.0
        s_w and s_b; 2 keeps the scale of ReLU layers. With bias variance 0 the standard form has biases that
        start at zero, the other one none.
    weights, weights_digest : see `Network`

    Examples
    --------
    >>> module = MLP(widths=(16, 8)).build((3,))
    >>> tuple(module(torch.zeros(5, 3)).shape)
    (5, 8)
    """

    name = "mlp"

    widths: tuple[int, ...] = (512, 512)
    activation: str = "relu"
    parametrization: str = "standard"
    weight_variance: float = 2.0
    bias_variance: float = 0.0
    weights: Weights = None
    weights_digest: str | None = None

    def architecture(self, input_shape: tuple[int, ...]) -> nn.Module:
        self._check()
        layers: list[nn.Module] = [Flatten()]
        n_inputs = torch.Size(input_shape).numel()
        for width in self.widths:
            layers += [self._linear(n_inputs, int(width)), activation_layer(self.activation)]
            n_inputs = int(width)
        return nn.Sequential(*layers)

    def initialize(self, module: nn.Module, generator: torch.Generator) -> None:
        if self.parametrization == "standard":
            return normal(module, generator, self.weight_variance, self.bias_variance)
        standard_normal(module, generator)

    def _linear(self, n_inputs: int, n_outputs: int) -> nn.Module:
        if self.parametrization == "standard":
            return nn.Linear(n_inputs, n_outputs)
        return ScaledLinear(n_inputs, n_outputs, self.weight_variance, self.bias_variance)

    def _check(self) -> None:
        check_widths("widths", self.widths)
        check_choice("parametrization", self.parametrization, PARAMETRIZATIONS)
        check_number("weight_variance", self.weight_variance, above=0)
        check_number("bias_variance", self.bias_variance, least=0)
