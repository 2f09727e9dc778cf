"""`krepes train` and `krepes predict`, and machines in `evaluate`, `explain` and `info`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.metrics import balanced_accuracy_score, log_loss, root_mean_squared_error

from command_line import run, words
from krepes import load
from krepes.explain import column_values, counterfactuals, explain
from krepes.machines import GaussianProcessRegressor, KernelRidgeClassifier, KernelRidgeRegressor

FAST = ["--kernel", "gaussian", "--n-landmarks", "60"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Wines with text labels, a weight and a split; diabetes; digits; and a machine of each."""
    folder = tmp_path_factory.mktemp("machines")
    data = load_wine(as_frame=True)
    rng = np.random.default_rng(0)
    wine = data.data.assign(
        kind=np.array(["red", "rosé", "white"])[data.target],
        id=[f"w{i}" for i in range(178)],
        times=rng.integers(1, 3, 178),
        split=np.where(rng.random(178) < 0.7, "train", "test"),
    )
    wine.to_csv(folder / "wine.csv", index=False)
    wine[wine.split == "test"].drop(columns=["kind", "split"]).to_parquet(folder / "new.parquet")
    frame = load_diabetes(as_frame=True).frame
    frame.loc[:4, "target"] = np.nan
    frame.to_csv(folder / "diabetes.csv", index=False)
    digits = load_digits()
    X, y = digits.images[:400].astype(np.uint8), digits.target[:400]
    np.savez(folder / "digits.npz", X=X, y=y, n_train=300)
    columns = ["--label", "kind", "--exclude", "id", "--exclude", "times"]
    run("train", folder / "wine.csv", *columns, "--split", "split", "-o", folder / "w.krepes", *FAST)
    run("train", folder / "wine.csv", *columns, "--exclude", "split", "-o", folder / "all.krepes", *FAST)
    run("train", folder / "diabetes.csv", "--label", "target", "-o", folder / "d.krepes", *FAST)
    run("train", folder / "digits.npz", "-o", folder / "i.krepes", *FAST)
    return folder


@pytest.fixture(autouse=True)
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)


def told(*arguments: object) -> dict:
    return json.loads(run(*arguments, "--json"))


def test_the_machine_is_that_of_python(folder):
    """Options are the parameters; the label and excluded columns are no features; rows without a label are left out."""
    machine = load("d.krepes")
    frame = pd.read_csv("diabetes.csv")
    expected = KernelRidgeRegressor(kernel="gaussian", n_landmarks=60, random_state=0)
    expected.fit(frame, "target")
    assert isinstance(machine, KernelRidgeRegressor)
    np.testing.assert_allclose(machine.predict(frame), expected.predict(frame), rtol=1e-6)
    assert (machine.penalty_, machine.metric_) == (expected.penalty_, expected.metric_)
    wine = load("w.krepes")
    assert isinstance(wine, KernelRidgeClassifier)
    used = wine.input_space_.encoder.used_columns_
    assert not {"kind", "id", "times", "split"} & set(used)
    assert len(used) == 13


def test_test_rows_are_not_trained_on():
    wine, machine = pd.read_csv("wine.csv"), load("w.krepes")
    trained = np.flatnonzero(wine.split == "train")
    assert sorted(machine.held_out_rows_) == trained.tolist()
    assert sorted(load("i.krepes").held_out_rows_) == list(range(300))


def test_train_tells_what_it_took_and_how_well_it_does():
    text = run("train", "diabetes.csv", "--label", "target", "-o", "x.krepes", "--force", *FAST)
    machine = load("x.krepes")
    for part in (
        "437 labels (column 'target') to learn from.",
        "taken for a quantity",
        "Otherwise say --task classification.",
        "bmi      numeric",
        f"penalty    {machine.penalty_:.3g}, the best by leave one out",
        f"R² {machine.held_out_score_.value:.3f}",
        "gaussian (lengthscale",
        "Next: krepes explain x.krepes diabetes.csv",
    ):
        assert words(part) in words(text)
    columns = ["--label", "kind", "--exclude", "id", "--exclude", "split"]
    found = told("train", "wine.csv", *columns, "-o", "y.krepes", "--force", *FAST)
    assert (found["task"], found["task_because"]) == ("classification", "they are not numbers")
    assert found["held_out"]["floor"] == pytest.approx(71 / 178)
    assert found["classes"] == ["red", "rosé", "white"]
    info = told("info", "y.krepes")
    shared = ("kernel", "metric", "penalty", "held_out", "landmarks", "columns", "classes")
    assert {key: found[key] for key in shared} == {key: info[key] for key in shared}


