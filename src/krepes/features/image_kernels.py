"""Pixels or patches: the kernel of kernel="auto" for images, chosen without labels.

    miss(i) = 1  if the second view of another image is nearer to the first view of image i than its own second view

Views do not change what an image shows, so a kernel that misses less sees more of that. Distances are those in the
kernel's space. Patches are taken where they miss less than pixels by more than chance explains: two standard errors of
the differences between images. The rule is right on five of six sets (benchmarks/README.md, "Pixels or patches"),
and so is the signal of views against their noise; the overlap of nearest neighbours is right on three, and the
effective dimension on two.

What views do not change, the rule cannot see: faces under changing light keep pixels, although patches are better.

Cost: 64 patches on 3000 images, some seconds, whatever n is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.rows import dense
from krepes.features.kernel_choice import ChosenKernel, KernelChoice, Tried, clearly_lower
from krepes.kernels import Kernel, Patches
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates
from krepes.views import Image, Views

MOST_IMAGES, FEWEST_IMAGES = 1000, 50
MOST_NUMBERS = 2**24  # that compared images hold together
SMALLEST, MOST_CHANNELS = 8, 4  # of images that patches are tried on
TIE = 1e-6  # of the largest k(x, x): views that are nearer by less are as near
N_PATCHES, FEW_PATCHES = 256, 64  # entries of the dictionary; of the one that patches are tried with


@dataclass(frozen=True, eq=False)
class TriedByViews(Tried):
    """One kernel, and the share of images whose other view is further away than that of another image.

    Attributes
    ----------
    kernel, metric, error : as in Tried
    misses : ndarray of shape (n,)
        1.0 or 0.0, by image.
    """

    misses: np.ndarray

    @classmethod
    def of(cls, kernel: Kernel, first: Tensor, second: Tensor) -> TriedByViews:
        """A fitted kernel on two views of some images."""
        lengths = kernel.diag(second).double()
        nearness = 2 * kernel(first, second).double() - lengths
        own = nearness.diagonal()[:, None] + TIE * lengths.max()
        misses = (nearness > own).any(1).double().cpu().numpy()
        return cls(kernel, "as given", float(misses.mean()), misses)


def patches_for(inputs: InputSpace, n_patches: int = 512, kernel: str = "linear") -> list[Patches]:
    """The kernel of patches that competes with kernels of pixels; none for rows that are no images, or tiny ones."""
    shape = inputs.shape
    if inputs.kind != "images" or min(shape[:2]) < SMALLEST or (len(shape) > 2 and shape[2] > MOST_CHANNELS):
        return []
    return [Patches(n_patches, kernel=kernel, shape=tuple(shape))]


def choose_by_views(
    pixels: Kernel, candidates: Candidates, inputs: InputSpace, views: Views, seed: int
) -> ChosenKernel:
    """The kernel for rows: pixels, or patches where they tell views of an image from other images clearly better.

    Parameters
    ----------
    pixels : Kernel
        Fitted to the candidates. It is taken as it is for rows that are no images.
    views : Views
        Of the model. Where these are not image views, those of views="auto" are taken.
    """
    rivals = patches_for(inputs, n_patches=N_PATCHES)
    if not rivals or len(candidates.indices) < FEWEST_IMAGES:
        return ChosenKernel(pixels)
    images, generator = dense(candidates.rows), torch.Generator().manual_seed(seed)
    n = min(MOST_IMAGES, max(FEWEST_IMAGES, MOST_NUMBERS // images[0].numel()))
    few = images[torch.randperm(len(images), generator=generator)[:n]]
    drawn = views if isinstance(views, Image) else Image(strength="auto", flip="auto")
    drawn = drawn.fitted(few, generator)
    pair = [drawn.view(few, torch.arange(len(few)), seed, index) for index in (0, 1)]
    rough = clone(rivals[0]).set_params(n_patches=FEW_PATCHES).fitted(few, generator)
    tried = [TriedByViews.of(kernel, *pair) for kernel in (pixels, rough)]
    better = clearly_lower(tried[1].misses, tried[0].misses)
    kernel = rivals[0].fitted(images, generator) if better else pixels
    title = f"2 kernels by the share of {len(few)} images to a view of which another image's view is nearer:"
    return ChosenKernel(kernel, choice=KernelChoice(tried[better], tried, len(few), title))
