"""Predictions in cells as sums over real rows; fits of cells that are interrupted, or kept in files."""

import numpy as np
import pytest
import torch

from krepes.base.storage import file_backed
from krepes.engines import Engine
from krepes.kernels import Gaussian
from krepes.machines import Cells, KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.cells.exact_cell import fitted
from refusals import refuses

RNG = np.random.default_rng(0)
X = RNG.standard_normal((900, 3))
Y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.standard_normal(900)
NEW = RNG.standard_normal((40, 3))
SMALL = {"random_state": 0, "n_landmarks": 50}


@pytest.fixture(scope="module")
def machine():
    return KernelRidgeRegressor(local=Cells(size=150), **SMALL).fit(X, Y)


def test_a_prediction_is_a_weighted_mean_of_targets(machine):
    """f(x) = sum_i h_i(x) y_i with sum_i h_i(x) = 1."""
    found = machine.row_weights(NEW, n_top=len(X))
    inside = found.rows >= 0
    sums = (found.weights * np.where(inside, Y[found.rows], 0)).sum(1)
    np.testing.assert_allclose(sums, machine.predict(NEW), atol=1e-9)
    np.testing.assert_allclose(found.weights.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(found.others, 0, atol=1e-12)
    assert ((found.coverage > 0) & (found.coverage < 1)).all()


def test_effects_are_refits_without_the_row():
    """f(x) - f_without i(x) = h_i(x) e_i."""
    machine = KernelRidgeRegressor(local=Cells(size=150), **SMALL).fit(X, Y)
    found, before = machine.row_weights(NEW[:1], n_top=3), machine.predict(NEW[:1])
    row = found.rows[0, 1]
    machine.forget(X[[row]], Y[[row]], rows=[row])
    np.testing.assert_allclose(found.effects[0, 1, 0], before[0] - machine.predict(NEW[:1])[0], atol=1e-9)


def test_classes_have_effects_on_every_score():
    labels = np.where(Y > 0.5, "high", "low")
    machine = KernelRidgeClassifier(local=Cells(size=150), **SMALL).fit(X, labels)
    found = machine.row_weights(NEW[:5], n_top=4)
    assert found.effects.shape == (5, 4, 2)
    np.testing.assert_allclose(found.effects.sum(2), 0, atol=1e-9)  # indicators sum to one, and so do scores


def test_machines_on_landmarks_have_no_row_weights():
    machine = KernelRidgeRegressor(local=False, **SMALL).fit(X, Y)
    with refuses(ValueError, "landmarks", "local=True"):
        machine.row_weights(NEW)


def test_coefficients_of_landmarks_are_refused_in_cells(machine):
    with refuses(AttributeError, "row_weights"):
        _ = machine.dual_coef_


class Interrupted(Engine):
    """Counts cells, and stops before the next one after so many."""

    def __init__(self, most=None):
        self.most, self.count = most, 0

    def each(self, function, items):
        for item in items:
            if self.count == self.most:
                raise KeyboardInterrupt
            self.count += 1
            yield function(item)


@pytest.mark.parametrize("landmarks", [False, True])
def test_a_resumed_fit_solves_the_cells_that_are_missing(landmarks, tmp_path, monkeypatch):
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    settings = {**SMALL, "local": Cells(size=150, landmarks=landmarks)}
    whole = KernelRidgeRegressor(**settings, engine=Interrupted()).fit(X, Y)
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        KernelRidgeRegressor(**settings, engine=Interrupted(7)).fit(X, Y, checkpoint=path)
    engine = Interrupted()
    resumed = KernelRidgeRegressor(**settings, engine=engine).fit(X, Y, checkpoint=path)
    assert engine.count == whole.engine.count - 7
    assert np.array_equal(resumed.predict(NEW), whole.predict(NEW))
    assert np.array_equal(resumed.held_out_predictions_, whole.held_out_predictions_)
    assert list(tmp_path.iterdir()) == []


def test_rows_in_files_give_the_same_bits(machine, monkeypatch):
    monkeypatch.setenv(file_backed.VARIABLE, "1000")
    in_file = KernelRidgeRegressor(local=Cells(size=150), **SMALL).fit(X, Y)
    assert np.array_equal(in_file.predict(NEW), machine.predict(NEW))
    in_file.forget(X[:9], Y[:9], rows=np.arange(9))
    assert len(in_file.total_.rows) == 891


def test_the_limit_of_memory_is_a_number(monkeypatch):
    monkeypatch.setenv(file_backed.VARIABLE, "much")
    with refuses(ValueError, file_backed.VARIABLE, "much"):
        file_backed.most_in_memory()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
def test_equal_rows_have_the_fit_of_any_rows(intercept, weighted):
    """A cell of equal rows is the limit of rows that lie close together."""
    equal = torch.ones(6, 2, dtype=torch.float64)
    close = equal + 1e-9 * torch.arange(12, dtype=torch.float64).reshape(6, 2)
    targets = torch.from_numpy(RNG.standard_normal((6, 2)))
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 1.0], dtype=torch.float64) if weighted else None
    found, expected = (
        fitted(Gaussian(1.0), rows, targets, weight, 0.3, intercept) for rows in (equal, close)
    )
    for name in ("A", "b", "errors"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), atol=1e-7, rtol=0)
