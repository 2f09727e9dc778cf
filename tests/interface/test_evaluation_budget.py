"""Evaluations end within a budget of seconds, and say what they have left out to keep it."""

from __future__ import annotations

import itertools
import re
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris

from command_line import run
from krepes import KernelEmbedding
from krepes.evaluation import Budget, Search, label_curve, linear, linear_probe, plan_protocol
from krepes.evaluation.comparison.draws import Method, run_draws
from krepes.evaluation.comparison.prediction_scores import Rivals, out_of_fold
from krepes.evaluation.tuning.study import record

TIME = [0.0]  # that only slow estimators move


@pytest.fixture
def data():
    y = np.arange(4000) % 2
    return y[:, None] + np.random.default_rng(0).normal(size=(4000, 2)), y


def seconds(most: float) -> Budget:
    return Budget(most, clock=lambda: TIME[0])


class Slow(ClassifierMixin, BaseEstimator):
    """Takes some seconds for each row, by the clock of these tests."""

    def __init__(self, per_row: float = 0.0):
        self.per_row = per_row

    def fit(self, X, y):
        TIME[0] += self.per_row * len(X)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (X[:, 0] > 0.5).astype(np.int64)


def slow(Z: np.ndarray, of_all: float) -> Method:
    """A method that takes so many seconds with all 3200 labels."""
    return Method(Z, "estimator", {"estimator": Slow(of_all / 3200)})


def test_a_baseline_that_does_not_fit_is_left_out_in_words(data):
    """It is tried on an eighth of the labels; the first method is measured in any case."""
    X, y = data
    plan = plan_protocol(y, label_fraction=None, n_repeats=1)
    methods = {"ours": slow(X[plan.rows], 1.0), "slow": slow(X[plan.rows], 400.0)}
    results, notes = run_draws(plan, methods, seconds(60))
    assert list(results) == ["ours"]
    assert notes == ["slow was left out: it takes about 400 s, and 9 s of the budget of 60 s are left"]
    assert list(run_draws(plan, methods, Budget())[0]) == ["ours", "slow"]
    assert list(run_draws(plan, {"ours": slow(X[plan.rows], 400.0)}, seconds(60))[0]) == ["ours"]


def test_draws_are_made_as_long_as_they_fit(data):
    """All methods have the same draws, and one sentence says beforehand how many there will be."""
    X, y = data
    plan, said = plan_protocol(y, label_fraction=None, n_repeats=5), []
    methods = {"ours": slow(X[plan.rows], 8.0), "other": slow(X[plan.rows], 2.0)}
    results, notes = run_draws(plan, methods, seconds(35), say=said.append)
    assert [len(result.results) for result in results.values()] == [3, 3]
    assert notes == ["3 of 5 draws were made, to keep the budget of 35 s"]
    assert said == ["A draw takes about 10 s: 3 of 5 fit into the budget of 35 s."]


def test_a_label_curve_leaves_out_what_does_not_fit(data):
    X, y = data
    curve = label_curve(
        {"all": X},
        y,
        counts=[100, 200, 400],
        n_repeats=2,
        probe="estimator",
        estimator=Slow(0.1),
        budget=seconds(50),
    )
    assert curve.counts == [100, 200]
    assert [len(found.results) for found in curve.results["all"]] == [2, 1]
    assert curve.notes == [
        "with 200 labels, 1 of 2 draws were made, to keep the budget of 50 s",
        "400 labels: left out, to keep the budget",
    ]


def test_a_label_curve_shows_progress(data, monkeypatch):
    """U13: 55 minutes on pixels went by without a word."""
    X, y = data
    shown, advanced = [], []

    class Recorded:
        @contextmanager
        def stage(self, name, total=None, unit="rows"):
            shown.append((name, total))
            yield SimpleNamespace(advance=advanced.append)

    monkeypatch.setattr("krepes.evaluation.comparison.label_curve.display", lambda verbose: Recorded())
    label_curve({"all": X}, y, counts=[50, 100], n_repeats=2, probe="estimator", estimator=Slow(), verbose=1)
    assert shown == [("Probing", 4)]
    assert sum(advanced) == 4


