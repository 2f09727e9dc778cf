"""Rows that are missing from a file are refused, never read as data; and nothing in a file of data runs."""

from __future__ import annotations

import json
import random
import shutil
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from packaging.version import Version

from krepes import KernelEmbedding
from krepes.sources import open_source
from refusals import refuses

zarr = pytest.importorskip("zarr", reason='needs pip install "krepes[scale]"')
pytest.importorskip("openpyxl", reason='needs pip install "krepes[xlsx]"')

X = np.random.default_rng(0).normal(size=(60, 4))
SHEET = "xl/worksheets/sheet1.xml"


def stored(folder: Path, **options) -> Path:
    array = zarr.create_array(folder / "x.zarr", shape=X.shape, dtype=X.dtype, **options)
    array[:] = X
    return folder / "x.zarr"


LAYOUTS = {
    "rows": ({"chunks": (10, 4)}, "c/2/0"),
    "rows and columns": ({"chunks": (10, 2)}, "c/2/1"),
    "shards": ({"chunks": (5, 2), "shards": (20, 4)}, "c/1/0"),
    "format 2": ({"chunks": (10, 4), "zarr_format": 2}, "2.0"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lost_chunks_are_refused(tmp_path, layout):
    """R10: zarr itself reads them as zeros."""
    options, chunk = LAYOUTS[layout]
    folder = stored(tmp_path, **options)
    assert len(open_source(folder).take(np.arange(60))) == 60
    (folder / chunk).unlink()
    with refuses(ValueError, "x.zarr", "chunks", "write_empty_chunks"):
        open_source(folder)


def test_chunks_that_vanish_during_a_pass_are_refused(tmp_path):
    """R10: the folder was whole when it was opened."""
    source = open_source(stored(tmp_path, chunks=(10, 4)))
    passing = source.batches(10)
    next(passing)
    shutil.rmtree(tmp_path / "x.zarr" / "c")
    with refuses(ValueError, "x.zarr", "chunks"):
        list(passing)


def test_a_store_that_is_gone_is_refused(tmp_path):
    """R10: it was deleted between opening and the first pass."""
    source = open_source(stored(tmp_path, chunks=(10, 4)))
    shutil.rmtree(tmp_path / "x.zarr")
    with refuses((FileNotFoundError, ValueError), "x.zarr"):
        KernelEmbedding(2, n_landmarks=10).fit(source)


def test_a_store_whose_missing_chunks_are_missing_values_is_read(tmp_path):
    folder = stored(tmp_path, chunks=(10, 4), fill_value=np.nan)
    (folder / "c/2/0").unlink()
    rows = np.asarray(open_source(folder).take(np.arange(60)))
    assert np.isnan(rows[20:30]).all()
    assert np.isfinite(np.delete(rows, np.s_[20:30], 0)).all()


@pytest.mark.parametrize("place", ["filters", "compressor"])
def test_pickles_in_a_zarr_array_are_refused(tmp_path, place):
    """R12: numcodecs before 0.16 unpickles them."""
    folder = stored(tmp_path, chunks=(10, 4), zarr_format=2)
    described = json.loads((folder / ".zarray").read_text())
    described[place] = [{"id": "pickle"}] if place == "filters" else {"id": "pickle"}
    (folder / ".zarray").write_text(json.dumps(described))
    with refuses(ValueError, "x.zarr", "pickle"):
        open_source(folder)


@pytest.mark.parametrize(("package", "first_safe"), [("torch", "2.6"), ("zarr", "3.1.5")])
def test_packages_that_run_code_from_files_are_not_admitted(package, first_safe):
    """R12: earlier ones unpickle what a file of weights or an array brings."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    (lower,) = (text for text in wanted if text.startswith(f"{package}>="))
    assert Version(lower.partition(">=")[2]) >= Version(first_safe)


def sheet(folder: Path, change) -> Path:
    """An Excel file whose first sheet's XML was changed."""
    path, changed = folder / "plain.xlsx", folder / "rows.xlsx"
    pd.DataFrame({"a": range(200), "b": np.arange(200) / 2, "c": ["u", "v"] * 100}).to_excel(
        path, index=False
    )
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(old.read(name)) if name == SHEET else old.read(name))
    return changed


@pytest.mark.parametrize("declared", [b"A1:C101", b"A1:B201", b"A1", b"A1:XFD1048576"])
def test_rows_and_columns_beyond_the_declared_size_are_read(tmp_path, declared):
    """R11."""
    path = sheet(tmp_path, lambda xml: xml.replace(b'ref="A1:C201"', b'ref="' + declared + b'"'))
    assert b"A1:C201" in zipfile.ZipFile(tmp_path / "plain.xlsx").read(SHEET)
    source = open_source(path)
    assert source.n_rows == 200
    assert source.schema.names == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(40))
def test_damaged_sheets_are_read_or_refused_in_words(tmp_path, seed):
    """R11: 154 of 300 damaged sheets gave raw errors of zip, XML or openpyxl."""
    rng = random.Random(seed)

    def damaged(xml: bytes) -> bytes:
        first = rng.randrange(len(xml))
        cut = xml[:first] + rng.randbytes(rng.choice([0, 1, 8])) + xml[first + rng.choice([0, 1, 40]) :]
        return cut[: rng.choice([first, len(cut)])]

    path, refused = sheet(tmp_path, damaged), ""
    try:
        open_source(path)
    except ValueError as error:
        refused = str(error)
    assert not refused or "rows.xlsx" in refused


def test_a_row_number_that_no_sheet_has_is_refused(tmp_path):
    path = sheet(tmp_path, lambda xml: xml.replace(b'<row r="201"', b'<row r="99999999999"'))
    with refuses(ValueError, "rows.xlsx", "1,048,576"):
        open_source(path)


def test_a_fit_to_a_store_that_lost_rows_fails(tmp_path):
    folder = stored(tmp_path, chunks=(10, 4))
    (folder / "c/2/0").unlink()
    with refuses(ValueError, "x.zarr"):
        KernelEmbedding(2, n_landmarks=10).fit(folder)
