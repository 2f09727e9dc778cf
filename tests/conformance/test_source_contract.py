"""What every source guarantees: exact batches, one sequence of rows, `take`, one line of description."""

from __future__ import annotations

import gzip
import zipfile
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader, Dataset, TensorDataset

from krepes.base.rows import SparseRows, concat_rows, count_rows
from krepes.sources import Batches, open_source, read_array, reservoir
from krepes.sources.arrays.numpy_files import CompressedArraySource, npz_header
from refusals import refuses

N = 23
X = np.arange(N * 3, dtype=np.float32).reshape(N, 3) / 7
PIXELS = np.random.default_rng(0).integers(0, 256, size=(N, 5, 4, 3), dtype=np.uint8)
TABLE = pa.table(
    {
        "a": pa.array([None if i == 4 else i for i in range(N)], pa.int64()),
        "b": pa.array([f"w{i % 5}" for i in range(N)]).dictionary_encode(),
        "c": pa.array([i / 3 for i in range(N)]),
        "t": pa.array([f"text {i}" for i in range(N)]),
    }
)


class Squares(Dataset):
    """A map-style dataset of (x, y) pairs."""

    def __len__(self):
        return N

    def __getitem__(self, i):
        return torch.tensor([i, i * i], dtype=torch.float32), i % 2


class Pictures(Dataset):
    """Images in torch's layout, channels first."""

    def __len__(self):
        return N

    def __getitem__(self, i):
        return torch.from_numpy(np.moveaxis(np.tile(PIXELS[i], (2, 2, 1)), -1, 0))


def write_parquet_folder(folder: Path) -> Path:
    """Three files in subfolders, row groups of 4 rows that fit no batch."""
    for i, (start, stop) in enumerate([(0, 7), (7, 8), (8, N)]):
        (folder / "pq" / str(i)).mkdir(parents=True)
        pq.write_table(TABLE[start:stop], folder / "pq" / str(i) / "part.parquet", row_group_size=4)
    return folder / "pq"


def write_images(folder: Path) -> Path:
    for i, pixels in enumerate(PIXELS):
        target = folder / "images" / f"class{i // 8}"
        target.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(target / f"{i:03}.png")
    return folder / "images"


def write_npz(folder: Path, compression: int, name: str) -> Path:
    path = folder / f"{name}.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for member, array in {"X": X, "y": np.arange(N), "names": np.array(["u", "v"])}.items():
            with archive.open(f"{member}.npy", "w") as stream:
                np.lib.format.write_array(stream, array)
    return path


def saved(folder: Path, array: np.ndarray) -> Path:
    np.save(folder / "X.npy", array)
    return folder / "X.npy"


def written_csv(folder: Path, name: str = "t.csv", delimiter: str = ",") -> Path:
    options = pyarrow.csv.WriteOptions(delimiter=delimiter)
    pyarrow.csv.write_csv(TABLE, folder / name, options)
    return folder / name


def streamed_npz(folder: Path) -> CompressedArraySource:
    return CompressedArraySource(npz_header(write_npz(folder, zipfile.ZIP_LZMA, "lzma"), "X")[0])


def parts(rows, size=4):
    """A function that starts a new pass over rows, in batches."""
    return lambda: (rows[i : i + size] for i in range(0, N, size))


def sparse_npz(folder: Path, matrix, compressed: bool) -> Path:
    scipy.sparse.save_npz(folder / "sparse.npz", matrix, compressed)
    return folder / "sparse.npz"


def csv_part(path: Path, start: int, stop: int) -> None:
    TABLE.to_pandas()[start:stop].to_csv(path.with_suffix(".csv"), index=False)


def npy_part(path: Path, start: int, stop: int) -> None:
    np.save(path.with_suffix(".npy"), X[start:stop])


def written_parts(folder: Path, write) -> Path:
    """Four files, one of them without rows."""
    (folder / "parts").mkdir()
    for i, (start, stop) in enumerate([(0, 7), (7, 8), (8, 8), (8, N)]):
        write(folder / "parts" / f"part{i}", start, stop)
    return folder / "parts"


