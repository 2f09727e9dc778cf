"""How good a representation is: linear and nearest-neighbour probes, and the protocol of the paper."""

from .linear import LinearProbeResult, linear_probe
from .neighbours import NeighbourProbeResult, knn_probe
from .protocol import Protocol, ProtocolResult, plan_protocol, probe_protocol
from .result import ProbeResult

__all__ = [
    "LinearProbeResult",
    "NeighbourProbeResult",
    "ProbeResult",
    "Protocol",
    "ProtocolResult",
    "knn_probe",
    "linear_probe",
    "plan_protocol",
    "probe_protocol",
]
