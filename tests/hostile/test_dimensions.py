"""Rows that are very wide, very many or a single column, and fits that would not end."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from krepes import KernelEmbedding
from krepes.base.column_scale import column_samples, usual_range
from krepes.features import fit_warnings
from krepes.kernels import Custom, Gaussian, GlobalAlignment
from krepes.sources import Batches, open_source
from krepes.sources.tables.csv_files import _text_blocks
from refusals import warns_of


def test_candidates_of_wide_rows_are_as_many_as_memory_allows():
    wide = open_source(np.zeros((2, 2**20), dtype=np.int8))
    assert fit_warnings.allowed_candidates(wide, 20_000, 100) == 256
    assert fit_warnings.allowed_candidates(wide, 20_000, 1000) == 1000
    for other in (np.zeros((2, 10)), ["a", "b"], {"a": [1]}):
        assert fit_warnings.allowed_candidates(open_source(other), 20_000, 100) == 20_000


def test_a_long_fit_is_named_before_it_begins(monkeypatch):
    def slow(X, Y):
        return torch.exp(-torch.cdist(X, Y))

    monkeypatch.setattr(fit_warnings, "value_seconds", lambda kernel, rows: 1e-3)
    rows = torch.zeros(50, 3)
    with warns_of(UserWarning, "4", "15,007,500", "50,000 rows", "2 views"):
        fit_warnings.warn_of_cost(rows, Custom(slow), 50_000, 2, 150)
    monkeypatch.setattr(fit_warnings, "value_seconds", lambda kernel, rows: 1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_warnings.warn_of_cost(rows, Custom(slow), 50_000, 2, 150)


def test_a_fit_that_does_not_fit_into_memory_is_named(monkeypatch):
    monkeypatch.setattr(fit_warnings, "available_memory", lambda: 10**9)
    monkeypatch.setattr(fit_warnings, "value_seconds", lambda kernel, rows: 0.0)
    monkeypatch.setattr(fit_warnings, "LONG_SECONDS", float("inf"))
    with warns_of(UserWarning, "16 GB", "1 GB"):
        fit_warnings.warn_of_cost(torch.zeros(10, 2), Gaussian(1.0), 20_000, 1, 20_000)


def test_the_time_of_a_kernel_value_is_measured():
    """The estimate is within a factor of ten of the time of a larger block, also for a kernel of objects."""
    import time

    series = [torch.randn(40, 1) for _ in range(60)]
    kernel = GlobalAlignment(1.0)
    kernel(series[:2])
    estimate = fit_warnings.value_seconds(kernel, series)
    start = time.perf_counter()
    kernel(series)
    actual = (time.perf_counter() - start) / 60**2
    assert actual / 10 < estimate < actual * 10


def test_a_pause_of_the_machine_does_not_count_as_the_time_of_a_kernel_value():
    """One of the calls is held up; the estimate is that of the others."""
    import time

    calls = iter(range(100))

    def paused(X, Y):
        time.sleep(0.1 if next(calls) == 1 else 0.0)
        return X @ Y.T

    assert fit_warnings.value_seconds(Custom(paused), torch.ones(600, 2)) < 0.02 / 64


@pytest.mark.parametrize("shape", [(40, 20_000), (2, 20_000), (3000, 1), (2, 1)], ids=str)
def test_odd_shapes_are_fitted(shape):
    X = np.random.default_rng(0).normal(size=shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer components than asked for
        model = KernelEmbedding(2, n_landmarks=50, random_state=0).fit(X)
    assert np.isfinite(model.transform(X)).all()


def test_ten_thousand_categories_are_a_hundred_columns():
    levels = np.random.default_rng(0).integers(0, 10_000, size=60_000).astype(str)
    model = KernelEmbedding(2, n_landmarks=20, random_state=0)
    space = model.prepare(pd.DataFrame({"level": levels, "x": np.arange(60_000) % 7}))
    assert space.inputs.encoder.n_features_out_ <= 103


def test_wide_batches_are_not_joined_into_one():
    """A reader of batches holds one of them, also where rows are sampled."""
    sizes = []

    def batches():
        for i in range(50):
            sizes.append(i)
            yield np.full((10, 1000), float(i))

    source = open_source(Batches(batches, n_rows=500))
    assert source.scan_rows == 10
    first = next(source.batches(source.scan_rows))[1]
    assert first.shape == (10, 1000)
    assert max(sizes) <= 1


def test_columns_are_summed_up_together_as_one_by_one():
    """Medians and ranges of usual values are those of each column alone, to the bit; missing values are left out."""
    M = np.random.default_rng(0).standard_t(2, size=(600, 1500))
    M[7, :30] = np.nan
    M[9] = np.nan
    found = column_samples(M)
    for j in (0, 7, 511, 512, 599):
        values = M[j][~np.isnan(M[j])]
        low, high = usual_range(torch.from_numpy(values)[:, None])
        assert (found[j].low, found[j].high) == (low.item(), high.item())
        assert found[j].median == np.median(values)
        np.testing.assert_array_equal(found[j].values, values)
    assert len(found[9].values) == 0


def test_a_csv_file_whose_lines_are_longer_than_a_block(tmp_path, monkeypatch):
    """Blocks then have several rows, whose columns are converted together."""
    monkeypatch.setattr("krepes.sources.tables.csv_files._BLOCK_BYTES", 1000)
    X = np.random.default_rng(0).normal(size=(200, 300))
    names = ",".join(f"a column with a long name {j}" for j in range(300))
    path = tmp_path / "wide.csv"
    path.write_text(names + "\n" + "\n".join(",".join(map(repr, row.tolist())) for row in X))
    source = open_source(path)
    assert (source.n_rows, len(source.column_names)) == (200, 300)
    blocks = list(_text_blocks(source.layout, source.column_names, 0))
    assert 2 <= len(blocks) <= 4
    np.testing.assert_array_equal(
        np.concatenate([table.column(299).to_numpy() for _, table in source.batches(70)]), X[:, -1]
    )


def test_candidates_of_wide_tables_are_as_many_as_memory_allows():
    wide = open_source({f"x{j}": [1.0, 2.0] for j in range(2000)})
    assert fit_warnings.allowed_candidates(wide, 50_000, 100) == fit_warnings.CANDIDATE_NUMBERS // 8000
    text = open_source({f"x{j}": ["a", "b"] for j in range(2000)})
    assert fit_warnings.allowed_candidates(text, 50_000, 100) == fit_warnings.CANDIDATE_NUMBERS // 240_000