def zarr_folder(folder: Path) -> Path:
    zarr = pytest.importorskip("zarr", reason='needs pip install "krepes[scale]"')
    zarr.open_array(folder / "x.zarr", mode="w", shape=X.shape, chunks=(4, 2), dtype=X.dtype)[:] = X
    return folder / "x.zarr"


def dask_array(array: np.ndarray):
    """Chunks that cut through rows, and a function that has not been applied yet."""
    da = pytest.importorskip("dask.array", reason='needs pip install "krepes[scale]"')
    return da.from_array(array, chunks=(5, 2, *array.shape[2:])).map_blocks(np.copy)


def dask_frame(frame: pd.DataFrame):
    """Some partitions of which are empty."""
    dd = pytest.importorskip("dask.dataframe", reason='needs pip install "krepes[scale]"')
    late = frame.assign(late=frame["c"] > 3)
    parts = dd.from_pandas(late, npartitions=4)
    return dd.concat([parts, parts[parts["c"] > 100]])[list(frame.columns)]


SOURCES = {
    "array": lambda _: X,
    "fortran array": lambda _: np.asfortranarray(X),
    "big-endian array": lambda _: X.astype(">f4"),
    "reversed array": lambda _: X[::-1],
    "images array": lambda _: PIXELS,
    "tensor": lambda _: torch.from_numpy(X).requires_grad_(True),
    "npy": lambda folder: saved(folder, X),
    "npy fortran": lambda folder: saved(folder, np.asfortranarray(X)),
    "npz stored": lambda folder: write_npz(folder, zipfile.ZIP_STORED, "stored"),
    "npz lzma": lambda folder: write_npz(folder, zipfile.ZIP_LZMA, "lzma"),
    "npz deflated": lambda folder: write_npz(folder, zipfile.ZIP_DEFLATED, "deflated"),
    "npz streamed": streamed_npz,
    "csr": lambda _: scipy.sparse.csr_array(X),
    "csc": lambda _: scipy.sparse.csc_matrix(X),
    "coo": lambda _: scipy.sparse.coo_array(X),
    "dok": lambda _: scipy.sparse.dok_array(X),
    "sparse npz in memory": lambda folder: sparse_npz(folder, scipy.sparse.csr_array(X), True),
    "sparse npz in parts": lambda folder: sparse_npz(folder, scipy.sparse.csr_matrix(X), False),
    "csc npz": lambda folder: sparse_npz(folder, scipy.sparse.csc_array(X), False),
    "coo npz": lambda folder: sparse_npz(folder, scipy.sparse.coo_array(X), True),
    "pandas": lambda _: TABLE.to_pandas(),
    "polars": lambda _: pl.from_arrow(TABLE),
    "pyarrow": lambda _: TABLE,
    "mapping": lambda _: TABLE.to_pydict(),
    "csv": lambda folder: str(written_csv(folder)),
    "tsv": lambda folder: written_csv(folder, "t.tsv", "\t"),
    "parquet folder": write_parquet_folder,
    "image folder": write_images,
    "strings": lambda _: [f"s{i}" for i in range(N)],
    "lists of numbers": lambda _: X.tolist(),
    "ragged lists": lambda _: [[0.5] * (i + 1) for i in range(N)],
    "dataset": lambda _: Squares(),
    "image dataset": lambda _: Pictures(),
    "loader": lambda _: DataLoader(Squares(), batch_size=6),
    "generators": lambda _: parts(X),
    "dictionaries": lambda _: Batches(lambda: ({"x": b} for b in parts(PIXELS)()), key="x", n_rows=N),
    "batches of objects": lambda _: Batches(parts([f"s{i}" for i in range(N)])),
    "batches of tables": lambda _: Batches([TABLE[:9], TABLE[9:].to_pandas()]),
    "csv folder": lambda folder: written_parts(folder, csv_part),
    "csv pattern": lambda folder: written_parts(folder, csv_part) / "part*.csv",
    "npy folder": lambda folder: written_parts(folder, npy_part),
    "zarr": lambda folder: zarr_folder(folder),
    "dask array": lambda _: dask_array(X),
    "dask images": lambda _: dask_array(PIXELS),
    "dask frame": lambda _: dask_frame(TABLE.to_pandas()),
    "parquet by URL": lambda folder: write_parquet_folder(folder).as_uri(),
    "npy by URL": lambda folder: saved(folder, X).as_uri(),
    "tensor dataset": lambda _: TensorDataset(torch.from_numpy(X), torch.arange(N)),
}


