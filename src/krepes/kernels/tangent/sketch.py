"""Sketched tangent features: D numbers per sample whose inner products estimate the tangent kernel.

    CountSketch    s[h(i)] += sign(i) v[i]                                 of a gradient v that is formed  [charikar]
    TensorSketch   sum_t FFT(CountSketch(a_t)) FFT(CountSketch(g_t))       of sum_t a_t (x) g_t, never formed  [pham]

Both are unbiased; the standard deviation of <s(x), s(y)> is at most sqrt(2 / D) |x| |y| for a single layer and position
(a little more for sums of positions). A layer goes the cheaper way: by its factors, O(T d log d), or by its gradient,
O(inputs x outputs), d the numbers that it is given. Hashes are drawn from a seed.

The D numbers are shared out: layer l has d_l of its own, proportional to its part of the squared gradient,

    variance  sum_l 2 n_l^2 / d_l = 2 (sum_l n_l)^2 / D   for  d_l = D n_l / sum_k n_k,   n_l = |x_l| |y_l|

which is what D numbers for all layers together would have, while L transforms of length D become L that are as long
as D in sum. Layers whose part is too small for a block of their own add into a common one.

CountSketch works on chunks of at most d entries, which are spread over d places at random: two entries of one chunk
never meet, two of different chunks with probability 1/d, as with independent buckets.
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

from krepes.kernels.tangent.capture import Gradients
from krepes.kernels.tangent.exact import is_factored
from krepes.kernels.tangent.layers import Factors, Lookups

SMALLEST = 32  # numbers of a block


class Sketch:
    """Random hashes for the parameters of one network.

    Parameters
    ----------
    size : int
        D.
    seed : int
    widths : dict of int
        Numbers of the layers that have a block of their own, by name, as `shared_out` gives them; the others share
        what is left.
    """

    def __init__(self, size: int, seed: int, widths: dict[str, int] | None = None):
        self.size, self.seed = size, seed
        self.widths = widths or {}
        self.common = size - sum(self.widths.values())
        self._hashes: dict[str, tuple[Tensor, Tensor]] = {}

    def __call__(self, parts: Gradients) -> Tensor:
        """The sketches of a batch, (b, D)."""
        layers: dict[str, Factors | Tensor] = {**parts.factors, **parts.vectors}
        first = next(iter(layers.values()))
        some = first if isinstance(first, Tensor) else first.G
        total = some.new_zeros(len(some), self.size)
        own = dict(zip(self.widths, total.split([*self.widths.values(), self.common], dim=1)))
        common = total[:, self.size - self.common :]
        for name, part in layers.items():
            block = own.get(name, common)
            block += self._sketched(name, part, block.shape[1])
        return total

    def width(self, name: str) -> int:
        """How many numbers a layer is sketched to."""
        return self.widths.get(name, self.common)

    def by_factors(self, name: str, factors: Factors) -> bool:
        """Whether two transforms per position cost less than forming the gradient."""
        # groups have parameters of their own, and small gradients
        if factors.A.shape[1] > 1:
            return False
        d = self.width(name)
        return 2 * factors.positions * 5 * d * math.log2(d) < 2 * factors.size

    def _sketched(self, name: str, part: Factors | Tensor, width: int) -> Tensor:
        if isinstance(part, Tensor):
            return self._spread(name, part, width)
        if not self.by_factors(name, part):
            return self._spread(name, part.explicit(), width)
        spectra = []
        for side in ("inputs", "outputs"):
            if side == "inputs" and isinstance(part, Lookups):
                rows = self._spread_tokens(f"{name}.{side}", part, width)
            else:
                M = part.inputs() if side == "inputs" else part.G
                rows = self._spread(f"{name}.{side}", M.reshape(-1, M.shape[-1]), width)
            spectra.append(torch.fft.rfft(rows).reshape(len(part.G), -1, width // 2 + 1))
        return torch.fft.irfft((spectra[0] * spectra[1]).sum(1), n=width)

    def _spread(self, name: str, M: Tensor, width: int) -> Tensor:
        """CountSketch of the rows of M (N, n) to (N, width), by a gather, which is faster than a scatter."""
        sources, signs = self._places(name, M.shape[1], width)
        padded = torch.cat([M * signs.to(M), M.new_zeros(len(M), 1)], dim=1)
        spread = padded.index_select(1, sources.to(M.device))
        return spread if len(sources) == width else spread.reshape(len(M), -1, width).sum(1)

    def _spread_tokens(self, name: str, part: Lookups, width: int) -> Tensor:
        """CountSketch of unit vectors: one entry each, its sign where it goes."""
        sources, signs = self._places(name, part.n_tokens, width)
        known = sources < part.n_tokens
        goes_to = torch.empty(part.n_tokens, dtype=torch.long)
        goes_to[sources[known]] = torch.arange(len(sources))[known] % width
        tokens = part.A.reshape(-1)
        rows = part.G.new_zeros(len(tokens), width)
        places, values = goes_to.to(tokens.device)[tokens], signs.to(part.G)[tokens]
        return rows.scatter_(1, places[:, None], values[:, None])

    def _places(self, name: str, n: int, width: int) -> tuple[Tensor, Tensor]:
        """For every place of every chunk the entry that goes there, n where none does, and the entries' signs (n,)."""
        key = f"{name}:{n}:{width}"
        if key not in self._hashes:
            digest = hashlib.sha256(f"{self.seed}:{key}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
            signs = torch.randint(0, 2, (n,), generator=generator, dtype=torch.int8) * 2 - 1
            n_chunks = -(-n // width)
            # a permutation of every chunk
            order = torch.rand(n_chunks, width, generator=generator).argsort(1)
            sources = order + width * torch.arange(n_chunks)[:, None]
            self._hashes[key] = sources.clamp_max(n).flatten(), signs
        return self._hashes[key]


def shared_out(parts: Gradients, size: int) -> dict[str, int]:
    """Numbers for every layer whose part of the squared gradients deserves a block, by name.

    >>> parts = Gradients({}, {"a": torch.ones(1, 300), "b": torch.ones(1, 100), "c": torch.ones(1, 1)})
    >>> shared_out(parts, 256)                                      # 3/4 and 1/4 of what is left beside a block for c
    {'a': 162, 'b': 54}
    """
    squares = {name: _squares(factors) for name, factors in parts.factors.items()}
    squares |= {name: values.square().sum(1) for name, values in parts.vectors.items()}
    total = torch.stack(list(squares.values())).sum(0)
    known = total > 0
    if not known.any():
        return {}
    shares = {name: (square[known] / total[known]).mean().item() for name, square in squares.items()}
    widths = {name: _smooth(int((size - SMALLEST) * share)) for name, share in shares.items()}
    return {name: width for name, width in widths.items() if width >= SMALLEST}


def _squares(factors: Factors) -> Tensor:
    """|gradient of the layer|^2 of every sample, by the cheaper way."""
    if is_factored(factors):
        return factors.gram(factors).sum((1, 2, 3))
    return factors.explicit().square().sum(1)


def _smooth(n: int) -> int:
    """The largest number up to n without a prime factor above 5, for which transforms are fast; 0 for n < 1."""
    for candidate in range(n, 0, -1):
        rest = candidate
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return candidate
    return 0
