"""Why a prediction: training rows add up to it, columns have Shapley values, another row has another prediction."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, load_wine

from krepes.explain import Examples, Reasons, column_values, counterfactuals, explain, faithfulness
from krepes.explain.column_values import product_terms
from krepes.explain.retraining import rank_correlations
from krepes.kernels import Gaussian, Laplacian, Linear, Matern
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.machines.cells.choosing import Cells
from krepes.machines.novelty.explanation import NoveltyExplanation
from refusals import refuses

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 4))
y = X[:, 0] + X[:, 1] * X[:, 2]
NEW = RNG.standard_normal((9, 4))
EXACT = {"n_landmarks": 30, "random_state": 0, "dtype": "float64"}


def test_rows_add_up_to_a_quantity():
    """prediction = mean + what rows add; with all rows shown, nothing is left over."""
    machine = KernelRidgeRegressor(penalty=0.1, kernel=Gaussian(2.0), input_metric=None, **EXACT).fit(X, y)
    few, all_rows = explain(machine, NEW, 5), explain(machine, NEW, 120)
    for found in (few, all_rows):
        total = found.constant + found.adds.sum(1) + found.others
        assert np.allclose(total, machine.predict(NEW), rtol=1e-9)
    assert np.abs(all_rows.others).max() < 1e-8 * np.abs(y).max()
    assert np.allclose(few.targets.astype(float), y[few.rows])


def test_effects_of_reasons_are_refits():
    settings = {"penalty": 0.1, "kernel": Gaussian(2.0), "input_metric": None, **EXACT}
    machine = KernelRidgeRegressor(**settings).fit(X, y)
    found = explain(machine, NEW[:1], 3)
    for row, effect in zip(found.rows[0], found.effects[0]):
        weight = np.ones(len(X))
        weight[row] = 0
        again = KernelRidgeRegressor(**settings).fit(X, y, sample_weight=weight, space=machine.space_)
        gone = machine.predict(NEW[:1])[0] - again.predict(NEW[:1])[0]
        assert effect == pytest.approx(gone, rel=1e-7)
    assert (np.diff(found.similarity[0] * found.effects[0]) <= 0).all()


def test_classes_are_carried_by_rows_of_the_class():
    data = load_iris()
    machine = KernelRidgeClassifier(random_state=0).fit(data.data[::2], data.target[::2])
    found = explain(machine, data.data[1::2], 3)
    assert isinstance(found, Reasons)
    assert (found.targets[:, 0] == found.predictions).mean() > 0.9
    other = explain(machine, data.data[1:2], 3, label=1)
    assert other.totals[0] < found.totals[0]


def test_cells_explain_by_their_rows():
    rows = RNG.standard_normal((400, 3))
    machine = KernelRidgeRegressor(local=Cells(size=100, n_partitions=2), random_state=0).fit(
        rows, rows[:, 0]
    )
    found = explain(machine, NEW[:3, :3], 400)
    total = found.constant + found.adds.sum(1) + found.others
    assert np.allclose(total, machine.predict(NEW[:3, :3]))
    assert np.abs(found.others).max() < 1e-6


def test_the_same_door_for_processes_and_novelty():
    process = GaussianProcessRegressor(**EXACT).fit(X, y)
    assert isinstance(explain(process, NEW), Examples)
    kinds = GaussianProcessClassifier(**EXACT).fit(X, y > 0)
    assert isinstance(explain(kinds, NEW), Examples)
    assert isinstance(explain(NoveltyDetector(random_state=0).fit(X), NEW, 2), NoveltyExplanation)
    for machine in (process, kinds):
        other = counterfactuals(machine, NEW)
        assert np.isin(other.rows, machine.landmark_indices_).all()


def shapley(machine, x, reference):
    """Over all coalitions: absent columns averaged one by one over the reference rows."""
    ((_, kernel),) = product_terms(machine.kernel_)
    L, A, d = machine.landmarks_.double(), machine.dual_coef_, len(x)
    p, q = (
        np.array(
            [kernel.coordinate_product([j], rows[:, [j]], L[:, [j]], [0.0]).mean(0).numpy() for j in range(d)]
        )
        for rows in (torch.from_numpy(x[None]), torch.from_numpy(reference))
    )
    value = {}
    for size in range(d + 1):
        for kept in combinations(range(d), size):
            factors = [p[j] if j in kept else q[j] for j in range(d)]
            value[kept] = np.prod(factors, axis=0) @ A
    found = np.zeros((d, A.shape[1]))
    for j in range(d):
        for kept in (k for k in value if j not in k):
            weight = factorial(len(kept)) * factorial(d - 1 - len(kept)) / factorial(d)
            found[j] += weight * (value[tuple(sorted((*kept, j)))] - value[kept])
    return found


@pytest.mark.parametrize("kernel", [Gaussian(1.5), Laplacian(2.0, norm=1)], ids=["gaussian", "laplacian"])
def test_column_values_are_shapley_values(kernel):
    machine = KernelRidgeRegressor(kernel=kernel, input_metric=None, preprocess=None, **EXACT).fit(X, y)
    found = column_values(machine, NEW[:2], against=X[:20])
    for row in range(2):
        assert np.allclose(found.values[row], shapley(machine, NEW[row], X[:20]), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_kernels_are_mixtures_of_gaussians(nu):
    kernel, rows = Matern(1.3, nu=nu), torch.from_numpy(X)
    K = sum(weight * each(rows) for weight, each in product_terms(kernel))
    assert (K - kernel(rows)).abs().max() < 1e-7


def test_column_values_add_up_to_the_prediction():
    data = load_wine()
    machine = KernelRidgeClassifier(random_state=0).fit(data.data, data.target)
    found = column_values(machine, data.data[:3])
    scores = machine.decision_function(data.data[:3])
    assert np.allclose(found.base + found.values.sum(1), scores, atol=1e-6)
    with refuses(ValueError, "product"):
        column_values(KernelRidgeRegressor(kernel=Linear(), **EXACT).fit(X, y), NEW)


def test_the_counterfactual_is_the_nearest_row_with_another_prediction():
    machine = KernelRidgeClassifier(**EXACT).fit(X, y > 0)
    found = counterfactuals(machine, NEW)
    assert (found.predictions != machine.predict(NEW)).all()
    held = dict(
        zip(machine.held_out_rows_.tolist(), machine._solved().held_out.predictions.argmax(1).tolist())
    )
    K = machine.kernel_(
        torch.from_numpy(machine.input_space_.tensor(NEW, torch.float64).numpy()),
        machine.input_space_.tensor(X, torch.float64),
    ).numpy()
    for i, row in enumerate(found.rows):
        other = [r for r in range(120) if bool(held[r]) != machine.predict(NEW)[i]]
        assert row == max(other, key=lambda r: K[i, r])


def test_a_machine_is_checked_by_retraining():
    data = load_wine()
    machine = KernelRidgeClassifier(random_state=0).fit(data.data[::2], data.target[::2])
    found = faithfulness(machine, data.data[1::2], data.target[1::2], n_rows=30)
    lds = {name: method["LDS"].mean() for name, method in found.methods.items()}
    assert lds["explain"] > 0.6 > lds["kernel value"]
    assert found.methods["explain"]["same label"].mean() > 0.9
    assert found.ignores_weights("kernel value")
    assert not found.ignores_weights("explain")
    assert float(found.facts["wrong labels found (area under the curve)"][:5]) > 0.9


def test_exact_values_foretell_retraining_where_it_is_linear():
    """Rows of a machine so stiff that they hardly move one another: LDS is 1."""
    machine = KernelRidgeRegressor(kernel="linear", penalty=1e5, preprocess=None, **EXACT).fit(X, X[:, 0])
    found = faithfulness(machine, NEW)
    assert found.methods["effects"]["LDS"].mean() > 0.99


def test_rank_correlations_are_spearmans():
    from scipy.stats import spearmanr

    A, B = RNG.standard_normal((3, 30)), RNG.standard_normal((3, 30))
    expected = [spearmanr(a, b).statistic for a, b in zip(A, B)]
    assert np.allclose(rank_correlations(A, B), expected)
