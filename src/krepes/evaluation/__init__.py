"""How good a representation is: probes, the protocol of the paper, comparisons and their verdict, and a search."""

from krepes.evaluation.bandwidth_choice import BandwidthChoice, choose_bandwidth
from krepes.evaluation.budget import Budget
from krepes.evaluation.comparison.baselines import baseline_estimators, same_kernel_pca
from krepes.evaluation.comparison.label_curve import LabelCurve, label_curve, plot_label_curve
from krepes.evaluation.comparison.verdict import Difference, Verdict, paired_difference, verdict
from krepes.evaluation.generalization import (
    DownstreamBound,
    GeneralizationBound,
    autoencoder_bound,
    contrastive_bound,
    downstream_bound,
    reconstruction_bound,
)
from krepes.evaluation.linear import linear_probe
from krepes.evaluation.neighbours import knn_probe
from krepes.evaluation.other_probes import estimator_probe, ridge_probe
from krepes.evaluation.probe_result import ProbeResult
from krepes.evaluation.protocol import Protocol, plan_protocol, probe_protocol
from krepes.evaluation.scoring import ProtocolResult
from krepes.evaluation.tuning.search import Search, search
from krepes.evaluation.tuning.study import SearchResult
from krepes.preprocessing.targets import TaskGuess, guess_task

__all__ = [
    "BandwidthChoice",
    "Budget",
    "Difference",
    "DownstreamBound",
    "GeneralizationBound",
    "LabelCurve",
    "ProbeResult",
    "Protocol",
    "ProtocolResult",
    "Search",
    "SearchResult",
    "TaskGuess",
    "Verdict",
    "autoencoder_bound",
    "baseline_estimators",
    "choose_bandwidth",
    "contrastive_bound",
    "downstream_bound",
    "estimator_probe",
    "guess_task",
    "knn_probe",
    "label_curve",
    "linear_probe",
    "paired_difference",
    "plan_protocol",
    "plot_label_curve",
    "probe_protocol",
    "reconstruction_bound",
    "ridge_probe",
    "same_kernel_pca",
    "search",
    "verdict",
]
