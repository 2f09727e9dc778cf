"""Gaussian processes: the lecture's posterior, scikit-learn's answers, evidences by brute force, sums that add up."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessClassifier as TheirClassifier
from sklearn.gaussian_process import GaussianProcessRegressor as TheirRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from krepes import load
from krepes.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial, Reweighted
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeRegressor,
)
from krepes.machines.fold_choices import stratified_folds
from krepes.machines.gaussian_process import classifier as classifier_module
from krepes.machines.gaussian_process.evidence_score import Climb, EvidenceScore
from krepes.machines.gaussian_process.machine import probability
from krepes.machines.gaussian_process.sample_evidence import ClassEvidence, QuantityEvidence, scaled_kernel
from krepes.machines.gaussian_process.variational_bound import VariationalBound
from krepes.regression.ridge_algebra import NormalSums
from refusals import refuses

_draws = np.random.default_rng(0)
X = _draws.normal(size=(90, 3))
y = 5 + 2 * np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * _draws.normal(size=90)
Y = np.column_stack([y, 100 * X[:, 0] - y])
NEW = _draws.normal(size=(15, 3))
TWO = np.where(X[:, 0] * X[:, 1] + 0.3 * _draws.normal(size=90) > 0, "yes", "no")
THREE = np.digitize(X[:, 0] + 0.2 * _draws.normal(size=90), [-0.5, 0.5])

LENGTH, AMPLITUDE, NOISE = 1.5, 2.0, 0.05
GIVEN = {"kernel": Gaussian(LENGTH), "preprocess": None, "random_state": 0}
FIXED = {**GIVEN, "amplitude": AMPLITUDE, "noise": NOISE}
THEIRS = ConstantKernel(AMPLITUDE) * RBF(LENGTH)


def K(A: np.ndarray, B: np.ndarray | None = None) -> np.ndarray:
    return Gaussian(LENGTH)(A, A if B is None else B).numpy()


def features(model, rows: np.ndarray) -> np.ndarray:
    return model.features_(torch.from_numpy(rows)).numpy()


# The lecture


def test_the_posterior_of_the_lecture():
    """mu_p = sum v_i k(x_i, .), v = (K + s^2 I)^-1 y;  k_p(x, x') = k(x, x') - k_x^T (K + s^2 I)^-1 k_x'."""
    model = GaussianProcessRegressor(**GIVEN, amplitude=1.0, noise=NOISE, fit_intercept=False).fit(X, y)
    unit = np.sqrt(np.mean(y**2))
    C = K(X) + NOISE * np.eye(len(X))
    mean, covariance = model.predict(NEW, return_cov=True)
    np.testing.assert_allclose(mean, K(NEW, X) @ np.linalg.solve(C, y), rtol=1e-8)
    expected = K(NEW) - K(NEW, X) @ np.linalg.solve(C, K(X, NEW))
    np.testing.assert_allclose(covariance, unit**2 * expected, atol=1e-8 * unit**2)


def test_weight_space_equals_function_space():
    """w ~ N(0, a I), y = Phi w + e: the posterior of Phi w is that of a process with the kernel Phi Phi^T."""
    model = GaussianProcessRegressor(
        kernel=Polynomial(2, 1.0, 1.0), amplitude=0.7, noise=0.3, fit_intercept=False, preprocess=None
    ).fit(X, y)

    def monomials(Z):
        columns = [np.ones(len(Z)), *(2**0.5 * Z.T), *(Z**2).T]
        columns += [2**0.5 * Z[:, i] * Z[:, j] for i in range(3) for j in range(i)]
        return np.column_stack(columns)

    Phi, new, unit = monomials(X), monomials(NEW), np.sqrt(np.mean(y**2))
    S = np.linalg.inv(Phi.T @ Phi / 0.3 + np.eye(10) / 0.7)
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, new @ S @ Phi.T @ y / 0.3, rtol=1e-8)
    np.testing.assert_allclose(std, unit * np.sqrt(np.einsum("ij,jk,ik->i", new, S, new)), rtol=1e-7)
    assert model.rank_ == 10


