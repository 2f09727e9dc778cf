"""Machines in cells: degenerate tables, wrong parameters, data that cells do not take."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from krepes.kernels import Gaussian, Spectrum
from krepes.machines import Cells, KernelRidgeClassifier, KernelRidgeRegressor
from refusals import refuses

_draws = np.random.default_rng(0)
X = _draws.normal(size=(300, 3))
y = np.sin(3 * X[:, 0]) + X[:, 1]
IN_CELLS = {"local": Cells(size=60), "random_state": 0}
TABLES = {
    "columns of two values": (X > 0).astype(float),
    "all rows equal": np.ones((300, 3)),
    "duplicates": np.repeat(X[:15], 20, axis=0),
    "one row many times": np.vstack([X[:150], np.tile(X[:1], (150, 1))]),
    "a column far away": X * [1e12, 1.0, 1e-12],
    "an outlier": np.vstack([X[:-1], [1e6, -1e6, 1e6]]),
    "no spread but one row": np.vstack([np.zeros((299, 3)), np.ones((1, 3))]),
}


@pytest.mark.parametrize("directions", ["pairs", "columns", "leading"])
@pytest.mark.parametrize("name", TABLES)
def test_degenerate_tables(name, directions):
    table, local = TABLES[name], Cells(size=60, directions=directions)
    machine = KernelRidgeRegressor(local=local, random_state=0).fit(table, y)
    assert np.isfinite(machine.predict(table)).all()
    left = np.asarray(machine.held_out_predictions_)
    assert np.isfinite(left).all()
    errors = np.square(left - y[machine.held_out_rows_]).mean()
    assert errors < 1.5 * y.var()  # no worse than the mean, but for chance
    proba = KernelRidgeClassifier(local=local, random_state=0).fit(table, y > 0).predict_proba(table)
    np.testing.assert_allclose(proba.sum(1), 1)


def test_equal_rows_have_the_mean_of_their_targets():
    machine = KernelRidgeRegressor(kernel=Gaussian(1.0), penalty=0.1, **IN_CELLS).fit(np.ones((300, 3)), y)
    np.testing.assert_allclose(machine.predict(np.ones((1, 3))), y.mean(), atol=1e-6)


def test_constant_targets():
    machine = KernelRidgeRegressor(**IN_CELLS).fit(X, np.full(300, 7.0))
    np.testing.assert_allclose(machine.predict(X), 7.0)


@pytest.mark.parametrize("n", [2, 3, 20])
def test_fewer_rows_than_a_cell(n):
    machine = KernelRidgeRegressor(local=True, random_state=0).fit(X[:n], y[:n])
    assert np.isfinite(machine.predict(X)).all()
    assert [tree.n_cells for tree in machine.local_.partitions] == [1, 1]


def test_cells_that_lose_their_rows_predict_the_mean():
    """Cells of one row, too: without it they are the mean."""
    machine = KernelRidgeRegressor(
        kernel=Gaussian(1.0),
        penalty=0.1,
        preprocess=None,
        local=Cells(size=60, n_partitions=1),
        random_state=0,
    ).fit(X, y)
    tree = machine.local_.partitions[0]
    rows = machine.total_.rows
    cells = tree.cells_of(rows.inputs).numpy()
    inside = np.sort(rows.rows.numpy()[cells == cells[0]])
    single = machine.empty_copy().partial_fit(
        np.vstack([X[cells != cells[0]], X[inside[:1]]]), np.r_[y[cells != cells[0]], y[inside[0]]]
    )
    single.predict(X)
    left = np.asarray(single.held_out_predictions_)
    last = np.flatnonzero(single.held_out_rows_ == len(left) - 1)
    mean = np.r_[y[cells != cells[0]], y[inside[0]]].mean()
    np.testing.assert_allclose(left[last], mean, atol=1e-6)
    machine.forget(X[inside], y[inside], rows=inside)
    np.testing.assert_allclose(machine.predict(X[inside]), y[cells != cells[0]].mean(), atol=1e-6)


def test_missing_values_are_refused_as_before():
    broken = X.copy()
    broken[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN|missing") as before:
        KernelRidgeRegressor(local=False, random_state=0).fit(broken, y)
    with pytest.raises(ValueError, match=r"NaN|missing") as now:
        KernelRidgeRegressor(**IN_CELLS).fit(broken, y)
    assert str(now.value) == str(before.value)


@pytest.mark.parametrize(
    ("local", "mentioned"),
    [
        (Cells(size=-1), "size=-1"),
        (Cells(size=2.5), "size=2.5"),
        (Cells(n_partitions=0), "n_partitions=0"),
        (Cells(directions="x"), "directions='x'"),
        (Cells(landmarks="yes"), "landmarks='yes'"),
        ("yes", "local='yes'"),
        (None, "local=None"),
        (1, "local=1"),
    ],
)
@pytest.mark.parametrize("given", [False, True], ids=["fit", "fit in a space"])
def test_wrong_settings_are_named(local, mentioned, given):
    machine = KernelRidgeRegressor(local=local, random_state=0)
    options = {"space": KernelRidgeRegressor(local=False, n_landmarks=9).prepare(X, y)} if given else {}
    with refuses(ValueError, mentioned):
        machine.fit(X, y, **options)


def test_a_space_of_landmarks_is_refused_where_cells_are_asked_for():
    space = KernelRidgeRegressor(**IN_CELLS).prepare(X, y)
    with refuses(ValueError, "space=", "local=False"):
        KernelRidgeRegressor(**IN_CELLS).fit(X, y, space=space)


OTHERS = {
    "images": (_draws.integers(0, 256, (40, 6, 6), dtype=np.uint8), {}),
    "objects": ([f"{'ab' * (i % 5)}c{i % 3}" for i in range(40)], {"kernel": Spectrum(2)}),
    "sparse": (csr_matrix(X[:40]), {}),
    "precomputed": (X[:40] @ X[:40].T, {"kernel": "precomputed"}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_data_than_tables_stay_on_landmarks(name):
    rows, options = OTHERS[name]
    options = {**options, "random_state": 0, "n_landmarks": 10}
    targets = y[:40]
    with refuses(ValueError, "local=True", "local=False"):
        KernelRidgeRegressor(**options, local=True).fit(rows, targets)
    quiet = KernelRidgeRegressor(**options).fit(rows, targets)
    assert quiet.local_ is None


@pytest.mark.parametrize(
    "options", [{"loss": "logistic"}, {"transductive": True}, {"solver": "conjugate_gradients"}]
)
def test_what_goes_with_landmarks_alone_is_named(options):
    name = next(iter(options))
    with refuses(ValueError, name, "local=False"):
        KernelRidgeClassifier(**options, **IN_CELLS).fit(X, y > 0)


def test_a_fit_that_fails_leaves_the_machine_as_it_was():
    machine = KernelRidgeRegressor(**IN_CELLS).fit(X, y)
    before, plan = machine.predict(X), machine.local_
    broken = X.copy()
    broken[7, 1] = np.inf
    with refuses(ValueError, "inf"):
        machine.fit(broken, y)
    with refuses(ValueError, "inf"):
        machine.partial_fit(broken, y)
    assert machine.local_ is plan
    assert np.array_equal(machine.predict(X), before)
    assert machine.partial_fit(X[:5], y[:5]).n_samples_seen_ == 305


def test_a_row_that_was_never_added_cannot_be_forgotten():
    machine = KernelRidgeRegressor(**IN_CELLS, n_kept=50).fit(X, y)
    for rows, values in (([300], X[:1]), ([5], X[:1])):
        with refuses(ValueError, "row"):
            machine.forget(values, y[:1], rows=rows)
    assert machine.n_samples_seen_ == 300
