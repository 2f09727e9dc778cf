"""Alignment: compare representations, choose models and layers, prune ensembles."""

from krepes.alignment.figures import plot_transferability
from krepes.alignment.inputs import one_hot
from krepes.alignment.layers.network_comparison import NetworkComparison, compare_networks
from krepes.alignment.layers.recording import iter_layers, layer_names, sketch_layers
from krepes.alignment.layers.three_steps import LayerScore
from krepes.alignment.layers.transfer_classifier import LayerTransferClassifier
from krepes.alignment.pruning.prune_ensemble import prune_ensemble
from krepes.alignment.pruning.pruned_ensemble import MemberRow, PrunedEnsemble, Savings
from krepes.alignment.similarity.cka import AlignmentTest, StreamedCKA, cka, cka_test
from krepes.alignment.similarity.heat_map import plot_alignment
from krepes.alignment.similarity.kernel_combination import (
    AlignmentSelector,
    Combination,
    combine_kernels,
    combine_sketches,
)
from krepes.alignment.similarity.sketched_cka import SketchedCKA
from krepes.alignment.similarity.stable_rank import stable_rank
from krepes.alignment.transfer.h_score import h_score
from krepes.alignment.transfer.leep import leep
from krepes.alignment.transfer.logme import logme
from krepes.alignment.transfer.one_pass_statistics import TransferScores, TransferStatistics
from krepes.alignment.transfer.target_and_chance import TransferTarget
from krepes.alignment.transfer.transferability import Transferability, transferability

__all__ = [
    "AlignmentSelector",
    "AlignmentTest",
    "Combination",
    "LayerScore",
    "LayerTransferClassifier",
    "MemberRow",
    "NetworkComparison",
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
    "compare_networks",
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
