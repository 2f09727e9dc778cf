"""The thesis's experiments on sketches and transferability, at small sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from reproduction import EXPERIMENTS, Conditions
from reproduction.__main__ import app
from reproduction.sketch_accuracy import exact_cka, transformation
from reproduction.transfer_ranking import SCORES, draw_tasks, findings

SHARED = Path(__file__).resolve().parents[3] / "shared"


def test_maps_have_the_alignment_that_was_asked_for():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40)) / np.arange(1, 41) ** 0.5
    s, V = np.linalg.eigh(X.T @ X)
    T = transformation(s[::-1], V[:, ::-1], 0.4, rng)
    assert exact_cka(X.T @ X, T) == pytest.approx(0.4, abs=1e-6)


def test_the_published_sketch_is_too_large_and_the_debiased_is_not(tmp_path):
    figure = tmp_path / "sketch.png"
    result = CliRunner().invoke(app, ["sketch", "--rows", "2000", "--repeats", "4", "--figure", str(figure)])
    assert result.exit_code == 0, result.output
    assert figure.read_bytes().startswith(b"\x89PNG")
    found = EXPERIMENTS["sketch"].run(Conditions(rows=2000, repeats=4))
    errors = {row[:3]: row[5] for row in found.table}
    for spectrum, buckets in (("flat", 128), ("flat", 512), ("1/j", 128), ("1/j", 512)):
        assert errors[spectrum, buckets, "debiased"] < errors[spectrum, buckets, "as published"] / 2


@pytest.mark.skipif(not (SHARED / "data").is_dir(), reason="there is no folder shared/data")
def test_layers_are_looked_at_while_a_network_learns():
    found = EXPERIMENTS["network-training"].run(Conditions(data=SHARED / "data", rows=1000, repeats=1))
    assert [row[0] for row in found.table] == [
        "convolution 1",
        "convolution 2",
        "dense 1",
        "dense 2",
        "output",
    ]
    assert all(0 < row[3] < 1 for row in found.table)
    assert "of widths 10 to 64" in found.summary[-1]


def test_tasks_keep_training_and_test_rows_apart_and_draw_all_class_counts():
    y = np.random.default_rng(0).integers(0, 10, 400)
    tasks = draw_tasks("mnist", y, 8, np.random.default_rng(1))
    for task in tasks:
        assert not set(task.train) & set(task.test)
        assert len(np.unique(y[task.train])) == len(np.unique(y[task.test])) == task.n_classes
    assert {task.n_classes for task in tasks} == {2, 3, 5, 8}


def test_what_the_number_of_classes_explains_is_taken_out():
    """A score that only counts classes correlates with accuracy, and not once their number is held fixed."""
    rng = np.random.default_rng(0)
    results = []
    for number in range(60):
        n_classes = (2, 3, 5, 8)[number % 4]
        noise = rng.normal(size=2)
        for layer in ("early", "output"):
            own = {score: -np.log(n_classes) + 0.1 * noise[0] + (layer == "output") for score in SCORES}
            results.append(
                {
                    "task": ("mnist", number),
                    "model": "network",
                    "layer": layer,
                    "control": ("mnist", n_classes, 30),
                    "accuracy": 1 - 0.05 * n_classes + 0.01 * noise[1] + 0.1 * (layer == "output"),
                    **own,
                }
            )
    found = findings(results)
    for row in found.table:
        assert row[1] > 0.9
        assert abs(row[3]) < 0.4
        assert row[5] is None or row[5] == pytest.approx(1.0)
    assert len(found.draw().axes) == 6


def test_transferability_needs_its_folders():
    result = CliRunner().invoke(app, ["transferability"])
    assert result.exit_code == 1
    assert "needs --data" in result.output


@pytest.mark.full
@pytest.mark.skipif(not SHARED.is_dir(), reason="the data sets and weights are not here")
def test_transferability_on_real_images(tmp_path):
    conditions = Conditions(SHARED / "data", SHARED / "weights", tmp_path, rows=300, repeats=4)
    first = EXPERIMENTS["transferability"].run(conditions)
    assert [row[0] for row in first.table] == list(SCORES)
    assert len(list(tmp_path.iterdir())) == 4
    assert EXPERIMENTS["transferability"].run(conditions).table == first.table
