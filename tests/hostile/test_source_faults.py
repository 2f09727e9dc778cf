"""Files that shrink, vanish or change while they are read; memory maps; quotation marks that are never closed.

Each gets an exception that names the file. None ends the process.
"""

from __future__ import annotations

import gzip
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

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
from sklearn.base import clone
from torch.utils.data import Dataset

from krepes import KernelEmbedding
from krepes.base.rows import concat_rows
from krepes.engines import Local
from krepes.machines import NoveltyDetector
from krepes.sources import open_source, read_array
from krepes.sources.arrays.numpy_files import CompressedArraySource, FileArraySource, npz_header
from krepes.sources.row_subset import subset
from krepes.sources.tables.vectors_as_table import VectorsTable
from refusals import refuses

N = 3000
X = np.random.default_rng(0).normal(size=(N, 8))


def saved(folder: Path, array: np.ndarray = X, name: str = "X.npy") -> Path:
    np.save(folder / name, array)
    return folder / name


def zipped(folder: Path, compression: int = zipfile.ZIP_STORED) -> Path:
    path = folder / "X.npz"
    with zipfile.ZipFile(path, "w", compression) as archive, archive.open("X.npy", "w") as stream:
        np.lib.format.write_array(stream, X)
    return path


def mapped(folder: Path, mode: str = "r") -> np.memmap:
    return np.load(saved(folder), mmap_mode=mode)


# Each opens the same rows, from the file that is returned too.
OPENED = {
    "npy": lambda folder: (open_source(saved(folder)), folder / "X.npy"),
    "npy in Fortran order": lambda folder: (
        open_source(saved(folder, np.asfortranarray(X))),
        folder / "X.npy",
    ),
    "npz": lambda folder: (open_source(zipped(folder)), folder / "X.npz"),
    "memmap": lambda folder: (open_source(mapped(folder)), folder / "X.npy"),
    "view of a memmap": lambda folder: (open_source(np.asarray(mapped(folder))), folder / "X.npy"),
}


@pytest.fixture(params=OPENED)
def opened(request, tmp_path):
    return OPENED[request.param](tmp_path)


def test_rows_are_those_of_the_array(opened):
    source, _ = opened
    assert isinstance(source, FileArraySource)
    assert np.array_equal(concat_rows([batch for _, batch in source.batches(700)]), X)
    assert np.array_equal(source.take(np.array([2999, 5, 5, 0])), X[[2999, 5, 5, 0]])


@pytest.mark.parametrize("kept", [0, 50, 0.3, 0.99])
def test_a_file_cut_short_before_it_is_read(opened, kept):
    source, path = opened
    os.truncate(path, int(kept if kept > 1 else kept * path.stat().st_size))
    for read in (lambda: list(source.batches(500)), lambda: source.take(np.array([N - 1, 2]))):
        with refuses(ValueError, path.name):
            read()


