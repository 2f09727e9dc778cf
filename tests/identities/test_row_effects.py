"""The effect of rows is the difference from a fit without them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding
from krepes.explain import row_effect
from krepes.explain.row_effect import _span
from krepes.kernels import Gaussian
from krepes.losses import BarlowTwins, VICReg
from krepes.machines import GaussianProcessRegressor, KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.cells.choosing import Cells
from refusals import refuses

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 4))
X[:30] += 1.5
y = X[:, 0] + 0.1 * RNG.standard_normal(90)
NEW = RNG.standard_normal((12, 4))
EXACT = {"n_landmarks": 25, "random_state": 0, "dtype": "float64"}
LOSSES = {
    "spectral": "spectral_contrastive",
    "kernel PCA": "kernel_pca",
    "simple": "simple_contrastive",
    "VICReg": VICReg(variance="quadratic"),
    "Barlow Twins": BarlowTwins(normalize=False, redundancy=1.0),
}


def fitted(loss, space=None, weight=None):
    return KernelEmbedding(3, loss=loss, **EXACT).fit(X, sample_weight=weight, space=space)


def gram(model, rows=NEW):
    Z = model.transform(rows)
    return Z @ Z.T


@pytest.fixture(params=LOSSES, scope="module")
def model(request):
    return fitted(LOSSES[request.param])


def counting(row, weight):
    weights = np.ones(len(X))
    weights[row] = weight
    return weights


@pytest.mark.parametrize("row", [7, 50])
def test_a_model_without_a_row_is_a_fit_without_it(model, row):
    """In the same space, with the same draws of views: to 1e-8 of the largest entry of Z Z^T."""
    again = fitted(model.loss, model.space_, counting(row, 0.0))
    less = model.without_rows(X, [row])
    expected = gram(again)
    assert np.abs(gram(less) - expected).max() <= 1e-8 * np.abs(expected).max()
    assert np.abs(gram(model) - expected).max() > 1e-5 * np.abs(expected).max()
    assert less.n_samples_seen_ == 89


def test_several_rows_leave_one_after_the_other(model):
    rows = [3, 40, 80]
    weight = np.ones(len(X))
    weight[rows] = 0
    expected = gram(fitted(model.loss, model.space_, weight))
    assert np.abs(gram(model.without_rows(X, rows)) - expected).max() <= 1e-8 * np.abs(expected).max()


def span_gram(model):
    Z = torch.from_numpy(model._mapped(model.features_, NEW)).double() @ _span(model)
    return (Z @ Z.mT).numpy()


def test_the_exact_effect_is_the_change_of_the_span(model):
    found, before = row_effect(model, X, [7, 50], on=NEW), span_gram(model)
    for place, row in enumerate((7, 50)):
        change = span_gram(fitted(model.loss, model.space_, counting(row, 0.0))) - before
        expected = np.linalg.norm(change) / np.linalg.norm(before)
        assert found.total[place] == pytest.approx(expected, rel=1e-6)
        by_row = np.linalg.norm(change, axis=1) / np.linalg.norm(before, axis=1)
        assert np.allclose(found.on[place], by_row, rtol=1e-6)


def test_moments_by_fold_and_an_automatic_width():
    model = KernelEmbedding("auto", loss="kernel_pca", **EXACT).fit(X)
    less = model.without_rows(X, [5])
    assert less.n_components_ == model.n_components_
    again = KernelEmbedding(model.n_components_, loss="kernel_pca", **EXACT)
    again.fit(X, sample_weight=counting(5, 0.0), space=model.space_)
    assert np.abs(gram(less) - gram(again)).max() <= 1e-8 * np.abs(gram(again)).max()


@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_machines_equal_a_refit_with_the_same_penalty(intercept):
    settings = {"penalty": 0.1, "fit_intercept": intercept, "kernel": "gaussian", "lengthscale": 2.0, **EXACT}
    machine = KernelRidgeRegressor(input_metric=None, **settings).fit(X, y)
    found = row_effect(machine, X, np.arange(5), on=NEW, y=y)
    for row in range(5):
        again = KernelRidgeRegressor(input_metric=None, **settings)
        again.fit(X, y, sample_weight=counting(row, 0.0), space=machine.space_)
        unit = machine.targets_.scale[0]
        assert np.allclose(
            found.on[row] * unit, np.abs(again.predict(NEW) - machine.predict(NEW)), rtol=1e-8, atol=1e-10
        )


def test_classes_and_weights_of_a_ridge_machine():
    kind, weight = np.where(y > 0.5, "high", "low"), RNG.uniform(0.5, 2, len(X))
    settings = {"penalty": 0.2, "kernel": "gaussian", "lengthscale": 2.0, "input_metric": None, **EXACT}
    machine = KernelRidgeClassifier(**settings).fit(X, kind, sample_weight=weight)
    found = row_effect(machine, X, [4], on=NEW, y=kind, sample_weight=weight)
    less = weight.copy()
    less[4] = 0
    again = KernelRidgeClassifier(**settings).fit(X, kind, sample_weight=less, space=machine.space_)
    K = machine.features_.kernel_block(torch.from_numpy(NEW)).numpy()
    change = K @ (again.dual_coef_ - machine.dual_coef_) + again.intercept_ - machine.intercept_
    assert np.allclose(found.on[0], np.linalg.norm(change, axis=1), rtol=1e-7)


@pytest.mark.parametrize("kind", [KernelRidgeRegressor, GaussianProcessRegressor], ids=["ridge", "process"])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_and_groups_equal_a_refit_to_1e8(kind, intercept):
    """Single rows in closed form, groups from sums; penalty, noise and amplitude stay as they are."""
    fixed = {"penalty": 0.1} if kind is KernelRidgeRegressor else {"noise": 0.05, "amplitude": 1.0}
    settings = {**fixed, "fit_intercept": intercept, "kernel": Gaussian(2.0), "input_metric": None, **EXACT}
    machine = kind(**settings).fit(X, y)
    groups = [np.array([4]), np.array([8, 30, 61])]
    found = row_effect(machine, X, groups, on=NEW, y=y)
    alone = row_effect(machine, X, [4, 8], on=NEW, y=y)
    assert np.allclose(alone.changes[0], found.changes[0], rtol=1e-8, atol=1e-12)
    for group, changes in zip(groups, found.changes):
        weight = np.ones(len(X))
        weight[group] = 0
        again = kind(**settings).fit(X, y, sample_weight=weight, space=machine.space_)
        expected = again.predict(NEW) - machine.predict(NEW)
        own = machine.targets_.scale[0]
        if kind is KernelRidgeRegressor or not intercept:
            assert np.allclose(changes[:, 0] * own, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
        # the units of a process follow the rows, so that its noise does: compare in sums
    assert found.rows.tolist() == [4, -1]


def test_cells_know_the_effect_of_a_row():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((400, 3))
    target = np.sin(rows[:, 0]) + 0.1 * rng.standard_normal(400)
    machine = KernelRidgeRegressor(local=Cells(size=100, n_partitions=2), random_state=0).fit(rows, target)
    queries = rng.standard_normal((5, 3))
    found = row_effect(machine, rows, [11], on=queries, y=target)
    weights = machine.row_weights(queries, 400)
    expected = np.where(weights.rows == 11, weights.effects[:, :, 0], 0).sum(1)
    assert np.allclose(-found.changes[0, :, 0] * machine.targets_.scale[0], expected, rtol=1e-9, atol=1e-12)
    with refuses(ValueError, "one row at a time"):
        row_effect(machine, rows, [np.array([1, 2])], on=queries, y=target)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": [90]}, ("rows 0", "89")),
        ({"rows": [3, 3]}, ("row", "twice")),
        ({"rows": [0.5]}, "indices"),
    ],
    ids=["out of range", "twice", "fraction"],
)
def test_refusals(arguments, message):
    model = fitted("kernel_pca")
    with refuses(ValueError, message):
        row_effect(model, X, on=NEW, **arguments)


def test_models_without_a_closed_form_say_so():
    machine = KernelRidgeClassifier(loss="logistic", **EXACT).fit(X, y > 0)
    with refuses(ValueError, "loss='squared'"):
        row_effect(machine, X, [1], on=NEW, y=y > 0)
    with refuses(ValueError, "give y="):
        row_effect(machine, X, [1], on=NEW)
    with refuses(TypeError, "KernelEmbedding"):
        row_effect("model", X, [1], on=NEW)
