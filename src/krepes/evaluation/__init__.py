"""How good a representation is: linear and nearest-neighbour probes, the protocol of the paper, and a search by it."""

from krepes.base.earlier_paths import keep_paths
from krepes.evaluation.linear import LinearProbeResult, linear_probe
from krepes.evaluation.neighbours import NeighbourProbeResult, knn_probe
from krepes.evaluation.neural_baseline import NeuralEmbedding
from krepes.evaluation.probe_result import ProbeResult
from krepes.evaluation.protocol import Protocol, ProtocolResult, plan_protocol, probe_protocol
from krepes.evaluation.tuning.search import Search, search
from krepes.evaluation.tuning.search_result import SearchResult
from krepes.evaluation.tuning.search_space import Choice, Range
from krepes.evaluation.tuning.study import Trial

__all__ = [
    "Choice",
    "LinearProbeResult",
    "NeighbourProbeResult",
    "NeuralEmbedding",
    "ProbeResult",
    "Protocol",
    "ProtocolResult",
    "Range",
    "Search",
    "SearchResult",
    "Trial",
    "knn_probe",
    "linear_probe",
    "plan_protocol",
    "probe_protocol",
    "search",
]

keep_paths(
    __name__,
    {
        "inputs": "probe_inputs",
        "neural": "neural_baseline",
        "result": "probe_result",
        "search": "tuning.search",
        "search_result": "tuning.search_result",
        "search_space": "tuning.search_space",
        "search_split": "tuning.search_split",
        "search_study": "tuning.study",
    },
)
