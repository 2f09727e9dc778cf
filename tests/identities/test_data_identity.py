"""What identifies data for a checkpoint: equal for equal data, different where anything that counts is different."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import Dataset

from krepes.base.blocks import Placement
from krepes.base.storage.packing import digest
from krepes.features.fit_data import FitData
from krepes.preprocessing import InputSpace
from krepes.sources import identity_of_files, open_source
from krepes.sources.identity_of_rows import content_hash
from krepes.sources.row_sampling import RawReader
from krepes.sources.row_subset import subset
from krepes.sources.tables.vectors_as_table import VectorsTable
from refusals import refuses

X = np.random.default_rng(0).normal(size=(4000, 6))
TABLE = pa.table(
    {"a": pa.array([1, None, 3]), "s": ["u", "v", "w"], "d": pa.array(["x", "y", "x"]).dictionary_encode()}
)


class Rows(Dataset):
    """A map-style dataset over an array."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def __len__(self):
        return len(self.array)

    def __getitem__(self, i):
        return torch.from_numpy(self.array[i]), 0


def npy(folder: Path, array: np.ndarray = X) -> Path:
    np.save(folder / "X.npy", array)
    return folder / "X.npy"


def npz(folder: Path, compression: int) -> Path:
    with zipfile.ZipFile(folder / "X.npz", "w", compression) as archive, archive.open("X.npy", "w") as stream:
        np.lib.format.write_array(stream, X)
    return folder / "X.npz"


def csv(folder: Path) -> Path:
    (folder / "t.csv").write_text("a,b\n1,2\n3,4\n")
    return folder / "t.csv"


def parquet(folder: Path) -> Path:
    for name in ("1", "2"):
        pq.write_table(TABLE, folder / f"{name}.parquet")
    return folder


def images(folder: Path) -> Path:
    for i in range(3):
        Image.new("L", (4, 5), i).save(folder / f"{i}.png")
    return folder


IN_MEMORY: dict[str, Callable[[], Any]] = {
    "array": lambda: X.copy(),
    "tensor": lambda: torch.from_numpy(X.copy()),
    "bfloat16": lambda: torch.from_numpy(X).to(torch.bfloat16),
    "images": lambda: X.reshape(1000, 4, 6).copy(),
    "pandas": lambda: TABLE.to_pandas(),
    "polars": lambda: pl.from_arrow(TABLE),
    "pyarrow": lambda: TABLE,
    "strings": lambda: ["a", "b", "c"],
    "objects": lambda: [{"a": [1, 2.5, None]}, (1, 2), np.arange(3), object],
    "dataset": lambda: Rows(X),
}
FILES: dict[str, Callable[[Path], Any]] = {
    "npy": npy,
    "memmap": lambda folder: np.load(npy(folder), mmap_mode="r"),
    "npz stored": lambda folder: npz(folder, zipfile.ZIP_STORED),
    "npz compressed": lambda folder: npz(folder, zipfile.ZIP_DEFLATED),
    "csv": csv,
    "parquet": parquet,
    "images": images,
    "subset": lambda folder: subset(open_source(npy(folder)), np.array([1, 5])),
    "vectors as a table": lambda folder: VectorsTable(open_source(npy(folder))),
}


def identity(data: Any) -> dict[str, object]:
    return open_source(data).identity()


@pytest.mark.parametrize("name", IN_MEMORY)
def test_equal_data_in_memory_have_equal_identities(name):
    first, second = (open_source(IN_MEMORY[name]()) for _ in range(2))
    assert first.identity() == second.identity()
    assert json.loads(json.dumps(first.identity())) == first.identity()
    assert first.paths == []


@pytest.mark.parametrize("name", FILES)
def test_files_are_known_by_their_stamps(tmp_path, name):
    """Opened again they are the same; touched, even without a change of their bytes, they are not."""
    data = FILES[name](tmp_path)
    source = open_source(data)
    before = source.identity()
    assert before == identity(data)
    assert json.loads(json.dumps(before)) == before
    assert sorted(source.paths) == sorted(path for path in tmp_path.iterdir())
    last = source.paths[-1]
    moment = last.stat().st_mtime_ns
    os.utime(last, ns=(moment, moment + 1000))
    assert open_source(data).identity() != before
    os.utime(last, ns=(moment, moment))
    assert open_source(data).identity() == before


