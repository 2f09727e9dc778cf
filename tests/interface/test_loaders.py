"""Every way to give rows gives the model that the array gives; datasets, loaders, tables of other libraries, files."""

from __future__ import annotations

import warnings
from collections import UserDict

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from pyarrow import fs
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from krepes import KernelEmbedding
from krepes.alignment import iter_layers, sketch_layers
from krepes.sources import Batches, open_source
from krepes.sources.objects import numeric_list
from krepes.views import Tabular
from refusals import refuses, warns_of

N, WIDTH = 300, 4
X = np.random.default_rng(0).normal(size=(N, WIDTH)) * [1, 5, 0.1, 2] + [0, 3, 0, -1]
NAMES = [f"x{j}" for j in range(WIDTH)]
FRAME = pd.DataFrame(X, columns=NAMES)
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)


class Samples(Dataset):
    """Samples that are dictionaries."""

    def __len__(self):
        return N

    def __getitem__(self, i):
        return {"row": torch.from_numpy(X[i]), "label": i % 2}


class Stream(IterableDataset):
    """Samples that come one after the other, always the same."""

    def __iter__(self):
        return iter(X)


class ArrowDataset:
    """What a Hugging Face dataset offers: parts as Arrow tables, by slices and by lists of rows."""

    features = dict.fromkeys(NAMES, "float64")
    column_names = NAMES

    def __len__(self):
        return N

    def with_format(self, kind):
        assert kind == "arrow"
        return self

    def __getitem__(self, index):
        return TABLE[index] if isinstance(index, slice) else TABLE.take(index)


class Capsule:
    """Only the Arrow stream of a table, as other libraries offer it."""

    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.__arrow_c_stream__(requested_schema)


def generator():
    for first in range(0, N, 77):
        yield X[first : first + 77]


def polars_frame():
    return pytest.importorskip("polars").from_arrow(TABLE)


def duckdb_result():
    duckdb = pytest.importorskip("duckdb")
    return duckdb.from_arrow(TABLE).filter("x0 < 1e9")


def excel_file(folder):
    pytest.importorskip("openpyxl")
    FRAME.to_excel(folder / "rows.xlsx", index=False)
    return folder / "rows.xlsx"


def parquet_url(folder):
    pq.write_table(TABLE, folder / "rows.parquet", row_group_size=50)
    return (folder / "rows.parquet").as_uri()


def csv_url(folder):
    FRAME.to_csv(folder / "rows.csv", index=False, float_format="%.17g")
    return (folder / "rows.csv").as_uri()


WAYS = {
    "pandas": lambda _: FRAME,
    "polars": lambda _: polars_frame(),
    "Arrow": lambda _: TABLE,
    "Arrow capsule": lambda _: Capsule(),
    "Arrow reader": lambda _: TABLE.to_reader(max_chunksize=90),
    "DuckDB": lambda _: duckdb_result(),
    "Arrow dataset": lambda _: ArrowDataset(),
    "DataLoader": lambda _: DataLoader(TensorDataset(torch.from_numpy(X)), batch_size=64),
    "DataLoader of dictionaries": lambda _: open_source(DataLoader(Samples(), batch_size=64), key="row"),
    "DataLoader of a stream": lambda _: DataLoader(Stream(), batch_size=64),
    "DataLoader with workers": lambda _: DataLoader(TensorDataset(torch.from_numpy(X)), 64, num_workers=1),
    "dataset of dictionaries": lambda _: open_source(Samples(), key="row"),
    "generators": lambda _: generator,
    "declared length": lambda _: Batches(generator, n_rows=N),
    "tuples": lambda _: Batches(lambda: ((np.arange(len(b)), b) for b in generator()), key=1),
    "frames": lambda _: Batches(lambda: (FRAME[i : i + 100] for i in range(0, N, 100))),
    "Excel": excel_file,
    "Parquet by URL": parquet_url,
    "CSV by URL": csv_url,
}


def embedding(data) -> KernelEmbedding:
    return KernelEmbedding(3, n_landmarks=40, preprocess="table", dtype="float64", random_state=0).fit(data)


@pytest.fixture(scope="module")
def expected():
    model = embedding(X)
    return model, model.transform(X)


@pytest.mark.parametrize("way", WAYS)
def test_the_embedding_is_that_of_the_array(way, expected, tmp_path):
    """The same landmarks, and the same representation to rounding, when fitted and when transformed."""
    model, Z = expected
    again = embedding(WAYS[way](tmp_path))
    np.testing.assert_array_equal(again.landmark_indices_, model.landmark_indices_)
    np.testing.assert_allclose(again.transform(WAYS[way](tmp_path)), Z, atol=1e-9)


