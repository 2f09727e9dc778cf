"""Tables with text, numbers and categories, and lists of series, from data to model file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from krepes import KernelEmbedding, check_kernel, load
from krepes.kernels import (
    ChiSquared,
    ColumnKernel,
    Custom,
    Gaussian,
    GlobalAlignment,
    Gower,
    NGrams,
    RandomWarping,
)
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor, NoveltyDetector
from refusals import refuses
from structured_kernels import letters_in_common, series

RNG = np.random.default_rng(0)
N = 120
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(40, 10, N),
        "city": RNG.choice(["Bonn", "Essen", "Ulm"], N),
        "income": np.where(RNG.random(N) < 0.2, np.nan, RNG.lognormal(size=N)),
        "review": ["".join(RNG.choice(list("abcdefgh"), 5)) for _ in range(N)],
        "unused": RNG.normal(size=N),
        "n_red": RNG.poisson(3, N),
        "n_blue": RNG.poisson(4, N),
    }
)
TABLE.loc[3, "review"] = None
TEXT = ColumnKernel(
    [
        ("numbers", Gaussian(), ["age", "income"]),
        ("text", Custom(letters_in_common), "review"),
        ("pieces", NGrams("char", (1, 2)), "review"),
        ("place", "laplacian", "city"),
        ("colours", ChiSquared(), ["n_red", "n_blue"]),
    ]
)
NUMBERS = ColumnKernel({"age, income": Gaussian(), "city": Gower()}, combine="product")
SETTINGS = {"loss": "kernel_pca", "n_landmarks": 40, "random_state": 0}


@pytest.mark.parametrize("kernel", [TEXT, NUMBERS], ids=["text", "numbers"])
def test_frames_tables_and_files_give_one_model(kernel, tmp_path):
    TABLE.to_parquet(tmp_path / "t.parquet")
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    expected = KernelEmbedding(4, kernel=kernel, **SETTINGS).fit(TABLE).transform(TABLE)
    for data in (pa.Table.from_pandas(TABLE), tmp_path / "t.parquet", tmp_path / "t.csv"):
        model = KernelEmbedding(4, kernel=kernel, **SETTINGS).fit(data)
        assert np.abs(model.transform(data) - expected).max() < 1e-5
        assert np.abs(np.concatenate(list(model.iter_transform(data, 17))) - expected).max() < 1e-5


def test_the_kernel_is_that_of_its_columns():
    model = KernelEmbedding(4, kernel=TEXT, dtype="float64", **SETTINGS).fit(TABLE)
    text = TABLE["review"].fillna("").tolist()
    (_, numbers, _), _, (_, pieces, _), (_, place, _), (_, colours, _) = model.kernel_.parts
    encoder, groups = model.input_space_.encoder, model.input_space_.encoder.groups_
    E = encoder.transform(TABLE).astype(float)
    age, city, income = (
        E[:, groups[encoder.used_columns_.index(name)]] for name in ("age", "city", "income")
    )
    counts = np.array(TABLE[["n_red", "n_blue"]], dtype=float)
    expected = numbers(np.hstack([age, income])) + place(city) + colours(counts)
    expected = expected.numpy() + letters_in_common(text, text) + pieces(text).numpy()
    rows = model.space_.reader(TABLE).take(np.arange(N)).inputs[0]
    assert np.abs(model.kernel_(rows).numpy() - expected).max() < 1e-10
    assert list(model.feature_names_in_) == ["age", "city", "income", "review", "n_red", "n_blue"]


@pytest.mark.parametrize("kernel", [TEXT, NUMBERS], ids=["text", "numbers"])
def test_model_files(kernel, tmp_path):
    function = {"kernel": letters_in_common} if kernel is TEXT else {}
    model = KernelEmbedding(4, kernel=kernel, **SETTINGS).fit(TABLE)
    machine = KernelRidgeClassifier(kernel=kernel, random_state=0).fit(TABLE, TABLE["age"] > 40)
    for fitted, use in ((model, "transform"), (machine, "predict_proba")):
        path = tmp_path / f"{use}.krepes"
        fitted.save(path)
        again = load(path, **function)
        assert np.array_equal(getattr(again, use)(TABLE), getattr(fitted, use)(TABLE))
    if function:
        with refuses(ValueError, "letters_in_common"):
            load(path)


def test_parts_add_up():
    kernel = TEXT
    first = KernelEmbedding(4, kernel=kernel, dtype="float64", **SETTINGS).partial_fit(TABLE[:60])
    second = first.empty_copy().partial_fit(TABLE[60:], first_row=60)
    other = first.empty_copy().partial_fit(TABLE[:60], first_row=0).partial_fit(TABLE[60:])
    merged, added = first.merge(second).transform(TABLE), other.transform(TABLE)
    assert np.abs(merged @ merged.T - added @ added.T).max() < 1e-8


def test_a_numbers_only_kernel_has_views_and_predicts():
    model = KernelEmbedding(4, kernel=NUMBERS, n_landmarks=40, random_state=0).fit(TABLE)
    assert model.transform(TABLE).shape == (N, 4)
    machine = KernelRidgeRegressor(kernel=NUMBERS, random_state=0).fit(TABLE, TABLE["age"])
    assert machine.score(TABLE, TABLE["age"]) > 0.9
    old = TABLE.assign(old=np.where(TABLE["age"] > 40, "yes", "no"))
    assert KernelRidgeClassifier(kernel=Gower(), random_state=0).fit(old, "old").score(old, old["old"]) > 0.9


def test_columns_by_position_and_slices_are_saved(tmp_path):
    X = TABLE[["age", "unused", "n_red", "n_blue"]].to_numpy(float)
    kernel = ColumnKernel(
        [("first", Gaussian(), slice(0, 2)), ("last", Gaussian(), [-1, 2])], weights=[1.0, 0.5]
    )
    model = KernelEmbedding(4, kernel=kernel, **SETTINGS).fit(X)
    model.save(tmp_path / "m.krepes")
    again = load(tmp_path / "m.krepes")
    assert np.array_equal(again.transform(X), model.transform(X))
    assert again.kernel.parts[0][2] == slice(0, 2)
    by_name = ColumnKernel([("first", Gaussian(), [0, "unused"])])
    positions = KernelEmbedding(2, kernel=by_name, **SETTINGS).fit(TABLE)
    assert positions.input_space_.encoder.used_columns_ == ["age", "unused"]


def test_parameters_of_parts_can_be_searched():
    kernel = ColumnKernel([("a", Gaussian(), "age"), ("b", Gaussian(), "city")])
    kernel.set_params(a__lengthscale=3.0, b=Gower())
    assert kernel.get_params()["a__lengthscale"] == 3.0
    assert isinstance(kernel.get_params()["b"], Gower)
    with refuses(ValueError, "'c'"):
        kernel.set_params(c__lengthscale=1.0)


@pytest.mark.parametrize("kernel", [GlobalAlignment(), RandomWarping(30)], ids=repr)
def test_series_of_unequal_length_make_models(kernel, tmp_path):
    rows = series(60, channels=1)
    up = np.array([x[-1, 0] > x[0, 0] for x in rows])
    machine = KernelRidgeClassifier(kernel=kernel, random_state=0).fit(rows, up)
    assert machine.score(rows, up) > 0.8
    machine.save(tmp_path / "m.krepes")
    assert np.array_equal(load(tmp_path / "m.krepes").predict(rows), machine.predict(rows))
    first = KernelEmbedding(3, kernel=kernel, **SETTINGS).partial_fit(rows[:30])
    second = first.empty_copy().partial_fit(rows[30:], first_row=30)
    assert first.merge(second).transform(rows[:5]).shape == (5, 3)
    array = np.stack([np.resize(x, 12) for x in rows])
    assert KernelEmbedding(3, kernel=kernel, **SETTINGS).fit(array).transform(array).shape == (60, 3)


def test_a_table_with_text_can_be_checked_and_watched():
    """Its columns are prepared as in a fit."""
    assert check_kernel(TEXT, TABLE).ok
    model = NoveltyDetector(kernel=TEXT, random_state=0).fit(TABLE)
    strange = TABLE.iloc[:5].assign(age=1e4, income=1e4, review="zzz")
    assert model.p_values(strange).max() < 0.1
    assert "Nearest: row" in str(model.explain(strange))


def test_a_list_of_column_kernels_compares_the_same_columns():
    y, words = TABLE["age"] > 40, ColumnKernel([("review", NGrams(), "review")])
    assert KernelRidgeClassifier(kernel=[TEXT, words], random_state=0).fit(TABLE, y).choice_.n_rows == N
    with refuses(ValueError, "'age'", "'income'"):
        KernelRidgeClassifier(kernel=[words, TEXT], random_state=0).fit(TABLE, y)