@pytest.mark.parametrize("n_landmarks", [None, 20])
def test_the_mean_is_ridge_regression(n_landmarks):
    """With the penalty s^2 / a, on targets without their mean."""
    model = GaussianProcessRegressor(**FIXED, n_landmarks=n_landmarks).fit(X, y)
    ridge = KernelRidgeRegressor(
        **GIVEN, n_landmarks=n_landmarks, penalty=NOISE / AMPLITUDE, fit_intercept=False, input_metric=None
    ).fit(X, y - y.mean())
    np.testing.assert_allclose(model.predict(NEW), ridge.predict(NEW) + y.mean(), rtol=1e-8)


def test_a_training_row_without_noise_has_no_variance():
    model = GaussianProcessRegressor(**{**FIXED, "kernel": Matern(1.0, nu=1.5), "noise": 1e-12}).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, y, rtol=1e-6)
    assert std.max() < 1e-4 * y.std()
    assert model.predict(NEW, return_std=True)[1].min() > 0.01 * y.std()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_far_away_the_posterior_is_the_prior(dtype):
    model = GaussianProcessRegressor(**FIXED, n_landmarks=10, dtype=dtype).fit(X, y)
    mean, std = model.predict(NEW + 1e4, return_std=True)
    np.testing.assert_allclose(mean, y.mean(), rtol=1e-6)
    np.testing.assert_allclose(std, math.sqrt(AMPLITUDE) * y.std(), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_variance_has_the_part_that_landmarks_do_not_span(dtype):
    """a (k(x, x') - phi phi'^T) + s^2 phi^T (Phi^T Phi + s^2 / a I)^-1 phi', and never negative."""
    model = GaussianProcessRegressor(**FIXED, n_landmarks=12, dtype=dtype).fit(X, y)
    Phi, new = (
        model.features_(model.input_space_.tensor(rows, model.space_.dtype, torch.device("cpu")))
        .double()
        .numpy()
        for rows in (X, NEW)
    )
    S = NOISE * np.linalg.inv(Phi.T @ Phi + NOISE / AMPLITUDE * np.eye(Phi.shape[1]))
    expected = AMPLITUDE * (K(NEW) - new @ new.T) + new @ S @ new.T
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(model.predict(NEW, return_cov=True)[1], y.var() * expected, atol=tolerance)
    std = model.predict(NEW, return_std=True)[1]
    np.testing.assert_allclose(std**2, y.var() * np.diag(expected), atol=tolerance)
    at_landmarks = model.predict(X, return_std=True)[1]
    assert np.isfinite(at_landmarks).all()
    assert (at_landmarks >= 0).all()


# scikit-learn


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("targets", [y, Y], ids=["one output", "two outputs"])
def test_it_is_scikit_learns_regressor(targets, intercept):
    model = GaussianProcessRegressor(**FIXED, fit_intercept=intercept).fit(X, targets)
    unit = targets.std(0) if intercept else np.sqrt(np.mean(targets**2, axis=0))
    scaled = targets / (1.0 if intercept else unit)
    theirs = TheirRegressor(THEIRS, alpha=NOISE, optimizer=None, normalize_y=intercept).fit(X, scaled)
    factor = 1.0 if intercept else unit
    mean, std = theirs.predict(NEW, return_std=True)
    np.testing.assert_allclose(model.predict(NEW), mean * factor, rtol=1e-8)
    np.testing.assert_allclose(model.predict(NEW, return_std=True)[1], std * factor, rtol=1e-8)
    ours, covariance = model.predict(NEW, return_cov=True)[1], theirs.predict(NEW, return_cov=True)[1]
    np.testing.assert_allclose(ours, covariance * factor**2, atol=1e-8 * np.max(unit) ** 2)
    evidence = np.sum(theirs.log_marginal_likelihood_value_) - len(X) * np.log(unit).sum()
    assert model.log_marginal_likelihood_ == pytest.approx(evidence, rel=1e-8)
    assert model.sample_y(NEW, 3).shape == theirs.sample_y(NEW, 3).shape


def test_the_evidence_is_not_lower_than_scikit_learns():
    """Lengthscale, amplitude and noise of a Gaussian kernel."""
    from sklearn.gaussian_process.kernels import WhiteKernel

    prior = ConstantKernel() * RBF() + WhiteKernel()
    theirs = TheirRegressor(prior, normalize_y=True, n_restarts_optimizer=3, random_state=0).fit(X, y)
    model = GaussianProcessRegressor(
        kernel="gaussian", input_metric=None, preprocess=None, random_state=0
    ).fit(X, y)
    expected = theirs.log_marginal_likelihood_value_ - len(X) * np.log(y.std())
    assert model.log_marginal_likelihood_ > expected - 0.01


def test_it_is_scikit_learns_classifier():
    model = GaussianProcessClassifier(**GIVEN, amplitude=AMPLITUDE).fit(X, TWO)
    theirs = TheirClassifier(THEIRS, optimizer=None).fit(X, TWO)
    assert model.log_marginal_likelihood_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-6)
    for mine, other in zip(model.latent_mean_and_variance(NEW), theirs.latent_mean_and_variance(NEW)):
        np.testing.assert_allclose(mine, other, atol=1e-6)
    expected = theirs.latent_mean_and_variance(X)[0]
    np.testing.assert_allclose(model.latent_mean_and_variance(X)[0], expected, atol=1e-6)
    assert np.abs(model.predict_proba(NEW) - theirs.predict_proba(NEW)).max() < 1e-3
    assert (model.predict(NEW) == theirs.predict(NEW)).all()


