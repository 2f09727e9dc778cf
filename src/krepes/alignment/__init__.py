"""Alignment: compare representations, choose models and layers, prune ensembles."""

from krepes.alignment.cka import AlignmentTest, cka, cka_test
from krepes.alignment.combination import AlignmentSelector, Combination, combine_kernels, combine_sketches
from krepes.alignment.figures import plot_alignment
from krepes.alignment.inputs import one_hot
from krepes.alignment.layers import iter_layers, layer_names, sketch_layers
from krepes.alignment.sketch import SketchedCKA
from krepes.alignment.stable_rank import stable_rank
from krepes.alignment.streamed import StreamedCKA

__all__ = [
    "AlignmentSelector",
    "AlignmentTest",
    "Combination",
    "SketchedCKA",
    "StreamedCKA",
    "cka",
    "cka_test",
    "combine_kernels",
    "combine_sketches",
    "iter_layers",
    "layer_names",
    "one_hot",
    "plot_alignment",
    "sketch_layers",
    "stable_rank",
]
