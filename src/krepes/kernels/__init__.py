"""Kernels k(x, y): one file per family. Adding one is a file here and a line below."""

from collections.abc import Callable

from krepes.base.components import resolve
from krepes.kernels.arc_cosine import ArcCosine
from krepes.kernels.automatic import Automatic
from krepes.kernels.base import Kernel, Product, Scaled, Sum
from krepes.kernels.coordinate_product import CoordinateProduct
from krepes.kernels.custom import Custom
from krepes.kernels.dot_product import Linear, Polynomial, Sigmoid
from krepes.kernels.empirical_ntk import EmpiricalNTK
from krepes.kernels.gaussian import Gaussian
from krepes.kernels.histograms import ChiSquared, Intersection
from krepes.kernels.infinite_width import InfiniteWidth
from krepes.kernels.laplacian import Laplacian
from krepes.kernels.matern import Matern
from krepes.kernels.reweighted import Reweighted
from krepes.kernels.series import GlobalAlignment

__all__ = [
    "ArcCosine",
    "Automatic",
    "ChiSquared",
    "CoordinateProduct",
    "Custom",
    "EmpiricalNTK",
    "Gaussian",
    "GlobalAlignment",
    "InfiniteWidth",
    "Intersection",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Polynomial",
    "Product",
    "Reweighted",
    "Scaled",
    "Sigmoid",
    "Sum",
    "as_kernel",
]


def as_kernel(value: str | Kernel | Callable | type[Kernel]) -> Kernel:
    """A kernel from a kernel, a name, or any callable k(X, Y) -> (n, m)."""
    if callable(value) and not isinstance(value, Kernel | type):
        return Custom(value)
    return resolve(Kernel, value)