def test_integers_stay_integers():
    tokens = torch.arange(12).reshape(6, 2)
    source = open_source(DataLoader(TensorDataset(tokens), batch_size=4))
    assert next(source.batches(6))[1].dtype == torch.int64


def test_a_loader_reads_images_with_channels_first():
    pictures = torch.rand(6, 3, 8, 8)
    source = open_source(DataLoader(TensorDataset(pictures, torch.arange(6)), batch_size=4))
    assert source.kind == "images"
    assert torch.equal(next(source.batches(6))[1], pictures.permute(0, 2, 3, 1))


def test_a_loader_that_drops_its_last_batch_has_fewer_rows():
    source = open_source(DataLoader(TensorDataset(torch.rand(10, 2)), batch_size=4, drop_last=True))
    assert source.n_rows == 8
    assert sum(len(batch) for _, batch in source.batches(3)) == 8


def test_lists_of_samples_are_objects_where_the_loader_does_not_stack_them():
    series = [torch.zeros(n, 2) for n in (3, 5, 4)]
    source = open_source(DataLoader(series, batch_size=2, collate_fn=list))
    assert source.kind == "objects"
    assert [len(row) for row in source.take(np.array([2, 0]))] == [4, 3]


def test_a_batch_encoding_is_a_dictionary():
    source = open_source(
        Batches(lambda: iter([UserDict(input_ids=np.ones((2, 3), int), mask=np.ones((2, 3)))]), key="mask")
    )
    assert source.n_rows == 2


def test_arrow_columns_are_not_copied():
    table = pa.table({"x": np.arange(1000.0)})

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    _, batch = next(open_source(Stream()).batches(1000))
    assert batch["x"].chunk(0).buffers()[1].address == table["x"].chunk(0).buffers()[1].address


def test_files_of_another_file_system_are_read(tmp_path, monkeypatch):
    """Parquet in place, other files by a copy; `mem://` stands for a store such as S3."""
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    np.save(tmp_path / "rows.npy", X)
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr("krepes.sources.urls.found_in", lambda url: (store, url.removeprefix("s3://")))
    parquet = open_source("s3://rows.parquet")
    assert parquet.paths == []
    assert parquet.take(np.array([7])).to_pylist() == TABLE.slice(7, 1).to_pylist()
    before = parquet.identity()
    assert before == open_source("s3://rows.parquet").identity()
    pq.write_table(TABLE[:200], tmp_path / "rows.parquet")
    assert before != open_source("s3://rows.parquet").identity()
    assert np.array_equal(open_source("s3://rows.npy").take(np.arange(N)), X)


def test_a_loader_can_be_resumed_from_a_checkpoint(tmp_path):
    """The identity of batches follows their rows."""
    assert open_source(generator).identity() == open_source(generator).identity()
    changed = X.copy()
    changed[250, 3] += 1e-9
    assert (
        open_source(Batches([changed[:100], changed[100:]])).identity() != open_source(generator).identity()
    )
    options = {"n_landmarks": 20, "random_state": 0}
    model = KernelEmbedding(2, **options).fit(generator, checkpoint=tmp_path / "c")
    np.testing.assert_allclose(
        model.transform(X), KernelEmbedding(2, **options).fit(X).transform(X), atol=1e-5
    )


class Tokens(torch.nn.Module):
    """A network of token numbers: the mean of their vectors, and a layer on top."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(50, 4)
        self.top = torch.nn.Linear(4, 3)

    def forward(self, tokens):
        return self.top(self.words(tokens).mean(1))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_the_layers_of_token_networks_are_recorded(dtype):
    network, tokens = Tokens(), torch.randint(0, 50, (30, 7), dtype=dtype)
    expected = network(tokens).detach().numpy()
    loader = DataLoader([{"input_ids": row, "mask": 1} for row in tokens], batch_size=8)
    for data in (
        tokens,
        tokens.numpy(),
        Batches(loader, key="input_ids"),
        DataLoader(TensorDataset(tokens), 8),
    ):
        found = dict(iter_layers(network, data, ["top"], batch_rows=8))
        assert list(found) == [0, 8, 16, 24]
        np.testing.assert_allclose(
            np.concatenate([layers["top"] for layers in found.values()]), expected, atol=1e-6
        )


def test_layers_of_a_loader_are_sketched():
    network, pictures = (
        torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()),
        torch.rand(20, 3, 6, 6),
    )
    loader = DataLoader(TensorDataset(pictures, torch.arange(20)), batch_size=6)
    labels = np.arange(20) % 2
    (names, a), (again, b) = (sketch_layers(network, X, labels).table() for X in (pictures, loader))
    assert names == again
    np.testing.assert_allclose(a, b, atol=1e-6)
    with refuses(ValueError, "y"):
        sketch_layers(network, loader, labels[:10])


SECOND = X + 0.1 * np.random.default_rng(1).normal(size=X.shape)
LABELS = torch.arange(N) % 2
T1, T2 = torch.from_numpy(X), torch.from_numpy(SECOND)


class Items(Dataset):
    """A dataset whose items a function makes."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return N

    def __getitem__(self, i):
        return self.make(i)


