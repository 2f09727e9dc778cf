"""One layer of patches: patches of a picture, compared with a dictionary.

    patch        side x side x c numbers, minus their mean, over sqrt(variance + floor)          contrast
    p            patch times (C + eps tr(C) / d)^(-1/2),   C the second moments of such patches   whitening
    kappa(p, q)  |p| |q| exp(g (cos(p, q) - 1)) / d                                               d = side^2 c
    psi(p)       Z^(-1/2) kappa(dictionary, p),   Z = kappa between directions of the dictionary  Nyström

Directions have length 1, so kappa without norms is the Gaussian kernel of lengthscale g^(-1/2) between them, and any
rule for landmarks of vectors serves as a rule for the dictionary. A flat patch has p = 0 and no say. Sums over
positions are taken before Z^(-1/2), which then acts on cells and not on positions.

Cost of a picture with P positions and m entries: 2 P d (d + m) operations in two matrix products, then P m
exponentials. Blocks hold about 2^20 kernel values, 4 MB in single precision, so that they stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional

from krepes.base.blocks import row_blocks
from krepes.base.components import Component, subclasses
from krepes.base.linalg import inverse_sqrt
from krepes.base.storage.codec import Shape
from krepes.kernels.gaussian import Gaussian
from krepes.kernels.kernel import Kernel

BLOCK_VALUES = 2**20  # kernel values in a block
SAMPLED = 40_000  # patches that whitening and dictionary are learned from
CONTRAST = 0.01  # floor of the variance, as a share of its mean
FLAT = {torch.float32: 1e-6, torch.float64: 1e-13}  # of the largest norm of a block
ITERATIONS = 10  # of k-means
ROOT_CUT = 1e-6  # of the largest eigenvalue of Z, relative; 1e-12 in double precision


@runtime_checkable
class Selects(Protocol):
    """A rule for landmarks, as far as a dictionary needs it."""

    def select(
        self, candidates: Any, kernel: Kernel, n_landmarks: int, generator: torch.Generator
    ) -> Tensor: ...


class ComparedPictures(NamedTuple):
    """A block of pictures: which, and its patches compared with the dictionary.

    Attributes
    ----------
    pictures : slice
    values : Tensor of shape (b, h w, m)
        exp(g cos).
    norms : Tensor of shape (b, h w)
        exp(-g) |p| / sqrt(d): a factor here costs nothing.
    """

    pictures: slice
    values: Tensor
    norms: Tensor


@dataclass(eq=False, repr=False)
class PatchLayer(Component):
    """Patches compared with a dictionary.

    Parameters
    ----------
    side : int
        Pixels of a side.
    n_patches : int
        m, entries of the dictionary.
    whitening : float or None
        eps. None neither removes contrast nor whitens: maps of another layer.
    bandwidth : float
        g.
    rule : "kmeans", or a rule of `krepes.landmarks` or its name
        "kmeans" is k-means of directions.

    Attributes
    ----------
    whitening_ : Tensor of shape (d, d), float64, or None
    floor_ : float
    dictionary_ : Tensor of shape (m, d), float64
        Of length 1.
    components_ : Tensor of shape (m, h), float64, or None
        What a patch's kernel values are projected to, and then given unit length: `krepes.features.learn_patches`.
        Features of a patch are then these, in the place of psi.
    """

    side: int = 6
    n_patches: int = 512
    whitening: float | None = 0.01
    bandwidth: float = 2.0
    rule: str | Component = "kmeans"

    whitening_: Annotated[Tensor | None, Shape("d", "d")] = field(init=False)
    floor_: float = field(init=False)
    dictionary_: Annotated[Tensor, Shape("m", "d")] = field(init=False)
    components_: Annotated[Tensor | None, Shape("m", "h")] = field(init=False, default=None)

    def cut(self, images: Tensor) -> Tensor:
        """Patches around every pixel, beyond the edge reflected: (b, h, w, c) -> (b, h, w, side^2 c)."""
        return self._cut(self._padded(images))

    def _padded(self, images: Tensor) -> Tensor:
        around = ((self.side - 1) // 2, self.side // 2) * 2
        if self.side // 2 >= min(images.shape[1:3]):
            height, width = images.shape[1:3]
            raise ValueError(
                f"Pictures of {height} × {width} pixels are too small for patches of side {self.side}."
            )
        padded = functional.pad(images.permute(0, 3, 1, 2), around, mode="reflect")
        return padded.permute(0, 2, 3, 1).contiguous()

    def _cut(self, padded: Tensor) -> Tensor:
        patches = padded.unfold(1, self.side, 1).unfold(2, self.side, 1)  # (b, h, w, c, side, side)
        return patches.permute(0, 1, 2, 4, 5, 3).flatten(3)  # runs of side c numbers are copied

    def _contrast(self, padded: Tensor) -> Tensor:
        """1 / sqrt(variance + floor) of every patch, (b h w): from means over windows, not over patches."""
        pixels = padded.double()  # because of a flat window beside others nearly everything cancels
        pixels = pixels - pixels.mean((1, 2, 3), keepdim=True)
        both = torch.stack([pixels.mean(3), pixels.square().mean(3)], 1)  # (b, 2, h, w)
        mean, square = functional.avg_pool2d(both, self.side, 1).unbind(1)
        return square.sub_(mean.square_()).clamp_(min=0).add_(self.floor_).rsqrt_().flatten().to(padded)

    def contrasted(self, patches: Tensor) -> Tensor:
        """Patches without mean and contrast; maps of another layer as they are."""
        if self.whitening is None:
            return patches
        patches = patches - patches.mean(-1, keepdim=True)
        return patches.mul_((patches.square().mean(-1, keepdim=True) + self.floor_).rsqrt_())

    def fitted_to(self, images: Tensor, generator: torch.Generator) -> PatchLayer:
        """This layer with its whitening and dictionary, from a sample of patches; images in float64."""
        found = PatchLayer(self.side, self.n_patches, self.whitening, self.bandwidth, self.rule)
        some = _some_patches(found, images, generator)
        found.whitening_, found.floor_ = None, 0.0
        if self.whitening is not None:
            variance = (some - some.mean(1, keepdim=True)).square().mean()
            found.floor_ = CONTRAST * variance.item() or 1.0
            some = found.contrasted(some)
            C = some.mT @ some / len(some)
            scale = C.trace() / len(C)
            if scale > 0:
                C.diagonal().add_(self.whitening * scale)
                found.whitening_ = inverse_sqrt(C)
                some = some @ found.whitening_
        norms = some.norm(dim=1)
        directions = some[norms > 1e-3 * norms.mean()]
        if not len(directions):  # all pictures are flat
            directions = torch.eye(1, some.shape[1], dtype=some.dtype)
        directions = functional.normalize(directions, dim=1)
        found.dictionary_ = self._entries(directions, generator)
        return found

    def _entries(self, directions: Tensor, generator: torch.Generator) -> Tensor:
        """The dictionary: all directions where they are few."""
        if len(directions) <= self.n_patches:
            return directions
        if isinstance(self.rule, str) and self.rule == "kmeans":
            return _centres(directions, self.n_patches, generator)
        rule = _rule(self.rule)
        kernel = Gaussian(self.bandwidth**-0.5)
        return directions[rule.select(directions, kernel, self.n_patches, generator)]

    def compared(self, images: Tensor) -> Iterator[ComparedPictures]:
        """Blocks of pictures (b, h, w, c), their patches compared with the dictionary; images in any precision."""
        positions, dtype = images.shape[1] * images.shape[2], images.dtype
        whitening, scaled, _ = self._in(dtype)
        d, m = scaled.shape
        factor = math.exp(-self.bandwidth) / d**0.5
        for pictures in row_blocks(len(images), max(1, BLOCK_VALUES // (positions * m))):
            padded = self._padded(images[pictures])
            p = self._cut(padded).view(-1, d)
            p = p if whitening is None else p @ whitening
            norms = p.norm(dim=1)
            # of flat patches, rounding alone is left
            flat = norms <= FLAT[dtype] * norms.max()
            p.mul_(torch.where(flat, 0.0, norms.reciprocal())[:, None])
            norms = norms.masked_fill_(flat, 0.0)
            norms = norms if self.whitening is None else norms.mul_(self._contrast(padded))
            values = (p @ scaled).exp_()
            yield ComparedPictures(
                pictures, values.view(-1, positions, m), norms.mul_(factor).view(-1, positions)
            )

    def described(self, images: Tensor) -> Iterator[ComparedPictures]:
        """`compared`, or the components of every patch in the place of kernel values, if there are any."""
        if self.components_ is None:
            yield from self.compared(images)
            return
        components = self.components_.to(images.dtype)
        for pictures, values, norms in self.compared(images):
            found = values @ components
            # a flat patch has no components
            yield ComparedPictures(pictures, functional.normalize(found, dim=2), (norms > 0).to(norms.dtype))

    def pooled(self, images: Tensor, weights: Tensor) -> Tensor:
        """sum over positions of weights (cells, h w) times psi, (b, cells, m)."""
        root, weights = self._in(images.dtype)[2], weights.to(images.dtype)
        found = images.new_empty(len(images), len(weights), self.width)
        for pictures, values, norms in self.described(images):
            torch.bmm(weights * norms[:, None], values, out=found[pictures])
        return found @ root if self.components_ is None else found

    @property
    def width(self) -> int:
        """Features of a patch."""
        return len(self.dictionary_) if self.components_ is None else self.components_.shape[1]

    def weighed(self, images: Tensor, weights: Tensor, directions: Tensor) -> Tensor:
        """The part of every position in <directions, pooled>, (b, h w); directions are (b, cells, m)."""
        root, weights = self._in(images.dtype)[2], weights.to(images.dtype)
        found = images.new_empty(len(images), weights.shape[1])
        directions = directions.to(images.dtype)
        directions = directions @ root if self.components_ is None else directions
        for pictures, values, norms in self.described(images):
            along = values @ directions[pictures].mT  # (b, h w, cells)
            found[pictures] = (along * weights.mT).sum(2).mul_(norms)
        return found

    @property
    def root(self) -> Tensor:
        """Z^(-1/2), (m, m), in double precision."""
        return inverse_sqrt(Gaussian(self.bandwidth**-0.5)(self.dictionary_), ROOT_CUT)

    def _in(self, dtype: torch.dtype) -> tuple[Tensor | None, Tensor, Tensor]:
        """Whitening (d, d), g times the dictionary (d, m) and Z^(-1/2) (m, m), in this precision."""
        ready: dict[torch.dtype, tuple[Tensor | None, Tensor, Tensor]] = vars(self).setdefault("_ready", {})
        if dtype not in ready:
            Z = Gaussian(self.bandwidth**-0.5)(self.dictionary_)
            root = inverse_sqrt(Z, ROOT_CUT if dtype == torch.float32 else 1e-12)
            whitening = None
            if self.whitening is not None:  # a patch minus its mean, whitened: one product
                W = torch.eye(self.dictionary_.shape[1], dtype=torch.float64)
                W = W - 1 / len(W)
                whitening = (W if self.whitening_ is None else W @ self.whitening_).to(dtype)
            scaled = (self.bandwidth * self.dictionary_.mT).to(dtype).contiguous()
            ready[dtype] = whitening, scaled, root.to(dtype)
        return ready[dtype]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_ready"}

    def check_restored(self) -> None:
        if self.dictionary_.shape[1] % self.side**2:
            raise ValueError("The dictionary of patches does not fit the side of a patch.")


def _some_patches(layer: PatchLayer, images: Tensor, generator: torch.Generator) -> Tensor:
    """At most 40,000 patches, as many from every picture, (n, d)."""
    patches = []
    each = max(1, SAMPLED // len(images))
    for rows in row_blocks(len(images), 64):
        cut = layer.cut(images[rows]).flatten(1, 2)
        if cut.shape[1] > each:
            places = torch.rand(cut.shape[:2], generator=generator).topk(each, dim=1).indices
            cut = cut.gather(1, places[:, :, None].expand(-1, -1, cut.shape[2]))
        patches.append(cut.flatten(0, 1))
    return torch.cat(patches)


def _centres(directions: Tensor, m: int, generator: torch.Generator) -> Tensor:
    """k-means of directions: a centre is the direction of the sum of its cluster."""
    centres = directions[torch.randperm(len(directions), generator=generator)[:m]]
    for _ in range(ITERATIONS):
        nearest = (directions.float() @ centres.float().mT).argmax(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, directions)
        lengths = sums.norm(dim=1, keepdim=True)
        centres = torch.where(lengths > 1e-9, sums / lengths.clamp(min=1e-9), centres)
    return centres


def _rule(value: object) -> Selects:
    """A rule of `krepes.landmarks`, which stands above kernels, by what it can do."""
    if isinstance(value, Selects) and not isinstance(value, type):
        return value
    rules = {cls.name: cls for cls in subclasses(Component) if cls.name and issubclass(cls, Selects)}
    if isinstance(value, str) and value.replace("-", "_").lower() in rules:
        return rules[value.replace("-", "_").lower()]()
    raise ValueError(
        f"dictionary={value!r:.60}: expected 'kmeans', or a rule of krepes.landmarks or its name"
        f"{': ' + ', '.join(sorted(rules)) if rules else ', which is known after `import krepes.landmarks`'}."
    )
