"""Drift: statistics from sums of blocks are those of the rows, and false alarms are as rare as promised."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding
from krepes.machines import NoveltyDetector
from krepes.streams import DriftMonitor
from krepes.streams.drift import RIDGE, BlockSums, WindowComparison
from refusals import refuses

rng = np.random.default_rng(0)
X = rng.normal(size=(9000, 4)) @ np.diag([1.0, 1.0, 0.5, 0.5])
X[:, 3] += 0.8 * X[:, 2]
model = KernelEmbedding(4, n_landmarks=60, random_state=0).fit(X[:1500])


def statistics_of_a_loop(coverage, Phi, window, h):
    """Coverage, mean and angles of the rows of a window against all others, from the rows themselves."""
    inside, outside = Phi[window], Phi[~window]
    d = inside.mean(0) - outside.mean(0)
    C = np.cov(Phi.T, bias=True)
    distance = d @ np.linalg.solve(C + RIDGE * np.trace(C) / len(C) * np.eye(len(C)), d)
    leading = np.linalg.eigh(C)[1][:, -h:]
    bases = []
    for part in (inside, outside):
        power = np.linalg.matrix_power(np.cov(part.T, bias=True), 8)
        bases.append(np.linalg.svd(power @ leading, full_matrices=False)[0])
    cosines = np.linalg.svd(bases[0].T @ bases[1])[1]
    return abs(coverage[window].mean() - coverage[~window].mean()), distance, np.mean(1 - cosines**2)


def test_statistics_of_blocks_are_those_of_their_rows():
    coverage, Phi = rng.random(120), rng.normal(size=(120, 5)) @ rng.normal(size=(5, 5))
    blocks = BlockSums.of_rows(torch.from_numpy(coverage), torch.from_numpy(Phi), 10)
    chosen = np.zeros((3, 12))
    for row, places in zip(chosen, ([9, 10, 11], [0, 4, 7], [2, 3, 5])):
        row[places] = 1
    found = WindowComparison(blocks, 3, 2).statistics(torch.from_numpy(chosen))
    for values, row in zip(found.numpy(), chosen):
        window = np.repeat(row, 10) > 0
        np.testing.assert_allclose(values, statistics_of_a_loop(coverage, Phi, window, 2), rtol=1e-9)


def test_p_values_are_valid_where_nothing_changes():
    """P(p <= a) <= a for exchangeable blocks, within 4 standard errors; also with dependence within blocks."""
    n, found = 400, []
    generator = np.random.default_rng(1)
    for _ in range(n):
        Phi = generator.standard_t(4, size=(24, 5, 3)) + 2 * generator.normal(size=(24, 1, 3))
        rows = torch.from_numpy(Phi.reshape(120, 3))
        blocks = BlockSums.of_rows(rows[:, 0].abs(), rows, 5)
        found.append(WindowComparison(blocks, 4, 1).tested(400, generator)[0])
    for level in (0.02, 0.05, 0.2):
        assert np.mean(np.array(found) <= level) <= level + 4 * np.sqrt(level * (1 - level) / n)
    assert np.mean(np.array(found) <= 0.2) > 0.1  # and not by never being small


CHANGES = {
    "a shift": lambda X: X + np.array([0.5, 0, 0, 0]),
    "a scale": lambda X: X * [1.6, 1, 1, 1],
    "a correlation that flips": lambda X: X * [1, 1, -1, 1],
    "rows far away": lambda X: np.where(np.arange(len(X))[:, None] % 5 == 0, X + 4, X),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_seen(change):
    monitor = DriftMonitor(model, window=400, average_run_length=8000).fit(X[1500:5500])
    assert sum(reading.alarm for reading in monitor.add(X[5500:7500])) <= 1
    readings = monitor.add(CHANGES[change](X[7500:8500]))
    assert readings[-1].alarm, readings[-1]
    assert readings[-1].p_value <= monitor.threshold == 40 / 8000
    if change == "rows far away":
        assert readings[-1].coverage < readings[-1].reference_coverage - 0.05


def test_readings_do_not_depend_on_how_the_stream_is_cut():
    whole = DriftMonitor(model, window=200, average_run_length=2000).fit(X[1500:3500]).add(X[4000:4630])
    cut = DriftMonitor(model, window=200, average_run_length=2000).fit(X[1500:3500])
    found = [
        reading for start in range(4000, 4630, 90) for reading in cut.add(X[start : min(4630, start + 90)])
    ]
    assert [reading.n_rows for reading in whole] == list(range(200, 630, 20))
    assert [(r.n_rows, r.p_value) for r in found] == [(r.n_rows, r.p_value) for r in whole]


def test_a_reference_of_the_models_own_rows_is_recognised():
    """M2: landmarks are covered better than new rows; every comparison was an alarm, at a nominal 5 %."""
    own = KernelEmbedding(4, n_landmarks=300, random_state=0).fit(X[:1000])
    settings = {"window": 200, "block_rows": 20, "average_run_length": 400}
    with pytest.warns(UserWarning, match="300 landmarks"):
        monitor = DriftMonitor(own, **settings).fit(X[:1000])
    readings = [
        reading for first in range(2000, 8000, 200) for reading in monitor.add(X[first : first + 200])
    ]
    assert np.mean([reading.alarm for reading in readings[::10]]) <= 0.075
    assert "coverage" not in readings[0].scores
    assert monitor.add(X[8000:8200] + np.array([1.0, 0, 0, 0]))[-1].alarm
    told = DriftMonitor(own, **settings).fit(X[:1000], first_row=0).add(X[2000:2200])  # without a warning
    assert told[0].scores == readings[0].scores
    fresh = DriftMonitor(own, **settings).fit(X[1000:2000]).add(X[2000:2200])
    assert "coverage" in fresh[0].scores


def test_a_monitor_of_few_rows_is_quick():
    """R6: the length of a run follows the window, so that alarms need no more than 2000 random choices."""
    monitor = DriftMonitor(model, window=20).fit(X[2000:2045])
    assert monitor.threshold == pytest.approx(1e-3)
    start = time.process_time()
    assert monitor.add(X[3000:3022] + 3)[-1].alarm
    assert time.process_time() - start < 10
    drawn = WindowComparison(monitor.reference_, monitor._n_blocks, 4)
    start = time.process_time()
    drawn.statistics(drawn._draws(2000, np.random.default_rng(0)))
    ours, start = time.process_time() - start, time.process_time()
    torch.linalg.eigh(torch.eye(16, dtype=torch.float64).repeat(4000, 1, 1) + 1e-3 * torch.rand(4000, 16, 16))
    assert ours < time.process_time() - start  # two eigendecompositions for every choice
    assert monitor.add(X[:1])[-1:] == []
    with refuses(ValueError, "average_run_length=1e+06", "block_rows=2", "20,000"):
        DriftMonitor(model, window=20, average_run_length=1e6)


def test_blocks_of_no_rows_are_empty():
    """R6: no rows are no block, whatever their width."""
    assert len(BlockSums.of_rows(torch.zeros(0), torch.zeros(0, 3), 5)) == 0


def test_any_model_with_a_space_can_watch():
    detector = NoveltyDetector(n_landmarks=40, random_state=0).fit(X[:500])
    monitor = DriftMonitor(detector, window=200, average_run_length=5000).fit(X[1000:3000])
    assert "drift" in str(monitor.add(X[3000:3200] + 1)[-1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"window": 1}, "window=1"),
        ({"window": 100, "block_rows": 30}, ("whole", "blocks")),
        ({"window": 100, "average_run_length": 5}, "average_run_length=5"),
        ({"n_features": 0}, "n_features=0"),
    ],
)
def test_settings_that_cannot_be_are_refused(given, message):
    with refuses(ValueError, message):
        DriftMonitor(model, **given)


def test_a_monitor_needs_a_reference_that_is_large_enough():
    with refuses(ValueError, "call fit"):
        DriftMonitor(model).add(X)
    with refuses(ValueError, "2,000"):
        DriftMonitor(model).fit(X[:1500])
