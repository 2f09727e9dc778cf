"""Where batches come from: arrays, frames, lists, files and folders, in memory or larger than it."""

from krepes.base.earlier_paths import keep_paths
from krepes.base.rows import Rows
from krepes.sources.arrays.numpy_files import read_array
from krepes.sources.loaders import Batches
from krepes.sources.opening import open_objects, open_source
from krepes.sources.row_sampling import Reservoir, reservoir
from krepes.sources.source import Source, TableSource

__all__ = [
    "Batches",
    "Reservoir",
    "Rows",
    "Source",
    "TableSource",
    "open_objects",
    "open_source",
    "read_array",
    "reservoir",
]

keep_paths(
    __name__,
    {
        "content": "identity_of_rows",
        "csv_files": "tables.csv_files",
        "csv_quotes": "tables.csv_quotes",
        "file_rows": "arrays.rows_in_file",
        "frames": "tables.frames",
        "images": "image_folders",
        "memmaps": "arrays.memory_maps",
        "numpy_files": "arrays.numpy_files",
        "parquet": "tables.parquet_files",
        "reading": "raw_blocks",
        "sampling": "row_sampling",
        "stamps": "identity_of_files",
        "subset": "row_subset",
        "vectors_table": "tables.vectors_as_table",
    },
)
