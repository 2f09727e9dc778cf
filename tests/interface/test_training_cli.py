"""Training and reproduction on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from krepes import KernelEmbedding, load
from krepes.cli.app import app
from krepes.solvers import SGD
from refusals import refuses
from reproduction import TABLES, Run, Size, run_table
from reproduction.__main__ import app as reproduction

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
runner = CliRunner()


@pytest.fixture
def digits(tmp_path):
    data = load_digits()
    path = tmp_path / "digits.npz"
    np.savez(path, X=(16 * data.images[:300]).clip(0, 255).astype(np.uint8), y=data.target[:300])
    return path


def test_fit_trains_with_the_options_of_training(digits, tmp_path):
    output = tmp_path / "a.krepes"
    arguments = ["fit", str(digits), "-o", str(output), "--loss", "barlow_twins", "--set", "solver=sgd"]
    arguments += ["--epochs", "2", "--n-landmarks", "30"]
    settings = ("batch_size=64", "preconditioner=gauss_newton", "initialization=moments", "learning_rate=0.5")
    for setting in (*settings, "replays=2"):
        arguments += ["--set", f"solver__{setting}"]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "2 epochs" in result.output
    assert "rows_read" not in result.output
    solver = load(output).solver_
    assert isinstance(solver, SGD)
    assert (solver.max_epochs, solver.batch_size, solver.learning_rate, solver.replays) == (2, 64, 0.5, 2)
    assert (solver.preconditioner, solver.initialization) == ("gauss_newton", "moments")
    shown = runner.invoke(app, ["info", str(output)])
    assert "Trained on samples" in shown.output


def test_options_of_training_are_refused_where_nothing_is_trained(digits, tmp_path):
    result = runner.invoke(app, ["fit", str(digits), "-o", str(tmp_path / "a.krepes"), "--epochs", "3"])
    assert result.exit_code == 2
    assert "max_epochs" in result.output
    assert "--set solver=sgd" in " ".join(result.output.split())
    result = runner.invoke(
        app,
        [
            "fit",
            str(digits),
            "-o",
            str(tmp_path / "a.krepes"),
            "--loss",
            "simclr",
            "--set",
            "solver__preconditioner=newton",
        ],
    )
    assert result.exit_code == 1
    assert "gauss_newton" in result.output


def test_nested_parameters_of_an_automatic_solver_go_to_the_one_that_is_chosen():
    model = KernelEmbedding(loss="simclr").set_params(solver__max_epochs=3)
    assert model.solver.max_epochs == 3
    model = KernelEmbedding().set_params(loss="byol", solver__batch_size=8)
    assert (model.loss, model.solver.batch_size) == ("byol", 8)
    with refuses(ValueError, "max_epochs"):
        KernelEmbedding().set_params(solver__max_epochs=3)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_tables_are_complete_and_every_cell_can_be_built(table):
    assert len(table.cells) == len(table.rows) * len(table.columns)
    for cell in table.cells:
        assert clone(cell.model(Run(Size(), network="convnet")))
    published = [cell.published for cell in table.cells if cell.published is not None]
    assert all(40 < value < 100 for value in published)


def small_mnist(folder):
    data = load_digits()
    images = np.zeros((400, 28, 28), dtype=np.uint8)
    images[:, 10:18, 10:18] = 15 * data.images[:400]
    np.savez(folder / "mnist.npz", X=images, y=data.target[:400], n_train=300)


def test_a_table_is_printed_beside_the_papers_and_resumes(tmp_path):
    small_mnist(tmp_path)
    output = tmp_path / "results.json"
    arguments = ["table5", "--data", str(tmp_path), "-o", str(output), "--n-landmarks", "20"]
    arguments += [
        "--rows",
        "200",
        "--test-rows",
        "100",
        "--n-components",
        "8",
        "--epochs",
        "2",
        "--only",
        "pca",
    ]
    first = runner.invoke(reproduction, arguments)
    assert first.exit_code == 0, first.output
    assert "(97.62)" in first.output
    results = json.loads(output.read_text())["results"]
    assert set(results) == {f"kernel_pca | {column}" for column in TABLES["table5"].columns}
    changed = json.loads(output.read_text())
    changed["results"]["kernel_pca | uniform"]["accuracy"] = 12.34
    output.write_text(json.dumps(changed))
    assert (
        "12.34 (89.12)" in runner.invoke(reproduction, arguments).output
    )  # taken from the file, not run again
    other = runner.invoke(reproduction, [*arguments, "--seed", "1"])
    assert other.exit_code == 1
    assert "other settings (seed)" in " ".join(other.output.split())


def test_an_autoencoder_can_rebuild_kernel_features(tmp_path):
    """A cell may be several steps."""
    small_mnist(tmp_path)
    size = Size(rows=200, test_rows=100, landmarks=20, components=4, epochs=1)
    results = run_table(TABLES["autoencoder-gap"], tmp_path, Run(size), only="objective: kernel features")
    assert len(results) == 2
    assert all(20 < result["accuracy"] <= 100 for result in results.values())


def test_reproduce_explains_what_is_missing(tmp_path):
    assert "table2" in runner.invoke(reproduction, ["table9", "--data", str(tmp_path)]).output
    missing = runner.invoke(reproduction, ["table5", "--data", str(tmp_path)])
    assert missing.exit_code == 1
    assert "mnist.npz" in missing.output
    nowhere = runner.invoke(reproduction, ["table5", "--data", str(tmp_path), "--only", "hinge"])
    assert "No cell of table5" in nowhere.output
    unnamed = runner.invoke(reproduction, ["table1", "--data", str(tmp_path), "--only", "cifar10"])
    assert "--network efficientnet-lite0" in " ".join(unnamed.output.split())


@pytest.mark.skipif(not DATA.is_dir(), reason="the published data are not here")
@pytest.mark.parametrize(
    "table",
    [
        pytest.param("table1", marks=pytest.mark.full),
        "table2",
        pytest.param("table4", marks=pytest.mark.full),
    ],
)
def test_the_published_data_load_and_train(table):
    """One row of each table, small: numbers are accuracies above chance."""
    size = Size(rows=600, test_rows=300, landmarks=50, components=8, epochs=2)
    results = run_table(TABLES[table], DATA, Run(size), only="adult, barlow")
    assert all(70 < result["accuracy"] < 100 for result in results.values())
