"""What TableEncoder computes, against naive loops."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from krepes import TableEncoder
from krepes.preprocessing.column_scan import ColumnScan
from krepes.sources import open_source, reservoir
from refusals import refuses, warns_of


def naive_standardise(values: list[float | None]) -> list[float]:
    """(x - mean) / deviation of the values that are there; a missing value is the median."""
    present = sorted(v for v in values if v is not None and not math.isnan(v))
    mean = math.fsum(present) / len(present)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in present) / len(present)) or 1.0
    median = (present[(len(present) - 1) // 2] + present[len(present) // 2]) / 2
    filled = [median if v is None or math.isnan(v) else v for v in values]
    return [(v - mean) / deviation for v in filled]


@given(
    st.lists(
        st.one_of(st.none(), st.just(math.nan), st.integers(-1000, 1000).map(lambda i: i / 8)), min_size=1
    )
)
def test_numbers_are_standardised_and_imputed_by_the_median(values):
    if not any(v is not None and not math.isnan(v) for v in values):
        values = [*values, 1.0]
    encoder = TableEncoder(dtype="float64", tails="plain").fit(
        pa.table({"v": pa.array(values, pa.float64())})
    )
    Z = encoder.transform(pa.table({"v": pa.array(values, pa.float64())}))
    present = [v for v in values if v is not None and not math.isnan(v)]
    if min(present) == max(present):
        assert (Z[:, 0] == 0).all()
    else:
        assert Z[:, 0] == pytest.approx(naive_standardise(values), abs=1e-12)
    missing = [v is None or math.isnan(v) for v in values]
    assert Z.shape[1] == 1 + any(missing)
    if any(missing):
        assert Z[:, 1].tolist() == [float(m) for m in missing]


def test_without_missing_values_it_is_the_standard_scaler():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4)) * [1, 1e-3, 1e6, 1] + [0, 1e5, -1e9, 3]
    X[:, 3] = 3
    Z = TableEncoder(dtype="float64").fit_transform(X)
    assert np.allclose(Z, StandardScaler().fit_transform(X), rtol=0, atol=1e-6)
    assert (Z[:, 3] == 0).all()


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(24, 2), pa.bool_()]
)
def test_every_kind_of_number(kind):
    values = [0, 1, 1, None] if kind == pa.bool_() else [0, 2, 4, None]
    if pa.types.is_float16(kind):
        values = [None if v is None else np.float16(v) for v in values]
    column = pa.array([bool(v) if kind == pa.bool_() and v is not None else v for v in values]).cast(kind)
    Z = TableEncoder(dtype="float64").fit_transform(pa.table({"v": column}))
    assert Z[:, 0] == pytest.approx(naive_standardise([None if v is None else float(v) for v in values]))
    assert Z[:, 1].tolist() == [0, 0, 0, 1]


def test_constants_become_exactly_zero_across_chunks():
    scan = ColumnScan(pa.schema({"v": pa.float64()}))
    for n in (3, 7, 1000):
        scan.add(pa.table({"v": [0.1] * n}))
    assert scan.moments.low == scan.moments.high == 0.1
    X = np.full((200_000, 1), 0.1)
    assert (TableEncoder().fit_transform(X) == 0).all()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 2**32))
def test_merged_moments_are_those_of_all_rows(sizes, seed):
    """Chunks of any sizes give the mean and variance of the whole, also far from zero."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=sum(sizes)) + 1e6
    values[rng.random(len(values)) < 0.2] = np.nan
    values[0] = 1e6
    scan = ColumnScan(pa.schema({"v": pa.float64()}))
    for part in np.split(values, np.cumsum(sizes)[:-1]):
        scan.add(pa.table({"v": part}))
    assert scan.moments.count[0] == np.isfinite(values).sum()
    assert scan.moments.mean[0] == pytest.approx(np.nanmean(values), rel=1e-14)
    assert scan.moments.variance[0] == pytest.approx(np.nanvar(values), rel=1e-7, abs=1e-12)


