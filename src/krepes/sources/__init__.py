"""Where batches come from: arrays, frames, lists, files and folders, in memory or larger than it."""

from krepes.base.rows import Rows
from krepes.sources.arrays.numpy_files import read_array
from krepes.sources.loaders import Batches
from krepes.sources.opening import open_objects, open_source
from krepes.sources.row_sampling import reservoir
from krepes.sources.source import Source, TableSource

__all__ = [
    "Batches",
    "Rows",
    "Source",
    "TableSource",
    "open_objects",
    "open_source",
    "read_array",
    "reservoir",
]