@pytest.fixture(params=SOURCES)
def source(request, tmp_path):
    return open_source(SOURCES[request.param](tmp_path))


def values(batch):
    """A batch as something that compares with ==."""
    if isinstance(batch, SparseRows):
        return batch.toarray().tolist()
    return batch.to_pylist() if isinstance(batch, pa.Table) else np.asarray(batch, dtype=object).tolist()


def whole(source):
    return values(concat_rows([batch for _, batch in source.batches(1000)]))


def test_batches_are_exact_and_in_order(source):
    """Every batch except the last has exactly the rows asked for, and the sequence is always the same."""
    rows = whole(source)
    for batch_rows, start in product([1, 4, N - 1, N, 100], [0, 1, 9, N - 1, N]):
        batches = list(source.batches(batch_rows, start))
        sizes = [count_rows(batch) for _, batch in batches]
        assert [first for first, _ in batches] == list(range(start, N, batch_rows))
        assert sizes[:-1] == [batch_rows] * (len(sizes) - 1)
        assert [row for _, batch in batches for row in values(batch)] == rows[start:]


def test_take_gives_rows_in_the_order_asked_for(source):
    rows, indices = whole(source), np.array([5, 0, N - 1, 5, 17])
    assert values(source.take(indices)) == [rows[i] for i in indices]
    assert count_rows(source.take(np.array([], dtype=int))) == 0


def test_rows_that_are_not_there_are_refused(source):
    for indices in ([-1], [N], [0.5], [[0]]):
        with refuses((IndexError, ValueError), "Row", "indices"):
            source.take(np.array(indices))
    for batch_rows, start in ((0, 0), (5, -1), (5, N + 1)):
        with refuses(ValueError):
            next(source.batches(batch_rows, start))


def test_sizes_are_known_and_described(source):
    assert source.n_rows == N
    assert source.kind in ("vectors", "sparse", "images", "table", "objects")
    assert str(N) in source.describe()
    assert "\n" not in source.describe()


def test_reservoir_is_the_same_for_every_way_of_reading(source):
    """Scanning in any batch size and drawing rows by index give the same sample."""
    rows, indices = reservoir(source, 6, seed=3)
    assert len(set(indices.tolist())) == 6
    assert values(rows) == [whole(source)[i] for i in indices]
    scanned = type("Scanned", (), {"random_access": False, "n_rows": N, "batches": source.batches})()
    for batch_rows in (1, 5, 100):
        again, same = reservoir(scanned, 6, seed=3, batch_rows=batch_rows)
        assert same.tolist() == indices.tolist()
        assert values(again) == values(rows)


def test_batches_share_memory_with_torch(source):
    """Arrays come contiguous, writable where they are copies or maps, and in the machine's byte order."""
    for _, batch in source.batches(5):
        if isinstance(batch, np.ndarray):
            assert batch.flags.c_contiguous
            assert batch.dtype.isnative


def test_tables_keep_names_types_and_missing_values(tmp_path):
    for name in ("pandas", "polars", "pyarrow", "parquet folder", "csv", "mapping"):
        (tmp_path / name).mkdir()
        source = open_source(SOURCES[name](tmp_path / name))
        assert source.column_names == ["a", "b", "c", "t"]
        table = concat_rows([batch for _, batch in source.batches(4)])
        assert table["a"].to_pylist()[:6] == [0, 1, 2, 3, None, 5], name
        assert table["b"].to_pylist() == TABLE["b"].to_pylist()
        assert table["c"].to_pylist() == pytest.approx(TABLE["c"].to_pylist())
        assert source.select(["t", "a"]).take(np.array([2])).to_pylist() == [{"t": "text 2", "a": 2}]
        assert open_source(source, columns=["c"]).column_names == ["c"]


