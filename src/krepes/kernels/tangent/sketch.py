"""Sketched tangent features: D numbers per sample whose inner products estimate the tangent kernel.

    CountSketch    s[h(i)] += sign(i) v[i]                                 of a gradient v that is formed  [charikar]
    TensorSketch   sum_t FFT(CountSketch(a_t)) FFT(CountSketch(g_t))       of sum_t a_t (x) g_t, never formed  [pham]

Both are unbiased; the standard deviation of <s(x), s(y)> is at most sqrt(2 / D) |x| |y| for a single layer and position
(a little more for sums of positions). All layers add into the same D numbers. A layer goes the cheaper way: by its
factors, O(T D log D), or by its gradient, O(inputs x outputs). Hashes are drawn from a seed.

CountSketch works on chunks of at most D entries, which are spread over D places (by a random shift for gradients, at
random for factors): two entries of one chunk never meet, two of different chunks with probability 1/D, as with
independent buckets. Memory is read in order.
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

from krepes.kernels.tangent.capture import Gradients
from krepes.kernels.tangent.layers import Factors


class Sketch:
    """Random hashes for the parameters of one network.

    Parameters
    ----------
    size : int
        D.
    seed : int
    """

    def __init__(self, size: int, seed: int):
        self.size, self.seed = size, seed
        self._hashes: dict[str, tuple[Tensor, ...]] = {}

    def __call__(self, parts: Gradients) -> Tensor:
        """The sketches of a batch, (b, D)."""
        some = next(iter(parts.vectors.values()), None)
        if some is None:
            some = next(iter(parts.factors.values())).A
        total = some.new_zeros(len(some), self.size)
        spectrum = torch.zeros(
            len(some),
            self.size // 2 + 1,
            dtype=torch.complex64 if some.dtype == torch.float32 else torch.complex128,
        ).to(some.device)
        for name, factors in parts.factors.items():
            if self.by_factors(factors):
                spectrum += self._tensor_sketch(name, factors)
            else:
                self._count_sketch(name, factors.explicit(), total)
        for name, values in parts.vectors.items():
            self._count_sketch(name, values, total)
        return total + torch.fft.irfft(spectrum, n=self.size)

    def by_factors(self, factors: Factors) -> bool:
        """Whether two transforms per position cost less than forming the gradient."""
        if factors.A.shape[1] > 1:  # groups have parameters of their own, and small gradients
            return False
        return 2 * factors.positions * 5 * self.size * math.log2(self.size) < 2 * factors.size

    def _count_sketch(self, name: str, values: Tensor, total: Tensor) -> None:
        """Add the sketch of values (b, P) to total (b, D)."""
        D, P = self.size, values.shape[1]
        signs, shifts = self._drawn(name, P, -(-P // D))
        values = values * signs.to(values)
        for chunk, shift in enumerate(shifts.tolist()):
            piece = values[:, chunk * D : (chunk + 1) * D]
            head = min(D - shift, piece.shape[1])
            total[:, shift : shift + head] += piece[:, :head]
            if head < piece.shape[1]:
                total[:, : piece.shape[1] - head] += piece[:, head:]

    def _tensor_sketch(self, name: str, factors: Factors) -> Tensor:
        """The spectrum of the sketch of sum_t a_t (x) g_t, (b, D / 2 + 1)."""
        spectra = []
        for part, M in (("inputs", factors.inputs()), ("outputs", factors.G)):
            sketched = self._spread(f"{name}.{part}", M.reshape(-1, M.shape[-1]))
            spectra.append(torch.fft.rfft(sketched).reshape(len(M), -1, self.size // 2 + 1))
        return (spectra[0] * spectra[1]).sum(1)

    def _spread(self, name: str, M: Tensor) -> Tensor:
        """CountSketch of the rows of M (N, n) to (N, D), n mostly below D: gathers, which are faster than scatters."""
        total = None
        for start in range(0, M.shape[1], self.size):
            piece = M[:, start : start + self.size]
            sources, signs = self._places(f"{name}.{start}", piece.shape[1])
            padded = torch.cat([piece * signs.to(piece), piece.new_zeros(len(piece), 1)], dim=1)
            sketched = padded.index_select(1, sources.to(piece.device))
            total = sketched if total is None else total.add_(sketched)
        assert total is not None
        return total

    def _generator(self, name: str) -> torch.Generator:
        digest = hashlib.sha256(f"{self.seed}:{name}".encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def _drawn(self, name: str, n: int, n_chunks: int) -> tuple[Tensor, ...]:
        """Signs (n,) and shifts of the chunks."""
        key = f"{name}:{n}"
        if key not in self._hashes:
            generator = self._generator(key)
            signs = torch.randint(0, 2, (n,), generator=generator, dtype=torch.int8) * 2 - 1
            self._hashes[key] = signs, torch.randint(0, self.size, (n_chunks,), generator=generator)
        return self._hashes[key]

    def _places(self, name: str, n: int) -> tuple[Tensor, ...]:
        """For each of the D places the entry that goes there, n where none does, and the signs of the entries (n,)."""
        key = f"{name}:{n}"
        if key not in self._hashes:
            generator = self._generator(key)
            signs = torch.randint(0, 2, (n,), generator=generator, dtype=torch.int8) * 2 - 1
            sources = torch.full((self.size,), n)
            sources[torch.randperm(self.size, generator=generator)[:n]] = torch.arange(n)
            self._hashes[key] = sources, signs
        return self._hashes[key]
