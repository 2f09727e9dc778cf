"""Engines: the same map over blocks and the same sum, in this process or elsewhere."""

from krepes.engines.checkpoint import Checkpoint
from krepes.engines.feature_windows import FeatureBatch, FeatureWindows
from krepes.engines.local import block_rows, map_blocks, run
from krepes.engines.moment_pass import MomentPass
from krepes.engines.samples import Samples

__all__ = [
    "Checkpoint",
    "FeatureBatch",
    "FeatureWindows",
    "MomentPass",
    "Samples",
    "block_rows",
    "map_blocks",
    "run",
]