def test_label_columns_are_read_alone(tmp_path):
    for name in ("pandas", "polars", "pyarrow", "parquet folder", "csv"):
        (tmp_path / name).mkdir()
        source = open_source(SOURCES[name](tmp_path / name))
        assert source.label_column("b").tolist() == [f"w{i % 5}" for i in range(N)]
        numbers = source.label_column("a")
        assert np.isnan(numbers[4])
        assert numbers[5] == 5
        with refuses(ValueError, "'bb'", "'b'"):
            source.label_column("bb")


def test_labels_of_images_are_their_folders_and_pixels_are_exact(tmp_path):
    source = open_source(write_images(tmp_path))
    assert source.labels.tolist() == [f"class{i // 8}" for i in range(N)]
    assert np.array_equal(source.take(np.arange(N)), PIXELS)
    assert open_source(X).labels is None
    with refuses(ValueError, "'class'", "table"):
        source.label_column("class")


def test_images_are_grey_only_if_all_are(tmp_path):
    Image.new("L", (4, 5), 7).save(tmp_path / "a.png")
    deep = np.array([[0, 257 * 9], [65535, 0]], dtype=np.uint16)
    Image.fromarray(np.tile(deep, (3, 2))[:5]).save(tmp_path / "b.png")
    grey = open_source(tmp_path)
    assert grey.describe() == "image folder, 2 images, 5 × 4, grey"
    assert grey.labels is None
    assert grey.take(np.array([1]))[0, :2, :2].tolist() == [[0, 9], [255, 0]]
    Image.new("RGB", (4, 5), (1, 2, 3)).save(tmp_path / "c.PNG")
    colour = open_source(tmp_path)
    assert colour.take(np.array([0, 2]))[:, 0, 0].tolist() == [[7, 7, 7], [1, 2, 3]]


def test_images_are_resized_to_height_and_width(tmp_path):
    Image.new("RGB", (9, 6)).save(tmp_path / "a.jpg")
    Image.new("RGB", (4, 5)).save(tmp_path / "b.jpeg")
    assert open_source(tmp_path, size=(3, 2)).take(np.array([0])).shape == (1, 3, 2, 3)
    assert open_source(tmp_path, size=8).describe() == "image folder, 2 images, 8 × 8, RGB"


def test_read_array_reads_labels_and_names(tmp_path):
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_LZMA):
        path = write_npz(tmp_path, compression, str(compression))
        assert read_array(path).tolist() == list(range(N))
        assert read_array(path, "names").tolist() == ["u", "v"]


def test_a_tensor_stays_a_tensor_and_is_not_touched():
    tensor = torch.ones(4, 2, requires_grad=True)
    _, batch = next(open_source(tensor).batches(2))
    assert batch.dtype == torch.float32
    assert not batch.requires_grad
    assert tensor.requires_grad
    assert tensor.grad is None
    assert batch.data_ptr() == tensor.data_ptr()


def test_channels_first_images_become_channels_last():
    first = np.arange(2 * 3 * 8 * 9).reshape(2, 3, 8, 9)
    for images in (first, torch.from_numpy(first)):
        _, batch = next(open_source(images).batches(2))
        assert tuple(batch.shape) == (2, 8, 9, 3)
        assert np.array_equal(np.asarray(batch), np.moveaxis(first, 1, -1))


def test_files_are_never_written_to(tmp_path):
    path = saved(tmp_path, X)
    _, batch = next(open_source(path).batches(3))
    batch[:] = -1
    assert np.array_equal(np.load(path), X)


def test_parquet_files_come_in_the_order_of_their_paths_with_hive_columns(tmp_path):
    for key, value in (("b", 2), ("a", 1)):
        (tmp_path / f"part={key}").mkdir()
        kind = pa.int32() if key == "a" else pa.float64()
        pq.write_table(pa.table({"v": pa.array([value], kind)}), tmp_path / f"part={key}" / "0.parquet")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "x.parquet").write_bytes(b"half")
    source = open_source(tmp_path)
    assert source.take(np.array([0, 1])).to_pydict() == {"v": [1.0, 2.0], "part": ["a", "b"]}
    assert source.describe() == "Parquet, 2 files, 2 rows × 2 columns"