def test_another_process_finds_the_same(tmp_path):
    program = """
import json, sys
import numpy as np, pandas as pd
from krepes.sources import open_source
X = np.random.default_rng(0).normal(size=(4000, 6))
frame = pd.DataFrame({"a": [1.0, None], "s": ["u", "v"]})
print(json.dumps([open_source(data).identity() for data in (X, frame, ["a", {"b": 1}], sys.argv[1])]))
"""
    path = npy(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    frame = pd.DataFrame({"a": [1.0, None], "s": ["u", "v"]})
    assert json.loads(done.stdout) == [identity(data) for data in (X, frame, ["a", {"b": 1}], path)]


# Values


@given(st.data())
def test_one_changed_value_of_an_array_changes_its_identity(data):
    """For every place and type, and for the smallest change that there is: one bit."""
    dtype = np.dtype(data.draw(st.sampled_from(["f4", "f8", "f2", "u1", "i8", ">f8", "?"])))
    n, d = data.draw(st.integers(1, 3000)), data.draw(st.integers(1, 40))
    array = np.random.default_rng(n).integers(0, 2, size=(n, d)).astype(dtype)
    changed = array.copy()
    row, column = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, d - 1))
    if dtype.kind == "b":
        changed[row, column] ^= True
    else:
        bits = changed.view(f"u{dtype.itemsize}")
        bits[row, column] ^= bits.dtype.type(1 << data.draw(st.integers(0, 8 * dtype.itemsize - 1)))
    as_given = data.draw(st.sampled_from([np.asarray, np.asfortranarray]))
    assert identity(array) == identity(as_given(array))
    assert identity(array) != identity(as_given(changed))
    if dtype.isnative:
        assert identity(torch.from_numpy(array)) != identity(torch.from_numpy(changed))


@given(st.permutations(range(8)), st.sampled_from([1, 64, 512, 513, 4096]))
def test_values_that_change_places_change_the_identity(order, distance):
    """Low numbers with few bits are the hardest to tell apart: powers of two, a piece or a part of it apart."""
    array = np.zeros((8 * distance, 1))
    array[::distance, 0] = 2.0 ** np.arange(8)
    shuffled = np.zeros_like(array)
    shuffled[::distance, 0] = 2.0 ** np.array(order)
    assert (identity(array) == identity(shuffled)) == (list(order) == list(range(8)))


def test_types_and_shapes_count():
    zeros = [np.zeros((6, 2)), np.zeros((2, 6)), np.zeros((6, 2), np.int64), np.zeros((6, 4), np.float32)]
    assert len({json.dumps(identity(array)) for array in zeros}) == len(zeros)


LISTS = {
    "missing": ([1.5, None], [1.5, 0.0]),
    "number": ([1, 2], [1, 3]),
    "text": (["a", "b"], ["a", "c"]),
    "text cut elsewhere": (["ab", "c"], ["a", "bc"]),
    "no text and empty text": (["a", None], ["a", ""]),
    "truth": ([True, False], [True, True]),
    "date": ([datetime.date(2020, 1, 1)], [datetime.date(2020, 1, 2)]),
    "time": ([datetime.datetime(2020, 1, 1)], [datetime.datetime(2020, 1, 1, 1)]),
    "decimal": ([Decimal("1.5")], [Decimal("1.6")]),
    "bytes": ([b"a"], [b"b"]),
    "nested": ([[1, 2]], [[1, 3]]),
}


@pytest.mark.parametrize("name", LISTS)
def test_one_changed_cell_of_a_table_changes_its_identity(name):
    first, second = (pa.table({"x": [0] * len(values), "c": values}) for values in LISTS[name])
    assert identity(first) != identity(second)
    assert identity(first) == identity(pa.concat_tables([first, first]).slice(len(first)))
    for columns in (first, first.rename_columns(["x", "d"]), first.select(["c", "x"])):
        assert (identity(columns) == identity(first)) == (columns is first)


@given(st.integers(0, 99_999), st.sampled_from(["a", "s", "c"]))
def test_one_changed_cell_of_a_long_frame_changes_its_identity(row, column):
    frame = pd.DataFrame({"a": np.arange(100_000.0), "s": [f"w{i % 7}" for i in range(100_000)]})
    frame["c"] = frame["s"].astype("category")
    changed = frame.copy()
    changed.loc[row, column] = -1.0 if column == "a" else f"w{(row + 1) % 7}"
    assert identity(frame) != identity(changed)
    assert identity(pl.from_pandas(frame)) != identity(pl.from_pandas(changed))


def test_what_arrow_keeps_under_missing_values_does_not_count():
    mask = pa.py_buffer(b"\x05")
    arrays = [
        pa.Array.from_buffers(pa.int64(), 3, [mask, pa.py_buffer(np.array([1, hidden, 3]).tobytes())])
        for hidden in (0, 7)
    ]
    first, second = (identity(pa.table({"a": array})) for array in arrays)
    assert first == second


def test_objects_count_by_value_where_they_are_json_and_by_type_elsewhere():
    circle: list = []
    circle.append(circle)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    different = [
        ["a", "b"],
        ["a", "c"],
        ["b", "a"],
        [1, "b"],
        ["1", "b"],
        [{"a": 1}, {"a": 2}],
        [{"a": 1}, {"a": 3}],
        [np.arange(3), np.arange(4)],
        [np.arange(3), np.arange(4) + 1],
        [torch.ones(2), np.float32(1.5), np.int64(3), "x"],
        [torch.ones(2), np.float32(1.5), np.int64(4), "x"],
        [{(1, 2): 3}, 5],
        [circle, "x"],
        [object(), object()],
        [deep, "x", {1}],
    ]
    assert len({json.dumps(identity(data)) for data in different}) == len(different)
    assert identity([object(), "x"]) == identity([object(), "x"])


def test_a_dataset_is_known_by_a_sample():
    changed = X.copy()
    changed[0, 0] += 1
    assert identity(Rows(X)) != identity(Rows(changed))
    assert identity(Rows(X)) != identity(Rows(X[:-1]))


