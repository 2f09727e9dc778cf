"""Exact tangent kernel blocks from factors: (activation Gram) x (output-gradient Gram), layer by layer.

    k(x, y) = sum over layers, positions t, t' of (a_t . a'_t' + 1) (g_t . g'_t')  +  products of norm scales and shifts

The 1 is the layer's bias.
For T positions a pair of samples costs T^2 (inputs + outputs) flops; where that exceeds inputs x outputs, the layer's
gradient of every sample is formed instead and contracted, layer by layer, and dropped. The landmarks' side is computed
once and kept: T (inputs + outputs) numbers, or inputs x outputs, per layer and landmark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.kernels.tangent.capture import Gradients, ScalarNetwork
from krepes.kernels.tangent.layers import Factors
from krepes.networks.tokens import as_tokens

BLOCK_BYTES = 256 * 2**20  # of the largest temporary
SQUARED_ROWS = 16
# added to k before it is normalised: gradients of length zero are then alike, and k(x, x) = 1
SMALL = 1e-30


def is_factored(factors: Factors) -> bool:
    """Whether pairs of samples are cheaper by factors than by gradients."""
    inputs, outputs = factors.width, factors.G.shape[3]
    return factors.positions**2 * (inputs + outputs) <= inputs * outputs


def kept_numbers(parts: Gradients) -> int:
    """Numbers that are kept of one landmark."""
    total = sum(value.shape[1] for value in parts.vectors.values())
    for factors in parts.factors.values():
        total += factors.A[0].numel() + factors.G[0].numel() if is_factored(factors) else factors.size
    return total


class Side:
    """What is kept of some samples for products with others."""

    def __init__(self, parts: Gradients):
        self.factors = _sharing_inputs({name: f for name, f in parts.factors.items() if is_factored(f)})
        self.formed = {name: f.explicit() for name, f in parts.factors.items() if not is_factored(f)}
        if len(parts.vectors) > 1:
            self.formed["vectors"] = torch.cat(list(parts.vectors.values()), dim=1)
        else:
            self.formed |= parts.vectors

    @classmethod
    def collected(cls, sides: Iterable[Side], n: int) -> Side:
        """The sides of batches of n samples in all as one: each is dropped once its numbers are copied."""
        result = cls(Gradients({}, {}))
        start = 0
        for side in sides:
            if not start:
                result.factors = {
                    name: replace(f, A=_longer(f.A, n), G=_longer(f.G, n)) for name, f in side.factors.items()
                }
                result.formed = {name: _longer(E, n) for name, E in side.formed.items()}
            stop = start + side.n_samples
            for kept, new in zip(result._tensors(), side._tensors()):
                kept[start:stop] = new
            start = stop
        return result

    def _tensors(self) -> list[Tensor]:
        return [part for f in self.factors.values() for part in (f.A, f.G)] + list(self.formed.values())

    @property
    def n_samples(self) -> int:
        return len(self._tensors()[0])

    def products(self, other: Side) -> Tensor:
        """k of these samples (rows) with the others (columns)."""
        blocks = [_factored_products(f, other.factors[name]) for name, f in self.factors.items()]
        blocks += [E @ other.formed[name].mT for name, E in self.formed.items()]
        return sum(blocks[1:], start=blocks[0])

    def squares(self) -> Tensor:
        """k(x, x) of every sample."""
        # in blocks, because gradients fill the memory that a second copy would need
        parts = [
            torch.cat([E[rows].square().sum(1) for rows in row_blocks(len(E), SQUARED_ROWS)])
            for E in self.formed.values()
        ]
        parts += [f.gram(f).sum((1, 2, 3)) for f in self.factors.values()]
        return torch.stack(parts).sum(0)


def _longer(M: Tensor, n: int) -> Tensor:
    """Space for n samples shaped like the samples of M."""
    return M.new_empty(n, *M.shape[1:])


def _sharing_inputs(factors: dict[str, Factors]) -> dict[str, Factors]:
    """Layers with the same inputs, such as queries, keys and values, as one layer with all their outputs."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for name, f in factors.items():
        alike.setdefault((f.A.data_ptr(), f.A.shape, f.A.stride(), f.bias is None), []).append(name)
    merged = {}
    for names in alike.values():
        first = factors[names[0]]
        G = first.G if len(names) == 1 else torch.cat([factors[n].G for n in names], dim=3)
        merged[names[0]] = replace(first, G=G)
    return merged


