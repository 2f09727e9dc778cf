"""Other losses of the classifier: the minimum on the features, whatever the solver, and a machine like any other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from krepes.kernels import Gaussian
from krepes.machines import KernelRidgeClassifier
from krepes.machines.kernel_ridge.solution import kept_features
from refusals import refuses

LOSSES = ("logistic", "squared_hinge")


def classes(n: int = 200, n_classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * rng.normal(size=n)
    return X, np.digitize(score, np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]))


def machine(loss: str, **parameters) -> KernelRidgeClassifier:
    given = {"kernel": Gaussian(1.5), "n_landmarks": 40, "preprocess": None, "random_state": 0}
    return KernelRidgeClassifier(loss=loss, **(given | {"input_metric": None} | parameters))


def on_features(model: KernelRidgeClassifier) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, codes and weights of the kept rows."""
    kept = model.total_.kept
    return kept_features(model.space_, kept).numpy(), kept.y, model._solved().held_out.weight.numpy()


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("penalty", [0.01, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_logistic_loss_is_scikit_learns_on_the_same_features(n_classes, penalty, weighted):
    X, y = classes(n_classes=n_classes)
    w = np.random.default_rng(1).uniform(0.2, 3, len(X)) if weighted else None
    model = machine("logistic", penalty=penalty).fit(X, y, sample_weight=w)
    Phi, codes, weight = on_features(model)
    exact = LogisticRegression(C=1 / penalty, tol=1e-12, max_iter=100_000)
    exact = exact.fit(Phi, codes, sample_weight=weight)
    expected = exact.predict_proba(model.features_(model.total_.kept.inputs).numpy())
    np.testing.assert_allclose(model.predict_proba(model.total_.kept.inputs), expected, atol=1e-5)
    assert model.temperature_ == 1.0


def hinge_by_brute_force(Phi, codes, weight, penalty: float, n_classes: int) -> np.ndarray:
    """Scores (n, K) of one machine per class, each minimised by scipy alone."""
    scores = []
    for k in [1] if n_classes == 2 else range(n_classes):
        sign = np.where(codes == k, 1.0, -1.0)

        def objective(v, sign=sign):
            slack = np.maximum(1 - sign * (Phi @ v[:-1] + v[-1]), 0)
            pull = -2 * weight * slack * sign
            gradient = np.append(Phi.T @ pull + penalty * v[:-1], pull.sum())
            return weight @ slack**2 + penalty / 2 * v[:-1] @ v[:-1], gradient

        options = {"maxiter": 100_000, "maxfun": 10**6, "ftol": 1e-16, "gtol": 1e-10}
        start = np.zeros(Phi.shape[1] + 1)
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
        scores.append(Phi @ found[:-1] + found[-1])
    return np.array(scores).T


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_the_squared_hinge_is_its_brute_force_minimum(n_classes, class_weight):
    X, y = classes(n_classes=n_classes)
    X, y = X[(y > 0) | (np.arange(len(y)) % 3 == 0)], y[(y > 0) | (np.arange(len(y)) % 3 == 0)]
    model = machine("squared_hinge", penalty=0.1, class_weight=class_weight).fit(X, y)
    Phi, codes, weight = on_features(model)
    expected = hinge_by_brute_force(Phi, codes, weight, 0.1, n_classes)
    found = model.decision_function(model.total_.kept.inputs)
    np.testing.assert_allclose(found, expected[:, 0] if n_classes == 2 else expected, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_penalty_has_the_lowest_loss_of_refits_without_each_fold(loss):
    """The errors of the path are those of fits made one by one."""
    X, y = classes()
    model = machine(loss).fit(X, y)
    errors, held = model.penalty_errors_, model._solved().held_out
    assert errors.by == "folds"
    assert model.penalty_ == errors.penalties[np.argmin(errors.errors)]
    Phi, codes, _ = on_features(model)
    total = 0.0
    for fold in np.unique(held.folds.numpy()):
        inside = held.folds.numpy() == fold
        if loss == "logistic":
            fit = LogisticRegression(C=1 / model.penalty_, tol=1e-12, max_iter=100_000)
            scores = fit.fit(Phi[~inside], codes[~inside]).decision_function(Phi[inside])
            total -= log_softmax(scores, axis=1)[np.arange(inside.sum()), codes[inside]].sum()
            found = softmax(held.by_folds.numpy()[inside], axis=1)
            np.testing.assert_allclose(found, softmax(scores, axis=1), atol=1e-5)
        else:
            signs = np.where(codes[inside, None] == np.arange(3), 1, -1)
            total += np.square(np.maximum(1 - signs * held.by_folds.numpy()[inside], 0)).sum()
    assert total / len(X) == pytest.approx(errors.errors.min(), rel=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repeated_rows(loss):
    X, y = classes(80)
    w = np.arange(80) % 3
    weighted = machine(loss, penalty=0.3).fit(X, y, sample_weight=w)
    repeated = machine(loss, penalty=0.3).fit(np.repeat(X, w, 0), np.repeat(y, w), space=weighted.space_)
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_parts_and_files_give_the_same_machine(loss, tmp_path):
    X, y = classes()
    whole = machine(loss, penalty=0.3).fit(X, y)
    first, second = whole.empty_copy(), whole.empty_copy()
    first.partial_fit(X[:120], y[:120])
    second.partial_fit(X[120:], y[120:], first_row=120)
    merged = first.merge(second)
    np.testing.assert_allclose(merged.predict_proba(X), whole.predict_proba(X), atol=1e-5)
    whole.save(tmp_path / "m.krepes", sums=False)
    loaded = KernelRidgeClassifier.load(tmp_path / "m.krepes")
    assert loaded.loss == loss
    np.testing.assert_array_equal(loaded.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("loss", LOSSES)
def test_more_rows_than_are_kept_give_the_machine_of_the_sample(loss):
    X, y = classes(300)
    model = machine(loss, penalty=0.3, n_kept=100).fit(X, y)
    kept = model.total_.kept
    assert (len(kept.rows), kept.complete) == (100, False)
    chosen = kept.rows.numpy()
    alone = machine(loss, penalty=0.3).fit(X[chosen], y[chosen], space=model.space_)
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_other_losses_classify_as_well_as_the_squared_one(loss):
    X, y = classes(1000)
    train, test = slice(0, 500), slice(500, None)
    squared = machine("squared").fit(X[train], y[train]).score(X[test], y[test])
    assert machine(loss).fit(X[train], y[train]).score(X[test], y[test]) > squared - 0.03


def test_a_few_rows_and_a_fold_without_a_class_are_fitted():
    X = np.arange(4.0)[:, None]
    for loss in LOSSES:
        model = machine(loss).fit(X, ["a", "a", "b", "b"])
        assert np.isfinite(model.predict_proba(X)).all()


def test_a_loss_that_is_not_known_is_refused():
    X, y = classes(20)
    with refuses(ValueError, "'logistic'"):
        machine("hinge").fit(X, y)
    with refuses(ValueError, "fit_intercept"):
        machine("logistic", fit_intercept=False).fit(X, y)