def test_a_task_can_be_said():
    found = told("train", "digits.npz", "--task", "regression", "-o", "r.krepes", *FAST)
    assert found["task_because"] == "--task says so"
    assert isinstance(load("r.krepes"), KernelRidgeRegressor)


def test_weights_of_rows_and_classes():
    wine = pd.read_csv("wine.csv")
    columns = ["--label", "kind", "--exclude", "id", "--exclude", "split"]
    options = ["--sample-weight", "times", "--class-weight", "balanced"]
    run("train", "wine.csv", *columns, *options, "-o", "b.krepes", *FAST)
    machine = load("b.krepes")
    expected = KernelRidgeClassifier(
        kernel="gaussian", n_landmarks=60, class_weight="balanced", random_state=0
    )
    features = wine.drop(columns=["id", "split", "times"])
    expected.fit(features, "kind", sample_weight=wine.times)
    np.testing.assert_allclose(machine.predict_proba(wine), expected.predict_proba(features), atol=1e-6)


def test_predictions_are_those_of_the_machine():
    wine, machine = pd.read_csv("wine.csv"), load("w.krepes")
    new = wine[wine.split == "test"]
    text = run("predict", "w.krepes", "new.parquet", "-o", "p.parquet", "--keep", "id", "--proba")
    assert "Wrote p.parquet" in text
    found = pd.read_parquet("p.parquet")
    assert found.columns.tolist() == ["id", "prediction", "p_red", "p_rosé", "p_white"]
    assert found.id.tolist() == new.id.tolist()
    assert found.prediction.tolist() == machine.predict(new).tolist()
    np.testing.assert_allclose(found.iloc[:, 2:], machine.predict_proba(new))


@pytest.mark.parametrize("ending", ["csv", "npy", "npz"])
def test_every_format_holds_the_same(ending):
    frame, machine = pd.read_csv("diabetes.csv"), load("d.krepes")
    run("predict", "d.krepes", "diabetes.csv", "-o", f"q.{ending}")
    found = pd.read_csv("q.csv").prediction if ending == "csv" else np.load(f"q.{ending}")
    np.testing.assert_allclose(found["prediction"] if ending == "npz" else found, machine.predict(frame))


def test_rows_are_predicted_in_parts(monkeypatch):
    """More parts than one give the same file, with the ids beside their rows."""
    monkeypatch.setattr("krepes.cli.result_files.BATCH_ROWS", 50)
    wine, machine = pd.read_csv("wine.csv"), load("w.krepes")
    sizes = []
    monkeypatch.setattr(
        KernelRidgeClassifier,
        "predict",
        lambda self, X, before=KernelRidgeClassifier.predict: sizes.append(len(X)) or before(self, X),
    )
    run("predict", "w.krepes", "wine.csv", "-o", "parts.csv", "--keep", "id")
    assert sizes == [50, 50, 50, 28]
    found = pd.read_csv("parts.csv")
    assert found.id.tolist() == wine.id.tolist()
    assert found.prediction.tolist() == machine.predict(wine).tolist()


def test_images_of_a_folder(folder):
    data = load_digits()
    for i in range(60):
        (folder / "photos" / str(data.target[i])).mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray((15 * data.images[i]).astype(np.uint8))
        picture.save(folder / "photos" / str(data.target[i]) / f"{i}.png")
    found = told("train", "photos", "-o", "f.krepes", *FAST)
    assert found["classes"] == [str(digit) for digit in range(10)]
    run("predict", "f.krepes", "photos", "-o", "f.csv")
    assert pd.read_csv("f.csv").columns.tolist() == ["file", "prediction"]


