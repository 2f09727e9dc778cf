"""What reads data: the table encoder, sources of every kind, and damaged files."""

from __future__ import annotations

import io
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from PIL import Image

from fuzz.label_strategies import objects
from fuzz.outcome import ChangedError, check_same, check_shape
from fuzz.strategies import matrices, mostly, n_rows, often, rows, sane_matrices, tables
from fuzz.target import Draw, target
from krepes import TableEncoder
from krepes.sources import open_objects, open_source, read_array, reservoir


@target("TableEncoder", weight=4)
def table_encoder(draw: Draw) -> Any:
    """Any table; and other rows than those of the fit. Encoded rows are finite whatever is missing."""
    X = draw(often((3, tables()), (1, rows())))
    settings = {}
    if draw(st.integers(0, 2)) == 0:
        settings = draw(SETTINGS)
    encoder = TableEncoder(**settings).fit(X)
    Z = encoder.transform(X)
    names = encoder.get_feature_names_out()
    check_shape(Z, (n_rows(X), len(names)), "TableEncoder.transform")
    check_same(encoder.transform(X), Z, "TableEncoder.transform, twice")
    other = draw(often((2, st.just(X)), (1, tables()), (1, rows())))
    if len(set(names)) != len(names):
        raise ChangedError("two encoded columns have one name")
    return Z, encoder.transform(other), len(encoder.describe())


SETTINGS = mostly(
    [
        {"label": "a"},
        {"exclude": ["a"]},
        {"min_frequency": 2},
        {"min_frequency": 0.1},
        {"max_levels": 2},
        {"dtype": "float64"},
    ],
    [
        {"label": "nothing"},
        {"label": 3},
        {"exclude": "a"},
        {"exclude": ["nothing"]},
        {"min_frequency": -1},
        {"min_frequency": "often"},
        {"max_levels": 0},
        {"max_levels": None},
        {"dtype": "int8"},
        {"dtype": None},
    ],
)


@target("open_source", "reservoir", "Source", "TableSource", "Rows", weight=3)
def source(draw: Draw) -> Any:
    """Any rows: batches of any size hold what `take` gives."""
    X = draw(rows())
    given = draw(
        mostly([{}], [{"columns": ["c0"]}, {"columns": []}, {"size": 3}, {"columns": "c0"}, {"size": -1}])
    )
    return read(draw, open_source(X, **given))


@target("open_objects", weight=1)
def source_of_objects(draw: Draw) -> Any:
    """Lists, arrays and columns, each entry of which is an object; and what has no entries."""
    X = draw(often((2, objects()), (2, rows()), (1, st.just(pd.Series(["a", "b", "c"])))))
    return read(draw, open_objects(X))


def read(draw: Draw, opened: Any) -> Any:
    """Everything that a source promises."""
    size = draw(mostly([1, 2, 5, 1000], [0, -1, 2.5, "few", None]))
    start = draw(mostly([0, 0, 1], [-1, 10**9, "first"]))
    seen = [first for first, _ in opened.batches(size, start)]
    indices = draw(
        mostly([np.arange(opened.n_rows)[::2], np.array([0, 0])], [np.array([-1]), np.array([10**9]), "rows"])
    )
    taken = opened.take(indices)
    sample = reservoir(
        opened, draw(mostly([1, 3, 100], [0, -1])), draw(mostly([0, 7], [-1])), batch_rows=size
    )
    if draw(st.integers(0, 3)) == 0:
        opened.label_column(draw(st.sampled_from(["a", "c0", "nothing"])))
    return seen, len(taken), sample[1], opened.describe()


def _png(X: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.resize(X, (5, 4)).astype(np.uint8)).save(stream, "png")
    return stream.getvalue()


def _saved(X: np.ndarray, ending: str) -> bytes:
    """Rows as the bytes of a file."""
    stream = io.BytesIO()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])]).assign(word="a")
    if ending == ".npy":
        np.save(stream, X)
    elif ending == ".npz":
        np.savez(stream, X=X, y=np.arange(len(X)))
    elif ending == ".parquet":
        frame.to_parquet(stream)
    else:
        frame.to_csv(stream, index=False, sep="\t" if ending == ".tsv" else ",")
    return stream.getvalue()


ENDINGS = [".npy", ".npz", ".parquet", ".csv", ".tsv"]
FOREIGN = [
    b"",
    b"\x00" * 40,
    b"a,b\n1,2\n1",
    b"a\n\xff\xfe\n",
    b"\x93NUMPY\x01\x00",
    b"PK\x03\x04",
    b"PAR1PAR1",
    b"{}",
]


def damaged(draw: Draw, data: bytes) -> bytes:
    """A file as it is, or with something wrong."""
    how = draw(st.sampled_from(["not", "not", "cut", "flip", "other", "more"]))
    place = draw(st.integers(0, max(0, len(data) - 1)))
    if how == "cut":
        return data[:place]
    if how == "flip" and data:
        return data[:place] + bytes([data[place] ^ draw(st.sampled_from([1, 128, 255]))]) + data[place + 1 :]
    if how == "other":
        return draw(st.sampled_from(FOREIGN))
    return data + b"\x00more" if how == "more" else data


@target("open_source", "read_array", weight=3)
def files(draw: Draw) -> Any:
    """Files whole and damaged, with the right ending and another."""
    X = draw(often((3, sane_matrices()), (2, matrices(min_columns=1))))
    ending = draw(st.sampled_from(ENDINGS))
    data = damaged(draw, _saved(X, ending))
    name = f"rows{draw(often((6, st.just(ending)), (1, st.sampled_from([*ENDINGS, '.txt', '.csv.gz', '']))))}"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / name
        path.write_bytes(data)
        if draw(st.integers(0, 4)) == 0:
            return len(read_array(path, draw(st.sampled_from(["y", "X", "nothing"]))))
        found = read(
            draw, open_source(path, **draw(mostly([{}], [{"array": "nothing"}, {"columns": ["c0"]}])))
        )
        if [file.name for file in Path(folder).iterdir()] != [name]:
            raise ChangedError("reading has left other files")
        return found


@target("open_source", weight=1)
def folders(draw: Draw) -> Any:
    """Folders of images, of Parquet files, of both, of damaged ones."""
    X = draw(sane_matrices())
    with tempfile.TemporaryDirectory() as folder:
        for i in range(draw(st.integers(0, 3))):
            kind = draw(mostly([".png"], [".parquet", ".txt", ".jpg"]))
            data = _saved(X, ".parquet") if kind == ".parquet" else _png(np.abs(X) + i)
            (Path(folder) / f"{i}{kind}").write_bytes(
                damaged(draw, data) if draw(st.integers(0, 4)) == 0 else data
            )
        size = draw(mostly([None, 3, (2, 5)], [0, -1, "small", (1, 2, 3)]))
        return read(draw, open_source(folder, size=size))