def test_several_classes_are_scikit_learns_one_against_the_rest():
    model = GaussianProcessClassifier(**GIVEN, amplitude=AMPLITUDE).fit(X, THREE)
    theirs = TheirClassifier(THEIRS, optimizer=None).fit(X, THREE)
    assert np.abs(model.predict_proba(NEW) - theirs.predict_proba(NEW)).max() < 1e-3
    assert model.log_marginal_likelihood_ / 3 == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-6
    )
    assert model.latent_mean_and_variance(NEW)[1].shape == (15, 3)


# Evidence and bound


def dense_bound(Phi, trace, y, a, s2) -> float:
    C = a * Phi @ Phi.T + s2 * np.eye(len(y))
    return multivariate_normal(np.zeros(len(y)), C).logpdf(y) - a * (trace - (Phi**2).sum()) / (2 * s2)


@given(
    n=st.integers(2, 25),
    m=st.integers(1, 25),
    logs=st.tuples(*[st.floats(-4, 4)] * 2),
    seed=st.integers(0, 1000),
)
def test_the_bound_is_one(n, m, logs, seed):
    """It is what dense matrices give, never above the evidence, and equal to it with all rows as landmarks."""
    draws, (a, s2) = np.random.default_rng(seed), np.exp(logs)
    rows, targets = draws.normal(size=(n, 2)), draws.normal(size=n)
    k = Matern(1.0, nu=0.5)
    values, U = np.linalg.eigh(k(rows[:m]).numpy())
    Phi = k(rows, rows[:m]).numpy() @ U / np.sqrt(values)
    sums = NormalSums.of_rows(torch.from_numpy(Phi), torch.from_numpy(targets[:, None]))
    sums = NormalSums(**{**vars(sums), "trace": float(n)})
    bound = VariationalBound(sums, intercept=False)
    found = bound.value(a, s2)
    exact = multivariate_normal(np.zeros(n), a * k(rows).numpy() + s2 * np.eye(n)).logpdf(targets)
    slack = 1e-8 * (1 + abs(exact) + a / s2)
    assert found == pytest.approx(dense_bound(Phi, n, targets, a, s2), rel=1e-7, abs=slack)
    assert found <= exact + slack
    if m >= n:
        assert found == pytest.approx(exact, abs=slack)
    best = bound.best()
    assert best.bound >= found - 1e-6 * abs(found) or not (bound.least_ratio < s2 / a < 1e4 * bound.trace)


