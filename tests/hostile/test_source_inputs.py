"""Bad input and broken files: each gets an exception that says what was given and what to do."""

from __future__ import annotations

import contextlib
import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset

from krepes.features.fit_warnings import allowed_candidates
from krepes.preprocessing import TableEncoder, table_encoder
from krepes.sources import open_source, read_array
from krepes.sources.tables import parquet_files
from krepes.sources.tables.parquet_files import ParquetSource
from refusals import refuses, warns_of

X = np.arange(60.0).reshape(20, 3)


class Exploding:
    """Leaves a trace if anybody unpickles it."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


class Ragged(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return torch.zeros(3 if i < 2 else 4), 0


class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.zeros(2)])


OBJECTS = {
    "1-D": (np.arange(3.0), ValueError, ("Reshape", "data")),
    "scalar": (np.array(1.0), ValueError, ("Reshape", "data")),
    "list of numbers": ([1.0, 2.0], ValueError, ("Reshape", "data")),
    "1-D tensor": (torch.arange(3.0), ValueError, ("Reshape", "data")),
    "5-D": (np.zeros((2, 1, 1, 1, 1)), ValueError, ("X.reshape", "len(X)", "-1")),
    "rows": (np.zeros((0, 3)), ValueError, "0 sample"),
    "no columns": (np.zeros((3, 0)), ValueError, "0 feature"),
    "complex": (np.zeros((2, 2), complex), ValueError, ("supported", "Complex")),
    "complex tensor": (torch.zeros(2, 2, dtype=torch.complex64), ValueError, ("supported", "Complex")),
    "numeric strings": (np.array([["1", "2"]]), ValueError, "DataFrame"),
    "bytes": (np.array([[b"1"]]), ValueError, ("array", "numbers")),
    "dates": (np.array([["2020-01-01"]], dtype="M8[D]"), ValueError, ("dates", "numbers")),
    "structured": (np.zeros((2, 1), dtype=[("a", "f8")]), ValueError, "Structured"),
    "objects with text": (np.array([[1, "a"]], dtype=object), ValueError, "'a'"),
    "objects with dicts": (
        np.array([[1, {}]], dtype=object),
        TypeError,
        ("argument", "string", "number"),
    ),
    "1-D objects": (np.array([None, 1], dtype=object), ValueError, "list(X)"),
    "matrix": (np.matrix([[1]]), TypeError, "np.asarray"),
    "masked": (np.ma.array([[1.0]], mask=[[True]]), ValueError, "filled"),
    "complex csr": (scipy.sparse.csr_array(X * 1j), ValueError, ("supported", "Complex")),
    "csr without rows": (scipy.sparse.csr_array((0, 3)), ValueError, "0 sample"),
    "csr without columns": (scipy.sparse.csr_array((3, 0)), ValueError, "0 feature"),
    "sparse tensor": (torch.eye(3).to_sparse(), ValueError, "to_dense()"),
    "lazy frame": (pl.LazyFrame({"a": [1]}), TypeError, ".collect()"),
    "series": (pd.Series([1, 2]), ValueError, "to_frame"),
    "polars series": (pl.Series([1, 2]), ValueError, "to_frame"),
    "empty list": ([], ValueError, "0 sample"),
    "empty frame": (pd.DataFrame({"a": []}), ValueError, "0 sample"),
    "frame without columns": (pd.DataFrame(index=[0, 1]), ValueError, "0 feature"),
    "duplicate columns": (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        ValueError,
        "'a'",
    ),
    "mixed column": (pd.DataFrame({"a": [1, ["x"]]}), ValueError, ("'a'", "astype(str)")),
    "unequal columns": ({"a": [1], "b": [1, 2]}, ValueError, "length"),
    "mixed mapping": ({"a": [1, ["x"]]}, ValueError, "'a'"),
    "iterable dataset": (Stream(), ValueError, "map-style"),
    "shuffling loader": (DataLoader(Ragged(), shuffle=True), ValueError, "shuffle=False"),
    "generator": ((i for i in range(3)), TypeError, ("once", "Batches")),
    "number": (3, TypeError, "data"),
    "None": (None, TypeError, "data"),
    "complex list": ([[1j]], ValueError, ("supported", "Complex")),
}
if scipy.sparse.coo_array(X[0]).ndim == 1:  # scipy before 1.13 makes a row of it
    OBJECTS["1-D sparse array"] = (scipy.sparse.coo_array(X[0]), ValueError, ("2D", "array"))


@pytest.mark.parametrize("name", OBJECTS)
def test_bad_objects_say_what_to_do(name):
    data, kind, message = OBJECTS[name]
    with refuses(kind, message):
        open_source(data)


def test_object_arrays_of_numbers_are_numbers():
    _, batch = next(open_source(X.astype(object)).batches(100))
    assert batch.dtype == np.float64
    assert (batch == X).all()


def test_items_of_another_shape_are_named():
    with refuses(ValueError, "Item 2", "(4,)", "item 0", "(3,)"):
        list(open_source(Ragged()).batches(3))


def test_options_for_other_kinds_are_refused(tmp_path):
    np.save(tmp_path / "X.npy", X)
    for data in (X, tmp_path / "X.npy"):
        with refuses(ValueError, "size=5"):
            open_source(data, size=5)
        with refuses(ValueError, "columns=['a']", "tables"):
            open_source(data, columns=["a"])


# Paths


def test_paths_that_are_not_data(tmp_path):
    with refuses(FileNotFoundError, "missing.csv"):
        open_source(tmp_path / "missing.csv")
    with refuses(ValueError, "CSV", "Parquet"):
        open_source(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with refuses(ValueError, "CSV", ".txt"):
        open_source(str(tmp_path))
    with refuses(ValueError, "'.txt'"):
        open_source(tmp_path / "notes.txt")
    for suffix in (".npy", ".npz", ".csv", ".tsv", ".parquet"):
        (tmp_path / f"empty{suffix}").write_bytes(b"")
        with refuses(ValueError, "empty"):
            open_source(tmp_path / f"empty{suffix}")


def test_a_list_of_paths_is_a_list_of_objects(tmp_path):
    assert open_source([str(tmp_path / "a.csv")]).kind == "objects"


def test_a_folder_with_both_kinds_is_ambiguous(tmp_path):
    Image.new("L", (2, 2)).save(tmp_path / "a.png")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "b.parquet")
    with refuses(ValueError, "images", "Parquet"):
        open_source(tmp_path)


# NumPy files


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def header_of(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


NPY = {
    "truncated": (npy(X)[:-1], "truncated"),
    "lying about rows": (header_of(f"({10**15}, 3)") + b"\0" * 99, ("declares", "shape", "truncated")),
    "overflowing": (header_of(f"({2**40}, {2**40})") + b"\0" * 99, ("declares", "shape")),
    "negative": (header_of("(-1, 3)") + b"\0" * 99, ("impossible", "shape")),
    "pickled objects": (npy(np.array([[Exploding()]], dtype=object)), "unpickle"),
    "plain pickle": (pickle.dumps(Exploding()), "magic"),
    "header with an open bracket": (npy(X).replace(b"}", b" "), "X.npy"),
    "header with code": (header_of("(__import__('os').system('true'), 3)"), "X.npy"),
    "text": (npy(np.array([["a"]])), ("array", "numbers")),
    "not numpy": (b"hello world, this is text", "magic"),
    "header cut": (npy(X)[:20], "X.npy"),
    "1-D": (npy(np.arange(3.0)), ("Reshape", "data")),
}


@pytest.mark.parametrize("name", NPY)
def test_broken_npy_files_are_refused(tmp_path, name):
    content, message = NPY[name]
    with refuses(ValueError, message) as error:
        open_source(write(tmp_path / "X.npy", content))
    assert "X.npy" in str(error.value)


def npz(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def damaged(content: bytes) -> bytes:
    """Overwrite the middle of the compressed data."""
    middle = len(content) // 3
    return content[:middle] + bytes(255 - b for b in content[middle : middle + 40]) + content[middle + 40 :]


NOISE = np.random.default_rng(0).normal(size=(200, 3))
NPZ = {
    "truncated": (npz({"X": npy(NOISE)})[:-200], "X.npz"),
    "damaged deflate": (damaged(npz({"X": npy(NOISE)})), ("X.npz", "'X'")),
    "damaged lzma": (damaged(npz({"X": npy(NOISE)}, zipfile.ZIP_LZMA)), ("X.npz", "'X'")),
    "other names": (npz({"data": npy(X), "y": npy(X)}), ("array", "file")),
    "pickled objects": (npz({"X": npy(np.array([[Exploding()]], dtype=object))}), "unpickle"),
    "lying header": (npz({"X": header_of(f"({10**12}, 3)") + b"\0" * 99}), ("truncated", "damaged")),
    "lying header, stored": (
        npz({"X": header_of(f"({10**12}, 3)")}, zipfile.ZIP_STORED),
        ("truncated", "damaged"),
    ),
    "not a zip": (b"PK\x03\x04 but not really", "X.npz"),
    "no member": (npz({}), ("file", "none")),
    "text": (npz({"X": npy(np.array([["a"]]))}), ("array", "numbers")),
}


@pytest.mark.parametrize("name", NPZ)
def test_broken_npz_files_are_refused(tmp_path, name):
    content, message = NPZ[name]
    with refuses(ValueError, message):
        list(open_source(write(tmp_path / "X.npz", content)).batches(50))


def test_sizes_that_lie_everywhere_allocate_nothing(tmp_path):
    """A header and a zip directory that agree on 24 TB end in an error, not in an allocation."""
    content = npz({"X": header_of(f"({10**12}, 3)") + b"\0" * 99})
    entry = content.index(b"PK\x01\x02")
    size = struct.pack("<L", 0xFFFFFFFF)
    extra = struct.pack("<HHQ", 1, 8, 10**12 * 24 + 128)
    directory = bytearray(content[entry:])
    directory[24:28] = size
    directory[30:32] = struct.pack("<H", len(extra))
    name_end = 46 + 5
    end = directory.index(b"PK\x05\x06")
    tail = bytearray(directory[end:])
    tail[12:16] = struct.pack("<L", end + len(extra))
    forged = (
        content[:entry] + bytes(directory[:name_end]) + extra + bytes(directory[name_end:end]) + bytes(tail)
    )
    path = write(tmp_path / "X.npz", forged)
    assert zipfile.ZipFile(path).infolist()[0].file_size > 10**13
    with pytest.raises((ValueError, MemoryError)):
        list(open_source(path).batches(100))
    with pytest.raises((ValueError, MemoryError)):
        read_array(path, "X")


def test_read_array_names_what_is_missing(tmp_path):
    path = write(tmp_path / "X.npz", npz({"X": npy(X), "o": npy(np.array([Exploding()], dtype=object))}))
    with refuses(ValueError, "X, o"):
        read_array(path, "y")
    with refuses(ValueError, "unpickle"):
        read_array(path, "o")
    with pytest.raises(FileNotFoundError):
        read_array(tmp_path / "none.npz")


@given(st.data())
def test_random_damage_never_escapes_as_another_exception(tmp_path_factory, data):
    """Flipped and missing bytes give an array or a ValueError (or MemoryError), never anything else."""
    folder = tmp_path_factory.mktemp("fuzz")
    table = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(50)), "b": [f"s{i % 7}" for i in range(50)]}), table)
    whole = {
        "X.npy": npy(NOISE),
        "X.npz": npz({"X": npy(NOISE)}),
        "stored.npz": npz({"X": npy(NOISE)}, zipfile.ZIP_STORED),
        "t.parquet": table.getvalue(),
        "t.csv": b"a,b\n" + b"1,x\n2,y\n" * 20,
    }
    name = data.draw(st.sampled_from(sorted(whole)))
    content = bytearray(whole[name])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(1, len(content)))] if data.draw(st.booleans()) else content
    with contextlib.suppress(ValueError, MemoryError):
        for _ in open_source(write(folder / name, bytes(content))).batches(16):
            pass


# CSV

CSV = {
    "too few cells": (b"a,b\n1,2\n3,4\n5\n", ("line 4", "1 cells", "2 columns")),
    "too many cells": (b"a,b\n1,2\n3,4,5\n", ("line 3", "2 columns")),
    "names only": (b"a,b\n", "rows"),
    "blank": (b"\n\n", "empty"),
    "duplicate names": (b"a,a\n1,2\n", "'a'"),
    "neither UTF-8 nor Windows-1252": (b"a,b\n1,\xff\x81\n", ("text", "encoding")),
    "names in neither": (b"a\x81,b\n1,2\n", "UTF"),
    "endless quote": (b'a,b\n1,"' + b"x\n" * 2_000_000, ("quotation", "mark")),
}


@pytest.mark.parametrize("name", CSV)
def test_broken_csv_files_name_the_place(tmp_path, name):
    content, message = CSV[name]
    with refuses(ValueError, message) as error:
        open_source(write(tmp_path / "t.csv", content))
    assert "t.csv" in str(error.value)


@pytest.mark.parametrize("far", [0, 300_000])
def test_windows_text_is_recognised_wherever_it_shows(tmp_path, far):
    content = b"a,b\n" + b"1,x\n" * far + "2,gr\u00fcn\n".encode("cp1252")
    with warns_of(UserWarning, "t.csv", "UTF-8", "cp1252"):
        source = open_source(write(tmp_path / "t.csv", content))
    assert source.take(np.array([far])).to_pylist() == [{"a": 2, "b": "gr\u00fcn"}]


def test_the_encoding_of_a_file_can_be_given(tmp_path):
    path = write(tmp_path / "t.csv", "\u540d,n\n\u6771\u4eac,1\n".encode("shift_jis"))
    assert open_source(path, encoding="Shift_JIS").label_column("\u540d").tolist() == ["\u6771\u4eac"]
    with refuses(ValueError, "encoding='klingon'", "Python"):
        open_source(path, encoding="klingon")
    with refuses(ValueError, "UTF-8"):
        open_source(path, encoding="utf-8")
    with refuses(ValueError, "CSV"):
        open_source([[1.0]], encoding="utf-8")


def test_ragged_lines_far_into_a_file_are_numbered(tmp_path):
    with refuses(ValueError, "line 200,002", "1 cells"):
        open_source(write(tmp_path / "t.csv", b"a,b\n" + b"1.25,2.5\n" * 200_000 + b"7\n" + b"1,2\n" * 9))


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"a,b\n1,2\n3,4\n5,6\n7,8\n", b"a,b\n1,2\nx,4\n5,6\n"])
def test_a_csv_file_that_changes_is_noticed(tmp_path, content):
    path = write(tmp_path / "t.csv", b"a,b\n1,2\n3,4\n5,6\n")
    source = open_source(path)
    write(path, content)
    with refuses(ValueError, "file", "changed"):
        list(source.batches(10))


# Parquet


def test_corrupt_parquet_is_named(tmp_path):
    pq.write_table(pa.table({"a": NOISE[:, 0]}), tmp_path / "t.parquet", compression="none")
    content = (tmp_path / "t.parquet").read_bytes()
    for broken in (content[:-10], content[:100], b"PAR1 nothing PAR1", b"\0" * 500):
        with refuses(ValueError, "t.parquet"):
            open_source(write(tmp_path / "t.parquet", broken))
    with refuses(ValueError, "t.parquet"):
        list(open_source(write(tmp_path / "t.parquet", b"PAR1" + b"\xff" * 300 + content[304:])).batches(10))


def test_parquet_files_that_do_not_go_together(tmp_path):
    pq.write_table(pa.table({"a": [1], "b": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [1], "c": [1]}), tmp_path / "2.parquet")
    with refuses(ValueError, "2.parquet", "1.parquet", "'b'", "'c'"):
        open_source(tmp_path)
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "2.parquet")
    with refuses(ValueError, "'b'"):
        open_source(tmp_path)
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "e.parquet")
    with refuses(ValueError, "rows"):
        open_source(tmp_path / "e.parquet")


# Images


def test_bad_images_are_named(tmp_path):
    Image.new("RGB", (40, 40), (9, 9, 9)).save(tmp_path / "a.png")
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "b.png")
    write(tmp_path / "b.png", (tmp_path / "b.png").read_bytes()[:2000])
    with refuses(ValueError, "b.png"):
        list(open_source(tmp_path).batches(10))
    write(tmp_path / "b.png", b"not an image")
    with refuses(ValueError, "b.png"):
        open_source(tmp_path)


def test_image_sizes(tmp_path):
    Image.new("L", (4, 5)).save(tmp_path / "a.png")
    Image.new("L", (6, 5)).save(tmp_path / "b.png")
    with refuses(ValueError, "1", "5", "4", "6", "size=32"):
        open_source(tmp_path)
    for size in (0, (3, -1), "big", (1, 2, 3), 2.5):
        with refuses(ValueError, "positive", "integer"):
            open_source(tmp_path, size=size)
    with refuses(ValueError, "a.png", "folder", "data"):
        open_source(tmp_path / "a.png")


def test_decompression_bombs_are_refused(tmp_path, monkeypatch):
    Image.new("L", (200, 200)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with refuses(ValueError, "a.png"):
        open_source(tmp_path)


@pytest.fixture
def long_cells(tmp_path):
    """400 rows of one text of 100 kB: 40 MB from a file of some kB."""
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"t": ["a" * 100_000] * 400, "x": np.arange(400.0) % 7}), path)
    assert path.stat().st_size < 100_000
    return path


def test_cells_that_fill_the_memory_are_refused(long_cells, monkeypatch):
    """R18: a small Parquet file may hold many gigabytes; a batch of them is refused, shorter batches are read."""
    monkeypatch.setattr(parquet_files, "_MOST_BYTES", 30_000_000)
    source = open_source(long_cells)
    with refuses(ValueError, "long.parquet", "rows take", "column 't'", "30 MB"):
        list(source.batches(400))
    assert [batch.num_rows for _, batch in source.batches(250)] == [250, 150]
    assert source.select(["x"]).label_column("x").sum() == sum(i % 7 for i in range(400))


def test_scans_and_samples_go_by_bytes(long_cells, monkeypatch):
    """R18: rows with long cells are scanned a few at a time, and fewer of them are candidates."""
    read: list[int] = []
    batches = ParquetSource.batches

    def recorded(self, batch_rows, start=0):
        read.append(batch_rows)
        return batches(self, batch_rows, start)

    monkeypatch.setattr(table_encoder, "_MOST_BYTES", 10_000_000)
    monkeypatch.setattr(ParquetSource, "batches", recorded)
    TableEncoder().fit_source(open_source(long_cells))
    assert max(read) == 99
    assert allowed_candidates(open_source(long_cells), 20_000, 10) < 2700
