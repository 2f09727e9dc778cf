"""`krepes train --task detect`, `krepes detect`, and detectors in `info` and other commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_line import run, words
from krepes import load
from krepes.machines import NoveltyDetector


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Good days of a machine, new days of which the last 20 are broken, and a detector."""
    folder = tmp_path_factory.mktemp("detect")
    rng = np.random.default_rng(0)

    def days(n: int) -> pd.DataFrame:
        load_ = rng.normal(size=n)
        return pd.DataFrame(
            {
                "id": [f"d{i}" for i in range(n)],
                "load": load_,
                "heat": 2 * load_ + 0.2 * rng.normal(size=n),
                "mode": rng.choice(["day", "night"], n),
                "ok": "yes",
                "split": np.where(np.arange(n) < n - 40, "train", "test"),
            }
        )

    days(240).to_csv(folder / "good.csv", index=False)
    new = days(60)
    new.loc[40:, "heat"] *= -1
    new["heat"] = new["heat"].where(new.index < 40, new["heat"] + 4)
    new.to_parquet(folder / "new.parquet")
    columns = ["--label", "ok", "--exclude", "id"]
    run(
        "train",
        folder / "good.csv",
        "--task",
        "detect",
        *columns,
        "--split",
        "split",
        "-o",
        folder / "m.krepes",
    )
    return folder


@pytest.fixture(autouse=True)
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)


def told(*arguments: object) -> dict:
    return json.loads(run(*arguments, "--json"))


def test_the_file_is_what_python_would_write():
    model = load("m.krepes")
    assert isinstance(model, NoveltyDetector)
    good = pd.read_csv("good.csv")
    train = good[good.split == "train"]
    weight = (good.split == "train").astype(float)
    same = NoveltyDetector(random_state=0).fit(good[["load", "heat", "mode"]], sample_weight=weight)
    rows = pd.read_parquet("new.parquet")
    np.testing.assert_allclose(model.p_values(rows), same.p_values(rows[["load", "heat", "mode"]]))
    assert model.n_calibration_ == round(0.4 * len(train))


def test_detect_writes_score_p_value_and_alarm_for_every_row():
    found = told("detect", "m.krepes", "new.parquet", "-o", "out.parquet", "--keep", "id")
    table, model = pd.read_parquet("out.parquet"), load("m.krepes")
    rows = pd.read_parquet("new.parquet")
    assert list(table.columns) == ["id", "score", "p_value", "alarm"]
    np.testing.assert_allclose(table["score"], model.score_samples(rows))
    assert np.array_equal(table["p_value"], model.p_values(rows))
    assert np.array_equal(table["alarm"], model.predict(rows) == -1)
    assert table["alarm"][40:].mean() > 0.8
    assert (found["rows"], found["alarms"]) == (60, table["alarm"].sum())
    assert found["chance"] < 1e-4
    assert found["attainable_rate"] == model.attainable_rate_


@pytest.mark.parametrize("name", ["out.csv", "out.npz", "out.npy"])
def test_other_formats(name):
    run("detect", "m.krepes", "new.parquet", "-o", name, "--force")
    if name == "out.csv":
        assert list(pd.read_csv(name).columns) == ["score", "p_value", "alarm"]
    else:
        array = np.load(name)
        records = array["detection"] if name == "out.npz" else array
        assert records["alarm"].sum() > 15


def test_the_rate_may_be_changed():
    few = told("detect", "m.krepes", "new.parquet", "-o", "a.csv", "--false-alarm-rate", "0.0125", "--force")
    many = told("detect", "m.krepes", "new.parquet", "-o", "a.csv", "--false-alarm-rate", "0.3", "--force")
    assert few["alarms"] < many["alarms"]
    text = words(
        run("detect", "m.krepes", "new.parquet", "-o", "a.csv", "--false-alarm-rate", "0.001", "--force")
    )
    assert "no alarm is possible" in text
    assert "999" in text
    assert "between 0 and 1" in words(
        run("detect", "m.krepes", "new.parquet", "-o", "b.csv", "--false-alarm-rate", "7", code=1)
    )


def test_options_of_a_detector():
    found = told(
        "train", "good.csv", "--task", "detect", "--exclude", "id", "--exclude", "split", "--set", "measure=distance",
        "--false-alarm-rate", "0.1", "--set", "calibration_share=0.5", "--kernel", "gaussian", "--no-sums",
        "-o", "d.krepes", "--force",
    )  # fmt: skip
    assert (found["measure"], found["false_alarm_rate"], found["calibration_rows"]) == ("distance", 0.1, 120)
    model = load("d.krepes")
    assert (model.measure, model.calibration_share, model.total_) == ("distance", 0.5, None)


def test_info_says_what_a_detector_is():
    text = words(run("info", "m.krepes"))
    assert "of which 80 calibrate" in text
    assert "80 calibration rows are rows of the training data" in text
    assert told("info", "m.krepes")["estimator"] == "NoveltyDetector"


def test_commands_for_other_models_say_what_to_use():
    for given in (
        ("predict", "m.krepes", "new.parquet", "-o", "p.csv"),
        ("transform", "m.krepes", "new.parquet", "-o", "p.csv"),
        ("evaluate", "m.krepes", "new.parquet", "--label", "ok"),
    ):
        assert "krepes detect m.krepes" in words(run(*given, code=1))
    assert "p = " in run("explain", "m.krepes", "new.parquet", "--sample", "0")
    run(
        "train",
        "good.csv",
        "--label",
        "mode",
        "--exclude",
        "id",
        "-o",
        "r.krepes",
        "--kernel",
        "gaussian",
        "--force",
    )
    assert "--task detect" in words(run("detect", "r.krepes", "new.parquet", "-o", "p.csv", code=1))


def test_options_that_need_labels_are_refused():
    text = words(
        run("train", "good.csv", "--task", "detect", "--class-weight", "balanced", "-o", "x.krepes", code=2)
    )
    assert "class_weight is not a parameter of NoveltyDetector. It has" in text
    text = words(
        run("train", "good.csv", "--label", "mode", "--set", "measure=distance", "-o", "x.krepes", code=2)
    )
    assert "measure is not a parameter of KernelRidgeClassifier" in text
    text = words(run("train", "good.csv", "--task", "guess", "-o", "x.krepes", code=2))
    assert "detect" in text
    text = words(
        run(
            "train", "good.csv", "--task", "detect", "--machine", "gaussian_process", "-o", "x.krepes", code=2
        )
    )
    assert "--machine gaussian_process predicts a column" in text
    text = words(run("train", "good.csv", "--task", "detect", "--kernel", "linear", "-o", "x.krepes", code=1))
    assert "vanishes far away" in text
