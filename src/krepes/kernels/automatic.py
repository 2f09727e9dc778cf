"""The kernel that a value stands for: a name, a function, or "auto", the kernel that suits the data.

    tables and vectors, up to 128 columns     exp(-|x - y|_1 / l)            Laplacian(norm=1)
    wider ones, images, series of one length  exp(-|x - y|^2 / 2 l^2)        Gaussian()
    images, in a model                        this one or patches            `krepes.features.image_kernels`
    series of different lengths               DTW from random series         RandomWarping()
    sparse rows                               x.y / (|x| |y|)                Cosine()

with l from the median distance: k = 1/e there. Where every column of a table is a category, l is so much longer that
k = exp(-1/32) at the median distance, because single categories should count for more than pairs of them: rows of such
a table are all about equally far apart, and with k = 1/e there every row is alone.

On 20 tables the L1 kernel is about a point better than the Gaussian one, for kernel PCA and for the default loss alike
(benchmarks/tables_battery.py --study). It costs little more up to a hundred columns, where numba is installed.

Sparse rows are mostly counts and weights of words, whose sums say how long a text is and not what it is about. All of
them are about equally far apart. On program text the cosine was one to two points better than the Gaussian kernel
(docs/sparse-text.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor

from krepes.base.components import resolve
from krepes.base.rows import RowLayout, SparseRows
from krepes.kernels.custom import Custom
from krepes.kernels.dot_product import Cosine
from krepes.kernels.gaussian import Gaussian
from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.kernels.laplacian import Laplacian
from krepes.kernels.structured.precomputed import Precomputed
from krepes.kernels.structured.random_warping import RandomWarping
from krepes.kernels.vectors import Lengthscale, RadialKernel, as_rows

# whose L1 distances are affordable: they are not a matrix product
MOST_COLUMNS = 128
OF_CATEGORIES: dict[type[RadialKernel], str] = {
    Laplacian: "32 median",
    Gaussian: "5.66 median",
}  # 5.66^2 = 32


class Automatic(Kernel):
    """An L1-Laplacian kernel for tables and vectors of few columns, the cosine for sparse rows, else a Gaussian one.

    Parameters
    ----------
    lengthscale : float, array of shape (d,), or "median", default="median"
        Of the kernel that is chosen; with a number, it is a Gaussian one for sparse rows, too. "median" is 32 times as
        long for tables that have categories only.

    Examples
    --------
    >>> Automatic().fitted(torch.eye(3))
    Laplacian(lengthscale=2.0, norm=1)
    """

    name = "auto"
    takes_sparse = True
    shift_invariant = True

    def __init__(self, lengthscale: Lengthscale = "median"):
        self.lengthscale = lengthscale

    def suited(self, layout: RowLayout) -> Kernel:
        if layout.kind == "series" and layout.width is None:
            return RandomWarping()
        if layout.kind == "sparse":
            return self._of_sparse()
        plain = layout.kind in ("table", "vectors")
        return self._of(layout.width if plain else None, layout.only_categories)

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Kernel:
        """The kernel for rows of numbers."""
        if isinstance(X, SparseRows):
            return self._of_sparse().fitted(X, generator)
        X = as_rows(X)
        return self._of(X.shape[1]).fitted(X, generator)

    def _of_sparse(self) -> Kernel:
        return Cosine() if isinstance(self.lengthscale, str) else Gaussian(self.lengthscale)

    def _of(self, width: int | None, only_categories: bool = False) -> RadialKernel:
        narrow = width is not None and width <= MOST_COLUMNS
        kernel: RadialKernel = Laplacian(self.lengthscale, norm=1) if narrow else Gaussian(self.lengthscale)
        if only_categories and isinstance(self.lengthscale, str):
            kernel.set_params(lengthscale=OF_CATEGORIES[type(kernel)])
        return kernel

    def against(self, Y: Any) -> KernelColumns:
        self._depends()

    def diag(self, X: Any) -> Tensor:
        self._depends()

    def _depends(self) -> NoReturn:
        raise ValueError(
            "kernel='auto' depends on the data: name a kernel, also in sums and products, or call kernel.fitted(X)."
        )


def as_kernel(value: str | Kernel | Callable[..., Any] | type[Kernel]) -> Kernel:
    """A kernel from a kernel, a name, or any callable k(X, Y) -> (n, m)."""
    if isinstance(value, torch.nn.Module):
        raise TypeError(
            f"kernel= is a torch module, {type(value).__name__}. Its tangent kernel is "
            "krepes.kernels.EmpiricalNTK(module); a module k(X, Y) is Custom(module)."
        )
    if callable(value) and not isinstance(value, Kernel | type):
        return Custom(value)
    return Precomputed() if is_precomputed(value) else resolve(Kernel, value)


def is_precomputed(kernel: object) -> bool:
    """Whether an estimator's kernel is a matrix that it is given."""
    return isinstance(kernel, Precomputed) or (isinstance(kernel, str) and kernel == "precomputed")
