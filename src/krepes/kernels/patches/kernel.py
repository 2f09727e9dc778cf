"""The kernel on patches: two pictures are alike where patches of the same region are alike.

    k(I, J) = < Psi(I), Psi(J) > = sum over cells c of < sum_p w_c(p) psi(p), sum_q w_c(q) psi(q) >

psi are the features of a patch (`krepes.kernels.patches.layer`), p and q run over all positions of a picture and
w_c are weights that sum to one in a cell: the mean, or a Gaussian bell around the middle of the cell. With every patch
in the dictionary, k(I, J) is the sum over cells of mean kappa(p, q) over all pairs of patches  [mairal]. Whitened
patches, a dictionary and means over cells are the recipe of [coates] and [thiry].

Entries of Psi are centred and divided by their deviation over the pictures that the kernel is fitted to, unless
`standardize=False`: as [coates] do (CIFAR-10, 1000 labels, one draw: 53.8 instead of 51.9 %). With `mirror=True`,
Psi(I) is the mean over a picture and its mirror image.

With `layers=2` [mairal], the first layer's features, pooled by a Gaussian bell to every second pixel, are a picture
with one channel per entry of the dictionary, and patches of that are compared.

Another kernel may compare Psi(I) and Psi(J), such as a Gaussian one. Because Psi is a sum over positions, what a
function of it owes to every position is known exactly: `contributions`.

Cost: that of the layers, then O(D m) for a picture and m others, D = cells^2 entries. Memory: 4 D bytes for a picture.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.components import Component, named_parts, resolve
from krepes.base.rows import RowLayout
from krepes.base.validation import check_choice, check_count, check_number
from krepes.kernels.dot_product import Linear
from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.kernels.patches.layer import PatchLayer
from krepes.kernels.patches.pictures import as_pictures, precision_of, reduced, say_if_large
from krepes.kernels.patches.pooling import bells, map_of, means

POOLINGS = ("average", "gaussian")
PRECISIONS = {"single": torch.float32, "double": torch.float64}
LEARNED_FROM = 2000  # pictures
MOST_PATCHES = 8192  # because Z^(-1/2) takes m^3 operations
STEEPEST = 50  # bandwidth: its exponential is a number of single precision
KEPT_BYTES = 2**30  # features of the last pictures that are kept
LEARNED = ("layers_", "center_", "scale_")
NODES = 48  # of the quadrature along the path to a picture


@dataclass(eq=False, repr=False)
class Patches(Kernel):
    """Pictures compared by their patches, by region.

    Parameters
    ----------
    n_patches : int, default=512
        Entries of the dictionary, at most 8192; more are better, and slower.
    side : int or "auto", default="auto"
        Pixels of a patch's side; "auto" is 6, less for pictures below 24 pixels.
    cells : int or "auto", default="auto"
        Regions are cells x cells.
    pooling : "average" or "gaussian", default="average"
        Weights of the positions of a region.
    whitening : float, default=0.01
        What is added to the second moments of patches before they are whitened, as a share of their mean.
    bandwidth : float, default=2.0
        g: the larger, the faster similarity falls with the angle between patches.
    dictionary : "kmeans", or a rule of `krepes.landmarks` or its name, default="kmeans"
    layers : 1 or 2, default=1
    standardize : bool, default=True
        Whether pooled features are centred and divided by their deviation.
    mirror : bool, default=False
        Whether a picture is the same as its mirror image: true of photographs, not of digits. Costs twice the time.
    kernel : Kernel or its name, default="linear"
        Compares the pooled features of two pictures.
    precision : "single" or "double", default="single"
        Of the features, whatever the rows have.
    shape : (height, width) or (height, width, channels), default=None
        For pictures that come flattened.

    Attributes
    ----------
    layers_ : list of PatchLayer
        Of a fitted kernel: what was learned from pictures without labels.
    center_, scale_ : Tensor of shape (D,), float64, or None
        Mean and inverse deviation of pooled features.

    Notes
    -----
    Pictures are (n, h, w) or (n, h, w, c). Those larger than 64 pixels are averaged down to 33 to 64 pixels first, with
    a warning from 256 pixels on.

    Examples
    --------
    >>> pictures = torch.rand(20, 8, 8, generator=torch.Generator().manual_seed(0))
    >>> kernel = Patches(n_patches=16).fitted(pictures)
    >>> kernel.features(pictures).shape              # 2 x 2 cells, 16 entries
    torch.Size([20, 64])
    """

    name = "patches"
    known_elsewhere_as = ("ckn", "convolutional", "coates")
    component_kinds = {"kernel": Kernel}

    n_patches: int = 512
    side: int | str = "auto"
    cells: int | str = "auto"
    pooling: str = "average"
    whitening: float = 0.01
    bandwidth: float = 2.0
    dictionary: str | Component = "kmeans"
    layers: int = 1
    standardize: bool = True
    mirror: bool = False
    kernel: str | Kernel = "linear"
    precision: str = "single"
    shape: Sequence[int] | None = None

    layers_: list[PatchLayer] = field(init=False)
    center_: Tensor | None = field(init=False, default=None)
    scale_: Tensor | None = field(init=False, default=None)

    def set_params(self, **params: Any) -> Self:
        """Set parameters; a fitted kernel forgets its dictionary if they are about patches."""
        if any(name.partition("__")[0] not in ("kernel", "precision") for name in params):
            for name in LEARNED:
                vars(self).pop(name, None)
        vars(self).pop("_last", None)
        return super().set_params(**named_parts(self, self.component_kinds, params))

    def __sklearn_clone__(self) -> Patches:
        """Keeps what was learned, as a clone of Gaussian(2.0) keeps its lengthscale."""
        given = self.get_params(deep=False).items()
        found = type(self)(**{name: clone(value, safe=False) for name, value in given})
        vars(found).update({name: vars(self)[name] for name in LEARNED if name in vars(self)})
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_last"}

    @property
    def is_fitted(self) -> bool:
        """Whether the dictionary is known."""
        return "layers_" in vars(self)

    # Learning

    def suited(self, layout: RowLayout) -> Kernel:
        if layout.kind != "images":
            return self
        found = clone(self)
        found.shape = tuple(layout.shape)  # fits what was learned
        return found

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Patches:
        self._check()
        found = clone(self)
        images = as_pictures(X, found.shape)
        if not len(images):
            raise ValueError("There are no pictures to learn patches from.")
        generator = generator or torch.Generator().manual_seed(0)
        if not found.is_fitted:
            some = torch.randperm(len(images), generator=generator)[:LEARNED_FROM]
            say_if_large(images)
            found.layers_ = found._learned(images[some].double(), generator)
            found = found._scaled(images[some])
        if not isinstance(found.top, Linear):
            rows = images[torch.randperm(len(images), generator=generator)[:1000]]
            found.kernel = found.top.fitted(found.features(rows).double(), generator)
        return found

    def _scaled(self, images: Tensor) -> Patches:
        """This kernel with the mean and deviation of its features on some pictures."""
        self.center_ = self.scale_ = None
        if self.standardize:
            Psi = self.features(images).double()
            deviation = Psi.std(0, correction=0)
            # an entry that hardly varies is not blown up
            deviation = deviation.clamp(min=1e-3 * deviation.mean().item())
            self.scale_ = torch.where(deviation > 0, 1 / deviation, 0.0) / len(deviation) ** 0.5
            self.center_ = Psi.mean(0)
        vars(self).pop("_last", None)
        return self

    def with_components(
        self, components: Tensor, X: Any, generator: torch.Generator | None = None
    ) -> Patches:
        """This kernel, fitted, with components (m, h) of the last layer's patches; scales are learned again from X."""
        found, layer = clone(self), copy(self._layer)
        layer.components_ = components
        found.layers_ = [*self.layers_[:-1], layer]
        return found._scaled(as_pictures(X, found.shape)).fitted(X, generator)

    def patch_values(self, X: Any) -> Iterator[Tensor]:
        """|p| kappa(p, dictionary) at all positions of the last layer, (b, h, w, m), block by block."""
        for images in self._read(X):
            for _, values, norms in self._layer.compared(images):
                yield (values * norms[:, :, None]).unflatten(1, images.shape[1:3])

    def _learned(self, images: Tensor, generator: torch.Generator) -> list[PatchLayer]:
        images = reduced(images)
        side = self._side(images)
        last = PatchLayer(side, self.n_patches, self.whitening, self.bandwidth, self.dictionary)
        if self.layers == 1:
            return [last.fitted_to(images, generator)]
        side = min(side, 3)
        few = PatchLayer(side, min(64, self.n_patches), self.whitening, self.bandwidth, self.dictionary)
        first = few.fitted_to(images, generator)
        last.set_params(side=2, whitening=None)
        return [first, last.fitted_to(map_of(first, images), generator)]

    # Values

    def against(self, Y: Any) -> KernelColumns:
        right = self.features(Y)
        block, like = self.top.against(right.to(precision_of(Y))), precision_of(Y)
        return lambda X: block(self.features(X).to(like))

    def diag(self, X: Any) -> Tensor:
        return self.top.diag(self.features(X).to(precision_of(X)))

    @torch.no_grad()
    def features(self, X: Any) -> Tensor:
        """Psi(I) of every picture, (n, D), cell after cell; those of the last pictures are kept."""
        last = vars(self).get("_last")
        if last is not None and last[0]() is X and last[1] == X._version:
            return last[2]
        found = torch.stack([self._pooled(images) for images in self._read(X)]).mean(0)
        if self.center_ is not None and self.scale_ is not None:
            if found.shape[1] != len(self.center_):
                raise ValueError(
                    f"Pictures of shape {tuple(X.shape[1:])} have {found.shape[1]} features, those of the fit "
                    f"had {len(self.center_)}: give pictures of their size, or fit with a number, cells=2."
                )
            found = found.sub_(self.center_.to(found)).mul_(self.scale_.to(found))
        if isinstance(X, Tensor) and found.nbytes <= KEPT_BYTES:
            self._last = weakref.ref(X), X._version, found
        return found

    def _pooled(self, images: Tensor) -> Tensor:
        return self._layer.pooled(images, self._weights(images)).flatten(1)

    @torch.no_grad()
    def contributions(self, X: Any, Y: Any, A: Tensor) -> Tensor:
        """What every position of a picture adds to f(I) = sum_j a_j k(I, J_j), (n, h, w).

        Their sum is f(I) - f(blank), where a blank picture has no patches. For kernel="linear" a position adds the
        features of its patch times the gradient of f, which is the same everywhere. For other kernels the gradient is
        averaged along the straight path from the blank picture to I.

        Parameters
        ----------
        X : pictures (n, ...)
        Y : pictures (m, ...)
        A : Tensor of shape (m,) or (m, n)
            Coefficients; a column for every picture of X.
        """
        left, right = self.features(X).double(), self.features(Y).double()
        A = torch.as_tensor(A, dtype=torch.float64)
        if A.shape not in ((len(right),), (len(right), len(left))):
            raise ValueError(
                f"A has shape {tuple(A.shape)}; expected {(len(right),)}, or {(len(right), len(left))}."
            )
        A = A.reshape(len(right), -1).expand(-1, len(left))
        if isinstance(self.top, Linear):
            directions = A.mT @ right
        else:
            directions = torch.zeros_like(left)
            blank = self.blank_like(X)
            for place, weight in zip(*np.polynomial.legendre.leggauss(NODES)):
                for i, point in enumerate((blank + (left - blank) * (place + 1) / 2).split(1)):
                    directions[i] += weight / 2 * self.top.gradients(point, right, A[:, i : i + 1])[0, 0]
        if self.scale_ is not None:
            directions = directions * self.scale_
        found = []
        for images in self._read(X):
            weights = self._weights(images)
            parts = self._layer.weighed(images, weights, directions.view(len(images), len(weights), -1))
            found.append(parts.view(-1, *images.shape[1:3]))
        return (found[0] + found[1].flip(2)) / 2 if self.mirror else found[0]

    def blank_like(self, X: Any) -> Tensor:
        """Psi of a picture without patches, (1, D), float64, for pictures like these."""
        if self.center_ is None or self.scale_ is None:
            return torch.zeros(1, self.features(X[:1]).shape[1], dtype=torch.float64)
        return -(self.center_ * self.scale_)[None]

    # Pictures

    def _read(self, X: Any) -> list[Tensor]:
        """Pictures, and mirrored ones if asked for, as the last layer takes them: reduced, after the layers before."""
        if not self.is_fitted:
            raise ValueError("Patches depend on data: call kernel.fitted(X) first.")
        images = reduced(as_pictures(X, self.shape).to(PRECISIONS[self.precision]))
        expected = self.layers_[0].dictionary_.shape[1] // self.layers_[0].side ** 2
        if images.shape[3] != expected:
            raise ValueError(
                f"Pictures have {images.shape[3]} channels; patches were learned with {expected}."
            )
        found = [images, images.flip(2)] if self.mirror else [images]
        for layer in self.layers_[:-1]:
            found = [map_of(layer, each) for each in found]
        return found

    @property
    def _layer(self) -> PatchLayer:
        return self.layers_[-1]

    def _side(self, images: Tensor) -> int:
        shortest = min(images.shape[1:3])
        asked = max(3, min(6, shortest // 4)) if self.side == "auto" else int(self.side)
        return min(asked, shortest)

    def _weights(self, images: Tensor) -> Tensor:
        """The weights of positions in cells, (cells^2, h w)."""
        height, width = images.shape[1:3]
        cells = (3 if min(height, width) >= 12 else 2) if self.cells == "auto" else int(self.cells)
        rule = bells if self.pooling == "gaussian" else means
        weights = torch.einsum("ci,dj->cdij", rule(height, cells), rule(width, cells))
        return weights.flatten(0, 1).flatten(1)

    @property
    def top(self) -> Kernel:
        """The kernel that compares pooled features."""
        return resolve(Kernel, self.kernel)

    def _check(self) -> None:
        check_count("n_patches", self.n_patches)
        check_number("n_patches", self.n_patches, most=MOST_PATCHES)
        if self.side != "auto":
            check_count("side", self.side)
        if self.cells != "auto":
            check_count("cells", self.cells)
        check_choice("pooling", self.pooling, POOLINGS)
        check_number("whitening", self.whitening, least=0)
        check_number("bandwidth", self.bandwidth, above=0, most=STEEPEST)
        check_choice("layers", self.layers, (1, 2))
        check_choice("precision", self.precision, PRECISIONS)

    def check_restored(self) -> None:
        if self.is_fitted and (not self.layers_ or len(self.layers_) != self.layers):
            raise ValueError("A kernel of patches has another number of layers than it says.")
        shapes = {None if each is None else each.shape for each in (self.center_, self.scale_)}
        if len(shapes) > 1 or (self.center_ is not None and self.center_.ndim != 1):
            raise ValueError("Centre and scale of the features of patches do not fit each other.")

    # What models ask

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        return self.top.positive_semidefinite
