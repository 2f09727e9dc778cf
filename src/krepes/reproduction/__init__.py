"""Published ablations and experiments, run again. Adding one is a file here and a line below."""

from krepes.reproduction.autoencoder_gap import AUTOENCODER_GAP
from krepes.reproduction.denoising import DENOISING
from krepes.reproduction.experiments import Conditions, Experiment, Findings, write_findings
from krepes.reproduction.initialization import INITIALIZATION
from krepes.reproduction.landmark_rules import LANDMARK_RULES
from krepes.reproduction.layer_transfer import LAYER_TRANSFER
from krepes.reproduction.preconditioning import PRECONDITIONING
from krepes.reproduction.pruning import PRUNING
from krepes.reproduction.published_tables import Cell, Run, Size, Table
from krepes.reproduction.running import run_table
from krepes.reproduction.scalability import SCALABILITY
from krepes.reproduction.sketch_accuracy import SKETCH_ACCURACY
from krepes.reproduction.small_data_classification import SMALL_DATA_CLASSIFICATION
from krepes.reproduction.small_data_networks import SMALL_DATA_NETWORKS
from krepes.reproduction.transfer_ranking import TRANSFER_RANKING

TABLES: dict[str, Table] = {
    table.name: table
    for table in (SCALABILITY, PRECONDITIONING, INITIALIZATION, LANDMARK_RULES, AUTOENCODER_GAP)
}
_EXPERIMENTS: tuple[Experiment, ...] = (
    SKETCH_ACCURACY,
    TRANSFER_RANKING,
    LAYER_TRANSFER,
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
