"""Alignment: compare representations, choose models and layers, prune ensembles."""

from krepes.alignment.cka import AlignmentTest, cka, cka_test
from krepes.alignment.combination import AlignmentSelector, Combination, combine_kernels, combine_sketches
from krepes.alignment.figures import plot_alignment, plot_transferability
from krepes.alignment.h_score import h_score
from krepes.alignment.inputs import one_hot
from krepes.alignment.layer_choice import LayerScore
from krepes.alignment.layer_transfer import LayerTransferClassifier
from krepes.alignment.layers import iter_layers, layer_names, sketch_layers
from krepes.alignment.leep import leep
from krepes.alignment.logme import logme
from krepes.alignment.pruned_ensemble import PrunedEnsemble
from krepes.alignment.pruning import prune_ensemble
from krepes.alignment.pruning_report import MemberRow, Savings
from krepes.alignment.sketch import SketchedCKA
from krepes.alignment.stable_rank import stable_rank
from krepes.alignment.streamed import StreamedCKA
from krepes.alignment.transfer_statistics import TransferScores, TransferStatistics
from krepes.alignment.transfer_target import TransferTarget
from krepes.alignment.transferability import Transferability, transferability

__all__ = [
    "AlignmentSelector",
    "AlignmentTest",
    "Combination",
    "LayerScore",
    "LayerTransferClassifier",
    "MemberRow",
    "PrunedEnsemble",
    "Savings",
    "SketchedCKA",
    "StreamedCKA",
    "TransferScores",
    "TransferStatistics",
    "TransferTarget",
    "Transferability",
    "cka",
    "cka_test",
    "combine_kernels",
    "combine_sketches",
    "h_score",
    "iter_layers",
    "layer_names",
    "leep",
    "logme",
    "one_hot",
    "plot_alignment",
    "plot_transferability",
    "prune_ensemble",
    "sketch_layers",
    "stable_rank",
    "transferability",
]