def loader(make) -> DataLoader:
    return DataLoader(Items(make), batch_size=64)


def lightly_collate(samples):
    """((x1, x2), y, file name), as lightly's collate functions return them."""
    return tuple(torch.stack(v) for v in zip(*[s[0] for s in samples])), torch.zeros(len(samples)), ["f"] * 2


PAIRS = {
    "(x1, x2)": lambda: loader(lambda i: (T1[i], T2[i])),
    "(x1, x2, y)": lambda: loader(lambda i: (T1[i], T2[i], i % 2)),
    "((x1, x2), y)": lambda: loader(lambda i: ((T1[i], T2[i]), i % 2)),
    "([x1, x2], y, name)": lambda: loader(lambda i: ([T1[i], T2[i]], i % 2, f"{i}.png")),
    "dictionary": lambda: loader(lambda i: {"label": i % 2, "x1": T1[i], "x2": T2[i]}),
    "dictionary of lists": lambda: loader(lambda i: {"x": [T1[i], T2[i]], "label": i % 2}),
    "named keys": lambda: open_source(loader(lambda i: {"b": T2[i], "z": T1[i], "a": T1[i]}), key=("a", "b")),
    "own collate": lambda: DataLoader(Items(lambda i: ((T1[i], T2[i]), 0)), 64, collate_fn=lightly_collate),
    "TensorDataset": lambda: TensorDataset(T1, T2),
    "dataset": lambda: Items(lambda i: (T1[i], T2[i])),
    "dataset of ((x1, x2), y)": lambda: Items(lambda i: ((T1[i], T2[i]), i % 2)),
    "function": lambda: lambda: ((X[i : i + 70], SECOND[i : i + 70]) for i in range(0, N, 70)),
    "spooled": lambda: Batches(DataLoader(TensorDataset(T1, T2, LABELS), 64, shuffle=False), spool=True),
    "frames": lambda: Batches(
        lambda: ((FRAME, pd.DataFrame(SECOND, columns=NAMES)) for _ in range(1)), key=(0, 1)
    ),
}


@pytest.mark.parametrize("way", PAIRS)
def test_pairs_of_one_loader_are_pairs(way):
    """U2: what a loader yields as two views of a row is what `fit(X, positives=P)` gets."""
    model = KernelEmbedding(3, n_landmarks=40, preprocess="table", dtype="float64", random_state=0)
    expected = model.fit(X, positives=SECOND).transform(X)
    data = PAIRS[way]()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(data)
    assert type(model.views_).__name__ == "Paired"
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-9)
    assert model.transform(PAIRS[way]()).shape == (N, 3)
    lines = [str(w.message) for w in said if "two views" in str(w.message)]
    assert len(lines) == (0 if way in ("named keys", "frames") else 1)


