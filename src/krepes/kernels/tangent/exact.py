"""Exact tangent kernel blocks from factors: (activation Gram) x (output-gradient Gram), layer by layer.

    k(x, y) = sum over layers, positions t, t' of (a_t . a'_t') (g_t . g'_t')  +  products of biases and norm scales

For T positions a pair of samples costs T^2 (inputs + outputs) flops; where that exceeds inputs x outputs, the layer's
gradient of every sample is formed instead and contracted, layer by layer, and dropped. The landmarks' side is computed
once and kept: T (inputs + outputs) numbers, or inputs x outputs, per layer and landmark.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from krepes.kernels.tangent.capture import Factors, Gradients, ScalarNetwork
from krepes.linalg import row_blocks, rows_within

BLOCK_BYTES = 256 * 2**20  # of the largest temporary
SMALL = 1e-30  # added to k before it is normalised: gradients of length zero are then alike, and k(x, x) = 1


def is_factored(factors: Factors) -> bool:
    """Whether pairs of samples are cheaper by factors than by gradients."""
    inputs, outputs = factors.A.shape[3], factors.G.shape[3]
    return factors.positions**2 * (inputs + outputs) <= inputs * outputs


def kept_numbers(parts: Gradients) -> int:
    """Numbers that are kept of one landmark."""
    total = sum(value.shape[1] for value in parts.vectors.values())
    for factors in parts.factors.values():
        kept = factors.A[0].numel() + factors.G[0].numel() if is_factored(factors) else factors.size
        total += kept
    return total


class Side:
    """What is kept of some samples for products with others."""

    def __init__(self, parts: Gradients):
        vectors = list(parts.vectors.values())
        self.vectors = torch.cat(vectors, dim=1) if vectors else None
        self.factors = {name: f for name, f in parts.factors.items() if is_factored(f)}
        self.formed = {name: f.explicit() for name, f in parts.factors.items() if not is_factored(f)}

    @classmethod
    def joined(cls, sides: list[Side]) -> Side:
        result = cls(Gradients({}, {}))
        first = sides[0]
        if first.vectors is not None:
            result.vectors = torch.cat([s.vectors for s in sides])  # type: ignore[misc]
        result.factors = {
            name: Factors(
                torch.cat([s.factors[name].A for s in sides]), torch.cat([s.factors[name].G for s in sides])
            )
            for name in first.factors
        }
        result.formed = {name: torch.cat([s.formed[name] for s in sides]) for name in first.formed}
        return result

    def products(self, other: Side) -> Tensor:
        """k of these samples (rows) with the others (columns)."""
        blocks = [_factored_products(f, other.factors[name]) for name, f in self.factors.items()]
        blocks += [E @ other.formed[name].mT for name, E in self.formed.items()]
        if self.vectors is not None and other.vectors is not None:
            blocks.append(self.vectors @ other.vectors.mT)
        total = blocks[0]
        for block in blocks[1:]:
            total = total + block
        return total

    def squares(self) -> Tensor:
        """k(x, x) of every sample."""
        parts = [E.square().sum(1) for E in self.formed.values()]
        if self.vectors is not None:
            parts.append(self.vectors.square().sum(1))
        for f in self.factors.values():
            parts.append(((f.A @ f.A.mT) * (f.G @ f.G.mT)).sum((1, 2, 3)))
        return torch.stack(parts).sum(0)


def _factored_products(left: Factors, right: Factors) -> Tensor:
    """sum over groups and positions of (A A'^T) * (G G'^T), (b, m)."""
    b, groups, T, _ = left.A.shape
    m, S = len(right.A), right.A.shape[2]
    if groups == T == S == 1:
        return (left.A[:, 0, 0] @ right.A[:, 0, 0].mT).mul_(left.G[:, 0, 0] @ right.G[:, 0, 0].mT)
    total = left.A.new_zeros(b, m)
    size = rows_within(BLOCK_BYTES, 8 * T * S * m, 1, b)
    for group in range(groups):
        A, G = (part[:, group].reshape(m * S, -1) for part in (right.A, right.G))
        for rows in row_blocks(b, size):
            a, g = (part[rows, group].flatten(0, 1) for part in (left.A, left.G))
            pairs = (a @ A.mT).mul_(g @ G.mT)
            total[rows] += pairs.reshape(-1, T, m, S).sum((1, 3))
    return total


def exact_block(
    side: Callable[[Tensor], Side],  # samples -> what is kept of them
    Y: Tensor,
    size: int,
    normalize: bool,
) -> Callable[[Tensor], Tensor]:
    """A function X -> k(X, Y), computed in batches of `size` samples, with the side of Y kept."""
    kept = Side.joined([side(Y[rows]) for rows in row_blocks(len(Y), size)])
    lengths = inverse_length(kept.squares()) if normalize else None

    def products(X: Tensor) -> Tensor:
        mine = side(X)
        K = mine.products(kept)
        if lengths is None:
            return K
        return K.add_(SMALL).mul_(inverse_length(mine.squares())[:, None]).mul_(lengths)

    return lambda X: torch.cat([products(X[rows]) for rows in row_blocks(len(X), size)])


def inverse_length(squares: Tensor) -> Tensor:
    """1 / sqrt(squares + SMALL)."""
    return (squares + SMALL).rsqrt()


def factored_side(network: ScalarNetwork) -> Callable[[Tensor], Side]:
    return lambda X: Side(network.gradients(X))


def full_side(network: ScalarNetwork) -> Callable[[Tensor], Side]:
    def side(X: Tensor) -> Side:
        result = Side(Gradients({}, {}))
        result.formed = {"gradient": full_gradients(network, X)}
        return result

    return side


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
    gradients = torch.func.vmap(torch.func.grad(output, argnums=wanted), in_dims=(None, None, 0))(
        chosen, head, X
    )
    parts = [
        value.flatten(1)
        for group in gradients
        for value in (group.values() if isinstance(group, dict) else [group])
    ]
    return torch.cat(parts, dim=1)
