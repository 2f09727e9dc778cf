"""Kernel ridge machines from every kind of data, with targets by name; saved, loaded, continued, resumed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.datasets import load_digits, load_iris

import krepes
from faults import Interrupted
from krepes.engines import Local
from krepes.kernels import Custom, Gaussian
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from refusals import refuses

X, codes = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[codes]
WIDTH = X[:, 3]
FIXED = {"kernel": "gaussian", "input_metric": None, "n_landmarks": 25, "random_state": 0}
MACHINES = {
    "regressor": lambda: KernelRidgeRegressor(**FIXED).fit(X[:, :3], WIDTH),
    "two outputs": lambda: KernelRidgeRegressor(**FIXED).fit(X[:, :2], X[:, 2:]),
    "learned metric": lambda: KernelRidgeRegressor(random_state=0, n_landmarks=20).fit(X[:, :3], WIDTH),
    "classifier": lambda: KernelRidgeClassifier(**FIXED).fit(X, NAMES),
    "balanced": lambda: KernelRidgeClassifier(**FIXED, class_weight="balanced").fit(X, codes == 2),
    "few kept": lambda: KernelRidgeClassifier(**FIXED, n_kept=10, dtype="float32").fit(X, codes),
}


def rows_of(model) -> np.ndarray:
    return X[:, : model.n_features_in_]


def targets_of(model) -> np.ndarray:
    if isinstance(model, KernelRidgeRegressor):
        return {3: WIDTH, 2: X[:, 2:]}[model.n_features_in_]
    return next(
        labels for labels in (NAMES, codes, codes == 2) if model.classes_.dtype.kind == labels.dtype.kind
    )


def outputs(model) -> list[np.ndarray]:
    rows = rows_of(model)
    if isinstance(model, KernelRidgeRegressor):
        return [model.predict(rows)]
    return [model.predict(rows), model.decision_function(rows), model.predict_proba(rows)]


# Files


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("name", MACHINES)
def test_a_saved_machine_predicts_with_the_same_bits(name, sums, tmp_path):
    model = MACHINES[name]()
    model.save(tmp_path / "a.krepes", sums=sums)
    again = krepes.load(tmp_path / "a.krepes")
    assert type(again) is type(model)
    for mine, theirs in zip(outputs(again), outputs(model), strict=True):
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)
    assert again.penalty_ == model.penalty_
    assert again.n_samples_seen_ == 150
    assert np.array_equal(again.penalty_errors_.errors, model.penalty_errors_.errors)
    assert {
        k: v for k, v in again.get_params(deep=False).items() if k != "dtype"
    }.keys() <= model.get_params().keys()
    rows, targets = rows_of(model), targets_of(model)
    if sums:
        again.partial_fit(rows, targets)
        model.partial_fit(rows, targets)
        scores = (each._scores(rows) for each in (again, model))
        np.testing.assert_allclose(*scores, atol=1e-4 if model.dtype == "float32" else 1e-8)
    else:
        assert again.total_ is None
        actions = (again.partial_fit, lambda *_: again.merge(model), lambda *_: model.merge(again))
        for action in actions:
            with refuses(ValueError, "sums=True"):
                action(rows, targets)
        again.save(tmp_path / "b.krepes")
        assert np.array_equal(outputs(krepes.load(tmp_path / "b.krepes"))[0], outputs(model)[0])


def test_files_without_sums_hold_no_rows_but_landmarks(tmp_path):
    model = KernelRidgeClassifier(**FIXED).fit(X, NAMES)
    for sums in (True, False):
        model.save(tmp_path / f"{sums}.krepes", sums=sums)
    whole, small = ((tmp_path / f"{sums}.krepes").stat().st_size for sums in (True, False))
    assert small < whole / 2


def test_loading_by_the_class_and_by_another(tmp_path):
    MACHINES["classifier"]().save(tmp_path / "a.krepes")
    assert KernelRidgeClassifier.load(tmp_path / "a.krepes").classes_.tolist() == sorted(set(NAMES))
    with refuses(ValueError, "KernelRidgeClassifier", "KernelRidgeRegressor"):
        KernelRidgeRegressor.load(tmp_path / "a.krepes")


def test_an_empty_copy_is_saved_and_filled(tmp_path):
    model = MACHINES["regressor"]()
    model.empty_copy().save(tmp_path / "a.krepes")
    again = krepes.load(tmp_path / "a.krepes")
    with refuses(ValueError, "rows"):
        again.predict(X[:, :3])
    again.partial_fit(X[:, :3], WIDTH)
    np.testing.assert_allclose(again.predict(X[:, :3]), model.predict(X[:, :3]), rtol=1e-8)


# Data


FRAME = pd.DataFrame(X[:, :3], columns=list("abc")).assign(kind=np.where(codes == 1, "mid", "edge"))


def tables(folder, frame) -> dict:
    frame.to_csv(folder / "x.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), folder / "x.parquet", row_group_size=37)
    return {
        "pandas": frame,
        "polars": polars.from_arrow(pa.Table.from_pandas(frame)),
        "csv": folder / "x.csv",
        "text": str(folder / "x.csv"),
        "parquet": folder / "x.parquet",
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "csv", "text", "parquet"])
@pytest.mark.parametrize("machine", [KernelRidgeRegressor, KernelRidgeClassifier])
def test_a_column_of_targets_by_name(machine, kind, tmp_path):
    """It is no feature: rows may come with or without it later."""
    y = WIDTH if machine is KernelRidgeRegressor else NAMES
    data = tables(tmp_path, FRAME.assign(target=y))[kind]
    reference = machine(**FIXED).fit(FRAME, y)
    model = machine(**FIXED).fit(data, "target")
    expected = reference.predict(FRAME)
    for rows in (data, FRAME):
        found = model.predict(rows)
        assert found.tolist() == expected.tolist() if y is NAMES else np.allclose(found, expected, rtol=1e-5)
    assert list(model.input_space_.encoder.used_columns_) == [*"abc", "kind"]
    parts = model.empty_copy().partial_fit(data, "target")
    assert parts.n_samples_seen_ == 150
    model.save(tmp_path / "model.krepes")
    assert np.array_equal(krepes.load(tmp_path / "model.krepes").predict(FRAME), model.predict(FRAME))


def test_an_array_beside_the_rows_by_name(tmp_path):
    np.savez(tmp_path / "x.npz", X=X, y=NAMES.astype("U"), width=WIDTH)
    reference = KernelRidgeClassifier(**FIXED).fit(X, NAMES)
    for name, other in (("y", NAMES), ("width", None)):
        if other is None:
            found = KernelRidgeRegressor(**FIXED).fit(tmp_path / "x.npz", name)
            np.testing.assert_allclose(
                found.predict(X), KernelRidgeRegressor(**FIXED).fit(X, WIDTH).predict(X)
            )
        else:
            found = KernelRidgeClassifier(**FIXED).fit(tmp_path / "x.npz", name)
            assert np.array_equal(found.predict(tmp_path / "x.npz"), reference.predict(X))
    with refuses(ValueError, "'z'"):
        KernelRidgeClassifier(**FIXED).fit(tmp_path / "x.npz", "z")
    with refuses(ValueError, "columns"):
        KernelRidgeClassifier(**FIXED).fit(X, "target")
    with refuses(ValueError, "target"):
        KernelRidgeClassifier(**FIXED).fit(FRAME, "target")


@pytest.mark.parametrize("kind", ["pandas", "csv", "parquet"])
@pytest.mark.parametrize("machine", [KernelRidgeRegressor, KernelRidgeClassifier])
def test_rows_without_a_target_are_left_out(machine, kind, tmp_path):
    missing = np.arange(150) % 7 == 3
    y = WIDTH if machine is KernelRidgeRegressor else NAMES
    gaps = pd.Series(y).mask(missing)
    data = tables(tmp_path, FRAME.assign(target=gaps))[kind]
    options = {**FIXED, "penalty": 0.01, "landmarks": "uniform", "n_landmarks": 1000}
    model = machine(**options).fit(data, "target")
    without = machine(**options).fit(FRAME[~missing], y[~missing], space=model.space_)
    found = (getattr(each, "decision_function", each.predict)(FRAME) for each in (model, without))
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-6)
    assert len(model.total_.kept.rows) == (~missing).sum()
    assert len(model.landmarks_) == (~missing).sum()
    half = np.where(np.arange(150) < 75, 1.0, 0.5)
    weighted = machine(**options).fit(data, "target", sample_weight=half, space=model.space_)
    assert weighted.total_.n == pytest.approx(half[~missing].sum())
    with refuses(ValueError, "'target'", "value", "row"):
        machine(**options).fit(FRAME.assign(target=None), "target")


def test_a_space_prepared_before(tmp_path):
    space = KernelRidgeRegressor(**FIXED).prepare(X[:, :3], WIDTH)
    whole = KernelRidgeRegressor(**FIXED).fit(X[:, :3], WIDTH)
    in_it = KernelRidgeRegressor(**FIXED).fit(X[:, :3], WIDTH, space=space)
    np.testing.assert_allclose(in_it.predict(X[:, :3]), whole.predict(X[:, :3]), rtol=1e-9)
    embedding = krepes.KernelEmbedding(2, random_state=0, loss="kernel_pca").fit(X[:, :3], space=space)
    assert embedding.transform(X[:, :3]).shape == (150, 2)
    there = KernelRidgeRegressor(**FIXED).fit(
        X[:, :3], WIDTH, space=krepes.KernelEmbedding(2).fit(X[:, :3]).space_
    )
    assert there.score(X[:, :3], WIDTH) > 0.9


def test_objects_with_a_kernel_of_the_users(tmp_path):
    words = ["kernel", "colonel", "kennel", "nation", "ration", "station"] * 9
    kind = ["k" if "nel" in word else "n" for word in words]
    letters = Custom(lambda a, b: float(len(set(a) & set(b))), pairwise=True)
    model = KernelRidgeClassifier(kernel=letters, random_state=0).fit(words, kind)
    assert model.predict(["kernels", "donation"]).tolist() == ["k", "n"]
    lengths = KernelRidgeRegressor(kernel=letters, random_state=0).fit(words, [len(word) for word in words])
    assert lengths.predict(["kernel", "station"]) == pytest.approx([6, 7], abs=0.5)
    model.save(tmp_path / "a.krepes")
    with refuses(ValueError, "kernel=function"):
        krepes.load(tmp_path / "a.krepes")
    again = krepes.load(tmp_path / "a.krepes", kernel=letters)
    assert np.array_equal(again.predict_proba(words), model.predict_proba(words))
    with refuses((TypeError, ValueError), "kernel"):
        KernelRidgeClassifier(random_state=0).fit(words, kind)


def test_images():
    digits = load_digits()
    images, y = digits.images[:300] / 16, digits.target[:300]
    model = KernelRidgeClassifier(random_state=0, n_landmarks=100, kernel="gaussian").fit(
        images[:250], y[:250]
    )
    assert model.score(images[250:], y[250:]) > 0.8
    flat = images.reshape(300, -1)
    with refuses(ValueError, "(8, 8)"):
        model.predict(flat)


# Interruptions


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_resumes_with_the_same_bits(tmp_path, monkeypatch, weighted, dtype):
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    options = {"sample_weight": np.arange(150) % 4 * 0.5} if weighted else {}
    settings = {**FIXED, "class_weight": "balanced" if weighted else None, "dtype": dtype, "n_kept": 70}
    whole = KernelRidgeClassifier(**settings, engine=Local(16)).fit(X, NAMES, **options)
    path, settings["engine"] = tmp_path / "pass", Interrupted(at=2)
    with pytest.raises(KeyboardInterrupt):
        KernelRidgeClassifier(**settings).fit(X, NAMES, checkpoint=path, **options)
    assert path.exists()
    with refuses(ValueError, "another fit", "y"):
        KernelRidgeClassifier(**settings).fit(X, np.roll(NAMES, 1), checkpoint=path, **options)
    with refuses(ValueError, "split", "settings"):
        KernelRidgeClassifier(**{**settings, "n_folds": 3}).fit(X, NAMES, checkpoint=path, **options)
    resumed = KernelRidgeClassifier(**settings).fit(X, NAMES, checkpoint=path, **options)
    assert not path.exists()
    for mine, theirs in zip(outputs(resumed), outputs(whole)):
        assert np.array_equal(mine, theirs)
    mine, theirs = resumed._solved().held_out, whole._solved().held_out
    assert torch.equal(mine.predictions, theirs.predictions)
    assert torch.equal(mine.rows, theirs.rows)


def test_a_failed_fit_leaves_the_machine_as_it_was():
    model = KernelRidgeClassifier(**FIXED).fit(X, NAMES)
    before = outputs(model)
    with refuses(ValueError, "penalty"):
        model.set_params(penalty=-1).fit(X, codes)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(penalty="auto", engine=Interrupted(at=1)).fit(X, codes == 1)
    model.set_params(engine=None)
    for rows, labels in ((X, NAMES[1:]), (X[:, :2], NAMES), (X, codes + 0.5), (X, np.full(150, "rose"))):
        with refuses(ValueError):
            model.partial_fit(rows, labels)
    assert all(np.array_equal(a, b) for a, b in zip(outputs(model), before, strict=True))
    assert model.n_samples_seen_ == 150


def test_models_that_differ_are_not_merged():
    model = KernelRidgeClassifier(**FIXED).fit(X, NAMES)
    with refuses(ValueError, "targets"):
        model.merge(KernelRidgeClassifier(**FIXED).fit(X, codes, space=model.space_))
    with refuses(ValueError, "settings"):
        model.merge(KernelRidgeClassifier(**FIXED, n_folds=3).fit(X, NAMES, space=model.space_))
    with refuses(TypeError, "KernelRidgeClassifier"):
        model.merge(KernelRidgeRegressor(**FIXED).fit(X, codes))


def test_classes_that_come_later():
    """All classes of the first call are known, whether it has rows of them or not; more than ten may be named."""
    letters = list("abcdefghijklmnop")
    model = KernelRidgeClassifier(kernel=Gaussian(1.0), input_metric=None, random_state=0)
    model.partial_fit(X[:100], np.resize(letters[:4], 100), classes=letters)
    assert model.classes_.tolist() == letters
    assert model.predict_proba(X).shape == (150, 16)
    model.partial_fit(X[100:], np.resize(letters, 50))
    with refuses(ValueError, "'z'"):
        model.partial_fit(X[:1], ["z"])
    assert model.n_samples_seen_ == 150
