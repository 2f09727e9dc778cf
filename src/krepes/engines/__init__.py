"""Engines: the same sum and the same map over blocks of rows, in this process or elsewhere."""

from krepes.engines.dask_cluster import Dask
from krepes.engines.engine import Engine, Local, as_engine, block_rows, engine_for
from krepes.engines.partitioned_output import WrittenFolder, write_partitions
from krepes.engines.pass_cost import PassCost, function_cost, sums_cost

__all__ = [
    "Dask",
    "Engine",
    "Local",
    "PassCost",
    "WrittenFolder",
    "as_engine",
    "block_rows",
    "engine_for",
    "function_cost",
    "sums_cost",
    "write_partitions",
]