@pytest.mark.parametrize("data", [DataLoader(TensorDataset(T1, LABELS), 64), TensorDataset(T1, LABELS)])
def test_a_fit_says_which_entries_it_does_not_use(data):
    """U2: one line, unless the entry was named."""
    with pytest.warns(UserWarning, match="0 holds the rows; 1 is not used"):
        embedding(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedding(open_source(data, key=0))


@pytest.mark.parametrize("declared", [True, False])
def test_rows_are_read_for_a_sample_and_for_the_sums(declared):
    """U13: twice, apart from a few rows for views; once more to count them where their number is not declared."""
    rows, read = np.tile(X, (20, 1)), 0

    def batches():
        nonlocal read
        for first in range(0, len(rows), 100):
            read += 100
            yield rows[first : first + 100]

    data = Batches(batches, n_rows=len(rows) if declared else None)
    KernelEmbedding(2, n_landmarks=40, random_state=0).fit(data)
    assert read < (2.5 if declared else 3.5) * len(rows)


def test_results_of_pairs_say_that_they_are_of_the_first_views():
    rows = torch.from_numpy(X)
    pairs, single = (DataLoader(TensorDataset(*each), batch_size=50) for each in ((rows, rows + 1), (rows,)))
    model = KernelEmbedding(2, n_landmarks=10, random_state=0).fit(X)
    with pytest.warns(UserWarning, match="first views"):
        found = model.transform(pairs)
    np.testing.assert_array_equal(found, model.transform(single))
    np.testing.assert_array_equal(model.transform(open_source(pairs, key=1)), model.transform(X + 1))


def test_pairs_that_cannot_be_used_are_refused():
    """U2: nothing is dropped silently."""
    pairs = PAIRS["(x1, x2)"]
    with refuses(ValueError, "two views", "key=0"):
        KernelEmbedding(2, loss="kernel_pca", n_landmarks=20).fit(pairs())
    with refuses(ValueError, "positives", "key=0"):
        KernelEmbedding(2, n_landmarks=20).fit(pairs(), positives=SECOND)
    with refuses(ValueError, "views"):
        open_source(Batches(lambda: [(X, SECOND[:5])], key=(0, 1)))
    with refuses(ValueError, "views", "single number"):
        open_source(Batches(lambda: [(torch.tensor(1.0), torch.tensor(2.0))], key=(0, 1)))


def test_negatives_come_with_a_loader_too():
    """U2: three entries are row, positive, negative."""
    third = X[::-1].copy()
    model = KernelEmbedding(2, loss="simple_contrastive", n_landmarks=30, random_state=0)
    expected = model.fit(X, positives=SECOND, negatives=third).transform(X)
    given = open_source(DataLoader(TensorDataset(T1, T2, torch.from_numpy(third)), 64), key=(0, 1, 2))
    np.testing.assert_allclose(model.fit(given).transform(X), expected, atol=1e-9)


def test_a_list_of_the_samples_of_a_batch_is_not_a_list_of_views():
    """U2: series that a collate function lists, beside their labels."""
    series = [torch.rand(7, 2) for _ in range(12)]
    batch = lambda: iter([(series, torch.zeros(12))])  # noqa: E731
    source = open_source(batch)
    assert (source.kind, source.n_rows, source.companions) == ("objects", 12, ())


def test_samples_with_tensors_that_require_gradients_are_objects():
    """A loader that puts (number, tensor) into a list, unstacked."""
    samples = [(1, torch.ones(2, 3, requires_grad=True)), (0, torch.zeros(2, 3))]
    assert numeric_list(samples) is None


def test_a_dataset_with_random_changes_is_noticed():
    """U7: its rows differ whenever they are read."""
    changing = Items(lambda i: (T1[i] + 0.1 * torch.randn(WIDTH, dtype=torch.float64), i % 2))
    with refuses(ValueError, "read before", "spool=True"):
        embedding(changing)
    kept = Batches(DataLoader(changing, 64, shuffle=True), spool=True)
    assert embedding(kept).transform(kept).shape == (N, 3)


def test_a_shuffled_loader_of_random_pairs_is_kept():
    """U2: as self-supervised training has it; spooled pairs stay together."""

    def pair(i):
        return [T1[i] + 0.01 * torch.randn(WIDTH, dtype=torch.float64) for _ in range(2)], i % 2

    source = open_source(Batches(DataLoader(Items(pair), 64, shuffle=True), spool=True))
    (other,) = source.companions
    first, second = next(source.batches(N))[1], next(other.batches(N))[1]
    assert first.shape == second.shape == (N, WIDTH)
    assert 0 < (first - second).abs().max() < 0.2


def test_one_of_two_nested_views_is_named_as_messages_name_it():
    """Entries of entries are named 0[0] and 0[1]; key=0 is both of them."""
    x1, x2 = X[:40], X[40:80]
    batches = [((x1[i : i + 10], x2[i : i + 10]), np.zeros(10)) for i in range(0, 40, 10)]
    for key, expected in (("0[0]", x1), ("0[1]", x2)):
        source = open_source(Batches(lambda: iter(batches), key=key))
        rows = np.concatenate([np.asarray(block) for _, block in source.batches(10)])
        assert np.array_equal(rows, expected)


def test_views_beside_pairs_are_said_to_be_unused():
    with warns_of(UserWarning, "views=Tabular", "not used"):
        KernelEmbedding(2, n_landmarks=10, views=Tabular(), random_state=0).fit(X[:40], positives=X[40:80])