def test_intervals_and_sets():
    frame, machine = pd.read_csv("diabetes.csv"), load("d.krepes")
    found = told("predict", "d.krepes", "diabetes.csv", "-o", "i.csv", "--interval", "0.8")
    assert found["columns"] == ["prediction", "low", "high"]
    np.testing.assert_allclose(
        pd.read_csv("i.csv")[["low", "high"]], machine.predict_interval(frame, confidence=0.8)
    )
    wine, machine = pd.read_csv("wine.csv"), load("w.krepes")
    run("predict", "w.krepes", "wine.csv", "-o", "s.npy", "--confidence", "0.95")
    records = np.load("s.npy")
    assert records.dtype.names == ("prediction", "in_red", "in_rosé", "in_white")
    sets = np.stack([records[name] for name in records.dtype.names[1:]], axis=1)
    assert (sets == machine.predict_set(wine, confidence=0.95)).all()


def test_evaluate_on_rows_kept_apart():
    wine, machine = pd.read_csv("wine.csv"), load("w.krepes")
    test = wine[wine.split == "test"]
    found = told("evaluate", "w.krepes", "wine.csv", "--split", "split")
    ours, P = found["results"]["this machine"], machine.predict_proba(test)
    assert (found["by"], found["n_test"]) == ("new rows", len(test))
    assert ours["accuracy"] == (machine.predict(test) == test.kind).mean()
    assert ours["balanced_accuracy"] == pytest.approx(
        balanced_accuracy_score(test.kind, machine.predict(test))
    )
    assert ours["log_loss"] == pytest.approx(log_loss(test.kind, P, labels=machine.classes_))
    assert 0 <= ours["calibration_error"] <= 1
    floor = found["results"]["always the most frequent class"]
    most = wine[wine.split == "train"].kind.mode()[0]
    assert floor["accuracy"] == (test.kind == most).mean()
    assert "raw features, logistic regression" in found["results"]


def test_evaluate_on_training_rows_leaves_out_folds():
    found = told("evaluate", "d.krepes", "diabetes.csv", "--baselines", "-o", "e.json")
    machine = load("d.krepes")
    held = machine.held_out_
    y, predicted = (machine.targets_.decoded(np.asarray(part)) for part in (held.y, held.by_folds))
    ours = found["results"]["this machine"]
    assert found["by"] == "folds"
    assert ours["root_mean_squared_error"] == pytest.approx(root_mean_squared_error(y, predicted))
    assert ours["mean_absolute_error"] == pytest.approx(np.abs(y - predicted).mean())
    assert list(found["results"]) == [
        "this machine",
        "raw features, ridge regression",
        "gradient boosting",
        "random forest",
        "RBF SVM",
        "always the mean",
    ]
    assert json.loads(Path("e.json").read_text()) == found["results"]


def test_rows_that_are_tested_and_were_trained_on_are_named():
    assert "were trained on" in words(run("evaluate", "all.krepes", "wine.csv", "--split", "split"))


def test_explain_shows_columns_and_landmarks():
    wine, machine = pd.read_csv("wine.csv"), load("w.krepes")
    found = told("explain", "w.krepes", "wine.csv")["importances"]
    expected = machine.column_importances()
    assert [row["column"] for row in found] == [expected.names[j] for j in expected.order]
    assert sum(row["share"] for row in found) == pytest.approx(1)
    row = int(np.flatnonzero(wine.split == "test")[0])
    x = wine.iloc[[row]]
    explained = told("explain", "w.krepes", "wine.csv", "--sample", row, "--top", 3)
    found = explain(machine, x, 3)
    assert explained["prediction"] == machine.predict(x)[0]
    assert [each["row"] for each in explained["rows"]] == found.rows[0].tolist()
    assert [each["label"] for each in explained["rows"]] == wine.kind[found.rows[0]].astype(str).tolist()
    total = sum(each["adds"] for each in explained["rows"]) + explained["others"] + explained["constant"]
    assert total == pytest.approx(explained["sum"])
    assert explained["sum"] == pytest.approx(found.totals[0])
    values = column_values(machine, x)
    assert {each["column"] for each in explained["columns"]} == set(values.names)
    other = counterfactuals(machine, x)
    assert explained["counterfactual"]["row"] == other.rows[0]
    assert str(other.predictions[0]) == explained["counterfactual"]["prediction"]
    text = run("explain", "d.krepes", "diabetes.csv", "--sample", 400)
    assert f"Prediction: {load('d.krepes').predict(pd.read_csv('diabetes.csv').iloc[[400]])[0]:.4g}." in text