def test_amplitude_and_noise_are_the_best():
    """No amplitude and no noise near them gives a higher bound; each may be given."""
    model = GaussianProcessRegressor(**GIVEN, n_landmarks=25).fit(X, Y)
    bound = VariationalBound(model.total_.equations, True)
    best = bound.best()
    for a in (0.99, 1.0, 1.01):
        for s2 in (0.99, 1.0, 1.01):
            assert bound.value(a * best.amplitude, s2 * best.noise) <= best.bound + 1e-9 * abs(best.bound)
    for given_one in ({"amplitude": 3.0}, {"noise": 0.2}):
        found = bound.best(**given_one)
        assert all(getattr(found, name) == pytest.approx(value) for name, value in given_one.items())
        other = "noise" if "amplitude" in given_one else "amplitude"
        for factor in (0.98, 1.02):
            moved = {"amplitude": found.amplitude, "noise": found.noise}
            moved[other] *= factor
            assert bound.value(**moved) <= found.bound + 1e-9
    assert model.amplitude_ == pytest.approx(best.amplitude)
    assert model.noise_std_ == pytest.approx(np.sqrt(best.noise) * Y.std(0))


def test_more_landmarks_give_a_higher_bound():
    found = [GaussianProcessRegressor(**FIXED, landmarks=np.arange(m)).fit(X, y) for m in (5, 20, 60, 90)]
    bounds = [model.log_marginal_likelihood_ for model in found]
    assert bounds == sorted(bounds)


KERNELS = [Gaussian(), Matern(nu=0.5), Matern(nu=1.5), Matern(nu=2.5), Laplacian(), Laplacian(norm=1)]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_chain_rule_of_column_scales(kernel):
    """sum G dK/dt by finite differences, and the kernel itself."""
    draws = np.random.default_rng(1)
    Z, t = torch.from_numpy(draws.normal(size=(12, 3))), torch.zeros(3, dtype=torch.float64)
    G = torch.from_numpy(draws.normal(size=(12, 12)))
    G = G + G.mT
    values, chain = scaled_kernel(kernel, Z)
    expected = kernel.set_params(lengthscale=1.0)(Z)
    kernel.set_params(lengthscale="median")
    assert torch.allclose(values, expected, atol=1e-12)
    for j in range(3):
        step = torch.zeros_like(t)
        step[j] = 1e-6
        ahead, behind = (scaled_kernel(kernel, Z * s.exp())[0] for s in (step, -step))
        assert chain(G)[j].item() == pytest.approx((G * (ahead - behind)).sum().item() / 2e-6, rel=1e-5)


WEIGHT = torch.from_numpy(np.tile([1.0, 2.0, 0.5], 10))
EVIDENCES = {
    "quantities": QuantityEvidence(torch.from_numpy(Y[:30] / Y.std(0)), None),
    "weighted quantities": QuantityEvidence(torch.from_numpy(Y[:30] / Y.std(0)), WEIGHT),
    "classes": ClassEvidence(torch.from_numpy(2.0 * (TWO[:30, None] == "yes") - 1), None),
    "weighted classes": ClassEvidence(torch.from_numpy(2.0 * np.eye(3)[THREE[:30]] - 1), WEIGHT),
}


@pytest.mark.parametrize("name", EVIDENCES)
@pytest.mark.parametrize("many", [False, True], ids=["one scale", "a scale for each column"])
def test_the_slope_of_the_evidence(name, many):
    """By finite differences, to amplitude, noise and lengthscales."""
    evidence, rows = EVIDENCES[name], torch.from_numpy(X[:30])
    score = EvidenceScore(QuantityEvidence)
    climb = Climb(rows, Matern(nu=2.5), True, "as given", torch.zeros(3, dtype=torch.float64), score)
    if many:
        climb = climb.with_scales(torch.eye(3, dtype=torch.float64))
    point = climb._point(climb.scales + 0.2)
    _, slope = climb._value(evidence, rows, None, point)
    for j in range(len(point)):
        step = 1e-5 * np.eye(len(point))[j]
        ahead, behind = (climb._value(evidence, rows, None, point + s)[0] for s in (step, -step))
        assert slope[j] == pytest.approx((ahead - behind) / 2e-5, rel=1e-4, abs=1e-5)


def test_the_evidence_of_a_sample_is_the_one_of_dense_matrices():
    C = AMPLITUDE * K(X)
    found = QuantityEvidence(torch.from_numpy(Y), None)(torch.from_numpy(C), 0.3).value
    prior = multivariate_normal(np.zeros(90), C + 0.3 * np.eye(90))
    assert found == pytest.approx(prior.logpdf(Y[:, 0]) + prior.logpdf(Y[:, 1]), rel=1e-10)
    theirs = TheirClassifier(THEIRS, optimizer=None).fit(X, TWO).log_marginal_likelihood_value_
    signs = torch.from_numpy(2.0 * (TWO[:, None] == "yes") - 1)
    assert ClassEvidence(signs, None)(torch.from_numpy(C)).value == pytest.approx(theirs, rel=1e-8)