def test_a_subset_is_its_rows_and_their_source():
    parts = [subset(open_source(X), np.array(rows)) for rows in ([1, 2], [1, 3])]
    parts += [subset(open_source(X + 1), np.array([1, 2]))]
    assert len({json.dumps(part.identity()) for part in parts}) == 3
    assert parts[0].identity() == subset(open_source(X), np.array([1, 2])).identity()


def test_columns_that_are_not_read_do_not_count_in_memory():
    changed = TABLE.set_column(1, "s", [["u", "v", "q"]])
    assert open_source(TABLE, columns=["a"]).identity() == open_source(changed, columns=["a"]).identity()
    assert open_source(TABLE, columns=["a"]).identity() != open_source(TABLE, columns=["d"]).identity()


# Files


def test_a_change_of_bytes_is_seen_where_size_and_time_are_equal(tmp_path):
    """In files of up to 256 KB anywhere; in longer ones in the first, the last and evenly spaced chunks."""
    path = npy(tmp_path, np.zeros((100, 4)))
    long = tmp_path / "long.npy"
    np.save(long, np.zeros((100_000, 4)))
    middle = round((long.stat().st_size - 4096) * 31 / 63) + 100
    for file, places in ((path, (200, 1111, 3327)), (long, (10, middle, long.stat().st_size - 1))):
        before, moment = identity_of_files.files_identity([file]), file.stat().st_mtime_ns
        for place in places:
            content = bytearray(file.read_bytes())
            content[place] ^= 1
            file.write_bytes(content)
            os.utime(file, ns=(moment, moment))
            after = identity_of_files.files_identity([file])
            assert after != before
            before = after


def test_replaced_files_are_seen(tmp_path):
    before = identity(npy(tmp_path))
    np.save(tmp_path / "other.npy", X + 1)
    os.replace(tmp_path / "other.npy", tmp_path / "X.npy")
    assert identity(tmp_path / "X.npy") != before
    folder = tmp_path / "images"
    folder.mkdir()
    before = identity(images(folder))
    (folder / "0.png").rename(folder / "3.png")
    assert identity(folder) != before


def test_what_is_read_of_many_files_is_bounded(tmp_path, monkeypatch):
    """Every file counts by its size and time, an even sample of them by its bytes."""
    paths = [tmp_path / f"{i:04}" for i in range(600)]
    for path in paths:
        path.write_bytes(bytes(9000))
    found = identity_of_files.files_identity(paths)
    assert found == identity_of_files.files_identity(paths)
    assert len(json.dumps(found)) < 200
    os.utime(paths[307], ns=(0, 5))
    touched = identity_of_files.files_identity(paths)
    assert touched != found
    read = []
    hashed = identity_of_files._chunks_hash
    monkeypatch.setattr(identity_of_files, "_chunks_hash", lambda *of: read.append(of[1:]) or hashed(*of))
    monkeypatch.setattr(identity_of_files, "CHUNKS", 50)
    assert identity_of_files.files_identity(paths) != found
    assert read == [(9000, 1)] * 50


def test_the_identity_of_a_file_that_is_gone(tmp_path):
    source = open_source(npy(tmp_path))
    (tmp_path / "X.npy").unlink()
    with refuses(FileNotFoundError, "X.npy"):
        source.identity()


# Readers


def reader(data, positives=None, negatives=None, **along):
    opened = FitData.open(data, positives, negatives, **along)
    sample = next(opened.sources[0].batches(1))[1]
    return opened.reader(InputSpace.of(opened.sources[0], sample), Placement.of("float64", "cpu"))


def test_a_reader_knows_all_its_data():
    """One changed value of X, of a positive or of a negative; other rows of the same data."""
    changed = X.copy()
    changed[1234, 3] += 1e-12
    whole = reader(X, X, X)
    others = [
        reader(changed, X, X),
        reader(X, changed, X),
        reader(X, X, changed),
        reader(X, X),
        *whole.parts(2),
    ]
    others.append(replace(whole, first_row=10))
    found = {other.identity()["data"] for other in [whole, *others]}
    assert len(found) == len(others) + 1
    assert whole.identity() == reader(X.copy(), X.copy(), X.copy()).identity()


def test_each_hash_is_of_what_its_name_says():
    found = reader(X, X + 1, y=np.arange(4000)).identity()
    assert found["number of rows"] == digest(4000)
    assert found["y"] == digest(np.arange(4000))
    assert set(found) == {"number of rows", "data", "y"}


def test_a_raw_reader_knows_its_data():
    whole = RawReader(open_source(X))
    assert whole.identity() == RawReader(open_source(X.copy())).identity()
    assert whole.identity()["data"] != RawReader(open_source(X + 1)).identity()["data"]
    assert len({part.identity()["data"] for part in whole.parts(3)}) == 3


def test_the_hash_is_that_of_every_version():
    """A change of the hash would refuse all checkpoints that exist."""
    assert content_hash([np.arange(5000, dtype="<i8").reshape(-1, 2)]) == "267a21beabc5593799f81bef4562cb14"