def test_a_page_of_a_machine():
    text = run("explain", "all.krepes", "wine.csv", "-o", "p.html", "--title", "Wines <b>")
    assert "shows real rows" in words(text)
    page = Path("p.html").read_text()
    assert "Wines &lt;b&gt;" in page
    assert "<script" not in page
    assert "flavanoids" in page
    assert "rosé" in page
    run("explain", "all.krepes", "wine.csv", "-o", "n.html", "--no-samples")
    without = Path("n.html").read_text()
    assert "no row of the data" in without
    assert "<th>kind</th>" not in without
    assert not {name for name in pd.read_csv("wine.csv").columns if len(name) > 6 and name in without}
    assert "column 1" in without


def test_a_file_without_sums_predicts_and_is_scored():
    columns = ["--label", "kind", "--exclude", "id", "--exclude", "times"]
    run("train", "wine.csv", *columns, "--split", "split", "--no-sums", "-o", "s.krepes", *FAST)
    assert Path("s.krepes").stat().st_size < Path("w.krepes").stat().st_size / 2
    assert "cannot be continued" in run("info", "s.krepes")
    found = told("evaluate", "s.krepes", "wine.csv", "--split", "split")
    assert list(found["results"]) == ["this machine"]
    assert told("explain", "s.krepes", "wine.csv")["importances"] is None
    wine = pd.read_csv("wine.csv")
    assert load("s.krepes").predict(wine).tolist() == load("w.krepes").predict(wine).tolist()


def test_a_checkpoint_leaves_the_same_machine():
    run("train", "diabetes.csv", "--label", "target", "-o", "c.krepes", "--checkpoint", "c.part", *FAST)
    assert not Path("c.part").exists()
    assert told("info", "c.krepes")["penalty"] == told("info", "d.krepes")["penalty"]


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        ("train wine.csv -o n.krepes", "Name it: label=COLUMN", 1),
        ("train wine.csv --label kine -o n.krepes", "Did you mean 'kind'?", 1),
        ("train wine.csv --label kind --task regression -o n.krepes", "holds text", 1),
        ("train wine.csv --label kind --task guess -o n.krepes", "expected auto, classification", 2),
        (
            "train diabetes.csv --label target --class-weight balanced -o n.krepes",
            "class_weight is not a parameter of KernelRidgeRegressor",
            2,
        ),
        ("train wine.csv --label kind --set penalty=-1 -o n.krepes", "a number > 0", 1),
        (
            "train wine.csv --label kind --set width=3 -o n.krepes",
            "width is not a parameter of KernelRidgeClassifier",
            2,
        ),
        ("train wine.csv --label kind --penalty wide -o n.krepes", "penalty='wide'", 1),
        ("train wine.csv --label kind -o w.krepes", "(--force)", 1),
        ("train wine.csv --label id -o n.krepes", "", 1),
        ("predict d.krepes diabetes.csv -o n.csv --proba", "--proba is for classes", 1),
        ("predict d.krepes diabetes.csv -o n.csv --interval 1.5", "expected a share between 0 and 1", 2),
        ("predict d.krepes wine.csv -o n.csv", "bmi", 1),
        ("predict w.krepes new.parquet -o n.npy --keep id", "(--keep)", 2),
        ("predict w.krepes new.parquet -o n.xlsx", "expected a name that ends in", 2),
        ("transform w.krepes wine.csv -o n.npy", "use `krepes predict w.krepes DATA -o FILE`", 1),
        ("evaluate w.krepes wine.csv --knn", "--knn is for representations", 2),
        ("evaluate w.krepes wine.csv --test new.parquet", "Give the test rows as DATA", 2),
        ("evaluate w.krepes new.parquet", "kind", 1),
        ("explain w.krepes wine.csv --sample 3 --component 1", "are for representations", 2),
        ("explain d.krepes diabetes.csv --sample 3 --class red", "--class is for classes", 1),
        ("explain w.krepes wine.csv --sample 3 --class blue", "'blue' is not a class", 1),
        ("explain w.krepes wine.csv --sample 300", "There is no row 300", 1),
    ],
)
def test_what_is_refused(folder, arguments, message, code):
    before = sorted(folder.rglob("*"))
    assert message in words(run(*arguments.split(), code=code))
    assert sorted(folder.rglob("*")) == before