def test_the_search_for_C_ends_with_the_budget(data):
    """A clock that goes on by a second whenever it is looked at. A C that may still have grown is not taken."""
    X, y = data
    ticks = itertools.count()
    found = linear_probe(
        X[:200], y[:200], X[200:], y[200:], budget=Budget(6, clock=lambda: float(next(ticks)))
    )
    assert found.notes == ["to keep the budget, values of C above 0.000316 were not tried; C=0.1 was taken"]
    assert found.chosen == {"C": 0.1}


def test_wide_rows_choose_C_with_fewer_labels_only_under_a_budget(data, monkeypatch):
    X, y = data
    monkeypatch.setattr(linear, "LEAST_SEARCH_ROWS", 500)
    monkeypatch.setattr(linear, "SEARCH_CELLS", 4000)
    given = (X[:3000], y[:3000], X[3000:], y[3000:])
    assert linear_probe(*given, budget=1e9).notes == ["C was chosen with 1,000 of the 3,000 labels"]
    assert linear_probe(*given).notes == []


def test_other_machines_that_do_not_fit_are_left_out(data):
    """A machine is compared by folds, of which each takes its time."""
    X, y = data
    others = Rivals.of("classification", len(y), raw=False, budget=seconds(60), n_fits=5)
    others = Rivals({"slow": Slow(0.01).fit, **others.fits}, others.budget, 5, others.notes)
    found = out_of_fold(others, X, y, np.arange(4000) % 5, 2, lambda steps: None)
    assert list(found) == ["always the most frequent class"]
    assert others.notes == [
        "slow was left out: it takes about 200 s, and 55 s of the budget of 60 s are left"
    ]


def test_a_machine_beside_which_the_budget_ends_is_left_out(data, monkeypatch):
    """Fits that turn out slower than the trial said end after the fold that shows it; the constant stays."""
    X, y = data
    others = Rivals.of("classification", len(y), raw=False, budget=seconds(60), n_fits=5)
    others = Rivals({"slow": Slow(0.007).fit, **others.fits}, others.budget, 5, others.notes)
    monkeypatch.setattr(others.budget, "refusal", lambda *given: "")
    found = out_of_fold(others, X, y, np.arange(4000) % 5, 2, lambda steps: None)
    assert list(found) == ["always the most frequent class"]
    assert others.notes == ["slow was left out: it takes about 90 s, and 38 s of the budget of 60 s are left"]


def test_a_search_makes_the_trials_that_fit(monkeypatch):
    """One in any case; the next where it fits, if it takes as long as the longest before it."""
    pytest.importorskip("optuna")
    X, y = load_iris(return_X_y=True)

    def tried(search, params):
        TIME[0] += 10.0
        record(search.study, search.space.varied, params, 0.5, seconds=10.0, message="", notes=[], scores={})

    monkeypatch.setattr(Search, "_try", tried)
    monkeypatch.setattr(Search, "prepare", lambda search: None)
    for most, made in ((35, 3), (1, 1), (None, 5)):
        found = Search(KernelEmbedding(2, n_landmarks=10), X, y)
        budget = None if most is None else seconds(most)
        assert len(found.run(5, budget=budget).trials) == made


def test_the_command_line_says_which_trials_do_not_fit(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    X, y = load_iris(return_X_y=True)
    np.savez(tmp_path / "iris.npz", X=X, y=y)
    monkeypatch.chdir(tmp_path)
    real = Search._scores
    monkeypatch.setattr(Search, "_scores", lambda search, params: (time.sleep(0.6), real(search, params))[1])
    options = ["--n-landmarks", "10", "--n-components", "2", "--trials", "4", "--budget", "1"]
    text = " ".join(run("tune", "iris.npz", *options).split())
    assert "fit into the budget of 1 s. More with --budget." in text
    assert re.search(r"[12] of 4 trials were made, to keep the budget of 1 s\.", text)
