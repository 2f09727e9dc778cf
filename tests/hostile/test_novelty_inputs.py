"""What a novelty detector says to too few rows, rows without information, and parameters that make no sense."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from krepes.kernels import ArcCosine, Gaussian, InfiniteWidth, Linear, Polynomial, Spectrum
from krepes.machines import NoveltyDetector
from refusals import refuses, warns_of

X = np.random.default_rng(0).normal(size=(100, 3))


@pytest.mark.parametrize(
    "kernel", ["linear", Polynomial(), ArcCosine(), InfiniteWidth(), Gaussian() + Linear()]
)
def test_kernels_that_do_not_vanish_far_away_are_refused(kernel):
    with refuses(ValueError, "'gaussian'"):
        NoveltyDetector(kernel=kernel).fit(X)


def test_a_kernel_matrix_is_refused():
    with refuses(ValueError, "precomputed", "function"):
        NoveltyDetector(kernel="precomputed").fit(X @ X.T)


def test_several_kernels_on_objects_are_refused():
    with refuses(ValueError, "2 kernels"):
        NoveltyDetector(kernel=[Spectrum(1), Spectrum(2)]).fit(["abc", "bcd", "cde"] * 20)


@pytest.mark.parametrize("score", ["variance", "regression", "distance"])
def test_too_few_calibration_rows_say_so_and_raise_no_alarm(score):
    """Below 19 calibration rows P(p <= 5 %) is 0; scores still rank."""
    with warns_of(UserWarning, "false_alarm_rate=0.05", "19"):
        model = NoveltyDetector(measure=score, random_state=0).fit(X[:40])
    assert model.attainable_rate_ == 0
    rows = np.array([[0.0, 0, 0], [50.0, 50, 50]])
    assert model.predict(rows).tolist() == [1, 1]
    assert model.score_samples(rows)[0] > model.score_samples(rows)[1]
    assert (model.decision_function(rows) >= 0).all()
    assert model.p_values(rows)[1] == 1 / (model.n_calibration_ + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X[40:]).predict(rows)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_rows_are_too_few(n):
    with refuses(ValueError, "minimum", "2"):
        NoveltyDetector(calibration_share=0.95).fit(X[:n])


def test_rows_that_only_calibrate_are_not_enough():
    model = NoveltyDetector(random_state=0, landmarks=X[:5]).fit(X).empty_copy()
    held = int(np.flatnonzero(np.isin(np.arange(100), NoveltyDetector().fit(X).total_.kept.rows))[0])
    model.partial_fit(X[held : held + 1], first_row=held)
    with refuses(ValueError, "none", "learn"):
        model.predict(X)


def test_constant_columns_and_constant_rows():
    rows = np.column_stack([X, np.full(100, 7.0)])
    model = NoveltyDetector(random_state=0).fit(rows)
    assert model.predict([[0, 0, 0, 7.0], [0, 0, 0, 900.0]]).tolist() == [1, -1]
    same = NoveltyDetector(random_state=0).fit(np.ones((100, 2)))
    assert same.predict([[1.0, 1.0]]) == 1
    assert same.predict([[900.0, 900.0]]) == -1


def test_nan_is_refused_in_arrays_and_taken_in_tables():
    spoiled = X.copy()
    spoiled[3, 1] = np.nan
    with refuses(ValueError, "NaN"):
        NoveltyDetector().fit(spoiled)
    model = NoveltyDetector(random_state=0).fit(X)
    with refuses(ValueError, "NaN"):
        model.predict(spoiled)
    frame = pd.DataFrame(spoiled, columns=list("abc"))
    assert np.isfinite(NoveltyDetector(random_state=0).fit(frame).score_samples(frame)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"false_alarm_rate": 0}, "false_alarm_rate=0"),
        ({"false_alarm_rate": 5}, "false_alarm_rate=5"),
        (
            {"measure": "likelihood"},
            ("measure='likelihood'", "'variance'", "'regression'", "'distance'"),
        ),
        ({"calibration_share": 0}, ("calibration_share=0", "0.05", "0.95")),
        ({"penalty": -1}, ("penalty=-1", "0")),
        ({"n_landmarks": 0}, ("n_landmarks=0", "1")),
        ({"n_kept": 0}, ("n_kept=0", "1")),
        ({"kernel": []}, "kernel"),
        ({"dtype": "int8"}, "dtype='int8'"),
        ({"lengthscale": "long"}, "lengthscale='long'"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, message):
    with refuses(ValueError, message):
        NoveltyDetector(**parameters).fit(X)


def test_models_that_differ_are_not_merged():
    model = NoveltyDetector(random_state=0).fit(X)
    other = NoveltyDetector(random_state=0, calibration_share=0.2).fit(X, space=model.space_)
    with refuses(ValueError, "settings"):
        model.merge(other)
    with refuses(ValueError, "differ in", "measure"):
        model.merge(NoveltyDetector(measure="distance", random_state=0).fit(X, space=model.space_))


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = NoveltyDetector(random_state=0).fit(X)
    before, choice = model.score_samples(X), model.choice_
    with refuses(ValueError, "NaN"):
        model.fit(np.full((50, 3), np.nan))
    assert model.choice_ is choice
    assert np.array_equal(model.score_samples(X), before)
