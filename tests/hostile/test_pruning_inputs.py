"""Ensemble pruning on bad or degenerate input: the right answer, or an error that says what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

from krepes.alignment import PrunedEnsemble, prune_ensemble
from refusals import refuses, warns_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=80)
LABELS = np.where(Y > 0, "up", "down")
P = Y[:, None] + RNG.normal(size=(80, 4))
FOREST = RandomForestRegressor(6, random_state=0).fit(X, Y)
CLASSES = RandomForestClassifier(6, random_state=0).fit(X, LABELS)
GAPS = np.where(RNG.random(P.shape) < 0.3, np.nan, P)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prune_ensemble(FOREST, X), "y"),
        (lambda: prune_ensemble(FOREST, None, Y), "X"),
        (lambda: prune_ensemble(FOREST, X, Y[:5]), ("y", "5", "80")),
        (lambda: prune_ensemble(FOREST, X[:, :2], Y), "2 features"),
        (lambda: prune_ensemble(FOREST, X, Y, method="lasso"), ("method='lasso'", "'alignment'")),
        (lambda: prune_ensemble(FOREST, X, Y, predictions="train"), "predictions='train'"),
        (lambda: prune_ensemble(FOREST, X, np.where(Y > 1, np.nan, Y)), ("y", "missing", "infinite")),
        (lambda: prune_ensemble(FOREST, X, np.ones(80)), ("target", "row")),
        (
            lambda: prune_ensemble(FOREST, X[:9], Y[:9], predictions="out_of_bag"),
            ("9 rows", "80"),
        ),
        (lambda: prune_ensemble(CLASSES, X, np.full(80, "up")), "80 labels"),
        (lambda: prune_ensemble(CLASSES, X, np.where(Y > 0, "up", "left")), "'left'"),
        (
            lambda: prune_ensemble(
                GradientBoostingRegressor(n_estimators=2).fit(X, Y), X, Y, predictions="out_of_bag"
            ),
            "rows",
        ),
        (
            lambda: prune_ensemble(GradientBoostingRegressor(loss="quantile").fit(X, Y), X, Y),
            ("quantiles", "pruned"),
        ),
        (lambda: prune_ensemble(RandomForestRegressor(2).fit(X, X), X, Y), "targets"),
        (
            lambda: prune_ensemble(RandomForestClassifier(2).fit(X, np.ones(80)), X, np.ones(80)),
            "class",
        ),
        (lambda: prune_ensemble(P, X, Y), "X"),
        (lambda: prune_ensemble(P[:, 0], y=Y), "(80,)"),
        (lambda: prune_ensemble(P[:, :0], y=Y), "(80, 0)"),
        (lambda: prune_ensemble(P, y=Y[:7]), ("y", "7", "80")),
        (lambda: prune_ensemble(P, y=P), ("y", "row")),
        (lambda: prune_ensemble(GAPS, y=Y), 'predictions="out_of_bag"'),
        (lambda: prune_ensemble(np.where(P > 1, np.inf, P), y=Y), ("missing", "infinite")),
        (lambda: prune_ensemble(np.ones((80, 3)), y=Y), ("predicts", "constant")),
        (lambda: prune_ensemble(-Y[:, None] * [1, 2], y=Y), ("keeping", "worth")),
        (lambda: prune_ensemble(P, y=Y, names=["a"]), ("1", "4")),
        (lambda: prune_ensemble(P, y=LABELS), ("y", "lie between", "labels")),
        (
            lambda: prune_ensemble(P, y=(Y > 0).astype(int), task="classification"),
            ("1", "exp(-s)", 'task="regression"'),
        ),
        (lambda: prune_ensemble(FOREST, X, Y, task="regression"), "task='regression'"),
        (lambda: prune_ensemble(CLASSES, X, LABELS, classes=["up", "down"]), "classes="),
        (lambda: prune_ensemble(FOREST, X, Y, names=list("abcdef")), "names="),
        (
            lambda: prune_ensemble(np.where(P > 1, np.inf, P), y=Y, predictions="out_of_bag"),
            ("members", "Leave"),
        ),
        (
            lambda: prune_ensemble(np.full((80, 2), np.nan), y=Y, predictions="out_of_bag"),
            ("member", "row"),
        ),
        (lambda: prune_ensemble(P, y=LABELS, task="regression"), ("Regression", "numbers")),
        (lambda: prune_ensemble(np.ones((80, 2, 1)), y=LABELS), "class"),
        (lambda: prune_ensemble(np.ones((80, 2, 3)), y=LABELS), "classes="),
        (lambda: prune_ensemble(P, y=Y).predict(P[:, :2]), ("2", "4")),
        (lambda: prune_ensemble(P, y=Y).predict(P[:, :, None] * [1, 1]), ("shape", "choice")),
        (lambda: PrunedEnsemble().fit(X, Y), "members"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with refuses(ValueError, message):
        call()


@pytest.mark.parametrize(
    ("ensemble", "message"),
    [
        (HistGradientBoostingRegressor(max_iter=2), "GradientBoosting"),
        (make_pipeline(LinearRegression()), ("ensemble", "inside")),
        (LinearRegression(), "ensemble"),
    ],
)
def test_what_is_no_ensemble_of_single_members_is_refused(ensemble, message):
    with refuses(TypeError, message):
        prune_ensemble(ensemble.fit(X, Y), X, Y)


def test_an_ensemble_must_be_fitted():
    with pytest.raises(NotFittedError):
        prune_ensemble(RandomForestRegressor(), X, Y)
    with pytest.raises(NotFittedError):
        PrunedEnsemble(prune_ensemble(FOREST, X, Y).members).predict(X)


def test_text_is_no_target_of_regression():
    with refuses(TypeError, "regressor", "predicts"):
        prune_ensemble(FOREST, X, LABELS)


def test_rows_that_all_members_have_seen_leave_nothing_to_judge_them_by():
    every = BaggingRegressor(n_estimators=3, bootstrap=False, random_state=0).fit(X, Y)
    assert prune_ensemble(every, X, Y).predictions_ == "given"
    few = BaggingRegressor(n_estimators=40, random_state=0).fit(X[:6], Y[:6])
    with refuses(ValueError, "row"):
        prune_ensemble(few, X[:6], Y[:6])


def test_members_added_later_have_unknown_samples():
    """With warm_start scikit-learn knows the rows of the last members only: given predictions are used."""
    model = BaggingRegressor(n_estimators=3, warm_start=True, random_state=0).fit(X, Y)
    model.set_params(n_estimators=5).fit(X, Y)
    assert prune_ensemble(model, X, Y).predictions_ == "given"


def test_a_member_that_lacks_a_class_predicts_the_others():
    rare = np.where(np.arange(80) < 3, "rare", LABELS)
    model = BaggingClassifier(KNeighborsClassifier(1), 12, max_samples=10, random_state=0).fit(X, rare)
    assert min(len(member.classes_) for member in model.estimators_) < 3
    pruned = prune_ensemble(model, X, rare)
    assert pruned.predict_proba(X).shape == (80, 3)
    assert set(pruned.predict(X)) <= {"rare", "up", "down"}


def test_one_member_is_kept_and_rescaled():
    pruned = prune_ensemble(5 * Y[:, None] - 2, y=Y)
    assert pruned.size_ == 1
    assert np.allclose(pruned.predict(5 * Y[:, None] - 2), Y)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_the_scale_of_the_data_does_not_matter(scale):
    expected = prune_ensemble(P, y=Y)
    found = prune_ensemble(P * scale, y=Y * scale)
    assert np.allclose([r.weight for r in found.table_], [r.weight for r in expected.table_], atol=1e-10)


def test_gaps_are_allowed_only_where_they_are_said_to_be():
    pruned = prune_ensemble(GAPS, y=Y, predictions="out_of_bag")
    assert np.isfinite(pruned.predict(P)).all()
    with refuses(ValueError, "missing", "infinite"):
        pruned.predict(np.full((1, 4), np.nan))


def test_labels_unknown_to_the_choice_are_refused():
    votes = np.column_stack([LABELS, np.where(X[:, 1] > 0, "up", "down")])
    pruned = prune_ensemble(votes, y=LABELS)
    with refuses(ValueError, "'left'"):
        pruned.predict(np.array([["left", "up"]]))


def test_frames_keep_their_names_and_inputs_are_not_changed():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = BaggingRegressor(DecisionTreeRegressor(max_depth=2), 6, max_features=2, random_state=0).fit(
        frame, Y
    )
    before = frame.copy(), Y.copy()
    pruned = prune_ensemble(model, frame, Y)
    assert pruned.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.isfinite(pruned.predict(frame)).all()
    with refuses(ValueError, "feature"):
        pruned.predict(frame[["b", "a", "c"]])
    pd.testing.assert_frame_equal(frame, before[0])
    assert np.array_equal(Y, before[1])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_the_columns_of_a_frame_are_the_names_of_members(frame):
    table = frame({f"m{k}": P[:, k] for k in range(4)})
    pruned = prune_ensemble(table, y=Y)
    assert [row.name for row in pruned.table_] == ["m0", "m1", "m2", "m3"]
    assert [row.name for row in prune_ensemble(table, y=Y, names=list("abcd")).table_] == list("abcd")
    assert np.array_equal(pruned.predict(table), pruned.predict(P))
    with refuses(ValueError, "feature names"):
        pruned.predict(table[["m1", "m0", "m2", "m3"]])


@pytest.mark.parametrize("labels", [False, True])
def test_a_member_without_rows_is_dropped_with_a_reason(labels):
    """It changes nothing else."""
    some, y = (1 / (1 + np.exp(-GAPS)), LABELS) if labels else (GAPS, Y)
    with_empty = np.insert(some, 1, np.nan, axis=1)
    found = prune_ensemble(with_empty, y=y, predictions="out_of_bag")
    expected = prune_ensemble(some, y=y, predictions="out_of_bag")
    assert found.table_[1].reason == "no row to judge it by"
    assert not found.table_[1].kept
    assert np.isnan(found.table_[1].score)
    weights = [row.weight for row in found.table_]
    assert np.allclose([*weights[:1], *weights[2:]], [row.weight for row in expected.table_], atol=1e-12)
    assert found.score_ == pytest.approx(expected.score_)
    assert found.score_of_all_ == pytest.approx(expected.score_of_all_)


def test_rows_that_members_were_trained_on_are_noticed():
    full = ExtraTreesRegressor(6, random_state=0).fit(X, Y)
    with warns_of(UserWarning, "rows"):
        prune_ensemble(full, X, Y)
    with warns_of(UserWarning, 'predictions="out_of_bag"', "X", "training", "data"):
        prune_ensemble(FOREST, X, Y, predictions="given")
    other = X + 0.3 * RNG.normal(size=X.shape)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prune_ensemble(full, other, Y)
        prune_ensemble(FOREST, other[::-1], Y[::-1], predictions="given")
    assert not any("perfectly" in str(found.message) for found in caught)
    assert not any("training data" in str(found.message) for found in caught)


def test_members_that_are_noise_are_noticed():
    noise = np.random.default_rng(3).normal(size=(80, 10))
    with warns_of(UserWarning, "explains", "member"):
        pruned = prune_ensemble(noise, y=Y)
    assert pruned.score_ < 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prune_ensemble(P, y=Y)


def test_a_choice_that_is_clearly_worse_than_all_is_noticed():
    """The mean of many members with errors of their own is better than the best of them."""
    rng = np.random.default_rng(4)
    many = Y[:, None] + rng.normal(size=(80, 60))
    with warns_of(UserWarning, "members", "predict"):
        pruned = prune_ensemble(many, y=Y, method="r2")
    assert pruned.score_ < pruned.score_of_all_ - 0.2


@pytest.mark.parametrize("model", [RandomForestRegressor(20), BaggingRegressor(LinearRegression(), 20)])
def test_as_many_held_out_rows_are_not_taken_for_the_training_rows(model):
    other = np.random.default_rng(5).normal(size=X.shape)
    y = other[:, 0] + 0.1 * np.random.default_rng(6).normal(size=80)
    model.set_params(random_state=0).fit(X, Y)
    with warns_of(UserWarning, "held-out", "rows"):
        assert prune_ensemble(model, other, y).predictions_ == "given"
    with warns_of(UserWarning, "order"):
        assert prune_ensemble(model, X[::-1], Y[::-1], predictions="out_of_bag").predictions_ == "out_of_bag"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert prune_ensemble(model, X, Y).predictions_ == "out_of_bag"
    assert not any("training data" in str(found.message) for found in caught)


def test_what_is_saved_is_told_without_time():
    savings = prune_ensemble(FOREST, X, Y).savings_
    assert str(savings) == f"{1 - savings.bytes_after / savings.bytes_before:.0%} of the memory saved"
