"""Ridge regression by conjugate gradients is the direct one: same coefficients, folds and held-out predictions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes.kernels import Gaussian, Laplacian
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.kernel_ridge import conjugate_solver, machine
from refusals import refuses, warns_of


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 5 + 0.1 * rng.normal(size=n)


def both(kind=KernelRidgeRegressor, X=None, y=None, weight=None, **parameters):
    """The machine solved directly and by conjugate gradients, in the same space."""
    given = {
        "kernel": Gaussian(2.0),
        "input_metric": None,
        "preprocess": None,
        "random_state": 0,
    } | parameters
    direct = kind(solver="direct", **given).fit(X, y, sample_weight=weight)
    iterated = kind(solver="conjugate_gradients", **given)
    return direct, iterated.fit(X, y, sample_weight=weight, space=direct.space_)


def assert_same_solution(direct, iterated, X, tolerance=1e-6):
    np.testing.assert_allclose(iterated._scores(X), direct._scores(X), atol=tolerance)
    expected, found = direct._solved(), iterated._solved()
    assert found.folds == expected.folds
    K = direct.features_.kernel_block(torch.as_tensor(X))
    by_fold = [(K @ s.fold_A + s.fold_b[:, None]).numpy() for s in (found, expected)]
    np.testing.assert_allclose(*by_fold, atol=tolerance)
    np.testing.assert_allclose(found.held_out.by_folds, expected.held_out.by_folds, atol=tolerance)
    assert torch.equal(found.held_out.rows, expected.held_out.rows)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplacian(5.0)])
def test_conjugate_gradients_are_the_direct_solution(kernel, intercept):
    X, y = rows(2000)
    found = both(X=X, y=y, kernel=kernel, n_landmarks=300, penalty=0.05, fit_intercept=intercept)
    assert_same_solution(*found, X[:200])
    assert found[0].n_iter_ is None
    assert 1 <= found[1].n_iter_ < 100


def test_the_normal_equations_hold():
    """(K_nm^T H K_nm + penalty K_mm) A = K_nm^T H y, H = I - 1 1^T / n, with all of K_nm in memory."""
    X, y = rows(300)
    model = both(X=X, y=y, n_landmarks=20, penalty=0.5)[1]
    K = model.kernel_(torch.from_numpy(X), model.landmarks_).numpy()
    centred = K - K.mean(0)
    left = centred.T @ K + 0.5 * model.kernel_(model.landmarks_).numpy()
    target = centred.T @ model.targets_.encoded(y)
    np.testing.assert_allclose(left @ model.dual_coef_, target, atol=1e-5 * np.abs(target).max())


def test_the_landmarks_are_the_preconditioner_where_few_rows_are_kept():
    """As published: n / m T T^T + penalty I."""
    X, y = rows(1000)
    direct, iterated = both(X=X, y=y, n_landmarks=100, penalty=0.3, n_kept=150)
    assert_same_solution(direct, iterated, X[:50])


def test_weights_and_balanced_classes_are_those_of_the_direct_solution():
    X, y = rows(800)
    weight = np.random.default_rng(1).uniform(0, 3, 800)
    weight[::7] = 0
    assert_same_solution(*both(X=X, y=y, weight=weight, n_landmarks=100, penalty=0.3), X[:50])
    found = both(
        KernelRidgeClassifier, X, np.digitize(y, [5.0, 7.0]), weight,
        n_landmarks=100, penalty=0.3, class_weight="balanced",
    )  # fmt: skip
    assert_same_solution(*found, X[:50])
    np.testing.assert_array_equal(*(model.predict(X[:50]) for model in found))


def test_single_precision_converges_to_within_a_tenth_of_the_noise():
    """Directions in which K_mm is below rounding are lost: the direct solution cuts them, this one damps them."""
    X, y = rows(3000)
    direct, iterated = both(X=X, y=y, n_landmarks=300, penalty=0.05, dtype="float32")
    points = {"n_landmarks": None, "landmarks": direct.landmarks_.double().numpy()}
    exact = both(X=X, y=y, penalty=0.05, **points)[0]
    assert iterated.n_iter_ < 100
    for model in (direct, iterated):
        assert np.abs(model.predict(X) - exact.predict(X)).mean() < 0.1 * 0.1


def test_the_penalty_is_chosen_on_kept_rows_with_fewer_landmarks(monkeypatch):
    """With all rows kept and all landmarks used, it is the direct choice."""
    X, y = rows(600)
    direct, iterated = both(X=X, y=y, n_landmarks=80)
    assert iterated.penalty_ == pytest.approx(direct.penalty_, rel=0.05)  # its grid has steps of 3
    found, expected = (model.penalty_errors_.errors.min() for model in (iterated, direct))
    assert found == pytest.approx(expected, rel=0.01)
    monkeypatch.setattr(conjugate_solver, "AUTO_LANDMARKS", 40)
    fewer = both(X=X, y=y, n_landmarks=80, n_kept=400)[1]
    assert fewer.score(X, y) > 0.9


def test_many_landmarks_are_iterated_and_nothing_is_decomposed(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "DIRECT_LANDMARKS", 50)
    X, y = rows(300)
    model = KernelRidgeRegressor(kernel="gaussian", n_landmarks=60, random_state=0, penalty=0.1)
    model.fit(X, y)
    assert model.n_iter_ > 0
    assert model.features_.factors is None
    model.save(tmp_path / "m.krepes")
    loaded = KernelRidgeRegressor.load(tmp_path / "m.krepes")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.n_iter_ == model.n_iter_
    assert loaded.bandwidth(X).coverage is None
    assert model.features_.factors is None
    few = KernelRidgeRegressor(kernel="gaussian", n_landmarks=40, random_state=0, penalty=0.1).fit(X, y)
    assert few.n_iter_ is None


def test_a_space_without_features_can_be_used_by_others():
    X, y = rows(200)
    iterated = KernelRidgeRegressor(solver="conjugate_gradients", n_landmarks=50, random_state=0).fit(X, y)
    direct = KernelRidgeRegressor(penalty=iterated.penalty_).fit(X, y, space=iterated.space_)
    np.testing.assert_allclose(direct.predict(X), iterated.predict(X), atol=1e-5)


def test_what_needs_sums_is_refused():
    X, y = rows(100)
    parameters = {"solver": "conjugate_gradients", "n_landmarks": 20, "random_state": 0}
    model = KernelRidgeRegressor(**parameters)
    with refuses(ValueError, "partial_fit", "sums"):
        model.partial_fit(X, y)
    model = KernelRidgeRegressor(**parameters).fit(X, y)
    with refuses(ValueError, "partial_fit", "sums"):
        model.partial_fit(X, y)
    with refuses(ValueError, "sums"):
        model.merge(model)
    with refuses(ValueError, "checkpoint"):
        KernelRidgeRegressor(**parameters).fit(X, y, checkpoint="x.ckpt")
    with refuses(ValueError, "squared"):
        KernelRidgeClassifier(loss="logistic", **parameters).fit(X, y > 5)
    with refuses(ValueError, "solver='cg'"):
        KernelRidgeRegressor(solver="cg").fit(X, y)


def test_iterations_that_end_too_early_are_named(monkeypatch):
    monkeypatch.setattr(conjugate_solver, "MOST_ITERATIONS", 2)
    X, y = rows(200)
    with warns_of(UserWarning, "solver='direct'", "converging"):
        KernelRidgeRegressor(solver="conjugate_gradients", n_landmarks=50, penalty=1e-6, random_state=0).fit(
            X, y
        )
