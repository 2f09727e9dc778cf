"""How good a representation is: linear and nearest-neighbour probes, the protocol of the paper, and a search by it."""

from .linear import LinearProbeResult, linear_probe
from .neighbours import NeighbourProbeResult, knn_probe
from .neural import NeuralEmbedding
from .protocol import Protocol, ProtocolResult, plan_protocol, probe_protocol
from .result import ProbeResult
from .search import Search, search
from .search_result import SearchResult
from .search_space import Choice, Range
from .search_study import Trial

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
