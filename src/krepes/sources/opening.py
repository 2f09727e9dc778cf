"""One door for all data: whatever a person has becomes a `Source`."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse

from krepes.base.rows import SparseRows, is_tensor
from krepes.sources.arrays.in_memory import ArraySource, numbers_of_objects
from krepes.sources.arrays.numpy_files import FileArraySource, open_npy, open_npz
from krepes.sources.arrays.rows_in_file import mapped_file, memmap_header
from krepes.sources.arrays.sparse_matrices import SparseSource, is_sparse_npz, open_sparse_npz
from krepes.sources.arrays.zarr_arrays import ZarrSource, is_zarr, is_zarr_folder, open_zarr
from krepes.sources.dask_collections import dask_kind, open_dask
from krepes.sources.file_sets import CSV, PARQUET, open_pattern, open_set
from krepes.sources.image_folders import SUFFIXES, open_images
from krepes.sources.loaders import ONCE, Batches, is_loader, open_batches
from krepes.sources.objects import ObjectSource, numeric_list, open_dataset
from krepes.sources.sample_entries import Key
from krepes.sources.source import Source, TableSource, is_pandas, is_polars
from krepes.sources.tables import frames
from krepes.sources.tables.csv_files import open_csv
from krepes.sources.tables.excel_files import open_excel
from krepes.sources.tables.parquet_files import open_parquet
from krepes.sources.urls import located

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # a letter before :// would be a drive
_FOR = {
    "key": "datasets and loaders",
    "encoding": "CSV files",
    "size": "folders of images",
    "columns": "tables",
}
_PATHS = (
    "an .npy, .npz, .csv, .tsv, .xlsx or .parquet file, or a folder of Parquet, CSV or .npy files, of a Zarr array, or "
    "of PNG and JPEG images"
)


def open_source(
    data: Any,
    *,
    array: str = "X",
    size: int | tuple[int, int] | None = None,
    columns: Sequence[str] | None = None,
    key: Key = None,
    encoding: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Source:
    """Make a source of an array, tensor, frame, list, dataset, loader, or of one path.

    Parameters
    ----------
    data : numpy array or torch tensor, (n, d) or (n, h, w[, c]); scipy.sparse matrix; pandas or polars DataFrame,
        pyarrow table, anything that offers its rows as an Arrow stream (DuckDB, ibis), or a mapping of columns; list or
        tuple (equally long sequences of numbers are an array, anything else is objects); map-style torch or Hugging
        Face dataset; torch DataLoader that does not shuffle, `Batches`, or a function that returns an iterator over
        batches; or a `str` or `PathLike`, which is always a path or the URL of a file: an .npy, .npz, .csv, .tsv, .xlsx
        or .parquet file, a folder of Parquet, CSV or .npy files or of PNG and JPEG images, a Zarr array, or a pattern
        such as "part-*.csv". Dask frames and arrays, and Zarr arrays, are read where they are.
    array : the array to use of an .npz file.
    size : height and width to which the images of a folder are brought; needed if they differ.
    columns : the columns of a table to read; all by default.
    key : the entry that holds the rows, where the samples of a dataset or the batches of a loader are dictionaries or
        tuples; a tuple of two entries: rows and their second views, of three: negatives too. By default the first
        entry of a tuple, and the second as second views if it has the same shape and dtype.
    encoding : the encoding of a CSV file, such as "cp1252" or "shift_jis"; by default it is recognised (UTF-8, UTF-16,
        else Windows-1252 with a warning).
    progress : called with the number of rows (or images) seen, where opening needs a scan.

    >>> open_source([[1.0, 2.0], [3.0, 4.0]]).describe()
    'numpy array, 2 × 2, float64'
    """
    if isinstance(data, (str, os.PathLike)):
        _refuse("key", key, f"the path {data}")
        if isinstance(data, str) and _URL.match(data):
            source = _open_url(data, array, encoding)
        else:
            source = _open_path(Path(data).expanduser(), array, size, progress, encoding)
    else:
        source = _open_object(data) if key is None else _open_samples(data, key)
        _refuse("encoding", encoding, source)
        _refuse("size", size, source)
    if columns is not None and isinstance(source, TableSource):
        return source.select(columns)
    _refuse("columns", columns, source)
    return source


def _refuse(name: str, value: object, given: Source | str) -> None:
    """Raise if a parameter is given for data that it is not for."""
    if value is not None:
        got = given if isinstance(given, str) else given.describe()
        raise ValueError(f"{name}={value!r} is for {_FOR[name]}; got {got}.")


def open_objects(data: Any) -> Source:
    """Make a source of objects: of a list, an array or a column, each entry of which is one object.

    >>> open_objects([[1, 2], [3, 4]]).describe()         # where `open_source` sees an array of numbers
    'list of 2 objects (list)'
    """
    column = isinstance(data, np.ndarray) or is_tensor(data) or type(data).__name__ == "Series"
    if isinstance(data, (list, tuple)) or (column and data.ndim > 0):
        _check_filled(data)
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
    if isinstance(data, SparseRows):
        return SparseSource(data.csr)
    if isinstance(data, np.ndarray):
        return _open_array(data)
    if is_pandas(data):
        return frames.pandas_source(data)
    if is_tensor(data):
        return ArraySource(data)
    if is_polars(data):
        return frames.polars_source(data)
    if isinstance(data, pa.Table | pa.RecordBatch):
        return frames.table_source(frames.arrow_table(data))
    if dask_kind(data):
        return open_dask(data)
    if is_zarr(data):
        return ZarrSource(data)
    if isinstance(getattr(data, "column_names", None), dict):
        names = ", ".join(map(repr, data))
        raise TypeError(f"A {type(data).__name__} has several data sets: give one of {names}.")
    if isinstance(data, Mapping):
        return frames.mapping_source(data)
    if isinstance(data, (list, tuple)):
        _check_filled(data)
        X = numeric_list(data)
        return ObjectSource(data) if X is None else ArraySource(X)
    if _is_torch_dataset(data):
        return open_dataset(data)
    if isinstance(data, Batches):
        return open_batches(data)
    if is_loader(data) or _is_function(data):
        return open_batches(Batches(data))
    if frames.is_hugging_face(data):
        return frames.hugging_face_source(data)
    return _open_other(data)


def _open_samples(data: Any, key: Key) -> Source:
    """Datasets and loaders whose samples are dictionaries or tuples."""
    if is_loader(data) or _is_function(data):
        return open_batches(Batches(data, key=key))
    if frames.is_hugging_face(data):
        return open_dataset(data.with_format("numpy"), key)
    if _is_torch_dataset(data) or isinstance(data, (list, tuple)):
        return open_dataset(data, key)
    raise TypeError(
        f"key={key!r} is for datasets, loaders and lists of dictionaries or tuples; got {type(data).__name__}. For "
        "other batches, give krepes.sources.Batches(make_batches, key=...)."
    )


def _is_function(data: object) -> bool:
    return inspect.isfunction(data) or inspect.ismethod(data) or isinstance(data, functools.partial)


def _open_array(X: np.ndarray) -> Source:
    if isinstance(X, np.matrix):
        raise TypeError("np.matrix is not supported. Convert it with np.asarray.")
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("Masked arrays are not supported. Fill the masked values: X.filled(np.nan).")
    if X.dtype == object:
        if X.ndim == 1:
            got = f"1D array of {len(X)} objects"
            raise ValueError(f"Expected 2D array, got {got} instead. Reshape your data, or give list(X).")
        X = numbers_of_objects(X)
    header, path = memmap_header(X), mapped_file(X)
    if header is not None:
        return FileArraySource(header)
    return ArraySource(X, paths=[] if path is None else [path])


def _check_filled(data: Sequence[Any]) -> None:
    if len(data) == 0:
        raise ValueError("Found a list with 0 sample(s) while a minimum of 1 is required.")


def _open_other(data: Any) -> Source:
    """Lazy frames and single columns have errors of their own; what offers itself as an array or as
    Arrow data is taken."""
    kind = f"{type(data).__module__}.{type(data).__name__}"
    if hasattr(data, "collect") and type(data).__name__ == "LazyFrame":
        raise TypeError(f"A {kind} has no rows yet. Call .collect() first, or give the path of its file.")
    if type(data).__name__ == "Series":
        raise ValueError("Expected a table, got a single column. Reshape your data: use series.to_frame().")
    table = frames.arrow_table(data)
    if table is not None:
        return frames.table_source(table)
    if hasattr(data, "__array__"):
        return _open_array(np.asarray(data))
    if hasattr(data, "__next__"):
        raise TypeError(f"A {type(data).__name__} {ONCE}")
    batches = " If it gives the same batches whenever it is read, give krepes.sources.Batches(data)."
    iterable = hasattr(data, "__iter__") and not isinstance(data, set)
    raise TypeError(
        f"Cannot read data of type {kind}. Expected an array, a tensor, a DataFrame, a pyarrow table, a list, a "
        f"map-style torch dataset, a torch DataLoader, or the path of {_PATHS}.{batches if iterable else ''}"
    )


def _is_torch_dataset(data: object) -> bool:
    loading = sys.modules.get("torch.utils.data")
    return loading is not None and isinstance(data, loading.Dataset)


def _open_url(url: str, array: str, encoding: str | None) -> Source:
    """Parquet files are read where they are; any other file is copied first, unless it is on this machine."""
    place = located(url)
    if tables := place.files(PARQUET):
        return open_parquet(tables, place.path if place.is_folder else None, place.filesystem)
    return _open_path(place.copied(), array, None, None, encoding)


def is_csv(path: str | os.PathLike) -> bool:
    """Whether a file is a CSV file by its name, and so has an encoding."""
    return str(path).lower().endswith(CSV)


def _open_path(
    path: Path,
    array: str,
    size: int | tuple[int, int] | None,
    progress: Callable[[int], None] | None,
    encoding: str | None,
) -> Source:
    if not is_csv(path):
        _refuse("encoding", encoding, str(path))
    if path.is_dir():
        return _open_folder(path, array, size, progress)
    if not path.exists() and any(mark in path.name for mark in "*?["):
        return open_pattern(path, progress)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    if not path.is_file():
        raise ValueError(f"{path} is neither a file nor a folder.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty.")
    _refuse("size", size, f"the file {path}")
    name = path.name.lower()
    if name.endswith(".npy"):
        return open_npy(path)
    if name.endswith(".npz"):
        return open_sparse_npz(path) if is_sparse_npz(path, array) else open_npz(path, array)
    if name.endswith(PARQUET):
        return open_parquet([path])
    if is_csv(path):
        return open_csv(path, progress, encoding)
    if name.endswith(".xlsx"):
        return open_excel(path)
    hint = " A single image is not a data set; give its folder." if name.endswith(SUFFIXES) else ""
    raise ValueError(f"{path}: the suffix {path.suffix!r} is not known. Expected {_PATHS}.{hint}")


def _open_folder(
    folder: Path, array: str, size: int | tuple[int, int] | None, progress: Callable[[int], None] | None
) -> Source:
    if is_zarr_folder(folder):
        return open_zarr(folder, array)
    files = _visible_files(folder)
    images = [file for file in files if file.suffix.lower() in SUFFIXES]
    tables = [file for file in files if file.suffix.lower() in PARQUET]
    if images and tables:
        both = f"{len(images)} images and {len(tables)} Parquet files"
        raise ValueError(f"{folder} has both {both}. Give one folder for each.")
    if tables:
        _refuse("size", size, f"the Parquet files of {folder}")
        return open_parquet(tables, folder)
    if images:
        return open_images(folder, images, size, progress)
    found = open_set(files, str(folder), folder, progress) if files else None
    if found is not None:
        return found
    suffixes = ", ".join(sorted({file.suffix or "no suffix" for file in files})) or "nothing"
    raise ValueError(f"{folder} has neither Parquet, CSV or .npy files nor images; found: {suffixes}.")


def _visible_files(folder: Path) -> list[Path]:
    """The files below a folder in the order of their paths, without those whose name begins with . or _."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        visible = [Path(parent, name) for name in names if not name.startswith((".", "_"))]
        found += [path for path in visible if not path.is_fifo()]  # reading a pipe would wait for ever
    return sorted(found, key=lambda file: file.relative_to(folder).parts)