def test_irrelevant_columns_get_long_lengthscales():
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(150, 4))
    model = GaussianProcessRegressor(kernel="gaussian", random_state=0).fit(rows, np.sin(3 * rows[:, 1]))
    assert model.metric_ == "diagonal"
    assert isinstance(model.kernel_, Reweighted)
    M = np.asarray(model.kernel_.M)
    assert M[1] > 100 * np.delete(M, 1).max()


# Probabilities


def test_probabilities_are_the_integrals():
    for m in (-30.0, -2.0, 0.3, 5.0):
        for s in (0.0, 0.1, 1.4, 1.6, 8.0, 300.0):
            if s == 0:
                expected = expit(m)
            else:
                points = [p for p in (0.0, m) if m - 12 * s < p < m + 12 * s]
                integrand = lambda f, m=m, s=s: expit(f) * norm.pdf(f, m, s)  # noqa: E731
                expected = quad(integrand, m - 12 * s, m + 12 * s, points=points, limit=400, epsabs=1e-11)[0]
            found = probability(np.array([[m]]), np.array([[s**2]]))
            assert found.shape == (1, 1)
            assert found.item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("targets", [TWO, THREE], ids=["two classes", "three classes"])
@pytest.mark.parametrize("n_landmarks", [None, 15])
def test_reads_equal_products_in_memory(targets, n_landmarks, monkeypatch):
    """The features may be too many for memory: every step of Newton's method is a read then."""
    parameters = {**GIVEN, "amplitude": AMPLITUDE, "n_landmarks": n_landmarks}
    weight = np.linspace(0, 2, 90)
    first = GaussianProcessClassifier(**parameters).fit(X, targets, sample_weight=weight)
    monkeypatch.setattr(classifier_module, "FEATURE_BYTES", 0)
    second = GaussianProcessClassifier(**parameters).fit(X, targets, sample_weight=weight)
    np.testing.assert_allclose(first.predict_proba(NEW), second.predict_proba(NEW), rtol=1e-8)
    assert first.log_marginal_likelihood_ == pytest.approx(second.log_marginal_likelihood_)


def test_the_mode_is_one():
    """The slope of the posterior of the weights is zero there."""
    model = GaussianProcessClassifier(**GIVEN, amplitude=50.0, n_landmarks=20).fit(X, TWO)
    Phi, t = features(model, X), np.where(TWO == "yes", 1.0, 0.0)
    F = model.features_.F.numpy()
    w = np.linalg.lstsq(F, model.dual_coef_[:, 0], rcond=None)[0]
    slope = Phi.T @ (t - expit(Phi @ w)) - w / 50.0
    assert np.abs(slope).max() < 1e-8


def test_far_away_classes_are_even():
    model = GaussianProcessClassifier(**GIVEN, amplitude=AMPLITUDE).fit(X, TWO)
    np.testing.assert_allclose(model.predict_proba(NEW + 1e4), 0.5)


# Samples


def test_samples_have_the_moments_of_the_posterior():
    """Means within 4 standard errors, covariances within 5 of theirs."""
    model = GaussianProcessRegressor(**FIXED, n_landmarks=20).fit(X, Y)
    n = 4000
    mean, covariance = model.predict(NEW, return_cov=True)
    drawn = model.sample_y(NEW, n, random_state=0)
    assert drawn.shape == (15, 2, n)
    for j in range(2):
        C = covariance[:, :, j]
        error = np.sqrt(np.diag(C) / n)
        assert (np.abs(drawn[:, j].mean(1) - mean[:, j]) < 4 * error + 1e-9).all()
        of_covariance = np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / n)
        assert (np.abs(np.cov(drawn[:, j]) - C) < 5 * of_covariance + 1e-9).all()


