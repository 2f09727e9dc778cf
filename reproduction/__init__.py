"""Published ablations and experiments, run again: `python -m reproduction NAME`. One file each, listed below."""

from reproduction.autoencoder_gap import AUTOENCODER_GAP
from reproduction.denoising import DENOISING
from reproduction.experiments import Conditions, Experiment, Findings, write_findings
from reproduction.initialization import INITIALIZATION
from reproduction.landmark_rules import LANDMARK_RULES
from reproduction.layer_transfer import LAYER_TRANSFER
from reproduction.network_training import NETWORK_TRAINING
from reproduction.preconditioning import PRECONDITIONING
from reproduction.pruning import PRUNING
from reproduction.published_tables import Cell, Run, Size, Table
from reproduction.running import run_table
from reproduction.scalability import SCALABILITY
from reproduction.sketch_accuracy import SKETCH_ACCURACY
from reproduction.small_data_classification import SMALL_DATA_CLASSIFICATION
from reproduction.small_data_networks import SMALL_DATA_NETWORKS
from reproduction.transfer_ranking import TRANSFER_RANKING

TABLES: dict[str, Table] = {
    table.name: table
    for table in (SCALABILITY, PRECONDITIONING, INITIALIZATION, LANDMARK_RULES, AUTOENCODER_GAP)
}
_EXPERIMENTS: tuple[Experiment, ...] = (
    SKETCH_ACCURACY,
    TRANSFER_RANKING,
    LAYER_TRANSFER,
    NETWORK_TRAINING,
    PRUNING,
    DENOISING,
    SMALL_DATA_CLASSIFICATION,
    SMALL_DATA_NETWORKS,
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _EXPERIMENTS}

__all__ = [
    "EXPERIMENTS",
    "TABLES",
    "Cell",
    "Conditions",
    "Experiment",
    "Findings",
    "Run",
    "Size",
    "Table",
    "run_table",
    "write_findings",
]
