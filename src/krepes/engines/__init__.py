"""Engines: the same map over blocks and the same sum, in this process or elsewhere."""

from krepes.engines.checkpoint import Checkpoint
from krepes.engines.local import block_rows, map_blocks, run
from krepes.engines.moment_pass import MomentPass

__all__ = ["Checkpoint", "MomentPass", "block_rows", "map_blocks", "run"]
