"""How good a representation is: linear and nearest-neighbour probes, the protocol of the paper, and a search by it."""

from krepes.evaluation.linear import LinearProbeResult, linear_probe
from krepes.evaluation.neighbours import NeighbourProbeResult, knn_probe
from krepes.evaluation.neural import NeuralEmbedding
from krepes.evaluation.protocol import Protocol, ProtocolResult, plan_protocol, probe_protocol
from krepes.evaluation.result import ProbeResult
from krepes.evaluation.search import Search, search
from krepes.evaluation.search_result import SearchResult
from krepes.evaluation.search_space import Choice, Range
from krepes.evaluation.search_study import Trial

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
