"""One door for all data: whatever a person has becomes a `Source`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse

from krepes.base.rows import is_tensor
from krepes.sources.arrays.in_memory import ArraySource, numbers_of_objects
from krepes.sources.arrays.memory_maps import mapped_file, memmap_header
from krepes.sources.arrays.numpy_files import FileArraySource, open_npy, open_npz
from krepes.sources.arrays.sparse_matrices import SparseSource, is_sparse_npz, open_sparse_npz
from krepes.sources.image_folders import SUFFIXES, open_images
from krepes.sources.objects import DatasetSource, ObjectSource, numeric_list
from krepes.sources.source import Source, TableSource
from krepes.sources.tables.csv_files import open_csv
from krepes.sources.tables.frames import (
    is_pandas,
    is_polars,
    mapping_source,
    pandas_source,
    polars_source,
    table_source,
)
from krepes.sources.tables.parquet_files import open_parquet

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
EMPTY_LIST = "Found a list with 0 sample(s) while a minimum of 1 is required."
_PATHS = "an .npy, .npz, .csv, .tsv or .parquet file, or a folder of Parquet files or of PNG and JPEG images"


def open_source(
    data: Any,
    *,
    array: str = "X",
    size: int | tuple[int, int] | None = None,
    columns: Sequence[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Source:
    """Make a source of an array, tensor, frame, list, dataset, or of one path.

    Parameters
    ----------
    data : numpy array or torch tensor, (n, d) or (n, h, w[, c]); scipy.sparse matrix; pandas or polars DataFrame,
        pyarrow table or a mapping of columns; list or tuple (equally long sequences of numbers are an array, anything
        else is objects); map-style torch dataset; or a `str` or `PathLike`, which is always a path: an .npy, .npz,
        .csv, .tsv or .parquet file, or a folder of Parquet files or of PNG and JPEG images.
    array : the array to use of an .npz file.
    size : height and width to which the images of a folder are brought; needed if they differ.
    columns : the columns of a table to read; all by default.
    progress : called with the number of rows (or images) seen, where opening needs a scan.

    >>> open_source([[1.0, 2.0], [3.0, 4.0]]).describe()
    'numpy array, 2 × 2, float64'
    """
    if isinstance(data, (str, os.PathLike)):
        source = _open_path(Path(data).expanduser(), array, size, progress)
    else:
        source = _open_object(data)
        if size is not None:
            raise ValueError(f"size={size!r} is for folders of images; got {source.describe()}.")
    if columns is None:
        return source
    if not isinstance(source, TableSource):
        raise ValueError(f"columns={columns!r} is for tables; got {source.describe()}.")
    return source.select(columns)


def open_objects(data: Any) -> Source:
    """Make a source of objects: of a list, an array or a column, each entry of which is one object.

    >>> open_objects([[1, 2], [3, 4]]).describe()         # where `open_source` sees an array of numbers
    'list of 2 objects (list)'
    """
    column = isinstance(data, np.ndarray) or is_tensor(data) or type(data).__name__ == "Series"
    if isinstance(data, (list, tuple)) or (column and data.ndim > 0):
        if len(data) == 0:
            raise ValueError(EMPTY_LIST)
        return ObjectSource(data if isinstance(data, (list, tuple)) else list(data))
    source = open_source(data)
    if source.kind != "objects":
        raise TypeError(f"This kernel compares objects; got {source.describe()}. Give a list of the objects.")
    return source


def _open_object(data: Any) -> Source:
    if isinstance(data, Source):
        return data
    if scipy.sparse.issparse(data):  # first, because a dok_array is a mapping
        return SparseSource(data)
    if isinstance(data, np.ndarray):
        return _open_array(data)
    if is_tensor(data):
        return ArraySource(data)
    if is_pandas(data):
        return pandas_source(data)
    if is_polars(data):
        return polars_source(data)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return table_source(data)
    if isinstance(data, Mapping):
        return mapping_source(data)
    if isinstance(data, (list, tuple)):
        return _open_list(data)
    if _is_torch_dataset(data):
        tensors = getattr(data, "tensors", None)  # TensorDataset
        return ArraySource(tensors[0]) if tensors else DatasetSource(data)
    return _open_other(data)


def _open_array(X: np.ndarray) -> Source:
    if isinstance(X, np.matrix):
        raise TypeError("np.matrix is not supported. Convert it with np.asarray.")
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            "Masked arrays are not supported. Fill the masked values, for example X.filled(np.nan)."
        )
    if X.dtype == object:
        if X.ndim == 1:
            raise ValueError(
                f"Expected 2D array, got 1D array of {len(X)} objects instead. Reshape your data if these are "
                "numbers; if each row is an object, give list(X)."
            )
        X = numbers_of_objects(X)
    header, path = memmap_header(X), mapped_file(X)
    if header is not None:
        return FileArraySource(header)
    return ArraySource(X, paths=[] if path is None else [path])


def _open_list(data: Sequence[Any]) -> Source:
    if len(data) == 0:
        raise ValueError(EMPTY_LIST)
    X = numeric_list(data)
    return ObjectSource(data) if X is None else ArraySource(X)


def _open_other(data: Any) -> Source:
    """Lazy frames and single columns have errors of their own; what offers itself as an array or as
    Arrow data is taken."""
    kind = f"{type(data).__module__}.{type(data).__name__}"
    if hasattr(data, "collect") and type(data).__name__ == "LazyFrame":
        raise TypeError(f"A {kind} has no rows yet. Call .collect() first, or give the path of its file.")
    if type(data).__name__ == "Series":
        raise ValueError("Expected a table, got a single column. Reshape your data: use series.to_frame().")
    if hasattr(data, "__arrow_c_stream__"):
        return table_source(pa.table(data))
    if hasattr(data, "__array__"):
        return _open_array(np.asarray(data))
    raise TypeError(
        f"Cannot read data of type {kind}. Expected an array, a tensor, a DataFrame, a pyarrow table, a list, a "
        f"map-style torch dataset, or the path of {_PATHS}."
    )


def _is_torch_dataset(data: object) -> bool:
    loading = sys.modules.get("torch.utils.data")
    return loading is not None and isinstance(data, loading.Dataset)


def _open_path(
    path: Path, array: str, size: int | tuple[int, int] | None, progress: Callable[[int], None] | None
) -> Source:
    if path.is_dir():
        return _open_folder(path, size, progress)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    if not path.is_file():
        raise ValueError(f"{path} is neither a file nor a folder.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty.")
    if size is not None:
        raise ValueError(f"size={size!r} is for folders of images; got the file {path}.")
    name = path.name.lower()
    if name.endswith(".npy"):
        return open_npy(path)
    if name.endswith(".npz"):
        return open_sparse_npz(path) if is_sparse_npz(path, array) else open_npz(path, array)
    if name.endswith(_PARQUET):
        return open_parquet([path])
    if name.endswith(_CSV):
        return open_csv(path, progress)
    hint = " A single image is not a data set; give its folder." if name.endswith(SUFFIXES) else ""
    raise ValueError(f"{path}: the suffix {path.suffix!r} is not known. Expected {_PATHS}.{hint}")


def _open_folder(
    folder: Path, size: int | tuple[int, int] | None, progress: Callable[[int], None] | None
) -> Source:
    files = _visible_files(folder)
    images = [file for file in files if file.suffix.lower() in SUFFIXES]
    tables = [file for file in files if file.suffix.lower() in _PARQUET]
    if images and tables:
        raise ValueError(
            f"{folder} has both {len(images)} images and {len(tables)} Parquet files. Give one folder for each."
        )
    if tables:
        if size is not None:
            raise ValueError(f"size={size!r} is for folders of images; {folder} has Parquet files.")
        return open_parquet(tables, folder)
    if images:
        return open_images(folder, images, size, progress)
    suffixes = ", ".join(sorted({file.suffix or "no suffix" for file in files})) or "nothing"
    raise ValueError(
        f"{folder} has neither Parquet files (.parquet) nor images ({', '.join(SUFFIXES)}); found: {suffixes}."
    )


def _visible_files(folder: Path) -> list[Path]:
    """The files below a folder in the order of their paths, without those whose name begins with . or _."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [Path(parent, name) for name in names if not name.startswith((".", "_"))]
    return sorted(found, key=lambda file: file.relative_to(folder).parts)
