"""ResMLP: the residual network with attention whose tangent kernel the paper uses for tables.

    x = GELU(Linear(d -> w)(x))                                                   [krepes, Alg. 1]
    x = x + SelfAttention(LayerNorm(x))
    x = GELU(x + Linear(w/r -> w)(GELU(Linear(w -> w/r)(x))))                     B times

Algorithm 1 has no token axis, so an input is one token by default. One token attends to itself with weight 1:
queries and keys then have no effect and no gradient, and are not evaluated.

Reading for T > 1 tokens, ours: the first layer maps d inputs to T tokens of width w, attention runs across the
tokens, the other layers see each token alone, and the features are the mean over tokens. T = 1 is Algorithm 1.

Attention has one head, scores divided by sqrt(w), and no output projection: with three w x w layers the network has
4.9 million parameters, with a fourth 5.9; the paper says "roughly 5 million".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from krepes.base.validation import check_count
from krepes.networks.network import Flatten, Network, Weights


class SelfAttention(nn.Module):
    """softmax(q k^T / sqrt(w)) v over the tokens of a row: (b, T, w) -> (b, T, w)."""

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == 1:  # the softmax over one token is 1
            return self.value(x)
        # (b, T, T)
        scores = self.query(x) @ self.key(x).mT * x.shape[2] ** -0.5
        return torch.softmax(scores, dim=2) @ self.value(x)


class Bottleneck(nn.Module):
    """GELU(x + Linear(GELU(Linear(x)))), narrow in the middle."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.narrow = nn.Linear(width, hidden)
        self.inner_activation = nn.GELU()
        self.wide = nn.Linear(hidden, width)
        self.activation = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x + self.wide(self.inner_activation(self.narrow(x))))


class ResMLPModule(nn.Module):
    """The module of `ResMLP`: rows (b, ...) -> features (b, w)."""

    def __init__(self, n_inputs: int, width: int, n_blocks: int, hidden: int, n_tokens: int):
        super().__init__()
        self.flatten = Flatten()
        self.tokens = nn.Unflatten(1, (n_tokens, width))
        self.project = nn.Linear(n_inputs, n_tokens * width)
        self.activation = nn.GELU()
        self.norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width)
        self.blocks = nn.Sequential(*(Bottleneck(width, hidden) for _ in range(n_blocks)))

    def forward(self, X: Tensor) -> Tensor:
        # (b, T, w)
        x = self.activation(self.tokens(self.project(self.flatten(X))))
        x = x + self.attention(self.norm(x))
        return self.blocks(x).mean(dim=1)


@dataclass(eq=False, repr=False)
class ResMLP(Network):
    """The paper's network for tables, exactly Algorithm 1 of its appendix B.2.

    Parameters
    ----------
    width : int, default=1032
    n_blocks : int, default=3
        Bottleneck blocks.
    bottleneck : int, default=4
        r: blocks are width // r wide inside.
    n_tokens : int, default=1
    weights, weights_digest : see `Network`

    Notes
    -----
    Start values are torch's defaults. Rows of any shape are flattened.

    Examples
    --------
    Of 4 inputs: 4 * 8 + 8 (project) + 16 (norm) + 3 * 72 (attention) + 8 * 2 + 2 + 2 * 8 + 8 (one block).

    >>> from krepes.networks import n_parameters
    >>> module = ResMLP(width=8, n_blocks=1).build((4,))
    >>> n_parameters(module), tuple(module(torch.zeros(5, 4)).shape)
    (314, (5, 8))
    """

    name = "resmlp"

    width: int = 1032
    n_blocks: int = 3
    bottleneck: int = 4
    n_tokens: int = 1
    weights: Weights = None
    weights_digest: str | None = None

    def architecture(self, input_shape: tuple[int, ...]) -> nn.Module:
        for name in ("width", "n_blocks", "bottleneck", "n_tokens"):
            check_count(name, getattr(self, name))
        if self.bottleneck > self.width:
            raise ValueError(f"bottleneck={self.bottleneck!r}: expected at most width={self.width}.")
        n_inputs = torch.Size(input_shape).numel()
        return ResMLPModule(n_inputs, self.width, self.n_blocks, self.width // self.bottleneck, self.n_tokens)