def test_a_category_weighs_as_much_as_a_number():
    """Two levels are at squared distance 2, the mean squared distance of two rows of a standardised column;
    so are unseen, rare and missing values from every level, and equal values are at distance 0."""
    values = ["a"] * 50 + ["b"] * 40 + ["r1", "r2", None]
    encoder = TableEncoder(dtype="float64", min_frequency=2).fit({"v": values})
    new = ["a", "b", "r1", None, "unseen", "r2", "also unseen"]
    Z = encoder.transform({"v": new})
    assert encoder.get_feature_names_out().tolist() == ["v=a", "v=b", "v=(rare)", "v=(missing)", "v=(unseen)"]
    assert Z.argmax(axis=1).tolist() == [0, 1, 2, 3, 4, 2, 4]
    assert (Z.sum(axis=1) == 1).all()
    squared = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    assert set(squared.ravel()) == {0.0, 2.0}
    x = TableEncoder(dtype="float64").fit_transform(np.random.default_rng(0).normal(size=(400, 1)))
    assert ((x - x.T) ** 2).mean() == pytest.approx(2.0)


def test_missing_values_that_fitting_did_not_see():
    """A number becomes the median, a category unseen."""
    encoder = TableEncoder(dtype="float64").fit({"n": [1.0, 2.0, 6.0], "c": ["u", "v", "u"]})
    Z = encoder.transform({"n": [None, 2.0], "c": [None, "w"]})
    assert Z[0].tolist() == Z[1].tolist() == [Z[0, 0], 0, 0, 1]


@pytest.mark.parametrize(
    ("min_frequency", "max_levels", "levels"),
    [
        ("auto", 100, ["a", "b", "c"]),  # 1 % of 100 rows: 1
        (2, 100, ["a", "b"]),
        (0.3, 100, ["a", "b"]),
        (0.5, 100, ["a"]),
        (1, 1, ["a"]),
        (1, 2, ["a", "b"]),
    ],
)
def test_rare_levels(min_frequency, max_levels, levels):
    values = ["b"] * 39 + ["a"] * 60 + ["c"]
    encoder = TableEncoder(min_frequency=min_frequency, max_levels=max_levels).fit({"v": values})
    assert encoder.columns_[0].levels == levels
    assert encoder.n_features_out_ == len(levels) + (len(levels) < 3) + 1


def test_many_rows_pool_levels_below_ten():
    values = ["a"] * 2000 + ["b"] * 10 + ["c"] * 9
    assert TableEncoder().fit({"v": values}).columns_[0].levels == ["a", "b"]


def test_categoricals_of_numbers():
    frame = pd.DataFrame({"v": pd.Categorical([10, 20, 10, 30])})
    encoder = TableEncoder().fit(frame)
    assert encoder.columns_[0].levels == ["10", "20", "30"]
    Z = encoder.transform(frame)
    assert np.array_equal(encoder.transform({"v": [10, 20, 10, 30]}), Z)
    assert Z.argmax(axis=1).tolist() == [0, 1, 0, 2]


def random_table(rng: np.random.Generator, n: int) -> pa.Table:
    numbers = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
    return pa.table(
        {
            "x": pa.array(numbers, mask=rng.random(n) < 0.1),
            "i": rng.integers(0, 50, n),
            "c": pa.array(
                rng.choice(["u", "v", "w", "z"], n, p=[0.5, 0.3, 0.195, 0.005])
            ).dictionary_encode(),
            "s": pa.array([f"k{k}" for k in rng.zipf(1.5, n) % 300]),
            "v": pa.array([f"{v:.2f}".replace(".", ",") for v in numbers]),
            "d": pa.array([f"{1 + k % 28:02d}.{1 + k % 12:02d}.2021" for k in rng.integers(0, 336, n)]),
        }
    )


