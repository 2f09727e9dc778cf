"""`krepes evaluate`: what is compared, what is said about it, and the files that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_digits

from command_line import run, words
from krepes import KernelEmbedding, load
from krepes.evaluation import (
    baseline_estimators,
    plan_protocol,
    probe_protocol,
    same_kernel_pca,
)
from krepes.views import NoViews

SMALL = ["--n-landmarks", "60", "--n-components", "6"]
rng = np.random.default_rng(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    data = load_digits()
    keep = data.target < 4
    np.savez(folder / "digits.npz", X=data.images[keep].astype(np.uint8), y=data.target[keep], n_train=400)
    frame = load_diabetes(as_frame=True).frame
    frame.loc[:4, "target"] = np.nan
    frame.to_csv(folder / "diabetes.csv", index=False)
    run("fit", folder / "digits.npz", "-o", folder / "d.krepes", "--label", "y", *SMALL)
    run("fit", folder / "diabetes.csv", "-o", folder / "s.krepes", "--label", "target", *SMALL)
    return folder


@pytest.fixture(autouse=True)
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)


def told(*arguments: object) -> dict:
    return json.loads(run("evaluate", *arguments, "--json"))


def test_raw_features_and_kernel_pca_stand_beside_it():
    """Kernel PCA has the model's landmarks and width, and is fitted on the training rows alone."""
    found = told("d.krepes", "digits.npz", "--repeats", 2, "--label-fraction", 0.1)
    assert list(found["results"]) == [
        "representation, linear probe",
        "kernel PCA, linear probe",
        "raw features, linear probe",
        "always the most frequent class",
    ]
    X, y, model = np.load("digits.npz")["X"], np.load("digits.npz")["y"], load("d.krepes")
    pca = same_kernel_pca(model, X[:400])
    train = np.arange(len(y)) < 400
    expected = probe_protocol(pca.transform(X), y, train, ~train, n_repeats=2)
    assert found["results"]["kernel PCA, linear probe"]["accuracies"] == pytest.approx(
        expected.values("accuracy").tolist()
    )
    assert set(found["verdict"]["differences"]) == {"raw features", "kernel PCA"}


def test_kernel_pca_has_the_space_of_the_model():
    model = load("d.krepes")
    pca = same_kernel_pca(model, np.load("digits.npz")["X"])
    assert pca.transform(np.load("digits.npz")["X"][:5]).shape == (5, 6)
    assert pca.landmarks_ is model.landmarks_
    assert isinstance(pca.views_, NoViews)
    assert not isinstance(model.views_, NoViews)
    words_ = ["ab", "abc", "b", "bb", "cab", "abcd", "dd", "da"] * 3

    def kernel(X, Y):
        return np.array([[len(set(x) & set(y)) / (len(x) * len(y)) ** 0.5 for y in Y] for x in X])

    objects = KernelEmbedding(2, kernel=kernel, loss="kernel_pca", n_landmarks=8, random_state=0).fit(words_)
    again = same_kernel_pca(objects, words_)
    np.testing.assert_allclose(np.abs(again.transform(words_)), np.abs(objects.transform(words_)), atol=1e-4)


def test_kernel_pca_is_not_repeated_and_can_be_left_out():
    run("fit", "digits.npz", "-o", "pca.krepes", "--label", "y", "--loss", "kernel_pca", *SMALL, "--force")
    for model, options in (("pca.krepes", []), ("d.krepes", ["--no-pca"])):
        assert "kernel PCA" not in run("evaluate", model, "digits.npz", "--label-fraction", 0.1, *options)
    text = run("evaluate", "d.krepes", "digits.npz", "--label-fraction", 0.1, "--no-pca", "--no-raw")
    assert "nothing to compare" in text


def test_all_labels_and_given_test_rows_are_one_draw():
    found = told("d.krepes", "digits.npz")
    plain = found["results"]["representation, linear probe"]
    assert len(plain["accuracies"]) == 1
    assert 0 < plain["spread"]["accuracy"] < 0.05
    text = run("evaluate", "d.krepes", "digits.npz")
    assert "standard error by the choice of test rows" in text


def test_quantities_are_predicted_by_ridge_regression():
    text = words(run("evaluate", "s.krepes", "diabetes.csv", "--repeats", 2, "-o", "r.json", "--force"))
    assert "The target is taken for a quantity: 214 different values in 437 rows" in text
    assert "say --task classification" in text
    for row in ("representation, ridge probe", "kernel PCA, ridge probe", "raw features, ridge probe"):
        assert row in text
    found = json.loads(Path("r.json").read_text())
    assert found["always the mean"]["r2"] == pytest.approx(0, abs=0.05)
    frame = pd.read_csv("diabetes.csv")
    Z = load("s.krepes").transform(frame)
    expected = probe_protocol(Z, frame["target"], probe="ridge", label_fraction=None, n_repeats=2)
    assert found["representation, ridge probe"]["r2_values"] == pytest.approx(expected.values("r2").tolist())
    assert found["representation, ridge probe"]["n_labels"] + found["always the mean"]["n_test"] == 437


def test_scores_by_name():
    options = ("--repeats", 2, "--label-fraction", 0.1, "--no-pca")
    found = told("d.krepes", "digits.npz", *options, "--scoring", "roc_auc_ovr")
    plain = found["results"]["representation, linear probe"]
    assert plain["accuracy"] < plain["roc_auc_ovr"] <= 1
    assert found["results"]["always the most frequent class"]["roc_auc_ovr"] == pytest.approx(0.5)
    assert "roc auc ovr" in run("evaluate", "d.krepes", "digits.npz", *options, "--scoring", "roc_auc_ovr")
    found = told("d.krepes", "digits.npz", *options, "--scoring", "balanced_accuracy", "--knn")
    assert found["results"]["raw features, nearest neighbours"]["balanced_accuracy"] > 0.8


