"""Gaussian processes in cells: exact processes of neighbourhoods, averaged over partitions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor as TheirProcess
from sklearn.gaussian_process.kernels import RBF

from krepes import load
from krepes.kernels import Gaussian
from krepes.machines import Cells, GaussianProcessRegressor
from refusals import refuses

_draws = np.random.default_rng(0)
X = _draws.normal(size=(300, 2))
y = 3 + np.sin(3 * X[:, 0]) + 0.2 * _draws.normal(size=300)
NEW = _draws.normal(size=(40, 2))
FIXED = {
    "kernel": Gaussian(0.7),
    "lengthscale": 0.7,
    "input_metric": None,
    "preprocess": None,
    "random_state": 0,
    "dtype": "float64",
}
GIVEN = {**FIXED, "amplitude": 2.0, "noise": 0.1}


def naive_moments(
    machine: GaussianProcessRegressor, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, variance and log likelihood of exact processes, cell by cell, with an inverse; in units of y."""
    scale, shift = machine.targets_.scale[0], machine.targets_.shift[0]
    targets, a, noise = (y - shift) / scale, machine.amplitude_, machine.noise_
    means, variances, evidence = np.zeros(len(rows)), np.zeros(len(rows)), 0.0
    parts = machine._solved().cells.partitions
    for part in parts:
        tree = part.tree
        of_row, of_query = (tree.cells_of(torch_of(each)).numpy() for each in (X, rows))
        for cell in range(tree.n_cells):
            inside, asked = of_row == cell, of_query == cell
            C = a * rbf(X[inside], X[inside]) + noise * np.eye(inside.sum())
            k = a * rbf(X[inside], rows[asked])
            centred = targets[inside] - targets.mean()
            inverse = np.linalg.inv(C)
            means[asked] += targets.mean() + k.T @ inverse @ centred
            variances[asked] += a - np.einsum("ij,ik,kj->j", k, inverse, k)
            log_det = np.linalg.slogdet(2 * np.pi * C)[1]
            evidence -= (centred @ inverse @ centred + log_det) / 2 + inside.sum() * np.log(scale)
    p = len(parts)
    return shift + scale * means / p, scale**2 * variances / p, evidence / p


def rbf(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return RBF(0.7)(a, b)


def torch_of(rows: np.ndarray):
    import torch

    return torch.from_numpy(rows)


@pytest.mark.parametrize("n_partitions", [1, 2])
def test_cells_are_exact_processes(n_partitions):
    machine = GaussianProcessRegressor(**GIVEN, local=Cells(size=60, n_partitions=n_partitions)).fit(X, y)
    assert all(part.tree.n_cells > 3 for part in machine._solved().cells.partitions)
    mean, std = machine.predict(NEW, return_std=True)
    expected, variances, evidence = naive_moments(machine, NEW)
    np.testing.assert_allclose(mean, expected, atol=1e-8)
    np.testing.assert_allclose(std**2, variances, atol=1e-8)
    assert machine.log_marginal_likelihood_ == pytest.approx(evidence, abs=1e-6)
    np.testing.assert_allclose(machine.predict(NEW), mean, atol=1e-12)
    explained = 1 - variances / (2.0 * machine.targets_.scale[0] ** 2)
    np.testing.assert_allclose(machine.coverage(NEW), explained, atol=1e-8)


def test_one_cell_is_the_process_of_scikit_learn():
    """With y normalised, as here."""
    machine = GaussianProcessRegressor(**{**GIVEN, "amplitude": 1.0}, local=Cells(size=300)).fit(X, y)
    theirs = TheirProcess(RBF(0.7), alpha=0.1, optimizer=None, normalize_y=True).fit(X, y)
    found, expected = machine.predict(NEW, return_std=True), theirs.predict(NEW, return_std=True)
    for mine, other in zip(found, expected):
        np.testing.assert_allclose(mine, other, atol=1e-8)


def test_standardised_errors_of_rows_left_out_have_variance_one():
    """e_i^2 M_ii / a is 1 on average, where 1 / M_ii is the variance of row i given all other rows of its cell."""
    machine = GaussianProcessRegressor(**FIXED, local=Cells(size=60, n_partitions=1)).fit(X, y)
    part, ratio = machine._solved().cells.partitions[0], machine.noise_ / machine.amplitude_
    targets = (y - machine.targets_.shift[0]) / machine.targets_.scale[0]
    of_row, squares = part.tree.cells_of(torch_of(X)).numpy(), []
    for i in range(len(X)):
        rest = (of_row == of_row[i]) & (np.arange(len(X)) != i)
        k = rbf(X[rest], X[i : i + 1])[:, 0]
        solved = np.linalg.solve(rbf(X[rest], X[rest]) + ratio * np.eye(rest.sum()), k)
        error = targets[i] - targets.mean() - solved @ (targets[rest] - targets.mean())
        squares.append(error**2 / (machine.amplitude_ * (1 + ratio - k @ solved)))
    assert np.mean(squares) == pytest.approx(1, abs=1e-8)


def test_added_forgotten_and_saved_processes_are_refits(tmp_path):
    machine = GaussianProcessRegressor(**GIVEN, local=Cells(size=60)).fit(X, y)
    parts = machine.empty_copy().partial_fit(X[:250], y[:250])
    parts.predict(NEW)
    parts.partial_fit(X[250:], y[250:])
    parts.forget(X[:20], y[:20], rows=np.arange(20))
    rest = machine.empty_copy().partial_fit(X[20:], y[20:], first_row=20)
    machine.save(tmp_path / "process.krepes", sums=False)
    again = load(tmp_path / "process.krepes")
    for first, second in ((parts, rest), (machine, again)):
        found, expected = (each.predict(NEW, return_std=True) for each in (first, second))
        for mine, other in zip(found, expected):
            np.testing.assert_allclose(mine, other, atol=1e-8)
    assert again.log_marginal_likelihood_ == machine.log_marginal_likelihood_


def test_intervals_cover_what_they_say():
    """Within four standard errors, on rows from where the others came from."""
    rows = _draws.uniform(size=(3000, 2))
    targets = np.sin(12 * rows[:, 0]) * np.sin(12 * rows[:, 1]) + 0.3 * _draws.normal(size=3000)
    machine = GaussianProcessRegressor(local=Cells(size=200), random_state=0).fit(rows[:1500], targets[:1500])
    low, high = machine.predict_interval(rows[1500:], 0.9).T
    covered = np.mean((low <= targets[1500:]) & (targets[1500:] <= high))
    assert abs(covered - 0.9) < 4 * np.sqrt(0.09 * 2 / 1500)


def test_what_cells_have_not_is_refused():
    for local in ("auto", Cells(landmarks=True), Cells(centres=5)):
        with refuses(ValueError, "local="):
            GaussianProcessRegressor(local=local).fit(X, y)
    machine = GaussianProcessRegressor(**GIVEN, local=Cells(size=60)).fit(X, y)
    with refuses(ValueError, "covariances"):
        machine.predict(NEW, return_cov=True)
    with refuses(ValueError, "covariances"):
        machine.sample_y(NEW)
    with refuses(ValueError, "space="):
        machine.fit(X, y, space=machine.space_)
    assert machine.local_.in_cells
