"""Which engine an estimator was given."""

from __future__ import annotations

from functools import cache

from krepes.engines.dask_cluster import Dask
from krepes.engines.engine import Engine
from krepes.engines.local import Local
from krepes.sources import Source


def as_engine(value: Engine | str | None) -> Engine:
    """An engine from what an estimator was given.

    None runs in this process, "dask" in a cluster of processes on this machine, and an address in the cluster of the
    scheduler there. Every name stands for one connection, which all estimators share.
    """
    if value is None:
        return Local()
    if isinstance(value, Engine):
        return value
    if isinstance(value, str) and (value == "dask" or "://" in value):
        return _connection(value)
    hint = ""
    if type(value).__module__.split(".")[0] == "distributed":
        hint = " A client cannot be copied with an estimator: give krepes.engines.Dask(client)."
    raise TypeError(
        f"engine={value!r:.80}: expected None, which runs in this process, 'dask', the address of a scheduler such as "
        f"'tcp://host:8786', or a krepes.engines.Engine.{hint}"
    )


def engine_for(source: Source, value: Engine | str | None) -> Engine:
    """The engine that scans a source: rows in the memory of this process are scanned here, where they are."""
    return as_engine(value) if source.by_reference else Local()


@cache
def _connection(name: str) -> Dask:
    return Dask(None if name == "dask" else name)
