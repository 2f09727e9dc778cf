"""Kernels of patches as formulas: windows of a picture, compared with a dictionary, summed by region.

    p = W (window - mean),      n = |p| exp(-g) / sqrt(d (variance + floor))         `krepes.kernels.patches.layer`
    Psi_c = Z^(-1/2) sum_p w_c(p) n_p exp(g cos(p, dictionary)),      k(I, J) = top(Psi(I), Psi(J))

Features have the precision of the kernel, whatever the rows have. A program holds the kernel values of all positions
of all pictures that it is given, 4 h w m bytes for each: score pictures in batches of some tens. krepes calls a patch
flat by the other patches of a block; a program, which knows no blocks, by the mean variance of the pictures of the fit.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from krepes.export.kernel_formulas import ExportError, Points, diagonal, of_landmarks, values
from krepes.export.program import Operand
from krepes.kernels import Patches
from krepes.kernels.patches.kernel import PRECISIONS
from krepes.kernels.patches.layer import CONTRAST, FLAT, PatchLayer
from krepes.kernels.patches.pictures import reduced
from krepes.kernels.patches.pooling import halving, means

Shape = tuple[int, int, int]


@values.register
def _(kernel: Patches, x: Operand, Y: Points) -> Operand:
    known = kernel.features(torch.as_tensor(of_landmarks(kernel, Y)).reshape(-1, *_shape(kernel)))
    return values(kernel.top, features_formula(kernel, x), known)


@diagonal.register
def _(kernel: Patches, x: Operand) -> Operand:
    return diagonal(kernel.top, features_formula(kernel, x))


def _shape(kernel: Patches) -> Shape:
    if kernel.shape is None:
        raise ExportError(
            f"{kernel} does not know the shape of pictures: fit it on pictures, or give Patches(shape=...)."
        )
    height, width, channels = (*kernel.shape, 1)[:3]
    return height, width, channels


def features_formula(kernel: Patches, x: Operand) -> Operand:
    """Psi of flattened pictures, (b, D), in the precision of x."""
    precision = PRECISIONS[kernel.precision]
    pictures, shape = _small(x.cast(str(precision).removeprefix("torch.")), _shape(kernel))
    found = _described(kernel, pictures, shape, precision)
    if kernel.mirror:
        places = np.arange(math.prod(shape)).reshape(shape)[:, ::-1].ravel()
        found = (found + _described(kernel, pictures.columns(places.tolist()), shape, precision)) * 0.5
    if kernel.center_ is not None and kernel.scale_ is not None:
        found = (found - kernel.center_.numpy()) * kernel.scale_.numpy()
    return found.cast(x.dtype)


def _small(x: Operand, shape: Shape) -> tuple[Operand, Shape]:
    """Large pictures averaged down, as krepes does, one side after the other."""
    h, w, c = shape
    height, width = reduced(torch.empty(1, h, w, 1)).shape[1:3]
    if (height, width) == (h, w):
        return x, shape
    x = (means(h, height).numpy() @ x.reshape(h, w * c)).reshape(w, c)
    return (means(w, width).numpy() @ x).reshape(height * width * c), (height, width, c)


def _described(kernel: Patches, x: Operand, shape: Shape, precision: torch.dtype) -> Operand:
    """Sums of features by region, (b, D): layer after layer, the regions of all but the last every second pixel."""
    for layer in kernel.layers_[:-1]:
        sizes, weights = halving(*shape[:2])
        x = _pooled(layer, x, shape, weights, precision)
        shape = (*sizes, layer.width)
    return _pooled(kernel.layers_[-1], x, shape, kernel._weights(torch.empty(1, *shape)), precision)


def _pooled(layer: PatchLayer, x: Operand, shape: Shape, weights: Tensor, precision: torch.dtype) -> Operand:
    """sum over positions of weights (cells, h w) times psi, (b, cells m)."""
    whitening, scaled, root = layer._in(precision)
    d = len(scaled)
    p, usual, contrast = x.patches(shape, layer.side), 1.0, None
    if whitening is not None:
        p = p - p.sum() * (1 / d)
        contrast = (p.square().sum() * (1 / d) + layer.floor_).sqrt()
        p, usual = p @ whitening.numpy(), d * layer.floor_ / CONTRAST
    squares, flat = p.square().sum(), FLAT[precision] ** 2 * usual
    seen, length = squares > flat, squares.least(flat).sqrt()
    K = ((p * seen.where(1.0 / length, 0.0)) @ scaled.numpy()).exp()
    if layer.components_ is None:
        norms = seen.where(length, 0.0) * (math.exp(-layer.bandwidth) / math.sqrt(d))
        norms = norms if contrast is None else norms / contrast
    else:
        K = K @ layer.components_.numpy()
        K, norms = K / K.square().sum().least(1e-24).sqrt(), seen.where(1.0, 0.0, x.dtype)
    found = (norms.squeeze().expand() * weights.numpy()) @ K
    return (found if layer.components_ is not None else found @ root.numpy()).flatten()