def test_samples_of_the_prior():
    model = GaussianProcessRegressor(**FIXED).fit(X, y)
    drawn = model.sample_prior(NEW, 4000, random_state=1)
    C = AMPLITUDE * y.var() * K(NEW)
    assert (np.abs(drawn.mean(1) - y.mean()) < 4 * np.sqrt(np.diag(C) / 4000)).all()
    assert np.abs(np.cov(drawn) - C).max() < 5 * C.max() * np.sqrt(2 / 4000)
    assert np.array_equal(drawn, model.sample_prior(NEW, 4000, random_state=1))


# Intervals


def test_intervals_are_those_of_a_new_target():
    model = GaussianProcessRegressor(**FIXED).fit(X, y)
    mean, std = model.predict(NEW, return_std=True, include_noise=True)
    _, of_function = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(std**2, of_function**2 + model.noise_std_**2)
    bounds = model.predict_interval(NEW, 0.8)
    np.testing.assert_allclose(norm.cdf(bounds[:, 1], mean, std) - norm.cdf(bounds[:, 0], mean, std), 0.8)
    C = model.predict(NEW, return_cov=True, include_noise=True)[1]
    np.testing.assert_allclose(np.diag(C), std**2)
    both = GaussianProcessRegressor(**FIXED).fit(X, Y).predict_interval(NEW)
    assert both.shape == (15, 2, 2)


def test_data_from_the_model_are_covered():
    """Rows drawn from a process: about 90 % of new targets lie in the intervals, and noise and amplitude are found."""
    draws = np.random.default_rng(5)
    rows = draws.uniform(-4, 4, size=(600, 1))
    f = np.linalg.cholesky(Gaussian(1.0)(rows).numpy() + 1e-9 * np.eye(600)) @ draws.normal(size=600)
    targets = f + 0.3 * draws.normal(size=600)
    model = GaussianProcessRegressor(n_landmarks=60, random_state=0).fit(rows[:400], targets[:400])
    low, high = model.predict_interval(rows[400:]).T
    covered = np.mean((targets[400:] >= low) & (targets[400:] <= high))
    assert abs(covered - 0.9) < 4 * math.sqrt(0.09 / 200)
    assert model.noise_std_ == pytest.approx(0.3, rel=0.15)


def few_rows():
    draws = np.random.default_rng(3)
    rows = draws.normal(size=(40, 2))
    return rows, np.sin(2 * rows[:, 0]) + 0.3 * draws.normal(size=40)


def test_intervals_of_few_rows_reach_as_far_as_rows_that_nothing_was_chosen_with():
    """In standard deviations, the k-th smallest error of processes that were fitted without each fold."""
    rows, targets = few_rows()
    model = GaussianProcessRegressor(preprocess=None, random_state=0).fit(rows, targets)
    mean, std = model.predict(NEW[:, :2], return_std=True, include_noise=True)
    reach = (model.predict_interval(NEW[:, :2], 0.8).T - mean) / std
    kept = model.total_.kept
    folds, order = stratified_folds(kept.y, 10, model.seed_), kept.rows.numpy()
    errors = np.empty(40)
    for fold in range(10):
        inside, outside = order[folds == fold], order[folds != fold]
        other = clone(model).fit(rows[outside], targets[outside])
        expected, spread = other.predict(rows[inside], return_std=True, include_noise=True)
        errors[inside] = np.abs(targets[inside] - expected) / spread
    np.testing.assert_allclose(reach, np.outer([-1, 1], np.full(15, np.sort(errors)[32])), rtol=1e-2)
    assert abs(np.sort(errors)[32] / norm.ppf(0.9) - 1) > 0.03  # or nothing was tested


def test_intervals_of_few_rows_come_out_of_a_file_and_out_of_parts(tmp_path):
    rows, targets = few_rows()
    model = GaussianProcessRegressor(random_state=0).fit(rows, targets)
    model.save(tmp_path / "m.krepes", sums=False)
    bounds = model.predict_interval(rows)
    np.testing.assert_array_equal(load(tmp_path / "m.krepes").predict_interval(rows), bounds)
    parts = model.empty_copy().partial_fit(rows[:25], targets[:25])
    parts.partial_fit(rows[25:], targets[25:], first_row=25)
    np.testing.assert_allclose(parts.predict_interval(rows), bounds, rtol=1e-6)
    model.partial_fit(rows + 1, targets, first_row=40).partial_fit(rows - 1, targets, first_row=80)
    model.predict_interval(rows)
    assert model._solved().deviations is None  # of 120 rows


