"""Ridge machines, Gaussian processes, novelty detectors: any rows, targets and parameters; parts, files, weights."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fuzz.label_strategies import labels, objects, weights
from fuzz.outcome import ChangedError, check_same, check_shape
from fuzz.parts import kernels, overlap, parts
from fuzz.strategies import (
    USUAL,
    features,
    forms_of,
    images,
    matrices,
    mostly,
    n_rows,
    often,
    rows,
    sane_matrices,
    tables,
)
from fuzz.target import Draw, target
from krepes import load
from krepes.explain import target_direction
from krepes.kernels import Custom
from krepes.landmarks import LandmarkSelector
from krepes.machines import (
    Cells,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.report import write_machine_page

SMALL = {"n_landmarks": 6, "random_state": 0}
Machine = KernelRidgeClassifier | KernelRidgeRegressor

DRAWN = {
    "lengthscale": mostly(
        ["auto", 0.5, "median", "4 median"], [0, -1, "long", None, float("nan"), [1.0, 2.0]]
    ),
    "input_metric": mostly([None, "diagonal", "full", "auto"], ["both", 3]),
    "penalty": mostly(["auto", 1e-3, 1.0, 1e6], [0, -1, "low", None, float("inf"), 1e-300]),
    "fit_intercept": st.booleans(),
    "n_landmarks": mostly([1, 3, 12, None, "auto"], [0, -3, "all", 2.5]),
    "n_folds": mostly([3, 4, 10], [1, 0, "few", 2.5]),
    "n_kept": mostly([1, 3, 8, 1000], [0, -1, None]),
    "local": mostly([True, False, "auto", Cells(10), Cells(10, 1, "columns", True)], ["yes", 3, Cells(-1)]),
    "preprocess": mostly(["auto", None, "table", "normalize"], ["scale", 3]),
    "dtype": mostly(["auto", "float32", "float64"], ["int8", None]),
    "landmarks": parts(LandmarkSelector),
    "kernel": often((3, kernels()), (1, st.lists(kernels(), max_size=2))),
}
WEIGHTS = mostly([None, "balanced", {0: 2.0}, {"a": 0.5}], ["even", {0: -1}, {"x": 1.0}, 3])


@st.composite
def parameters(draw: DrawFn) -> dict[str, Any]:
    """Up to three that are not the default; one kernel, mostly, so that a case is short."""
    changed = draw(st.lists(st.sampled_from(sorted(DRAWN)), max_size=3, unique=True))
    return SMALL | {"kernel": "gaussian"} | {name: draw(DRAWN[name]) for name in changed}


def used(model: Machine, X: Any) -> Any:
    """All that a fitted machine says of rows."""
    n, c = n_rows(X), model.targets_.n_outputs
    found = [model.penalty_, model.intercept_, str(model.choice_)]
    if not (model.local_ and model.local_.in_cells):
        found.append(model.dual_coef_)
    if isinstance(model, KernelRidgeRegressor):
        predicted = model.predict(X)
        check_shape(predicted, (n,) if model.targets_.flat else (n, c), "predict")
        return [*found, predicted]
    P = model.predict_proba(X)
    check_shape(P, (n, c), "predict_proba")
    if not np.allclose(P.sum(1), 1) or not set(model.predict(X)) <= set(model.classes_):
        raise ChangedError("probabilities that do not add up, or a class that there is not")
    return [*found, P, model.decision_function(X)]


@target("KernelRidgeRegressor", weight=5)
def ridge_regressor(draw: Draw) -> Any:
    X = draw(rows())
    y = draw(often((3, sane_targets(n_rows(X))), (1, features(n_rows(X))), (1, labels(n_rows(X)))))
    return used(KernelRidgeRegressor(**draw(parameters())).fit(X, y), X)


def sane_targets(n: int) -> st.SearchStrategy[np.ndarray]:
    return st.integers(0, 99).map(lambda seed: np.random.default_rng(seed).normal(size=n))


@target("KernelRidgeClassifier", weight=5)
def ridge_classifier(draw: Draw) -> Any:
    X = draw(rows())
    y = draw(often((3, labels(n_rows(X), sane=True)), (1, labels(n_rows(X)))))
    model = KernelRidgeClassifier(**draw(parameters()), class_weight=draw(WEIGHTS))
    return used(model.fit(X, y), X)


@target("KernelRidgeRegressor", "KernelRidgeClassifier", weight=3)
def ridge_of_extreme_rows(draw: Draw) -> Any:
    X = draw(forms_of(matrices(min_rows=4, min_columns=1), USUAL))
    y = np.arange(n_rows(X)) % 2
    return used(draw(machines())(**draw(parameters())).fit(X, y), X)


def machines() -> st.SearchStrategy[type[Machine]]:
    return st.sampled_from([KernelRidgeRegressor, KernelRidgeClassifier])


@target("KernelRidgeRegressor", "KernelRidgeClassifier", weight=2)
def ridge_of_tables_and_images(draw: Draw) -> Any:
    X = draw(often((2, tables()), (1, images())))
    y = draw(
        often((2, st.just(np.arange(n_rows(X)) % 2)), (1, st.sampled_from(["a", "b", "kind", "nothing", ""])))
    )
    return used(draw(machines())(**SMALL, kernel="gaussian").fit(X, y), X)


@target("KernelRidgeClassifier", weight=1)
def ridge_of_objects(draw: Draw) -> Any:
    words = draw(objects())
    kernel = draw(st.sampled_from([Custom(overlap, pairwise=True), "gaussian", "auto"]))
    return used(KernelRidgeClassifier(**SMALL, kernel=kernel).fit(words, np.arange(len(words)) % 2), words)


@target("KernelRidgeRegressor", "KernelRidgeClassifier", weight=3)
def ridge_in_parts(draw: Draw) -> Any:
    """Weights, more rows, merging; a saved machine gives the same bits, with sums or without."""
    X = draw(often((3, sane_matrices()), (1, features())))
    machine, n = draw(machines()), n_rows(X)
    y = draw(labels(n, sane=True)) if machine is KernelRidgeClassifier else draw(sane_targets(n))
    model = machine(**SMALL, kernel="gaussian", n_kept=draw(st.sampled_from([3, 1000])))
    model.partial_fit(X, y, sample_weight=draw(often((2, st.none()), (2, weights(n)))))
    other = model.empty_copy().partial_fit(X, y, first_row=draw(mostly([n, 100], [-1, 0.5, 2**63])))
    model.merge(other)
    found = used(model, X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.krepes"
        model.save(path, sums=draw(st.booleans()))
        check_same(load(path).predict(X), model.predict(X), "a saved machine")
    return found


DETECTING = {
    "false_alarm_rate": mostly([0.05, 0.2, 0.5], [0, 1, "few", None, float("nan")]),
    "measure": mostly(["variance", "regression", "distance"], ["density", None, 3]),
    "calibration_share": mostly([0.05, 0.3, 0.5, 0.95], [0, 1, 0.01, "half", None]),
    **{
        name: DRAWN[name]
        for name in ("lengthscale", "penalty", "n_landmarks", "n_kept", "preprocess", "dtype")
    },
    "landmarks": DRAWN["landmarks"],
    "kernel": DRAWN["kernel"],
}


@st.composite
def detectors(draw: DrawFn) -> NoveltyDetector:
    """Up to three parameters that are not the default."""
    changed = draw(st.lists(st.sampled_from(sorted(DETECTING)), max_size=3, unique=True))
    given = SMALL | {"kernel": "gaussian"} | {name: draw(DETECTING[name]) for name in changed}
    return NoveltyDetector(**given)


def detected(model: NoveltyDetector, X: Any) -> Any:
    """All that a fitted detector says of rows; its answers must agree."""
    n, p = n_rows(X), model.p_values(X)
    check_shape(p, (n,), "p_values")
    if not ((p > 0) & (p <= 1)).all():
        raise ChangedError("p-values outside (0, 1]")
    alarms = model.predict(X) == -1
    if not np.array_equal(alarms, np.round(p * (model.n_calibration_ + 1)) <= _rank(model)):
        raise ChangedError("alarms that are not p-values up to the rate")
    return [p, alarms, model.decision_function(X), str(model.choice_)]


def _rank(model: NoveltyDetector) -> float:
    return round(model.attainable_rate_ * (model.n_calibration_ + 1))


@target("NoveltyDetector", weight=4)
def novelty_of_rows(draw: Draw) -> Any:
    X = draw(
        often(
            (3, rows()),
            (1, forms_of(matrices(min_rows=4, min_columns=1), USUAL)),
            (1, tables()),
            (1, images()),
        )
    )
    model = draw(detectors()).fit(X)
    return [*detected(model, X), str(model.explain(X))]


@target("NoveltyDetector", weight=2)
def novelty_in_parts(draw: Draw) -> Any:
    """Weights, more rows, merging, a stream; a saved detector gives the same bits, with sums or without."""
    X = draw(often((3, sane_matrices(min_rows=4)), (1, features())))
    model = NoveltyDetector(**SMALL, kernel="gaussian", n_kept=draw(st.sampled_from([3, 1000])))
    model.partial_fit(X, sample_weight=draw(often((2, st.none()), (2, weights(n_rows(X))))))
    model.merge(model.empty_copy().partial_fit(X, first_row=draw(mostly([n_rows(X), 100], [-1, 0.5, 2**63]))))
    found = [
        *detected(model, X),
        *(reading.chance for reading in model.monitor([X, X], learn=draw(st.booleans()))),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.krepes"
        model.save(path, sums=draw(st.booleans()))
        check_same(load(path).p_values(X), model.p_values(X), "a saved detector")
    return found


@target("target_direction", weight=0.5)
def direction_of_a_target(draw: Draw) -> Any:
    X = draw(sane_matrices(min_rows=4))
    machine = draw(machines())(**SMALL, kernel="gaussian").fit(X, np.arange(n_rows(X)) % 2)
    return target_direction(machine, draw(mostly([0], [1, -1, "a", None])))


@target("write_machine_page", weight=0.3)
def page_of_a_machine(draw: Draw) -> Any:
    X = draw(sane_matrices(min_rows=4))
    machine = draw(machines())(**SMALL, kernel="gaussian").fit(X, np.arange(n_rows(X)) % 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.html"
        write_machine_page(
            machine, draw(often((2, st.just(X)), (1, rows()))), path, samples=draw(st.booleans())
        )
        return path.read_text("utf-8").count("<h2>")


VARIANCES = mostly(["auto", 1e-3, 1.0, 1e6], [0, -1, "low", None, float("inf"), 1e-300])
OF_PROCESSES = {
    **{
        name: DRAWN[name]
        for name in ("lengthscale", "n_landmarks", "preprocess", "dtype", "landmarks", "kernel")
    },
    "input_metric": mostly([None, "diagonal"], ["full", 3]),
    "amplitude": VARIANCES,
}
OF_REGRESSION = {"noise": VARIANCES, "fit_intercept": st.booleans()}


@st.composite
def process_parameters(draw: DrawFn, drawn: dict[str, Any]) -> dict[str, Any]:
    changed = draw(st.lists(st.sampled_from(sorted(drawn)), max_size=3, unique=True))
    return SMALL | {"kernel": "gaussian"} | {name: draw(drawn[name]) for name in changed}


@target("GaussianProcessRegressor", weight=3)
def process_of_quantities(draw: Draw) -> Any:
    """Means and deviations of any rows; parts add up, and a saved process gives the same bits."""
    X = draw(rows())
    n = n_rows(X)
    y = draw(often((3, sane_targets(n)), (1, features(n)), (1, labels(n))))
    model = GaussianProcessRegressor(**draw(process_parameters(OF_PROCESSES | OF_REGRESSION)))
    model.fit(X, y, sample_weight=draw(often((3, st.none()), (1, weights(n)))))
    mean, std = model.predict(X, return_std=True)
    check_shape(std, (n,) if model.targets_.flat else (n, model.targets_.n_outputs), "return_std")
    if not (np.isfinite(std).all() and (std >= 0).all()):
        raise ChangedError("a standard deviation that is negative or not a number")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.krepes"
        model.save(path, sums=draw(st.booleans()))
        check_same(load(path).predict(X, return_std=True)[1], std, "a saved process")
    return [mean, std, model.log_marginal_likelihood_, model.sample_y(X, 2), str(model.choice_)]


@target("GaussianProcessClassifier", weight=3)
def process_of_classes(draw: Draw) -> Any:
    X = draw(rows())
    n = n_rows(X)
    y = draw(often((3, labels(n, sane=True)), (1, labels(n))))
    model = GaussianProcessClassifier(**draw(process_parameters(OF_PROCESSES)))
    model.fit(X, y, sample_weight=draw(often((3, st.none()), (1, weights(n)))))
    P = model.predict_proba(X)
    check_shape(P, (n, len(model.classes_)), "predict_proba")
    if not np.allclose(P.sum(1), 1) or not set(model.predict(X)) <= set(model.classes_):
        raise ChangedError("probabilities that do not add up, or a class that there is not")
    return [P, model.log_marginal_likelihood_, *model.latent_mean_and_variance(X)]
