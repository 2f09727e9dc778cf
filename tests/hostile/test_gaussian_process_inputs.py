"""Gaussian processes with wrong parameters, odd targets, few rows, extreme columns: right answers or clear errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

from krepes import load
from krepes.base.storage import model_file
from krepes.kernels import Gaussian, Matern
from krepes.machines import GaussianProcessClassifier, GaussianProcessRegressor, KernelRidgeClassifier
from refusals import refuses

X, codes = load_iris(return_X_y=True)
_order = np.random.default_rng(0).permutation(150)
X, codes = X[_order], codes[_order]
WIDTH, REST = X[:, 3], X[:, :3]
FIXED = {"kernel": "gaussian", "input_metric": None, "random_state": 0}
GIVEN = {"kernel": Gaussian(1.0), "amplitude": 2.0, "preprocess": None, "random_state": 0}
MACHINES = [GaussianProcessRegressor, GaussianProcessClassifier]

WRONG = [
    ({"amplitude": 0}, ("amplitude=0", "'auto'")),
    ({"amplitude": "large"}, "amplitude='large'"),
    ({"amplitude": None}, "amplitude"),
    ({"amplitude": float("nan")}, "amplitude"),
    ({"input_metric": "full"}, ("input_metric='full'", "'diagonal'")),
    ({"n_landmarks": 0}, "n_landmarks"),
    ({"dtype": "float16"}, "dtype='float16'"),
    ({"kernel": "nothing"}, "nothing"),
    ({"kernel": []}, "kernel"),
    ({"lengthscale": "short"}, "lengthscale='short'"),
    ({"lengthscale": -1.0}, "lengthscale"),
]


@pytest.mark.parametrize(
    ("parameters", "message"), WRONG, ids=lambda v: repr(v) if isinstance(v, dict) else ""
)
@pytest.mark.parametrize("machine", MACHINES)
def test_wrong_parameters_are_named(machine, parameters, message):
    with refuses((ValueError, TypeError), message):
        machine(**{**FIXED, **parameters}).fit(X, codes)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"noise": 0}, "noise=0"), ({"noise": "low"}, "noise='low'")],
)
def test_wrong_parameters_of_the_regressor_are_named(parameters, message):
    with refuses(ValueError, message):
        GaussianProcessRegressor(**FIXED, **parameters).fit(REST, WIDTH)


def test_only_one_of_deviation_and_covariance():
    model = GaussianProcessRegressor(**GIVEN).fit(REST, WIDTH)
    with refuses(ValueError, "return_std", "return_cov"):
        model.predict(REST, return_std=True, return_cov=True)
    with refuses(ValueError, "confidence=1"):
        model.predict_interval(REST, 1)
    with refuses(ValueError, "n_samples=0"):
        model.sample_y(REST, 0)


def test_a_classifier_has_no_checkpoint(tmp_path):
    with refuses(ValueError, "GaussianProcessClassifier", "checkpoint="):
        GaussianProcessClassifier(**GIVEN).fit(X, codes, checkpoint=tmp_path / "c")


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    for machine, bad in ((GaussianProcessRegressor, ["a"] * 150), (GaussianProcessClassifier, np.zeros(150))):
        model = machine(**GIVEN).fit(X, codes)
        before = model.predict(X[:5])
        with pytest.raises((ValueError, TypeError)):
            model.fit(X, bad)
        assert np.array_equal(model.predict(X[:5]), before)


# Right answers at the edge


@pytest.mark.parametrize("n", range(2, 9))
@pytest.mark.parametrize("options", [{}, FIXED, GIVEN], ids=["default", "fixed", "given"])
def test_a_few_rows(n, options):
    options = {"random_state": 0, **options}
    mean, std = GaussianProcessRegressor(**options).fit(REST[:n], WIDTH[:n]).predict(REST, return_std=True)
    assert np.isfinite(mean).all()
    assert (std >= 0).all()
    P = GaussianProcessClassifier(**options).fit(REST[:n], np.arange(n) % 2).predict_proba(REST)
    np.testing.assert_allclose(P.sum(1), 1)


@pytest.mark.parametrize("value", [0.0, 7.0, 1e6])
@pytest.mark.parametrize(
    "options", [{}, FIXED, GIVEN, {"local": True}], ids=["default", "fixed", "given", "cells"]
)
def test_a_constant_target_is_predicted(value, options):
    model = GaussianProcessRegressor(**{"random_state": 0, **options}).fit(REST, np.full(150, value))
    mean, std = model.predict(REST, return_std=True)
    assert mean == pytest.approx(np.full(150, value), rel=1e-9)
    assert np.isfinite(std).all()


@pytest.mark.parametrize("scale", [1e-290, 1e-100, 1e100, 1e290])
def test_extreme_units_of_the_target(scale):
    found = GaussianProcessRegressor(**GIVEN).fit(REST, scale * WIDTH).predict(REST, return_std=True)
    expected = GaussianProcessRegressor(**GIVEN).fit(REST, WIDTH).predict(REST, return_std=True)
    for mine, theirs in zip(found, expected):
        np.testing.assert_allclose(mine / scale, theirs, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("noise", [1e-12, 1e-300, 1e-4, "auto"])
def test_variances_are_never_negative(dtype, noise):
    """Repeated rows, without noise, in single precision."""
    rows, y = np.repeat(REST, 2, axis=0), np.repeat(WIDTH, 2)
    model = GaussianProcessRegressor(kernel=Gaussian(5.0), dtype=dtype, noise=noise, preprocess=None).fit(
        rows, y
    )
    mean, std = model.predict(rows, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    C = model.predict(rows[:20], return_cov=True)[1]
    assert np.array_equal(C, C.T)
    assert np.linalg.eigvalsh(C).min() > -1e-4 * max(C.max(), 1e-300) - 1e-5 * WIDTH.var() * model.amplitude_


def test_constant_rows_predict_the_mean():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianProcessRegressor(random_state=0).fit(np.ones((40, 3)), WIDTH[:40])
    mean, std = model.predict(np.ones((1, 3)), return_std=True, include_noise=True)
    assert mean == pytest.approx(WIDTH[:40].mean(), rel=1e-4)
    assert std == pytest.approx(WIDTH[:40].std(), rel=0.05)


SCALES = {
    "one column": lambda: REST[:, 2:],
    "tiny": lambda: 1e-12 * REST,
    "huge": lambda: 1e12 * REST,
    "far": lambda: REST + 1e7,
    "uneven": lambda: np.column_stack([REST, 1e8 * np.random.default_rng(0).normal(size=150)]),
    "wide": lambda: np.hstack([REST, 0.01 * np.random.default_rng(0).normal(size=(150, 200))]),
    "one outlier": lambda: np.vstack([REST[:149], [[1e6, 1e6, 1e6]]]),
    "true and false": lambda: np.median(REST, axis=0) < REST,
    "a constant column": lambda: np.column_stack([REST, np.full(150, 3.0)]),
}


@pytest.mark.parametrize("name", SCALES)
def test_scales_of_columns(name):
    """What is learned of iris survives them."""
    rows = SCALES[name]()
    model = GaussianProcessRegressor(random_state=0, kernel="matern").fit(rows[:120], WIDTH[:120])
    score = model.score(rows[120:149], WIDTH[120:149])
    assert score > (0.6 if name in ("true and false", "one outlier", "wide", "uneven") else 0.85)


def test_classes_that_are_separable_have_finite_scores():
    """The mode of the weights is finite, because the prior is."""
    y = (WIDTH > 1).astype(int)
    model = GaussianProcessClassifier(kernel=Matern(1.0), amplitude=1e8, preprocess=None).fit(REST, y)
    mean, variance = model.latent_mean_and_variance(REST)
    assert np.isfinite(mean).all()
    assert np.isfinite(variance).all()
    assert model.score(REST, y) == 1
    assert model.n_iter_ < 50


def test_a_kernel_that_is_not_positive():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianProcessRegressor(kernel="sigmoid", random_state=0).fit(REST, WIDTH)
        mean, std = model.predict(REST, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


# Files

FORGED = {
    "a shape": lambda s: s.update(A=s["A"][:-1]),
    "roots": lambda s: s.update(roots=s["roots"][:, :-1]),
    "an amplitude": lambda s: s.update(amplitude=-1.0),
    "a noise": lambda s: s.update(noise=0.0),
    "a word": lambda s: s.update(evidence="high"),
    "more": lambda s: s.update(more=1),
    "less": lambda s: s.pop("b"),
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("machine", MACHINES)
def test_forged_files_are_refused(tmp_path, machine, name):
    if machine is GaussianProcessClassifier and name == "a noise":
        pytest.skip("it has none")
    model = machine(**GIVEN, n_landmarks=20).fit(X, codes)
    state = model._state()
    FORGED[name](state["solution"])
    model_file.write(tmp_path / "m.krepes", machine.__name__, state)
    with refuses(ValueError):
        load(tmp_path / "m.krepes")


def test_a_space_that_another_kind_of_machine_chose_has_no_amplitude():
    """A ridge machine's choice knows none, so that it is 1, as for a kernel that was given."""
    space = KernelRidgeClassifier(random_state=0).fit(X, codes).space_
    found = GaussianProcessClassifier(random_state=0).fit(X, codes, space=space)
    assert found.amplitude_ == 1.0
    assert found.score(X, codes) > 0.9
