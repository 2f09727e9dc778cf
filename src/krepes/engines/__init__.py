"""Engines: the same sum and the same map over blocks of rows, in this process or elsewhere."""

from krepes.engines.base import Engine
from krepes.engines.block_size import block_rows
from krepes.engines.local import Local, as_engine

__all__ = ["Engine", "Local", "as_engine", "block_rows"]
