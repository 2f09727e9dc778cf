"""Ridge machines with wrong parameters, odd targets, few rows, extreme columns: right answers or clear errors."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris

from krepes.kernels import Gaussian, Laplacian, Linear, Reweighted
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from refusals import refuses

X, codes = load_iris(return_X_y=True)
_order = np.random.default_rng(0).permutation(150)
X, codes = X[_order], codes[_order]
WIDTH, REST = X[:, 3], X[:, :3]
FIXED = {"kernel": "gaussian", "input_metric": None, "random_state": 0}

WRONG = [
    ({"penalty": 0}, ("penalty=0", "'auto'")),
    ({"penalty": -1.0}, "penalty"),
    ({"penalty": float("nan")}, "penalty"),
    ({"penalty": "small"}, "penalty='small'"),
    ({"penalty": True}, "penalty"),
    ({"penalty": None}, "penalty"),
    ({"input_metric": "both"}, ("input_metric='both'", "'diagonal'", "'full'", "'auto'")),
    ({"n_landmarks": 0}, "n_landmarks"),
    ({"n_landmarks": "all"}, "n_landmarks"),
    ({"n_landmarks": 2.5}, "n_landmarks"),
    ({"n_folds": 1}, "n_folds"),
    ({"n_folds": "five"}, "n_folds"),
    ({"n_folds": 2**70}, "1,000"),
    ({"n_kept": 0}, "n_kept"),
    ({"n_kept": -5}, "n_kept"),
    ({"dtype": "float16"}, "dtype='float16'"),
    ({"kernel": "nothing"}, "nothing"),
    ({"kernel": []}, "kernel"),
    ({"kernel": 3}, ("Kernel", "object")),
    ({"kernel": ["gaussian", "nothing"]}, "nothing"),
    ({"lengthscale": "short"}, "lengthscale='short'"),
    ({"lengthscale": -1.0}, "lengthscale"),
    ({"lengthscale": [1.0, 2.0]}, ("lengthscale", "shape")),
    ({"lengthscale": float("nan")}, "lengthscale"),
    ({"landmarks": "best"}, "best"),
    ({"preprocess": "magic"}, "magic"),
    ({"engine": "moon"}, "engine"),
    ({"device": "moon"}, "moon"),
    ({"random_state": "seed"}, "seed"),
]


@pytest.mark.parametrize(
    ("parameters", "message"), WRONG, ids=lambda v: repr(v) if isinstance(v, dict) else ""
)
@pytest.mark.parametrize("machine", [KernelRidgeRegressor, KernelRidgeClassifier])
def test_wrong_parameters_are_named(machine, parameters, message):
    with refuses((ValueError, TypeError), message):
        machine(**{**FIXED, **parameters}).fit(X, codes)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("even", "class_weight='even'"),
        ({0: -1.0}, "positive"),
        ({0: "much"}, "positive"),
        ({7: 1.0}, "7"),
        (3, "class_weight=3"),
    ],
)
def test_wrong_class_weights_are_named(weight, message):
    with refuses(ValueError, message):
        KernelRidgeClassifier(**FIXED, class_weight=weight).fit(X, codes)


TARGETS = [
    (None, "y"),
    (np.where(np.arange(150) == 7, np.nan, WIDTH), ("NaN", "150 rows", "row 7")),
    (np.where(np.arange(150) == 7, np.inf, WIDTH), "infinite"),
    (1e301 * WIDTH, "overflow"),
    (WIDTH[1:], ("y", "149 values", "150 rows")),
    ([], "y"),
    (3.0, "y"),
    (np.zeros((150, 2, 2)), "shape"),
    (WIDTH + 1j, ("supported", "Complex")),
    (
        np.array(["a"] * 150),
        ("y", "'a'"),
    ),
    (np.array([1.5] * 149 + ["b"], dtype=object), ("y", "'b'")),
    ([{}] * 150, "y"),
    (np.array(["2020-01-01"] * 150, dtype="datetime64[D]"), "y"),
]


@pytest.mark.parametrize(("y", "message"), TARGETS, ids=range(len(TARGETS)))
def test_targets_that_are_no_numbers(y, message):
    with refuses((ValueError, TypeError), message):
        KernelRidgeRegressor(**FIXED).fit(X, y)
    model = KernelRidgeRegressor(**FIXED).fit(X, WIDTH)
    with refuses((ValueError, TypeError), message):
        model.partial_fit(X, y)
    assert model.n_samples_seen_ == 150


LABELS = [
    (None, "y"),
    (np.zeros(150), ("class", "0")),
    (["a"] * 150, "'a'"),
    (np.where(np.arange(150) == 7, np.nan, codes), ("150 rows", "row 7")),
    (["a", None] * 75, ("75", "150")),
    (np.where(np.arange(150) == 7, np.inf, codes), "infinite"),
    (WIDTH, "continuous"),
    (np.arange(150), ("identifier", "quantity")),
    (codes[1:], ("y", "149 values", "150 rows")),
    ([], "empty"),
    (3, "y"),
    (np.eye(3)[codes], ("one label", "row")),
    (["a", 1] * 75, "labels"),
    (codes + 1j, ("supported", "Complex")),
    (np.array(["2020-01-01", "2020-01-02"] * 75, dtype="datetime64[D]"), ("labels", "text")),
]


@pytest.mark.parametrize(("y", "message"), LABELS, ids=range(len(LABELS)))
def test_labels_that_are_no_classes(y, message):
    with refuses((ValueError, TypeError), message):
        KernelRidgeClassifier(**FIXED).fit(X, y)


@pytest.mark.parametrize(
    "other", [[3], ["0"], ["rose"], [0.5], [None], [-1], [float("nan")], [2.0, 7.0]], ids=repr
)
def test_classes_that_a_model_does_not_know(other):
    model = KernelRidgeClassifier(**FIXED).fit(X, codes)
    with refuses(ValueError):
        model.partial_fit(X[: len(other)], other)
    assert (
        model.partial_fit(X[:2], [0.0, 1.0]).partial_fit(X[:2], np.array([True, False])).n_samples_seen_
        == 154
    )


def test_classes_of_the_first_call():
    with refuses(ValueError, "class 2"):
        KernelRidgeClassifier(**FIXED).partial_fit(X, codes, classes=[0, 1])
    with refuses(ValueError, "classes"):
        KernelRidgeClassifier(**FIXED).partial_fit(X, codes, classes=[0])
    model = KernelRidgeClassifier(**FIXED).partial_fit(X[codes == 1], codes[codes == 1], classes=[0, 1, 2])
    assert model.predict(X[:5]).tolist() == [1] * 5
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize(
    "weight", [np.ones(149), -np.ones(150), np.zeros(150), np.full(150, np.nan), "much"], ids=str
)
def test_wrong_weights_are_named(weight):
    for machine in (KernelRidgeRegressor(**FIXED), KernelRidgeClassifier(**FIXED, class_weight={0: 2.0})):
        with refuses(ValueError, "sample_weight"):
            machine.fit(X, codes, sample_weight=weight)


# Right answers at the edge


@pytest.mark.parametrize("n", range(2, 11))
@pytest.mark.parametrize("options", [{}, FIXED, {"n_kept": 1}], ids=["default", "fixed", "one kept"])
def test_a_few_rows(n, options):
    options = {"random_state": 0, **options}
    model = KernelRidgeRegressor(**options).fit(REST[:n], WIDTH[:n])
    assert np.isfinite(model.predict(REST)).all()
    classes = np.arange(n) % 2
    classifier = KernelRidgeClassifier(**options).fit(REST[:n], classes)
    P = classifier.predict_proba(REST)
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(1), 1)


def test_one_row_is_too_few():
    with refuses(ValueError, "minimum", "2"):
        KernelRidgeRegressor().fit(X[:1], WIDTH[:1])
    alone = KernelRidgeRegressor(random_state=0).fit(X, WIDTH, sample_weight=np.eye(150)[3])
    assert alone.predict(X[:2]) == pytest.approx(WIDTH[[3, 3]])


@pytest.mark.parametrize("value", [0.0, 7.0, 1e6])
@pytest.mark.parametrize("options", [{}, FIXED, {"fit_intercept": False}], ids=str)
def test_a_constant_target_is_predicted(value, options):
    model = KernelRidgeRegressor(**{"random_state": 0, **options}).fit(REST, np.full(150, value))
    assert model.predict(REST) == pytest.approx(
        np.full(150, value), rel=1e-2 if "fit_intercept" in options else 1e-9
    )


@pytest.mark.parametrize("scale", [1e-290, 1e-160, 1e160, 1e290])
def test_extreme_units_of_the_target(scale):
    found = KernelRidgeRegressor(**FIXED).fit(REST, scale * WIDTH).predict(REST) / scale
    expected = KernelRidgeRegressor(**FIXED).fit(REST, WIDTH).predict(REST)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_one_constant_output_of_two():
    Y = np.column_stack([WIDTH, np.full(150, 5.0)])
    found = KernelRidgeRegressor(random_state=0, n_landmarks=30).fit(REST, Y).predict(REST)
    np.testing.assert_allclose(found[:, 1], 5, rtol=1e-9)
    assert np.corrcoef(found[:, 0], WIDTH)[0, 1] > 0.9


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_constant_rows_predict_the_mean(dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelRidgeRegressor(random_state=0, dtype=dtype).fit(np.ones((40, 3)), WIDTH[:40])
    assert model.predict(np.ones((1, 3))) == pytest.approx(WIDTH[:40].mean(), rel=1e-4)


@pytest.mark.parametrize("machine", [KernelRidgeRegressor, KernelRidgeClassifier])
def test_repeated_rows_and_constant_columns(machine):
    rows = np.hstack([np.repeat(REST[:40], 3, axis=0), np.full((120, 2), 3.0)])
    y = np.repeat(codes[:40], 3)
    model = machine(random_state=0).fit(rows, y)
    assert model.score(rows, y) > 0.85


SCALES = {
    "one column": lambda: REST[:, 2:],
    "tiny": lambda: 1e-12 * REST,
    "huge": lambda: 1e12 * REST,
    "far": lambda: REST + 1e7,
    "uneven": lambda: np.column_stack([REST, 1e8 * np.random.default_rng(0).normal(size=150)]),
    "a tiny column": lambda: np.column_stack([1e-9 * REST[:, 2], np.random.default_rng(0).normal(size=150)]),
    "wide": lambda: np.hstack([REST, 0.01 * np.random.default_rng(0).normal(size=(150, 400))]),
    "one outlier": lambda: np.vstack([REST[:149], [[1e6, 1e6, 1e6]]]),
    "integers": lambda: np.round(10 * REST).astype(np.int16),
    "half precision": lambda: REST.astype(np.float16),
    "single precision": lambda: torch.from_numpy(REST).float(),
    "true and false": lambda: np.median(REST, axis=0) < REST,
}


@pytest.mark.parametrize("dtype", ["auto", "float32"])
@pytest.mark.parametrize("name", SCALES)
def test_scales_of_columns(name, dtype):
    """What is learned of iris survives them."""
    rows = SCALES[name]()
    model = KernelRidgeRegressor(random_state=0, dtype=dtype, kernel=["gaussian", "laplacian"]).fit(
        rows[:120], WIDTH[:120]
    )
    score = model.score(rows[120:149], WIDTH[120:149])
    assert score > (0.6 if name in ("true and false", "one outlier", "wide", "uneven") else 0.85)


@pytest.mark.parametrize("local", [False, True])
def test_a_row_that_leaves_no_digits_to_the_others_is_named(local):
    """R4: distances of the others are rounded away, and their kernel matrix has negative eigenvalues."""
    rows = np.random.default_rng(0).normal(size=(501, 4))
    rows[-1] = 1e9
    with refuses(ValueError, "far from all others", "leave it out"):
        KernelRidgeRegressor(kernel="gaussian", local=local, random_state=0).fit(rows, np.sin(2 * rows[:, 0]))


def test_a_frame_with_text_and_gaps():
    frame = pd.DataFrame(REST, columns=list("abc")).assign(
        kind=np.array(["u", "v", None], dtype=object)[codes]
    )
    frame.loc[::9, "b"] = np.nan
    model = KernelRidgeClassifier(random_state=0, n_landmarks=60, kernel="gaussian").fit(frame, codes)
    assert model.score(frame, codes) > 0.9
    with refuses(ValueError, "a"):
        model.predict(frame.drop(columns="a"))
    with refuses(ValueError, "column"):
        KernelRidgeClassifier(random_state=0).fit(frame, "colour")


def test_numbers_as_text_are_refused_in_arrays():
    with refuses((ValueError, TypeError), "numbers"):
        KernelRidgeRegressor(random_state=0).fit(X.astype(str), WIDTH)
    with refuses(TypeError, "y"):
        KernelRidgeRegressor(random_state=0).fit(X, WIDTH.astype(str))
    labels = KernelRidgeClassifier(**FIXED).fit(X, codes.astype(str))
    assert labels.classes_.tolist() == ["0", "1", "2"]


def test_a_penalty_below_rounding_is_refused_or_solved():
    for penalty in (1e-300, 1e-20, 1e300):
        for dtype in ("float32", "float64"):
            model = KernelRidgeRegressor(**FIXED, penalty=penalty, dtype=dtype)
            try:
                found = model.fit(np.repeat(REST, 2, axis=0), np.repeat(WIDTH, 2)).predict(REST)
            except ValueError as error:
                assert "too small" in str(error)  # noqa: PT017
            else:
                assert np.isfinite(found).all()


def test_no_rows_is_an_error_or_no_predictions():
    model = KernelRidgeClassifier(**FIXED).fit(X, codes)
    with refuses(ValueError):
        KernelRidgeClassifier(**FIXED).fit(X[:0], codes[:0])
    with refuses(ValueError, "features"):
        model.predict(X[:, :2])


def test_a_kernel_that_is_not_positive():
    """Its matrix has negative eigenvalues, which are left out."""
    model = KernelRidgeRegressor(kernel="sigmoid", random_state=0, input_metric=None).fit(REST, WIDTH)
    assert np.isfinite(model.predict(REST)).all()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Reweighted(), ("kernel", "metric")),
        (Reweighted(Gaussian(1.0)), ("kernel", "metric")),
        (Reweighted(Gaussian(1.0), [1.0, 2.0]), ("2", "3")),
        (Reweighted(Gaussian(1.0), [1.0, -2.0, 1.0]), ("negative", "weights")),
        (Reweighted(Gaussian(1.0), [1.0, np.nan, 1.0]), "finite"),
        (Reweighted(Gaussian(1.0), np.ones((3, 2))), "(3, 2)"),
        (Reweighted(Gaussian(1.0), np.array([[1.0, 2, 0], [0, 1, 0], [0, 0, 1]])), "symmetric"),
        (Reweighted(Gaussian(1.0), -np.eye(3)), ("negative", "weights")),
        (Reweighted(Gaussian(1.0), 3.0), "shape"),
        (Reweighted(Gaussian(1.0), "wide"), "M='wide'"),
    ],
    ids=range(10),
)
def test_metrics_that_are_none(kernel, message):
    with refuses(ValueError, message):
        kernel(REST[:4])
    with refuses(ValueError, message):
        KernelRidgeRegressor(kernel=kernel, random_state=0, input_metric=None).fit(REST, WIDTH)


@pytest.mark.parametrize("metric", ["diagonal", "full", "auto"])
def test_metrics_of_kernels_that_have_no_gradients(metric):
    """They are used as they are."""
    model = KernelRidgeRegressor(kernel="arc_cosine", input_metric=metric, random_state=0, preprocess=None)
    assert model.fit(REST[:60], WIDTH[:60]).kernel_.name == "arc_cosine"
    learned = KernelRidgeRegressor(kernel=[Laplacian(norm=1), Linear()], input_metric=metric, random_state=0)
    assert np.isfinite(learned.fit(REST[:60], WIDTH[:60]).predict(REST)).all()