def test_a_file_cut_short_while_it_is_read(opened):
    source, path = opened
    batches = source.batches(500)
    next(batches)
    os.truncate(path, path.stat().st_size // 2)
    with refuses(ValueError, path.name, "byte"):
        list(batches)


def test_sparse_dense_and_single_rows_notice_a_short_file(tmp_path):
    """The three ways in which `take` reads; memory maps have no header that would notice it first."""
    source = open_source(mapped(tmp_path))
    os.truncate(tmp_path / "X.npy", 128 + 64 * (N - 1))
    for indices in ([0, N - 1], range(0, N, 2), range(1, N, 2), [N - 1]):
        rows = np.array(indices)
        if N - 1 in rows:
            with refuses(ValueError, "X.npy"):
                source.take(rows)
        else:
            assert np.array_equal(source.take(rows), X[rows])


def test_a_file_that_is_gone(opened):
    source, path = opened
    path.unlink()
    for read in (lambda: next(source.batches(500)), lambda: source.take(np.array([0]))):
        with refuses(FileNotFoundError, path.name):
            read()


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed there")
def test_a_file_that_is_removed_or_replaced_while_it_is_read_is_read_to_its_end(opened):
    source, path = opened
    batches = source.batches(1000)
    first = next(batches)[1]
    path.unlink()
    path.write_bytes(b"something else")
    assert np.array_equal(concat_rows([first, *(batch for _, batch in batches)]), X)


@pytest.mark.parametrize("name", ["npy", "npz"])
def test_a_file_with_another_array_is_not_read_as_the_old_one(tmp_path, name):
    """Equal in size, so that only the header tells; equal in shape, its new numbers are read."""
    source, path = OPENED[name](tmp_path)
    np.savez(tmp_path / "new.npz", X=X.reshape(-1, 4))
    np.save(tmp_path / "new.npy", X.reshape(-1, 4))
    os.replace(tmp_path / f"new{path.suffix}", path)
    with refuses(ValueError, "6,000", "4", "3,000", "8"):
        next(source.batches(5))
    np.save(tmp_path / "X.npy", X + 1)
    if name == "npy":
        assert np.array_equal(source.take(np.arange(N)), X + 1)


def test_a_compressed_file_that_changes_or_goes(tmp_path):
    source = CompressedArraySource(npz_header(zipped(tmp_path, zipfile.ZIP_DEFLATED), "X")[0])
    np.savez_compressed(tmp_path / "X.npz", X=X[:10])
    with refuses(ValueError, "X.npz", "'X'"):
        next(source.batches(5))
    (tmp_path / "X.npz").unlink()
    with refuses(FileNotFoundError, "X.npz"):
        next(source.batches(5))


FIT = """
import os, sys
import krepes
from krepes.sources.arrays.numpy_files import FileArraySource

read = FileArraySource._read
def cut_after_one_batch(self, batch_rows, start):
    for batch in read(self, batch_rows, start):
        yield batch
        os.truncate(self.header.path, 10_000)
FileArraySource._read = cut_after_one_batch
try:
    krepes.KernelEmbedding(2, n_landmarks=10, random_state=0).fit(sys.argv[1])
except ValueError as error:
    print(error)
"""


def test_a_fit_on_a_file_that_is_cut_short_ends_with_a_message(tmp_path):
    """Not with SIGBUS."""
    path = saved(tmp_path, np.random.default_rng(0).normal(size=(30_000, 8)))
    done = subprocess.run([sys.executable, "-c", FIT, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "X.npy" in done.stdout
    assert "cut short" in done.stdout


@given(st.data())
def test_take_reads_any_rows_in_any_order(tmp_path_factory, data):
    """Whatever the windows, gaps and orders are, `take` is indexing."""
    shape = data.draw(st.sampled_from([(97, 3), (40, 5, 6), (31, 4, 5, 3)]))
    order = data.draw(st.sampled_from("CF"))
    array = np.asarray(
        np.arange(np.prod(shape)).reshape(shape), data.draw(st.sampled_from([">i4", "f8"])), order
    )
    source = open_source(saved(tmp_path_factory.mktemp("take"), array))
    indices = np.array(data.draw(st.lists(st.integers(0, shape[0] - 1), max_size=60)), dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "krepes.sources.arrays.rows_in_file.WINDOW_BYTES", data.draw(st.sampled_from([1, 100, 1 << 20]))
        )
        patch.setattr(
            "krepes.sources.arrays.rows_in_file.GAP_BYTES", data.draw(st.sampled_from([0, 40, 1 << 20]))
        )
        found = source.take(indices)
    assert np.array_equal(found, array[indices])
    assert found.flags.c_contiguous
    assert found.dtype.isnative


def test_arrays_of_any_shape_are_read_whole(tmp_path):
    for array in (np.array(3.5), np.array(["a", "bc"]), np.zeros((0, 3)), np.asfortranarray(X), np.arange(5)):
        found = read_array(saved(tmp_path, array))
        assert np.array_equal(found, array)
        assert found.dtype == array.dtype


# Memory maps


def views(M: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "rows": M[1000:2000],
        "rows of rows": M[100:][50:70],
        "as an array": np.asarray(M[7:]),
        "reshaped": M.reshape(-1, 4),
        "as other numbers": M.view(np.int32),
        "one row": M[3:4],
        "wider": M[5:, np.newaxis, :],
    }


@pytest.mark.parametrize("name", sorted(views(X)))
def test_views_of_maps_are_read_from_the_file(tmp_path, name):
    M = mapped(tmp_path)
    source = open_source(views(M)[name])
    assert isinstance(source, FileArraySource)
    assert source.describe().startswith("numpy memmap, ")
    assert source.paths == [tmp_path / "X.npy"]
    assert np.array_equal(source.take(np.arange(source.n_rows)), np.asarray(views(M)[name]))


@pytest.mark.parametrize("offset", [0, 8, 4096, 70_000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_maps_of_raw_files_are_read_from_their_offset(tmp_path, offset, order):
    (tmp_path / "raw").write_bytes(b"\1" * offset + X.tobytes(order))
    source = open_source(np.memmap(tmp_path / "raw", np.float64, "r", offset, X.shape, order))
    assert isinstance(source, FileArraySource)
    assert np.array_equal(source.take(np.arange(N)), X)


def test_changes_of_a_shared_map_are_seen(tmp_path):
    M = mapped(tmp_path, "r+")
    M[17] = -1
    assert (open_source(M).take(np.array([17])) == -1).all()


@pytest.mark.parametrize(
    "kept",
    [lambda M: M[::2], lambda M: M[:, :3], lambda M: M[::-1], lambda M: M.T[2:5], lambda M: M + 0],
)
def test_what_is_no_plain_part_of_a_file_stays_an_array(tmp_path, kept):
    M = mapped(tmp_path)
    source = open_source(kept(M))
    assert not isinstance(source, FileArraySource)
    assert np.array_equal(source.take(np.arange(source.n_rows)), np.asarray(kept(M)))


def test_maps_whose_file_says_something_else_stay_arrays(tmp_path):
    private = mapped(tmp_path, "c")
    private[0] = 5
    assert (open_source(private).take(np.array([0])) == 5).all()
    assert open_source(private).paths == [tmp_path / "X.npy"]
    M = mapped(tmp_path)
    saved(tmp_path, X + 1, "other.npy")
    os.replace(tmp_path / "other.npy", tmp_path / "X.npy")
    assert np.array_equal(open_source(M).take(np.arange(N)), X)
    (tmp_path / "X.npy").unlink()
    assert np.array_equal(open_source(M).take(np.arange(N)), X)


def test_a_map_of_a_file_that_was_cut_short_is_refused(tmp_path):
    """Before a page beyond its end is touched."""
    M = mapped(tmp_path)
    os.truncate(tmp_path / "X.npy", 5000)
    with refuses(ValueError, "X.npy", "5,000 bytes"):
        open_source(M)


RESIDENT = """
import sys
import numpy as np
from krepes.sources import open_source

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024

source = open_source(np.load(sys.argv[1], mmap_mode="r"))
next(source.batches(1000))
before = peak()
for _, batch in source.batches(10_000):
    batch.sum()
source.take(np.random.default_rng(0).permutation(source.n_rows)[:1000])
source.identity()
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_resident_memory_does_not_grow_with_a_map(tmp_path):
    """128 MB are read in batches of 1.3 MB; a window of `take` is 8 MB."""
    path = tmp_path / "X.npy"
    np.lib.format.open_memmap(path, "w+", np.float64, (1_000_000, 16)).flush()
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 32 * 2**20


# Sources go to other processes


class Squares(Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, i):
        return torch.tensor([i, i * i], dtype=torch.float32)


def folder_of_images(folder: Path) -> Path:
    for i in range(3):
        Image.new("L", (4, 5), i).save(folder / f"{i}.png")
    return folder


def table_file(folder: Path) -> Path:
    pq.write_table(pa.table({"a": [1, 2, 3]}), folder / "t.parquet")
    return folder / "t.parquet"


def text_file(folder: Path, content: bytes = b"a,b\n1,2\n3,4\n", name: str = "t.csv") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


PICKLED = {
    **{name: lambda folder, name=name: OPENED[name](folder)[0] for name in OPENED},
    "array": lambda _: X,
    "tensor": lambda _: torch.from_numpy(X),
    "strided map": lambda folder: mapped(folder)[::2],
    "pandas": lambda _: pd.DataFrame({"a": [1, 2], "b": ["x", None]}),
    "polars": lambda _: pl.DataFrame({"a": [1, 2], "b": ["x", None]}),
    "list": lambda _: ["a", {"b": 1}],
    "dataset": lambda _: Squares(),
    "csv": text_file,
    "parquet": table_file,
    "images": folder_of_images,
    "subset": lambda folder: subset(open_source(saved(folder)), np.arange(5, 90)),
    "vectors as a table": lambda folder: VectorsTable(open_source(saved(folder))),
}


def plain(rows):
    return rows.to_pylist() if isinstance(rows, pa.Table) else np.asarray(rows, dtype=object).tolist()


@pytest.mark.parametrize("name", PICKLED)
def test_a_pickled_source_is_the_same_source(tmp_path, name):
    source = open_source(PICKLED[name](tmp_path))
    batches = source.batches(2)
    next(batches)  # so that its file is open
    copy = pickle.loads(pickle.dumps(source))
    rows = np.arange(min(source.n_rows, 50))
    assert plain(copy.take(rows)) == plain(source.take(rows))
    assert copy.identity() == source.identity()
    assert copy.paths == source.paths


@pytest.mark.parametrize("name", OPENED)
def test_a_pickled_file_is_its_place_and_not_its_numbers(tmp_path, name):
    assert len(pickle.dumps(OPENED[name](tmp_path)[0])) < 1000


# Other files


def test_other_files_that_are_gone_or_changed(tmp_path):
    for write in (table_file, text_file):
        path = write(tmp_path)
        source = open_source(path)
        path.unlink()
        with refuses(FileNotFoundError, path.name):
            list(source.batches(5))
    source = open_source(table_file(tmp_path))
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "t.parquet")
    for read in (lambda: list(source.batches(5)), lambda: source.take(np.array([0]))):
        with refuses(ValueError, "t.parquet", "3 rows", "2"):
            read()


def test_a_table_cut_short_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "krepes.sources.tables.csv_files._BLOCK_BYTES", 4096
    )  # because Arrow reads some blocks ahead
    long = pa.table({"a": np.random.default_rng(0).normal(size=300_000)})
    pq.write_table(long, tmp_path / "t.parquet", row_group_size=1000, compression="none")
    (tmp_path / "t.csv").write_text("a,b\n" + "1.5,2.5\n" * 1_000_000)
    for path in (tmp_path / "t.parquet", tmp_path / "t.csv"):
        batches = open_source(path).batches(100)
        next(batches)
        os.truncate(path, path.stat().st_size // 2)
        with refuses(ValueError, path.name):
            list(batches)


def test_an_image_that_is_gone_is_named(tmp_path):
    source = open_source(folder_of_images(tmp_path))
    (tmp_path / "1.png").unlink()
    with refuses(FileNotFoundError, "1.png"):
        list(source.batches(3))


# Quotation marks that are never closed

ROWS = "".join(f"{i},{2 * i},t{i}\n" for i in range(300))
UNCLOSED = {
    "last column, to the end": (f'a,b,c\n1,2,"open\n{ROWS}', 2),
    "last column, to a later cell": (f'a,b,c\n{ROWS}1,2,"open\n{ROWS}7,8,"x"\n1,2,z\n', 302),
    "last column, past an empty cell": (f'a,b,c\n1,2,"open\n{ROWS}7,8,""\n{ROWS}7,8,"x"\n', 2),
    "in the middle, to the end": (f'a,b,c\n1,"2,x\n{ROWS}', 2),
    "in the middle, to the same column": (f'a,b,c\n1,2,3\n1,"2,y\n{ROWS}7,"8",x\n1,2,z\n', 3),
    "in the middle, to another column": (f'a,b,c\n1,"2,y\n{ROWS}7,8,"x"\n1,2,z\n', 2),
    "in a name": ('a,"b\n1,2\n3,4\n', 1),
    "in the only column": ('a\n1\n"2\n' + "3\n" * 50, 3),
    "in the last row": ('a,b\n1,2\n3,"4\n', 3),
    "after cells with line breaks": (f'a,b,c\n1,2,"two\nlines"\n\n1,2,"open\n{ROWS}', 5),
    "after a mark within a cell": (f'a,b,c\n1,2,5" pipe\n1,2,"op""en\n{ROWS}', 3),
    "with blank lines": ('a,b,c\n1,2,"open\n' + ROWS.replace("\n", "\n\n") + '7,8,"x"\n', 2),
    "with carriage returns": (f'a,b,c\n1,2,"open\n{ROWS}7,8,"x"\n'.replace("\n", "\r\n"), 2),
    "more than a block": (f'a,b,c\n1,2,3\n1,2,"open\n{ROWS * 500}', 3),
    "just enough lines": ('a,b,c\n1,2,"open\n' + "4,5,6\n" * 10 + '7,8,"x"\n', 2),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", UNCLOSED)
def test_a_cell_that_is_never_closed_is_named_by_its_line(tmp_path, name, compressed):
    text, line = UNCLOSED[name]
    content = gzip.compress(text.encode()) if compressed else text.encode()
    path = text_file(tmp_path, content, "t.csv.gz" if compressed else "t.csv")
    with refuses(ValueError, "t.csv", f"line {line}"):
        open_source(path)


def test_other_delimiters_are_seen(tmp_path):
    text = f'a,b,c\n1,2,"open\n{ROWS}7,8,"x"\n'
    for name, delimiter in (("t.csv", ";"), ("t.tsv", "\t")):
        with refuses(ValueError, "line 2"):
            open_source(text_file(tmp_path, text.replace(",", delimiter).encode(), name))


POEM = "\n".join(f'line {i} of a poem, with commas, and ""marks""' + "," * (i % 5) for i in range(500))
ALLOWED = {
    "long text": (f'a,b\n1,"{POEM}"\n2,x\n', 2),
    "long text in the last row": (f'a,b\n2,x\n1,"{POEM}"', 2),
    "text that ends in a line break": ('a,b\n2,x\n1,"one\ntwo\n"\n', 2),
    "text that ends in a mark": ('a,b\n2,x\n1,"one\nsays ""two"""\n', 2),
    "letters after the closing mark": ('a,b\n2,x\n1,"one\ntwo"three', 2),
    "few lines like rows": ('a,b,c\n1,2,"x\n' + "4,5,6\n" * 9 + 'y"\n7,8,9\n', 2),
    "lines of one column": ('a\n"' + "word\n" * 400 + 'end"\nb\n', 2),
    "lines with other numbers of commas": ('a,b\n1,"' + "a,b\na,b,c\n" * 50 + 'x"\n2,y\n', 2),
    "marks within cells": ('a,b\n5" pipe,6"\n7",x\n', 2),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_line_breaks_in_cells_stay_allowed(tmp_path, name):
    text, n_rows = ALLOWED[name]
    assert open_source(text_file(tmp_path, text.encode())).n_rows == n_rows


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_is_read_as_utf_8_is(tmp_path, encoding):
    text = "name,größe\nZoë,1\nAnna,2\n"
    source = open_source(text_file(tmp_path, text.encode(encoding)))
    assert source.column_names == ["name", "größe"]
    assert source.label_column("name").tolist() == ["Zoë", "Anna"]


def test_utf_16_with_a_mark_of_the_other_order(tmp_path):
    source = open_source(text_file(tmp_path, "\ufeffa,b\n1,2\n".encode("utf-16-be")))
    assert source.take(np.array([0])).to_pylist() == [{"a": 1, "b": 2}]


def test_an_open_quote_in_utf_16_names_its_line(tmp_path):
    text = "a,b,c\n" + "1,2,3\n" * 5 + '1,"2,3\n' + "1,2,3\n" * 5
    with refuses(ValueError, "line 7"):
        open_source(text_file(tmp_path, text.encode("utf-16")))


class Meddling(Local):
    """Changes something before a pass begins."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def reduce(self, *given, **named):
        self.change()
        return super().reduce(*given, **named)


REPLACED = {
    "npy": lambda folder, rows: saved(folder, rows),
    "npz": lambda folder, rows: np.savez(folder / "X.npz", X=rows) or folder / "X.npz",
    "csv": lambda folder, rows: pd.DataFrame(rows).to_csv(folder / "X.csv", index=False) or folder / "X.csv",
    "parquet": lambda folder, rows: (
        pq.write_table(table_of(rows), folder / "X.parquet") or folder / "X.parquet"
    ),
    "zarr": lambda folder, rows: zarr_of(folder, rows),
    "images": lambda folder, rows: images_of(folder / "images", rows),
    "tables": lambda folder, rows: tables_of(folder / "tables", rows),
}


def table_of(rows: np.ndarray) -> pa.Table:
    return pa.table({f"x{j}": rows[:, j] for j in range(rows.shape[1])})


def tables_of(folder: Path, rows: np.ndarray) -> Path:
    folder.mkdir(exist_ok=True)
    for i, part in enumerate(np.array_split(rows, 3)):
        pq.write_table(table_of(part), folder / f"{i}.parquet")
    return folder


def images_of(folder: Path, rows: np.ndarray) -> Path:
    folder.mkdir(exist_ok=True)
    for i, row in enumerate(rows[:40]):
        pixels = (np.abs(row[:8]) * 20).astype(np.uint8).reshape(2, -1)
        Image.fromarray(np.kron(pixels, np.ones((4, 4), np.uint8))).save(folder / f"{i:03}.png")
    return folder


def zarr_of(folder: Path, rows: np.ndarray) -> Path:
    zarr = pytest.importorskip("zarr", reason='needs pip install "krepes[scale]"')
    zarr.create_array(folder / "X.zarr", shape=rows.shape, dtype=rows.dtype, chunks=(500, 8), overwrite=True)[
        :
    ] = rows
    return folder / "X.zarr"


@pytest.mark.parametrize("kind", REPLACED)
@pytest.mark.parametrize(
    "model",
    [
        KernelEmbedding(2, n_landmarks=20, random_state=0),
        NoveltyDetector(n_landmarks=20, random_state=0),
    ],
    ids=["embedding", "detector"],
)
def test_a_file_that_is_replaced_during_a_fit_is_refused(tmp_path, kind, model):
    """R14: landmarks of the old file and sums of the new one were mixed silently."""
    path = REPLACED[kind](tmp_path, X)
    engine = Meddling(lambda: REPLACED[kind](tmp_path, X + 5))
    with refuses(ValueError, "changed while it was read"):
        clone(model).set_params(engine=engine).fit(path)
