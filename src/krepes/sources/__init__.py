"""Where batches come from: arrays, frames, lists, files and folders, in memory or larger than it."""

from krepes.base.rows import Rows
from krepes.sources.numpy_files import read_array
from krepes.sources.opening import open_source
from krepes.sources.sampling import Reservoir, reservoir
from krepes.sources.source import Source, TableSource

__all__ = [
    "Reservoir",
    "Rows",
    "Source",
    "TableSource",
    "open_source",
    "read_array",
    "reservoir",
]
