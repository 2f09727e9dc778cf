"""The experiment on layers: every method on the same draws, a table, sentences and a figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refusals import refuses
from reproduction import EXPERIMENTS, Conditions
from reproduction import layer_transfer as experiment
from reproduction.datasets import LOADERS


@pytest.fixture
def small(monkeypatch):
    """Two layers, one of which knows the classes; the top layer knows them less."""
    rng = np.random.default_rng(0)

    def layers(n):
        codes = np.arange(n) % 3
        signal = 3 * np.eye(6)[codes] + rng.normal(size=(n, 6))
        return {"early": signal, "output": 0.6 * signal[:, :2] + rng.normal(size=(n, 2))}, codes

    pool, test = layers(90), layers(120)
    monkeypatch.setattr(experiment, "features_of", lambda *_: (*pool, *test))
    monkeypatch.setattr(experiment, "LABELS", (15, 45))
    monkeypatch.setattr(experiment, "DATASETS", {"toy": "Toy"})
    return pool, test


def test_it_finds_what_the_top_layer_lacks(small, tmp_path):
    said: list[str] = []
    findings = EXPERIMENTS["layer-transfer"].run(Conditions(repeats=1, say=said.append))
    n_cells = 2 * 2  # networks, numbers of labels
    assert len(findings.table) == n_cells * len(experiment.METHODS)
    assert all(len(row) == len(findings.columns) for row in findings.table)
    accuracy = {name: [row[4] for row in findings.table if row[3] == name] for name in experiment.METHODS}
    assert np.mean(accuracy[experiment.OURS]) > np.mean(accuracy[experiment.BASELINE]) + 10
    assert len(said) == n_cells
    assert any(f"of {n_cells} cases" in line for line in findings.summary)
    figure = findings.draw()
    assert len(figure.axes) == 2 * 2
    figure.savefig(tmp_path / "figure.png")


def test_labels_are_drawn_class_by_class(small, monkeypatch):
    drawn = []

    def spy(train, codes, test, free, seed):
        drawn.append((codes, len(free["early"])))
        return np.full((len(test["early"]), 3), 1 / 3), ["early"]

    monkeypatch.setattr(experiment, "METHODS", {"a": spy, "b": spy})
    (pool, y), (test, y_test) = small
    experiment.trial(pool, y, test, y_test, 15, seed=0)
    assert all(np.bincount(codes).tolist() == [5, 5, 5] and n_free == 75 for codes, n_free in drawn)
    assert np.array_equal(drawn[0][0], drawn[1][0])


def test_scenes_are_two_halves_of_all_classes():
    folder = Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data")
    (X, y), (X_test, y_test) = LOADERS["scenes"](folder)
    assert X.shape == X_test.shape == (1500, 32, 32, 3)
    assert set(y) == set(y_test) == set(range(6))


def test_it_says_what_it_needs():
    with refuses(ValueError, "--data"):
        EXPERIMENTS["layer-transfer"].check(Conditions())
