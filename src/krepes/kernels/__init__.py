"""Kernels k(x, y): one file per family. Adding one is a file here and a line below."""

from krepes.kernels.arc_cosine import ArcCosine
from krepes.kernels.automatic import Automatic, as_kernel
from krepes.kernels.checking.kernel_check import KernelCheck
from krepes.kernels.custom import Custom
from krepes.kernels.dot_product import Cosine, Linear, Polynomial, Sigmoid
from krepes.kernels.empirical_ntk import EmpiricalNTK
from krepes.kernels.gaussian import Gaussian
from krepes.kernels.infinite_width import InfiniteWidth
from krepes.kernels.kernel import CoordinateProduct, Kernel, Product, Scaled, Sum
from krepes.kernels.laplacian import Laplacian
from krepes.kernels.matern import Matern
from krepes.kernels.objects.common_neighbours import CommonNeighbours
from krepes.kernels.objects.mean_embedding import MeanEmbedding
from krepes.kernels.objects.mismatch import Mismatch
from krepes.kernels.objects.ngrams import NGrams
from krepes.kernels.objects.object_kernel import CountKernel, ObjectKernel
from krepes.kernels.objects.shortest_path import ShortestPath
from krepes.kernels.objects.spectrum import Spectrum
from krepes.kernels.objects.subsequence import Subsequence
from krepes.kernels.objects.weisfeiler_lehman import WeisfeilerLehman
from krepes.kernels.patches.kernel import Patches
from krepes.kernels.reweighted import Reweighted
from krepes.kernels.structured.columns import ColumnKernel
from krepes.kernels.structured.gower import Gower
from krepes.kernels.structured.histograms import ChiSquared, Intersection
from krepes.kernels.structured.precomputed import Precomputed
from krepes.kernels.structured.random_warping import RandomWarping
from krepes.kernels.structured.series import GlobalAlignment

__all__ = [
    "ArcCosine",
    "Automatic",
    "ChiSquared",
    "ColumnKernel",
    "CommonNeighbours",
    "CoordinateProduct",
    "Cosine",
    "CountKernel",
    "Custom",
    "EmpiricalNTK",
    "Gaussian",
    "GlobalAlignment",
    "Gower",
    "InfiniteWidth",
    "Intersection",
    "Kernel",
    "KernelCheck",
    "Laplacian",
    "Linear",
    "Matern",
    "MeanEmbedding",
    "Mismatch",
    "NGrams",
    "ObjectKernel",
    "Patches",
    "Polynomial",
    "Precomputed",
    "Product",
    "RandomWarping",
    "Reweighted",
    "Scaled",
    "ShortestPath",
    "Sigmoid",
    "Spectrum",
    "Subsequence",
    "Sum",
    "WeisfeilerLehman",
    "as_kernel",
]
