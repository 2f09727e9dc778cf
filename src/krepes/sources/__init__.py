"""Where batches come from: arrays, frames, lists, files and folders, in memory or larger than it."""

from krepes.base.rows import Rows

from .numpy_files import read_array
from .opening import open_source
from .sampling import Reservoir, reservoir
from .source import Source, TableSource

__all__ = [
    "Reservoir",
    "Rows",
    "Source",
    "TableSource",
    "open_source",
    "read_array",
    "reservoir",
]