def test_the_curve_its_table_and_its_figure(folder):
    options = ("--label-counts", "40, 10,2000", "--figure", "c.png", "--force", "--repeats", 2)
    text = run("evaluate", "d.krepes", "digits.npz", *options)
    assert "Note: 2,000 labels: left out, there are 400 to learn from." in text
    assert "With 10 labels, " in text
    assert (folder / "c.png").read_bytes().startswith(b"\x89PNG")
    found = told("d.krepes", "digits.npz", "--label-counts", "10,40", "--repeats", 2)
    curve = found["results"]["raw features, linear probe"]["by_labels"]
    assert [curve[count]["n_labels"] for count in ("10", "40")] == [10, 40]
    assert len(curve["10"]["accuracies"]) == 2  # although all labels are one draw


def test_baselines_see_the_same_draws(monkeypatch):
    from krepes.evaluation.comparison import baselines

    monkeypatch.setattr(baselines, "N_TREES", 10)
    monkeypatch.setattr(baselines, "C_VALUES", (1.0,))
    options = ("--repeats", 1, "--label-fraction", 0.1, "--no-pca", "--no-raw", "--baselines")
    found = told("d.krepes", "digits.npz", *options)["results"]
    data = np.load("digits.npz")
    X, train = data["X"].reshape(len(data["y"]), -1) / np.float32(255), np.arange(len(data["y"])) < 400
    plan = plan_protocol(data["y"], train, ~train, n_repeats=1)
    for name, estimator in baseline_estimators("classification", plan.n_labels).items():
        expected = plan.run(X[plan.rows], "estimator", estimator=estimator)
        assert found[name]["accuracy"] == pytest.approx(expected.accuracy, abs=0.02), name
        assert found[name]["accuracy"] > 0.7
    numbers = told("s.krepes", "diabetes.csv", *options)["results"]
    assert {"gradient boosting", "random forest", "RBF SVM"} <= set(numbers)
    assert numbers["RBF SVM"]["r2"] > numbers["always the mean"]["r2"]


def test_the_machine_uses_some_of_many_labels():
    from krepes.evaluation.comparison.baselines import TunedMachine

    X = rng.normal(size=(300, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0, "in", "out")
    machine = TunedMachine(search_labels=40, most_labels=100).fit(X, y)
    assert machine.notes_ == ["the RBF SVM was fitted on 100 of the 300 labels"]
    assert machine.machine_[-1].shape_fit_ == (100, 3)
    assert (machine.predict(X) == y).mean() > 0.8
    assert TunedMachine().fit(X[:2], np.array(["a", "b"])).best_params_ == {}  # nothing to choose on


def test_a_scorer_that_a_baseline_cannot_have_leaves_it_out(monkeypatch):
    from krepes.evaluation.comparison import baselines

    monkeypatch.setattr(baselines, "N_TREES", 5)
    options = (
        "--repeats",
        1,
        "--label-fraction",
        0.05,
        "--no-pca",
        "--baselines",
        "--scoring",
        "neg_log_loss",
    )
    found = told("d.krepes", "digits.npz", *options)
    assert "RBF SVM" not in found["results"]
    assert any("RBF SVM was left out" in note and "no probabilities" in note for note in found["notes"])


def test_a_label_that_is_a_feature_is_pointed_out():
    text = words(run("evaluate", "s.krepes", "diabetes.csv", "--label", "bmi", "--repeats", 1, "--no-pca"))
    assert "The column 'bmi' is a feature of the model" in text


# Labels that are not what one hopes for


@pytest.fixture(scope="module")
def odd(folder):
    X = rng.normal(size=(60, 4)).astype(np.float32)
    KernelEmbedding(3, n_landmarks=20, random_state=0).fit(X).save(folder / "odd.krepes", overwrite=True)
    half = np.where(np.arange(60) % 2 == 0, np.nan, X[:, 0])
    np.savez(
        folder / "odd.npz",
        X=X,
        constant=np.full(60, 0.5),
        single=np.arange(60) * 7,
        half=half,
        text=np.char.mod("%.2f", X[:, 0]),
        few=np.array(["a", "b"] + [""] * 58, dtype=object).astype(str),
        noise=rng.integers(0, 2, 60),
        wide=X[:, 0].astype(np.float64) * 1e200,
    )
    return folder


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("--label constant", 1, "holds numbers with fractions"),
        ("--label constant --task regression", 1, "has a single value, 0.5: there is nothing to predict"),
        ("--label single", 0, "ridge probe"),
        ("--label half", 0, "24 targets"),
        ("--label text", 1, "looks like an identifier"),
        ("--label text --task regression", 0, "ridge probe"),
        ("--label few --label-counts 2,3", 0, "With 2 labels"),
        ("--label noise", 0, "Nothing here is better than always predicting the most frequent class"),
        ("--label wide", 1, "Divide all of them by one number"),
        ("--label half --label-counts 24,2", 0, "By the number of labels"),
    ],
)
def test_odd_targets(odd, options, code, message):
    text = words(run("evaluate", "odd.krepes", "odd.npz", "--repeats", 2, *options.split(), code=code))
    assert message in text
    assert "Traceback" not in text