@given(seed=st.integers(0, 2**32), n=st.integers(1, 5000), batch_rows=st.integers(1, 6000))
def test_results_do_not_depend_on_the_batches(seed, n, batch_rows):
    """Statistics, sample and output are the same to the last bit for every batch size."""
    table = random_table(np.random.default_rng(seed), n)
    source = open_source(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("krepes.preprocessing.table_encoder._CHUNK_ROWS", 1024)
        patch.setattr("krepes.preprocessing.table_encoder._MEDIAN_ROWS", 1000)
        one, many = TableEncoder(), TableEncoder()
        rows, indices = one.fit_source(source, seed=seed, n_candidates=50)
        again, same = many.fit_source(
            source, seed=seed, n_candidates=50, batch_rows=max(batch_rows, 1 + n // 50)
        )
    assert repr(one.columns_) == repr(many.columns_)
    assert rows.to_pylist() == again.to_pylist()
    assert indices.tolist() == same.tolist() == reservoir(source, 50, seed)[1].tolist()
    Z = one.transform(table)
    parts = [one.transform(batch) for _, batch in source.batches(max(batch_rows, 1 + n // 20))]
    assert np.array_equal(np.concatenate(parts), Z)


def test_the_median_of_a_long_column_is_that_of_a_sample():
    """Beyond the sample's size the median's rank is within 4 standard errors of one half."""
    x = np.random.default_rng(0).exponential(size=200_000)
    median = TableEncoder().fit(x[:, None]).columns_[0].median
    assert median != np.median(x)
    assert abs((x < median).mean() - 0.5) < 4 * 0.5 / 50_000**0.5
    assert TableEncoder().fit(x[:50_000, None]).columns_[0].median == np.median(x[:50_000])


N = 40
ROLES = {
    "float": (np.linspace(0, 1, N), "numeric", "mean 0.5"),
    "few integers": ([1, 2] * 20, "numeric", "mean 1.5"),
    "bools": ([True, False] * 20, "numeric", "mean 0.5"),
    "constant": ([7] * N, "numeric", "constant 7"),
    "with missing": ([1.0, None] * 20, "numeric", "20 missing: median 1 and an indicator"),
    "text": (["u", "v"] * 20, "category", "2 levels"),
    "text with missing": (["u", None] * 20, "category", "1 level, 20 missing as one"),
    "increasing": (range(5, 5 + 3 * N, 3), "left out", "increase with every row"),
    "increasing floats": (np.arange(float(N)), "numeric", "mean 19.5"),
    "increasing but one": ([*range(N - 1), 5], "numeric", "mean"),
    "ID": ([3, 1] * 20, "left out", "by its name"),
    "row_id": (["u", "v"] * 20, "left out", "by its name"),
    "Unnamed: 0": ([3, 1] * 20, "left out", "by its name"),
    "idle": ([3, 1] * 20, "numeric", "mean 2"),
    "names": ([f"n{i}" for i in range(N)], "left out", "near-unique text: 40 different values in 40 rows"),
    "half names": ([f"n{i % 20}" for i in range(N)], "category", "20 levels"),
    "near names": ([f"n{i % 21}" for i in range(N)], "left out", "near-unique text: 21"),
    "sparse names": (
        [f"n{i}" if i < 20 else None for i in range(N)],
        "left out",
        "20 different values in 20 rows",
    ),
    "dates": (pa.array(range(N), pa.date32()), "date", "1970-01-01 to 1970-02-09, day of week"),
    "stamps": (pa.array(range(N), pa.timestamp("s")), "date", "1970-01-01 00:00:00 to 1970-01-01 00:00:39"),
    "times": (pa.array(range(N), pa.time32("s")), "date", "time of day"),
    "durations": (pa.array(range(N), pa.duration("s")), "numeric", "seconds: mean 19.5"),
    "commas": ([f"{i},5" for i in range(N)], "numeric", "decimal comma; mean 20"),
    "words": (["yes", "No"] * 20, "numeric", "yes is 1, no is 0; mean 0.5"),
    "notes": ([f"this is number {i} of them" for i in range(N)], "text", "running text"),
    "lists": ([[1]] * N, "left out", "nested"),
    "structs": ([{"a": 1}] * N, "left out", "nested"),
    "views": (pa.array(["u", None] * 20, pa.string_view()), "category", "1 level, 20 missing as one"),
    "large text": (pa.array(["u", "v"] * 20, pa.large_string()), "category", "2 levels"),
    "list views": (pa.array([[1]] * N, pa.list_view(pa.int64())), "left out", "nested"),
    "bytes views": (pa.array([b"x"] * N, pa.binary_view()), "left out", "binary"),
    "bytes": ([b"x"] * N, "left out", "binary"),
    "nothing": ([None] * N, "left out", "no value present"),
    "no number": (pa.array([None] * N, pa.float64()), "left out", "no value present"),
    "only nan": ([math.nan] * N, "left out", "no value present"),
    "no text": (pa.array([None] * N, pa.string()), "left out", "no value present"),
}


def test_every_column_has_a_role_with_a_reason():
    table = pa.table(
        {
            name: values if isinstance(values, pa.Array) else pa.array(values)
            for name, (values, *_) in ROLES.items()
        }
    )
    encoder = TableEncoder(exclude=["bools"], label="text").fit(table)
    assert [role["column"] for role in encoder.roles_] == list(ROLES)
    for (name, role, detail, n_outputs), column in zip(encoder.describe(), encoder.roles_):
        expected = {"bools": ("excluded", ""), "text": ("label", "")}.get(name, ROLES[name][1:])
        assert (role, expected[1] in detail) == (expected[0], True), (name, role, detail)
        assert (n_outputs > 0) == (role in ("numeric", "date", "category", "text"))
        assert column["n_outputs"] == n_outputs
    assert sum(role["n_outputs"] for role in encoder.roles_) == encoder.transform(table).shape[1]
    assert [i for group in encoder.groups_ for i in group] == list(range(encoder.n_features_out_))


def test_short_tables_have_no_row_numbers_by_chance():
    encoder = TableEncoder().fit({"age": [20, 30, 40], "name": ["u", "v", "w"]})
    assert [role["role"] for role in encoder.roles_] == ["numeric", "category"]


@pytest.mark.parametrize("name", ["label", "Target", "CLASS", "y", "split"])
def test_columns_that_look_like_targets_are_warned_of(name):
    table = {"a": [1.0, 2.0], name: ["u", "v"]}
    with warns_of(UserWarning, repr(name), "label=", "exclude="):
        TableEncoder().fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder(label=name).fit(table)
        TableEncoder(exclude=[name]).fit(table)
        TableEncoder().fit({"a": [1.0, 2.0], "income": ["u", "v"]})


def test_text_beyond_the_limit_of_levels_is_left_out(monkeypatch):
    monkeypatch.setattr("krepes.preprocessing.text_scan.MAX_DISTINCT", 30)
    values = [f"v{i % 31}" for i in range(500)]
    encoder = TableEncoder().fit({"v": values, "w": [f"v{i % 30}" for i in range(500)]})
    assert [role["role"] for role in encoder.roles_] == ["left out", "category"]


def test_decoding_an_encoded_table_gives_its_values_back():
    """Numbers, missing ones, levels and missing levels; rare levels share a name."""
    table = pa.table(
        {
            "age": pa.array([20.0, 40.0, None, 60.0, 25.0, 31.0] * 5),
            "n": pa.array(range(0, 60, 2)),
            "sex": ["f", "m", None, "f", "m", "f"] * 5,
            "town": ["A"] * 14 + ["B"] * 14 + ["C", "D"],
        }
    )
    encoder = TableEncoder(min_frequency=3, exclude=["n"]).fit(table)
    found = encoder.inverse_transform(encoder.transform(table))
    assert found.column_names == ["age", "sex", "town"]
    assert found["sex"].to_pylist() == table["sex"].to_pylist()
    assert found["town"].to_pylist() == ["A"] * 14 + ["B"] * 14 + ["(rare)"] * 2
    for value, expected in zip(found["age"].to_pylist(), table["age"].to_pylist()):
        assert value == (None if expected is None else pytest.approx(expected, rel=1e-5))


def test_decoding_takes_the_largest_level_and_never_unseen():
    encoder = TableEncoder().fit({"v": ["a"] * 3 + ["b"] * 2})
    decoded = encoder.inverse_transform([[0.2, 0.3, 0.9], [0.3, 0.2, 0.0], [-1.0, -1.0, 5.0]])
    assert decoded["v"].to_pylist() == ["b", "a", "a"]


def test_decoding_rows_of_an_array_gives_an_array():
    X = np.column_stack([np.arange(4.0), np.full(4, np.nan), [1.0, np.nan, 3.0, 5.0]])
    encoder = TableEncoder(dtype="float64").fit(X)
    assert np.allclose(encoder.inverse_transform(encoder.transform(X)), X, equal_nan=True)
    with refuses(ValueError, "X", "2 columns", "3"):
        encoder.inverse_transform(np.zeros((1, 2)))


def test_many_rare_and_new_levels_each_have_their_own_code():
    """Of thousands of levels at once: frequent ones their column, rare ones "(rare)", new ones "(unseen)"."""
    rng = np.random.default_rng(0)
    often, seldom = [f"f{i}" for i in range(5)], [f"s{i}" for i in range(3000)]
    table = pa.table({"c": [*(often * 400), *seldom]})
    encoder = TableEncoder(columns={"c": "category"}).fit(table)
    names = [name.removeprefix("c=") for name in encoder.get_feature_names_out()]
    mixed = rng.permutation([*often, *seldom, *(f"new{i}" for i in range(500))]).tolist()
    found = [names[i] for i in encoder.transform(pa.table({"c": mixed})).argmax(axis=1)]
    expected = [
        value if value in often else "(rare)" if value in set(seldom) else "(unseen)" for value in mixed
    ]
    assert found == expected


def naive_ranks(values: list[float]) -> list[float]:
    """The share of values below each, and half of those equal to it."""
    return [(sum(v < x for v in values) + sum(v == x for v in values) / 2) / len(values) for x in values]


def test_numbers_with_a_heavy_tail_are_standardised_ranks():
    """Heights of birds are mostly zero, and the others would be one number beside the largest."""
    heights = [0.0] * 60 + [float(10 * k) for k in range(1, 30)] + [500.0 * k for k in range(1, 12)]
    table = {"height": heights, "age": [20.0 + k % 50 for k in range(100)]}
    encoder = TableEncoder(dtype="float64").fit(table)
    assert [role["detail"] for role in encoder.roles_] == [
        "heavy tail, as ranks",
        "mean 44.5, deviation 14.43",
    ]
    encoded = encoder.transform(table)
    assert np.allclose(encoded[:, 0], naive_standardise(naive_ranks(heights)), rtol=0, atol=1e-12)
    assert np.allclose(encoded[:, 1], naive_standardise(table["age"]), rtol=0, atol=1e-12)
    decoded = encoder.inverse_transform(encoded)
    assert np.allclose(decoded["height"], heights, rtol=0, atol=1e-9)
    beyond = encoder.transform({"height": [1e9, -1e9], "age": [30.0, 30.0]})[:, 0]
    assert beyond.tolist() == [encoded[:, 0].max(), encoded[:, 0].min()]
    plain = TableEncoder(dtype="float64", tails="plain").fit(table).transform(table)
    assert np.allclose(plain[:, 0], naive_standardise(heights), rtol=0, atol=1e-12)


def test_a_wild_cell_alone_is_no_heavy_tail():
    values = [*np.random.default_rng(0).normal(size=999).tolist(), 1e6]
    (column,) = TableEncoder().fit({"v": values}).columns_
    assert column.curve.size == 0


def test_squashed_numbers_grow_slower_and_slower():
    """z / sqrt(1 + (z / 3)^2) of z by median and quartiles, then standardised: an order that stays."""
    values = np.sort(np.random.default_rng(0).standard_cauchy(size=200))
    encoder = TableEncoder(dtype="float64", tails="squash").fit({"v": values})
    encoded = encoder.transform({"v": values})[:, 0]
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    z = (values - median) / (high - low) * 1.349
    squashed = z / np.sqrt(1 + (z / 3) ** 2)
    assert np.allclose(encoded, (squashed - squashed.mean()) / squashed.std(), rtol=0, atol=1e-12)
    assert (np.diff(encoded) > 0).all()
    with refuses(ValueError, "tails='log'"):
        TableEncoder(tails="log").fit({"v": values})