def test_frames_with_odd_columns_are_read(tmp_path):
    frame = pd.DataFrame({0: [1, None], "c": pd.Categorical(["u", "v"]), "o": [True, None], "m": [1, 2]})
    frame["n"] = pd.array([1, None], dtype="Int64")
    table = open_source(frame).take(np.array([1, 0]))
    assert table.to_pydict() == {
        "0": [None, 1.0],
        "c": ["v", "u"],
        "o": [None, True],
        "m": [2, 1],
        "n": [None, 1],
    }


# CSV: types are found over the whole file, whatever the first block looks like.


def csv_of(folder: Path, text: str, name: str = "t.csv"):
    (folder / name).write_text(text, newline="")
    return open_source(folder / name)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("krepes.sources.tables.csv_files._BLOCK_BYTES", 64)


@pytest.mark.parametrize(
    ("cells", "kind", "last"),
    [
        (["1"] * 60 + ["2.5"], "double", 2.5),
        (["1"] * 60 + ["x"], "string", "x"),
        ([""] * 60 + ["7"], "int64", 7),
        ([""] * 60 + ["NA"], "null", None),
        (["true"] * 60 + ["False"], "bool", False),
        (["true"] * 60 + ["3"], "string", "3"),
        ([" 1"] * 60 + [" "], "int64", None),
        (["2.5"] * 60 + ["inf"], "double", float("inf")),
        (["1"] * 60 + [str(2**64)], "double", 2.0**64),
        (["2020-01-01"] * 60 + ["soon"], "string", "soon"),
    ],
)
def test_csv_types_hold_for_every_row(tmp_path, small_blocks, cells, kind, last):
    source = csv_of(tmp_path, "v,w\n" + "".join(f"{cell},0\n" for cell in cells))
    assert str(source.schema.field("v").type) == kind
    assert source.n_rows == len(cells)
    column = [row["v"] for _, batch in source.batches(7) for row in batch.to_pylist()]
    assert column[-1] == last
    assert len(column) == len(cells)


def test_csv_dates_are_dates(tmp_path):
    source = csv_of(tmp_path, "d,u,t\n2020-01-01,2020-01-01T10:00:00Z,10:00:00\n")
    assert all(pa.types.is_temporal(field.type) for field in source.schema)


def test_csv_without_names_gets_them(tmp_path, small_blocks):
    source = csv_of(tmp_path, "".join(f"{i},-{i}.5\n" for i in range(1, 40)))
    assert source.column_names == ["x0", "x1"]
    assert source.n_rows == 39
    assert source.take(np.array([0, 38])).to_pylist() == [{"x0": 1, "x1": -1.5}, {"x0": 39, "x1": -39.5}]
    assert next(source.batches(2, start=30))[1]["x0"].to_pylist() == [31, 32]


def test_csv_dialects(tmp_path):
    quoted = csv_of(tmp_path, 'name,n\n"two\nlines, one cell",1\n"say ""yes""",2\n')
    assert quoted.label_column("name").tolist() == ["two\nlines, one cell", 'say "yes"']
    assert csv_of(tmp_path, "\ufeffa;b\r\n1;2\r\n").take(np.array([0])).to_pylist() == [{"a": 1, "b": 2}]
    (tmp_path / "z.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert open_source(tmp_path / "z.csv.gz").take(np.array([0])).to_pylist() == [{"a": 1, "b": 2}]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-(10**6), 10**6)), st.text("ab,\"' \n;é", min_size=1, max_size=5)
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 12),
)
def test_csv_round_trip(tmp_path_factory, rows, batch_rows):
    """What Arrow writes, a source reads back, in batches of any size."""
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    table = pa.table({"n": pa.array([n for n, _ in rows], pa.int64()), "s": [s for _, s in rows]})
    pyarrow.csv.write_csv(table, path)
    source = open_source(path)
    read = [row for _, batch in source.batches(batch_rows) for row in batch.to_pylist()]
    assert [row["n"] for row in read] == [n for n, _ in rows]
    if all(s.strip() for _, s in rows):
        assert [row["s"] for row in read] == [s for _, s in rows]
