"""The command line from end to end, on small data of every kind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Picture

from command_line import run, words
from krepes import KernelEmbedding, load
from krepes.evaluation import plan_protocol
from krepes.evaluation.linear import PATHS

SMALL = ["--n-landmarks", "40", "--n-components", "4"]


@pytest.fixture
def people(tmp_path) -> Path:
    """A table with a number, a category, an id, missing values, a label and a split."""
    rng = np.random.default_rng(0)
    rich = rng.random(300) < 0.4
    frame = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(300)],
            "age": np.where(rng.random(300) < 0.1, np.nan, 30 + 20 * rich + 5 * rng.normal(size=300)),
            "job": np.where(rich, "lawyer", rng.choice(["baker", "cook"], 300)),
            "income": np.where(rich, "high", "low"),
            "split": np.where(np.arange(300) < 200, "train", "test"),
        }
    )
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_parquet(tmp_path / "people.parquet")
    return tmp_path


def test_help_does_not_import_what_is_heavy():
    """`krepes --help` answers at once because nothing heavy is imported for it."""
    code = (
        "import sys\nfrom krepes.cli import main\nsys.argv = ['krepes', 'fit', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'torch', 'sklearn', 'numpy', 'scipy', 'pyarrow', 'matplotlib', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "spectral_contrastive" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        "",
        "demo",
        "fit",
        "tune",
        "transform",
        "reconstruct",
        "evaluate",
        "explain",
        "info",
        "export",
        "serve",
        "align",
        "prune",
        "rank-models",
        "cluster",
    ],
)
def test_every_command_explains_itself(command):
    text = run(*command.split(), "--help")
    assert "Usage: krepes" in text
    assert "--help" in text


def test_version():
    from krepes import __version__

    assert run("--version").strip() == f"krepes {__version__}"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_from_fit_to_probe(people, ending):
    data, model = people / f"people.{ending}", people / "people.krepes"
    text = run("fit", data, "-o", model, "--label", "income", "--exclude", "split", *SMALL)
    roles = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    for column, role in {"age": "numeric", "job": "category", "income": "label", "split": "excluded"}.items():
        assert role in roles[column]
    assert "left out" in roles["id"]
    assert "Next: krepes evaluate" in text
    assert "rank" in text
    encoder = load(model).input_space_.encoder
    assert (encoder.label, list(encoder.exclude)) == ("income", ["split"])
    text = run("evaluate", model, data, "--split", "split", "--repeats", "2", "--knn")
    assert "200 labels of 2 classes (column 'income')" in text
    assert "100 rows to test on" in text
    for row in (
        "representation, linear probe",
        "raw features, linear probe",
        "representation, nearest neighbours",
    ):
        assert row in text
    assert "income" in run("info", model)


def test_labels_and_excluded_columns_are_never_features(people):
    """The model stays the same when labels are shuffled, and transforms data that do not have them."""
    frame = pd.read_csv(people / "people.csv")
    options = ["--label", "income", "--label", "split", "--exclude", "id", *SMALL]
    run("fit", people / "people.csv", "-o", people / "a.krepes", *options)
    frame["income"] = np.random.default_rng(1).permutation(frame["income"].to_numpy())
    frame["split"] = "test"
    frame.to_csv(people / "shuffled.csv", index=False)
    run("fit", people / "shuffled.csv", "-o", people / "b.krepes", *options)
    frame.drop(columns=["income", "split", "id"]).to_csv(people / "bare.csv", index=False)
    for model, data in (("a", "people"), ("b", "shuffled"), ("a", "bare")):
        run(
            "transform",
            people / f"{model}.krepes",
            people / f"{data}.csv",
            "-o",
            people / f"{model}{data}.npy",
        )
    Z = np.load(people / "apeople.npy")
    np.testing.assert_array_equal(Z, np.load(people / "bshuffled.npy"))
    np.testing.assert_array_equal(Z, np.load(people / "abare.npy"))


def test_a_column_that_looks_like_a_target_is_pointed_out(people):
    text = run("fit", people / "people.csv", "-o", people / "m.krepes", *SMALL)
    (warning,) = [line for line in text.splitlines() if "Warning" in line]
    assert warning.startswith("Warning: The column 'split' will be used as a feature")
    assert "--label" in warning


def test_every_output_format_holds_the_same_numbers(people):
    model = people / "m.krepes"
    run("fit", people / "people.parquet", "-o", model, "--label", "income", "--exclude", "split", *SMALL)
    expected = load(model).transform(people / "people.parquet")
    for ending in ("npy", "npz", "parquet", "csv"):
        keep = ["--keep", "id", "--keep", "age"] if ending in ("parquet", "csv") else []
        text = run("transform", model, people / "people.parquet", "-o", people / f"z.{ending}", *keep)
        assert "300 rows × 4 components" in text
    frame = pd.read_parquet(people / "z.parquet")
    assert list(frame) == ["id", "age", "z0", "z1", "z2", "z3"]
    pd.testing.assert_series_equal(frame["age"], pd.read_parquet(people / "people.parquet")["age"])
    assert np.load(people / "z.npy").dtype == np.float32
    for Z in (
        np.load(people / "z.npy"),
        np.load(people / "z.npz")["Z"],
        frame.iloc[:, 2:].to_numpy(),
        pd.read_csv(people / "z.csv").iloc[:, 2:].to_numpy(dtype=np.float32),
    ):
        np.testing.assert_allclose(Z, expected, rtol=1e-5, atol=1e-6)


def test_outputs_are_written_in_parts(people, monkeypatch):
    """The files do not depend on how many rows are written at once."""
    from krepes.cli import result_files

    model = people / "m.krepes"
    run("fit", people / "people.csv", "-o", model, "--label", "income", "--exclude", "split", *SMALL)
    for ending in ("npy", "parquet"):
        run("transform", model, people / "people.csv", "-o", people / f"whole.{ending}")
    monkeypatch.setattr(result_files, "BATCH_ROWS", 64)
    for ending in ("npy", "parquet"):
        keep = ["--keep", "id"] if ending == "parquet" else []
        run("transform", model, people / "people.csv", "-o", people / f"parts.{ending}", *keep)
    np.testing.assert_allclose(np.load(people / "parts.npy"), np.load(people / "whole.npy"), atol=1e-6)
    parts = pd.read_parquet(people / "parts.parquet")
    assert parts["id"].tolist() == [f"p{i}" for i in range(300)]


@pytest.fixture
def digits(tmp_path) -> Path:
    from sklearn.datasets import load_digits

    bundled = load_digits()
    np.savez(
        tmp_path / "digits.npz",
        X=(bundled.images[:400] * 15).astype(np.uint8),
        y=bundled.target[:400] % 3,
        n_train=300,
    )
    return tmp_path


def test_arrays_with_labels_beside_them(digits):
    model, data = digits / "m.krepes", digits / "digits.npz"
    text = run("fit", data, "-o", model, "--label", "y", *SMALL)
    assert "images, 8 × 8 pixels, grey" in text
    text = run("evaluate", model, data, "--repeats", 2, "--label-fraction", 0.5, "-o", digits / "result.json")
    assert "100 rows to test on" in text
    result = json.loads((digits / "result.json").read_text())
    assert result["representation, linear probe"]["n_test"] == 100
    assert len(result["raw features, linear probe"]["accuracies"]) == 2
    assert result["always the most frequent class"]["accuracy"] < 0.5
    np.save(digits / "labels.npy", np.load(data)["y"].astype(str))
    for labels in (digits / "labels.npy", f"{data}:y"):
        text = run("evaluate", model, data, "--labels", labels, "--n-train", 250, "--repeats", 1, "--no-raw")
        assert "150 rows to test on" in text
        assert "raw features" not in text


def test_the_classifier_of_the_linear_probe_is_a_choice(digits):
    model, data = digits / "m.krepes", digits / "digits.npz"
    run("fit", data, "-o", model, "--label", "y", *SMALL)
    Z, y, rows = load(model).transform(np.load(data)["X"]), np.load(data)["y"], np.arange(400)
    plan = plan_protocol(y, rows < 300, rows >= 300, label_fraction=None, n_repeats=1)
    for classifier in PATHS:
        output = digits / f"{classifier}.json"
        run("evaluate", model, data, "--no-raw", "--repeats", 1, "--classifier", classifier, "-o", output)
        found = json.loads(output.read_text())["representation, linear probe"]
        expected = plan.run(Z, classifier=classifier)
        assert found["accuracies"] == pytest.approx(expected.values("accuracy"))
        assert found["choices"] == [result.choice for result in expected.results]


def test_test_rows_in_a_file_of_their_own(digits):
    whole = np.load(digits / "digits.npz")
    for name, rows in (("train", slice(0, 300)), ("test", slice(300, 400))):
        np.savez(digits / f"{name}.npz", X=whole["X"][rows], y=whole["y"][rows])
    run("fit", digits / "train.npz", "-o", digits / "m.krepes", *SMALL)
    options = ["--repeats", "2", "--no-raw"]
    run(
        "evaluate",
        digits / "m.krepes",
        digits / "train.npz",
        "--test",
        digits / "test.npz",
        *options,
        "-o",
        digits / "a",
    )
    run("evaluate", digits / "m.krepes", digits / "digits.npz", *options, "-o", digits / "b")
    first, second = (json.loads((digits / name).read_text()) for name in "ab")
    key = "representation, linear probe"
    assert first[key]["accuracies"] == pytest.approx(second[key]["accuracies"])


def test_a_random_test_part_is_announced(digits):
    whole = np.load(digits / "digits.npz")
    np.savez(digits / "plain.npz", X=whole["X"], y=whole["y"])
    run("fit", digits / "plain.npz", "-o", digits / "m.krepes", *SMALL)
    text = run("evaluate", digits / "m.krepes", digits / "plain.npz", "--repeats", 1)
    assert "Test rows were drawn at random" in text


def test_images_in_folders(tmp_path):
    rng = np.random.default_rng(0)
    for label, tone in (("dark", 40), ("light", 200)):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(15):
            pixels = np.clip(tone + 20 * rng.normal(size=(12, 10 + i % 2)), 0, 255).astype(np.uint8)
            Picture.fromarray(pixels).save(tmp_path / "photos" / label / f"{i:02}.png")
    model = tmp_path / "m.krepes"
    run("fit", tmp_path / "photos", "-o", model, "--size", "8x6", "--n-landmarks", 20, "--n-components", 3)
    text = run("evaluate", model, tmp_path / "photos", "--repeats", 2)
    assert "(subfolders)" in text
    run("transform", model, tmp_path / "photos", "-o", tmp_path / "z.csv")
    frame = pd.read_csv(tmp_path / "z.csv")
    assert frame["file"].iloc[0] == "dark/00.png"
    assert frame.shape == (30, 4)


def test_components_and_their_parameters_can_be_chosen(people):
    model = people / "m.krepes"
    options = [
        "--kernel",
        "laplacian",
        "--set",
        "kernel__lengthscale=2.5",
        "--loss",
        "barlow-twins",
        "--set",
        "landmarks=uniform",
    ]
    options += [
        "--views",
        "tabular",
        "--set",
        "loss__redundancy=0.5",
        "--set",
        "views__drop=0.3",
        "--no-moments",
    ]
    data = ["--label", "income", "--exclude", "split"]
    run(
        "fit",
        people / "people.csv",
        "-o",
        model,
        *data,
        *options,
        *SMALL,
        "--seed",
        5,
        "--set",
        "dtype=float64",
    )
    fitted = load(model)
    assert fitted.kernel_.lengthscale == 2.5
    assert fitted.loss_.redundancy == 0.5
    assert fitted.views_.drop == 0.3
    assert fitted.moments_ is None
    assert (fitted.random_state, fitted.dtype) == (5, "float64")
    text = run("info", model)
    for word in (
        "laplacian (lengthscale 2.5",
        "uniform",
        "barlow_twins",
        "Without moments",
        "rows of the training data",
    ):
        assert word in text


def test_all_points_as_landmarks(people):
    model = people / "m.krepes"
    few = people / "few.csv"
    few.write_text("".join((people / "people.csv").read_text().splitlines(keepends=True)[:31]))
    run("fit", few, "-o", model, "--label", "income", "--n-landmarks", "all", "--n-components", 2)
    fitted = load(model)
    assert fitted.n_landmarks is None
    assert fitted.dtype == "float64"
    assert len(fitted.landmarks_) == 30 * fitted.views_.n_views
    for wrong in ("none", "0", "-1"):
        refused = words(run("fit", few, "-o", people / "n.krepes", "--n-landmarks", wrong, code=2))
        assert "--n-landmarks" in refused
        assert "expected a number of at least 1" in refused


def test_info_accounts_for_the_whole_file(people):
    model = people / "m.krepes"
    run("fit", people / "people.csv", "-o", model, "--label", "income", "--exclude", "split", *SMALL)
    text = run("info", model)
    for part in ("moments", "landmarks (rows of the training data)", "Nyström factors F", "coefficients"):
        assert part in text
    assert not [line for line in text.splitlines() if line.strip().startswith("other")]
    assert "With moments" in text


def test_the_seed_and_the_threads_decide_the_result(people):
    options = ["--label", "income", "--exclude", "split", "--threads", "1", *SMALL]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("fit", people / "people.csv", "-o", people / name, "--seed", seed, *options)
    A = [load(people / name).coefficients_ for name in "abc"]
    np.testing.assert_array_equal(A[0], A[1])
    assert not np.array_equal(A[0], A[2])


def test_columns_of_very_different_scale_are_pointed_out(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(100, 5)) * np.array([1, 1, 1, 1, 5000.0]))
    text = run("fit", tmp_path / "x.npy", "-o", tmp_path / "a", *SMALL)
    assert "(--preprocess)" in text
    text = run("fit", tmp_path / "x.npy", "-o", tmp_path / "b", "--preprocess", "table", *SMALL)
    assert "Warning" not in text
    assert "numeric" in text
    assert f"Next: krepes transform {tmp_path / 'b'}" in text


@pytest.mark.full
def test_adult_from_the_command_line(shared_data, tmp_path):
    """The table of the issue: income and split are no features, and the probe beats the most frequent class."""
    data, model = shared_data / "adult.parquet", tmp_path / "adult.krepes"
    text = run(
        "fit",
        data,
        "-o",
        model,
        "--label",
        "income",
        "--exclude",
        "split",
        "--n-landmarks",
        200,
        "--threads",
        1,
    )
    assert "48,842 rows × 16 columns" in text
    options = ["--split", "split", "--label-fraction", "0.1", "--repeats", "2", "--threads", "1"]
    run("evaluate", model, data, *options, "-o", tmp_path / "r.json")
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["representation, linear probe"]["n_labels"] == pytest.approx(3256, abs=1)
    assert result["representation, linear probe"]["n_test"] == 16281
    assert result["representation, linear probe"]["accuracy"] > 0.83
    assert result["raw features, linear probe"]["accuracy"] > 0.84


def test_a_column_of_weights_says_how_often_rows_count(tmp_path):
    """It is no feature, and the model is the one that Python gives with the same weights."""
    table = pa.table({"a": np.arange(60.0) % 7, "b": np.arange(60.0) % 5, "count": np.arange(60) % 3})
    pq.write_table(table, tmp_path / "t.parquet")
    options = ["--sample-weight", "count", "--seed", "3", *SMALL]
    run("fit", tmp_path / "t.parquet", "-o", tmp_path / "t.krepes", *options)
    model = load(tmp_path / "t.krepes")
    assert model.input_space_.encoder.used_columns_ == ["a", "b"]
    assert model.moments_.n == 60
    assert (model.landmark_indices_ % 3 > 0).all()
    np.savez(tmp_path / "x.npz", X=np.random.default_rng(0).normal(size=(60, 3)), w=np.arange(60) % 3)
    run("fit", tmp_path / "x.npz", "-o", tmp_path / "x.krepes", "--sample-weight", "w", *SMALL)
    assert load(tmp_path / "x.krepes").moments_.n == 60
    refused = run(
        "fit", tmp_path / "x.npz", "-o", tmp_path / "y.krepes", "--sample-weight", "v", *SMALL, code=1
    )
    assert "has no array 'v'" in words(refused)


def test_info_works_in_a_process_of_its_own(tmp_path):
    """Where nothing else has imported the classes that a file names."""
    model = tmp_path / "m.krepes"
    KernelEmbedding(2, n_landmarks=5, random_state=0).fit(np.eye(8)).save(model)
    code = f"import sys; sys.argv = ['krepes', 'info', {str(model)!r}]; from krepes.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "spectral_contrastive" in done.stdout.lower() or "spectral" in done.stdout.lower()