# Sums that add up


@pytest.mark.parametrize(("parameters", "tolerance"), [(FIXED, 1e-8), (GIVEN, 1e-6)], ids=["given", "chosen"])
def test_parts_equal_a_fit(parameters, tolerance):
    """To rounding; where amplitude and noise are looked for, to that of a search."""
    model = GaussianProcessRegressor(**parameters, n_landmarks=30)
    model.partial_fit(X[:40], Y[:40])
    other = model.empty_copy().partial_fit(X[60:], Y[60:], first_row=60)
    model.partial_fit(X[40:60], Y[40:60]).merge(other)
    whole = model.empty_copy().partial_fit(X, Y)
    assert model.n_samples_seen_ == 90
    for mine, theirs in zip(model.predict(NEW, return_std=True), whole.predict(NEW, return_std=True)):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance)
    assert model.log_marginal_likelihood_ == pytest.approx(whole.log_marginal_likelihood_, rel=1e-9)


def test_a_stream_is_the_exact_process_of_all_rows():
    """The mean is that of all rows, not of the first; the unit of the targets is that of the first."""
    model = GaussianProcessRegressor(**{**FIXED, "landmarks": X})
    model.partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    unit = y[:30].std()
    C = AMPLITUDE * K(X) + NOISE * np.eye(90)
    np.testing.assert_allclose(
        model.predict(NEW), y.mean() + AMPLITUDE * K(NEW, X) @ np.linalg.solve(C, y - y.mean()), rtol=1e-8
    )
    expected = AMPLITUDE - AMPLITUDE**2 * np.einsum("ij,ji->i", K(NEW, X), np.linalg.solve(C, K(X, NEW)))
    np.testing.assert_allclose(model.predict(NEW, return_std=True)[1], unit * np.sqrt(expected), rtol=1e-6)


@pytest.mark.parametrize("machine", [GaussianProcessRegressor, GaussianProcessClassifier])
def test_weights_are_repetitions(machine):
    counts = np.arange(90) % 3
    repeated = np.repeat(np.arange(90), counts)
    targets = y if machine is GaussianProcessRegressor else TWO
    chosen = {**GIVEN, "landmarks": X[:40]}
    parameters = {} if machine is GaussianProcessRegressor else {"amplitude": 3.0}
    first = machine(**chosen, **parameters).fit(X, targets, sample_weight=counts)
    second = machine(**chosen, **parameters).fit(X[repeated], targets[repeated])
    assert first.log_marginal_likelihood_ == pytest.approx(second.log_marginal_likelihood_, abs=1e-6)
    if machine is GaussianProcessRegressor:
        for mine, theirs in zip(first.predict(NEW, return_std=True), second.predict(NEW, return_std=True)):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    else:
        np.testing.assert_allclose(first.predict_proba(NEW), second.predict_proba(NEW), rtol=1e-6)


def test_a_row_of_weight_w_is_w_rows_in_the_unit_of_amplitude_and_noise_too():
    """M9: with amplitude and noise given, in units of the variance of y, weights count in that variance."""
    counts = np.arange(90) % 4
    repeated = np.repeat(np.arange(90), counts)
    first = GaussianProcessRegressor(**FIXED, landmarks=X[:40]).fit(X, y, sample_weight=counts)
    second = GaussianProcessRegressor(**FIXED, landmarks=X[:40]).fit(X[repeated], y[repeated])
    for mine, theirs in zip(first.predict(NEW, return_std=True), second.predict(NEW, return_std=True)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)


def test_a_weight_divides_the_noise():
    weight = np.linspace(0.2, 3, 90)
    model = GaussianProcessRegressor(**FIXED, fit_intercept=False).fit(X, y, sample_weight=weight)
    theirs = TheirRegressor(THEIRS, alpha=NOISE / weight, optimizer=None).fit(X, y)
    unit = np.sqrt(np.average(y**2, weights=weight))
    mean, std = theirs.predict(NEW, return_std=True)
    np.testing.assert_allclose(model.predict(NEW), mean, rtol=1e-8)
    np.testing.assert_allclose(model.predict(NEW, return_std=True)[1], unit * std, rtol=1e-8)