# Gaussian processes


def test_a_process_is_trained_and_predicts_with_deviations():
    fast = ["--machine", "gaussian_process", "--kernel", "gaussian", "--set", "input_metric=None"]
    text = run("train", "diabetes.csv", "--label", "target", "-o", "gp.krepes", *fast)
    machine = load("gp.krepes")
    frame = pd.read_csv("diabetes.csv")
    expected = GaussianProcessRegressor(kernel="gaussian", input_metric=None, random_state=0)
    expected.fit(frame, "target")
    mean, std = expected.predict(frame, return_std=True)
    np.testing.assert_allclose(machine.predict(frame), mean, rtol=1e-6)
    for part in (
        f"noise {machine.noise_:.3g} of it",
        f"evidence {machine.log_marginal_likelihood_:,.1f}",
        "Next: krepes predict gp.krepes diabetes.csv -o predictions.csv --std",
    ):
        assert words(part) in words(text)
    run("predict", "gp.krepes", "diabetes.csv", "-o", "gp.csv", "--std", "--interval", "0.9")
    written = pd.read_csv("gp.csv")
    assert written.columns.tolist() == ["prediction", "low", "high", "std"]
    np.testing.assert_allclose(written["std"], std, rtol=1e-5)
    np.testing.assert_allclose(written["high"], machine.predict_interval(frame)[:, 1], rtol=1e-5)
    info = told("info", "gp.krepes")
    assert info["noise"] == pytest.approx(machine.noise_)
    assert info["estimator"] == "GaussianProcessRegressor"
    assert "continued and merged" in run("info", "gp.krepes")


def test_a_process_of_classes():
    columns = ["--label", "kind", "--exclude", "id", "--exclude", "split", "--exclude", "times"]
    fast = [
        "--machine",
        "gaussian-process",
        "--kernel",
        "gaussian",
        "--n-landmarks",
        "60",
        "--set",
        "amplitude=5",
    ]
    run("train", "wine.csv", *columns, *fast, "-o", "gpc.krepes")
    run("predict", "gpc.krepes", "wine.csv", "-o", "gpc.csv", "--proba")
    written = pd.read_csv("gpc.csv")
    assert written.columns.tolist() == ["prediction", "p_red", "p_rosé", "p_white"]
    assert (written.prediction == pd.read_csv("wine.csv").kind).mean() > 0.95
    assert told("info", "gpc.krepes")["amplitude"] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "train diabetes.csv --label target -o n.krepes --machine forest",
            "expected ridge, gaussian_process",
        ),
        (
            "train diabetes.csv --label target -o n.krepes --set noise=0.1",
            "noise is not a parameter of KernelRidgeRegressor. It has",
        ),
        (
            "train diabetes.csv --label target -o n.krepes --machine gaussian_process --penalty 3",
            "penalty is not a parameter of GaussianProcessRegressor.",
        ),
        (
            "train digits.npz -o n.krepes --machine gaussian_process --set noise=1",
            "noise is not a parameter of GaussianProcessClassifier.",
        ),
        (
            "predict d.krepes diabetes.csv -o n.csv --std",
            "--std is for a quantity that a Gaussian process predicts",
        ),
    ],
)
def test_options_of_other_machines_are_refused(arguments, message):
    code = 1 if arguments.startswith("predict") else 2
    assert words(message) in words(run(*arguments.split(), code=code))
