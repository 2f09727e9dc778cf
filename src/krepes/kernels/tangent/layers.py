"""What the gradient of one layer is made of, from its inputs and the gradient of its outputs.

linear, convolution    sum_t g_t a_t^T        over positions t: tokens, or output pixels with the patch below them
embedding              sum_t e_(token t) g_t^T, e the unit vectors, which are never formed: tokens are compared
depthwise              formed at once, because it is small
norms                  sums of g, and of g times the normalised input
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

from krepes.networks.tokens import EMBEDDINGS

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
NORMS = (nn.LayerNorm, nn.GroupNorm, *BATCH_NORMS)
LAYERS = (nn.Linear, nn.Conv2d, *EMBEDDINGS, *NORMS)


@dataclass
class Factors:
    """The gradient of one weight matrix of every sample: W' = sum_t G_t A_t^T in each of `groups` blocks.

    Attributes
    ----------
    A : Tensor of shape (b, groups, T, inputs)
    G : Tensor of shape (b, groups, T, outputs)
    bias : str, optional
        The name of the layer's bias where it counts, too: an input that is always 1.
    """

    A: Tensor
    G: Tensor
    bias: str | None = None

    @property
    def positions(self) -> int:
        return self.A.shape[2]

    @property
    def size(self) -> int:
        """Entries of the gradient of one sample."""
        return self.A.shape[1] * (self.A.shape[3] + (self.bias is not None)) * self.G.shape[3]

    def inputs(self) -> Tensor:
        """A, with a column of ones for the bias."""
        if self.bias is None:
            return self.A
        return torch.cat([self.A, self.A.new_ones(*self.A.shape[:3], 1)], dim=3)

    def explicit(self) -> Tensor:
        """The gradients themselves, (b, size)."""
        return (self.G.mT @ self.inputs()).flatten(1)

    @property
    def width(self) -> int:
        """Entries of an input."""
        return self.A.shape[3]

    def input_products(self, A: Tensor, B: Tensor) -> Tensor:
        """Inner products of inputs (..., N, inputs) and (..., M, inputs) of this layer: (..., N, M)."""
        if self.bias is None:
            return A @ B.mT
        return torch.addmm(A.new_ones(()), A, B.mT) if A.ndim == 2 else (A @ B.mT).add_(1)

    def gram(self, other: Factors) -> Tensor:
        """Inner products of single positions of paired samples, (b, groups, T, T')."""
        return self.input_products(self.A, other.A) * (self.G @ other.G.mT)


@dataclass
class Lookups(Factors):
    """The gradient of an embedding: inputs are unit vectors, of which A (b, 1, T, 1) has the tokens alone.

    Attributes
    ----------
    n_tokens : int
        Rows of the embedding's weight.
    """

    n_tokens: int = 0

    @property
    def width(self) -> int:
        return self.n_tokens

    @property
    def size(self) -> int:
        return self.n_tokens * self.G.shape[3]

    def inputs(self) -> Tensor:
        return functional.one_hot(self.A[..., 0], self.n_tokens).to(self.G)

    def explicit(self) -> Tensor:
        found = self.G.new_zeros(len(self.G), self.n_tokens, self.G.shape[3])
        places = self.A[:, 0].expand(-1, -1, self.G.shape[3])
        return found.scatter_add_(1, places, self.G[:, 0]).flatten(1)

    def input_products(self, A: Tensor, B: Tensor) -> Tensor:
        return (B.mT == A).to(self.G)


def linear_factors(inputs: Tensor, g: Tensor, b: int) -> Factors:
    """A linear layer on (b, ..., inputs): every position counts; a batch merged with positions is taken apart."""
    return Factors(inputs.reshape(b, 1, -1, inputs.shape[-1]), g.reshape(b, 1, -1, g.shape[-1]))


def embedding_factors(layer: nn.Embedding | nn.EmbeddingBag, tokens: Tensor, g: Tensor) -> Lookups:
    """An embedding of tokens (b, T); a bag of them hands its gradient to every token, or shares it out (`mean`)."""
    b = len(tokens)
    tokens = tokens.reshape(b, -1).long()
    counts = torch.ones_like(tokens) if layer.padding_idx is None else (tokens != layer.padding_idx).long()
    weight = counts.to(g)
    if isinstance(layer, nn.EmbeddingBag):
        g = g[:, None].expand(-1, tokens.shape[1], -1)
        if layer.mode == "mean":
            weight = weight / weight.sum(1, keepdim=True).clamp_min(1)
    G = g.reshape(b, -1, g.shape[-1]) * weight[..., None]
    return Lookups(tokens[:, None, :, None], G[:, None], n_tokens=layer.num_embeddings)


def conv_factors(layer: nn.Conv2d, inputs: Tensor, g: Tensor) -> Factors:
    """A convolution is a linear layer on patches: T = output pixels, inputs = patch entries of a group."""
    b, groups = len(inputs), layer.groups
    inputs = _padded(layer, inputs)
    if layer.kernel_size == (1, 1):
        down, across = layer.stride
        # (b, C, T), mostly without a copy
        patches = inputs[:, :, ::down, ::across].flatten(2)
    else:
        patches = functional.unfold(inputs, layer.kernel_size, layer.dilation, 0, layer.stride)
    A = patches.reshape(b, groups, -1, patches.shape[-1]).mT
    G = g.reshape(b, groups, -1, patches.shape[-1]).mT
    return Factors(A, G)


def is_depthwise(layer: nn.Module) -> TypeGuard[nn.Conv2d]:
    return isinstance(layer, nn.Conv2d) and layer.groups == layer.in_channels == layer.out_channels > 1


def depthwise_gradients(layer: nn.Conv2d, inputs: Tensor, g: Tensor) -> Tensor:
    """df / dweight of a convolution of single channels, (b, channels k k): small, so formed, offset by offset."""
    inputs = _padded(layer, inputs)
    height, width = g.shape[2:]
    (down, across), (rows, columns) = layer.stride, layer.dilation
    found = g.new_empty(*g.shape[:2], *layer.kernel_size)
    for i in range(layer.kernel_size[0]):
        for j in range(layer.kernel_size[1]):
            top, left = i * rows, j * columns
            seen = inputs[:, :, top : top + down * (height - 1) + 1 : down]
            seen = seen[..., left : left + across * (width - 1) + 1 : across]
            found[:, :, i, j] = (seen * g).sum((2, 3))
    return found.flatten(1)


def _padded(layer: nn.Conv2d, inputs: Tensor) -> Tensor:
    padding, mode = layer._reversed_padding_repeated_twice, layer.padding_mode
    if not any(padding):
        return inputs
    return functional.pad(inputs, padding, "constant" if mode == "zeros" else mode)


def norm_gradients(layer: nn.Module, inputs: Tensor, g: Tensor, b: int) -> tuple[Tensor, Tensor]:
    """df / dscale = sum of g times the normalised input, df / dshift = sum of g; both (b, channels)."""
    # normalised = (x - mean) / deviation, so x itself will do
    if isinstance(layer, BATCH_NORMS):
        mean, variance = layer.running_mean, layer.running_var
        assert mean is not None and variance is not None  # others are refused (check_frozen)  # noqa: PT018
        shift, product = _sums(g), _sums(g, inputs)
        return (product - mean * shift) * (variance + layer.eps).rsqrt(), shift
    if isinstance(layer, nn.GroupNorm):
        normalised = functional.group_norm(inputs, layer.num_groups, eps=layer.eps)
    else:
        assert isinstance(layer, nn.LayerNorm)
        normalised = functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
        size = math.prod(layer.normalized_shape)
        return (g * normalised).reshape(b, -1, size).sum(1), g.reshape(b, -1, size).sum(1)
    return _sums(g, normalised), _sums(g)


def _sums(g: Tensor, factor: Tensor | None = None) -> Tensor:
    """Sums over the positions of every channel, of g or of g times another tensor, (b, channels)."""
    if g.ndim == 2:
        return g if factor is None else g * factor
    if factor is None:
        return g.flatten(2).sum(2)
    # no product is formed
    return torch.einsum("bct,bct->bc", g.flatten(2), factor.flatten(2))


def joined(before: Factors | None, new: Factors) -> Factors:
    """All positions of a layer that is called more than once."""
    if before is None:
        return new
    return replace(new, A=torch.cat([before.A, new.A], dim=2), G=torch.cat([before.G, new.G], dim=2))