def test_weighted_samples_count_as_repeated_ones():
    counts = torch.tensor([1.0, 3.0, 2.0, 1.0], dtype=torch.float64)
    places = torch.repeat_interleave(torch.arange(4), counts.long())
    rows, targets = torch.from_numpy(X[:4]), torch.from_numpy(Y[:4])
    signs = torch.from_numpy(2.0 * (TWO[:4, None] == "yes") - 1)
    C, repeated = Gaussian(1.0)(rows), Gaussian(1.0)(rows[places])
    for make, of in ((QuantityEvidence, targets), (ClassEvidence, signs)):
        first, second = make(of, counts)(C, 0.3), make(of[places], None)(repeated, 0.3)
        assert first.value == pytest.approx(second.value, rel=1e-9)
        assert first.of_log_noise == pytest.approx(second.of_log_noise, rel=1e-9)


# Files


@pytest.mark.parametrize("sums", [True, False])
def test_a_saved_regressor_gives_the_same_bits(tmp_path, sums):
    model = GaussianProcessRegressor(n_landmarks=20, random_state=0).fit(X, Y)
    model.save(tmp_path / "gp.krepes", sums=sums)
    again = load(tmp_path / "gp.krepes")
    for mine, theirs in zip(model.predict(NEW, return_std=True), again.predict(NEW, return_std=True)):
        assert np.array_equal(mine, theirs)
    assert again.log_marginal_likelihood_ == model.log_marginal_likelihood_
    assert again.noise_ == model.noise_
    assert np.array_equal(again.sample_y(NEW, 2), model.sample_y(NEW, 2))
    if sums:
        assert again.partial_fit(X, Y).n_samples_seen_ == 180
    else:
        with refuses(ValueError, "sums=True"):
            again.partial_fit(X, Y)


def test_a_saved_classifier_gives_the_same_bits(tmp_path):
    model = GaussianProcessClassifier(n_landmarks=20, random_state=0).fit(X, THREE)
    model.save(tmp_path / "gp.krepes")
    again = load(tmp_path / "gp.krepes")
    assert np.array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    assert again.n_iter_ == model.n_iter_
    assert not hasattr(again, "partial_fit")
    assert not hasattr(GaussianProcessClassifier(), "merge")


def test_a_checkpoint_continues(tmp_path, monkeypatch):
    """A fit that was interrupted in the middle of its read ends with the same bits."""
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    parameters = {**GIVEN, "n_landmarks": 20}
    expected = GaussianProcessRegressor(**parameters).fit(X, y)
    found = GaussianProcessRegressor(**parameters).fit(X, y, checkpoint=tmp_path / "state")
    assert np.array_equal(found.predict(NEW), expected.predict(NEW))
    assert not (tmp_path / "state").exists()


def test_objects_have_processes_too():
    words = ["aa", "ab", "ba", "bb", "ac", "ca", "cc", "bc"]

    def common(A, B):
        return np.array([[sum(x == z for x, z in zip(a, b)) for b in B] for a in A], dtype=float)

    targets = [word.count("a") for word in words]
    model = GaussianProcessRegressor(kernel=common, random_state=0).fit(words, targets)
    mean, std = model.predict(words, return_std=True)
    assert np.corrcoef(mean, targets)[0, 1] > 0.95
    assert (std >= 0).all()
    classes = GaussianProcessClassifier(kernel=common, random_state=0, amplitude=10.0).fit(
        words, ["a" in word for word in words]
    )
    assert classes.predict(["aa", "bb"]).tolist() == [True, False]


def test_a_linear_kernel_is_bayesian_linear_regression():
    from sklearn.linear_model import BayesianRidge

    model = GaussianProcessRegressor(kernel=Linear(), preprocess=None).fit(X, X @ [1.0, 2.0, -1.0] + y / 10)
    theirs = BayesianRidge(alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, max_iter=2000, tol=1e-9)
    theirs.fit(X - X.mean(0), X @ [1.0, 2.0, -1.0] + y / 10)
    np.testing.assert_allclose(model.predict(NEW), theirs.predict(NEW - X.mean(0)), atol=0.2)
