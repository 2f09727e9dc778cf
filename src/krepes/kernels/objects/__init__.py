"""Kernels on objects that are not rows of numbers: strings, texts, sets, graphs. One file per kernel."""

from krepes.kernels.objects.common_neighbours import CommonNeighbours
from krepes.kernels.objects.count_kernel import CountKernel
from krepes.kernels.objects.mean_embedding import MeanEmbedding
from krepes.kernels.objects.mismatch import Mismatch
from krepes.kernels.objects.ngrams import NGrams
from krepes.kernels.objects.object_kernel import ObjectKernel
from krepes.kernels.objects.shortest_path import ShortestPath
from krepes.kernels.objects.spectrum import Spectrum
from krepes.kernels.objects.subsequence import Subsequence
from krepes.kernels.objects.weisfeiler_lehman import WeisfeilerLehman

__all__ = [
    "CommonNeighbours",
    "CountKernel",
    "MeanEmbedding",
    "Mismatch",
    "NGrams",
    "ObjectKernel",
    "ShortestPath",
    "Spectrum",
    "Subsequence",
    "WeisfeilerLehman",
]