def _factored_products(left: Factors, right: Factors) -> Tensor:
    """sum over groups and positions of (A A'^T [+ 1 for a bias]) * (G G'^T), (b, m)."""
    b, groups, T, _ = left.A.shape
    m, S = len(right.A), right.A.shape[2]
    if groups == T == S == 1:
        products = left.input_products(left.A[:, 0, 0], right.A[:, 0, 0])
        return products.mul_(left.G[:, 0, 0] @ right.G[:, 0, 0].mT)
    total = left.G.new_zeros(b, m)
    size = rows_within(BLOCK_BYTES, 8 * T * S * m, 1, b)
    for group in range(groups):
        A, G = (part[:, group].reshape(m * S, -1) for part in (right.A, right.G))
        for rows in row_blocks(b, size):
            a, g = (part[rows, group].flatten(0, 1) for part in (left.A, left.G))
            pairs = left.input_products(a, A).mul_(g @ G.mT)
            total[rows] += pairs.reshape(-1, T, m, S).sum((1, 3))
    return total


def exact_block(
    side: Callable[[Tensor], Side],  # samples -> what is kept of them
    Y: Tensor,
    size: int,
    normalize: bool,
) -> Callable[[Tensor], Tensor]:
    """A function X -> k(X, Y), computed in batches of `size` samples, with the side of Y kept."""
    kept = Side.collected((side(Y[rows]) for rows in row_blocks(len(Y), size)), len(Y))
    lengths = (kept.squares() + SMALL).rsqrt() if normalize else None

    def products(X: Tensor) -> Tensor:
        mine = side(X)
        K = mine.products(kept)
        if lengths is None:
            return K
        return K.add_(SMALL).mul_((mine.squares() + SMALL).rsqrt()[:, None]).mul_(lengths)

    return lambda X: torch.cat([products(X[rows]) for rows in row_blocks(len(X), size)])


def side_of(network: ScalarNetwork, X: Tensor, full: bool) -> Side:
    """What is kept of samples; `full`: their whole gradients."""
    return Side(Gradients({}, {"gradient": full_gradients(network, X)}) if full else network.gradients(X))


def full_gradients(network: ScalarNetwork, X: Tensor) -> Tensor:
    """The gradient of every sample as one row, (b, P), by torch.func: the definition, slow and large."""
    parameters = {n: p.detach() for n, p in network.module.named_parameters()}
    buffers = dict(network.module.named_buffers())
    head = network.head

    def output(chosen: dict[str, Tensor], weight: Tensor | None, x: Tensor) -> Tensor:
        values = {**parameters, **chosen, **buffers}
        Z = torch.func.functional_call(network.module, values, (x[None],)).reshape(1, -1)
        return (Z @ weight.to(Z) if weight is not None else Z[:, 0])[0]

    chosen = {name: value for name, value in parameters.items() if name in network.names}
    wanted = (0, 1) if head is not None and "head.weight" in network.names else (0,)
    rows = as_tokens(X) if network.tokens else X
    of_one = torch.func.grad(output, argnums=wanted)
    try:
        gradients = torch.func.vmap(of_one, in_dims=(None, None, 0))(chosen, head, rows)
    except RuntimeError:  # recurrent layers know no batches of gradients
        return torch.stack([_flat_gradient(network, x) for x in X])
    by_name, *of_head = gradients
    return torch.cat([value.flatten(1) for value in [*by_name.values(), *of_head]], dim=1)


def _flat_gradient(network: ScalarNetwork, x: Tensor) -> Tensor:
    """The gradient of one sample, (P,), by autograd."""
    chosen = [value for name, value in network.module.named_parameters() if name in network.names]
    with torch.enable_grad():
        Z = network.features(x[None])
        found = torch.autograd.grad(network.scalar(Z)[0], chosen, allow_unused=True, materialize_grads=True)
    of_head = [Z.detach()[0]] if "head.weight" in network.names else []
    return torch.cat([value.flatten() for value in [*found, *of_head]])
