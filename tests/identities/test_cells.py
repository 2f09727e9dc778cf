"""Machines in cells: exact solutions, refits, sums that add up, and trees that divide the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

from krepes import load
from krepes.engines import Engine, Local
from krepes.kernels import Gaussian
from krepes.machines import Cells, KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.cells import asked_cells, choosing
from krepes.machines.cells.cell_solver import TOO_LARGE
from krepes.machines.cells.exact_cell import allows_single, fitted, on_centres
from krepes.machines.cells.partition import DIRECTIONS, Partition, grown, whole
from refusals import refuses

_draws = np.random.default_rng(0)
X = _draws.normal(size=(400, 3))
y = 5 + np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * _draws.normal(size=400)
NAMES = np.array(["low", "middle", "high"])[np.digitize(y, [5.0, 6.5])]
NEW = _draws.normal(size=(60, 3))
WEIGHT = np.linspace(0.1, 3, 400)

FIXED = {
    "kernel": Gaussian(1.0),
    "lengthscale": 1.0,
    "input_metric": None,
    "preprocess": None,
    "penalty": 0.1,
    "random_state": 0,
    "dtype": "float64",
}
SHORT = {"kernel": Gaussian(0.25), "lengthscale": 0.25}  # every row has a direction of its own
SMALL = {**FIXED, "local": Cells(size=80)}
ABOVE_LANDMARKS = {**FIXED, "n_landmarks": 20, "local": Cells(size=80, landmarks=True)}


def refit(plan_of: KernelRidgeRegressor, rows, targets, **options) -> KernelRidgeRegressor:
    """A machine with the plan of another, of other rows."""
    return plan_of.empty_copy().partial_fit(rows, targets, **options)


def assert_same_machine(first, second, tolerance: float = 1e-8) -> None:
    """The same predictions of new rows, and of kept rows that were left out, in whatever order those are."""
    ask = "predict_proba" if isinstance(first, KernelRidgeClassifier) else "predict"
    np.testing.assert_allclose(getattr(first, ask)(NEW), getattr(second, ask)(NEW), atol=tolerance)
    found = [machine.held_out_ for machine in (first, second)]
    left = [held.predictions.numpy()[np.argsort(held.rows.numpy())] for held in found]
    np.testing.assert_allclose(*left, atol=tolerance)


# One cell


@pytest.mark.parametrize("some", [None, torch.tensor([3, 0, 17])], ids=["all rows", "some rows"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("outputs", [1, 3])
def test_leave_one_out_errors_of_a_cell_are_those_of_refits(intercept, weighted, outputs, some):
    """y_i - f_-i(x_i) = A_i / M_ii, where f_-i is the fit to all other rows of the cell."""
    rows, weight = torch.from_numpy(X[:30]), torch.from_numpy(WEIGHT[100:130]) if weighted else None
    Y = torch.from_numpy(y[:30, None] if outputs == 1 else np.eye(3)[np.arange(30) % 3])
    kernel = Gaussian(1.0)
    found = fitted(kernel, rows, Y, weight, 0.1, intercept, some).errors
    expected = []
    for i in range(30) if some is None else some.tolist():
        rest = torch.arange(30) != i
        fit = fitted(kernel, rows[rest], Y[rest], None if weight is None else weight[rest], 0.1, intercept)
        expected.append(Y[i] - (kernel(rows[i : i + 1], rows[rest]) @ fit.A + fit.b)[0])
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-8, rtol=0)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_one_cell_is_the_exact_machine(intercept, weight):
    options = {**FIXED, **SHORT, "fit_intercept": intercept}
    cell = KernelRidgeRegressor(**{**options, "local": Cells(size=400)}).fit(X, y, sample_weight=weight)
    exact = KernelRidgeRegressor(**options, local=False, n_landmarks=None).fit(X, y, sample_weight=weight)
    assert [tree.n_cells for tree in cell.local_.partitions] == [1, 1]
    np.testing.assert_allclose(cell.predict(NEW), exact.predict(NEW), atol=1e-8)
    if not intercept:
        theirs = KernelRidge(alpha=0.1, kernel="rbf", gamma=8.0).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(cell.predict(NEW), theirs.predict(NEW), atol=1e-8)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_one_cell_is_the_exact_classifier(class_weight):
    options = {**FIXED, **SHORT, "class_weight": class_weight}
    cell = KernelRidgeClassifier(**{**options, "local": Cells(size=400)}).fit(X, NAMES)
    exact = KernelRidgeClassifier(**options, local=False, n_landmarks=None).fit(X, NAMES)
    np.testing.assert_allclose(cell.decision_function(NEW), exact.decision_function(NEW), atol=1e-8)


def test_single_precision_is_used_where_the_penalty_allows_it():
    """Coefficients stay within a hundredth of double precision, and a small penalty is solved in double."""
    rows, Y = torch.from_numpy(X[:200]).float(), torch.from_numpy(y[:200, None])
    kernel = Gaussian(1.0)
    K = kernel(rows)
    assert allows_single(K, K.new_full((200,), 1.0))
    assert not allows_single(K, K.new_full((200,), 1e-6))
    for penalty, dtype in ((1.0, torch.float32), (1e-6, torch.float64)):
        found, exact = (fitted(kernel, each, Y, None, penalty, True) for each in (rows, rows.double()))
        assert found.A.dtype == dtype
        error = (found.A.double() - exact.A).norm() / exact.A.norm()
        assert error < (1e-2 if dtype == torch.float32 else 1e-6)  # the penalty is rounded


def test_predictions_in_single_precision_are_near_double():
    double = KernelRidgeRegressor(**SMALL).fit(X, y)
    single = KernelRidgeRegressor(**{**SMALL, "dtype": "float32"}).fit(X, y)
    np.testing.assert_allclose(single.predict(NEW), double.predict(NEW), rtol=1e-3)


# Several cells


@pytest.mark.parametrize("intercept", [True, False])
def test_predictions_are_means_of_ridge_regressions_in_the_cells_of_a_row(intercept):
    """Held-out predictions, too, are means over the partitions of the fits without the row."""
    machine = KernelRidgeRegressor(**{**SMALL, "fit_intercept": intercept}).fit(X, y)
    kernel, rows, queries = machine.local_.kernel, torch.from_numpy(X), torch.from_numpy(NEW)
    trees = [part.tree for part in machine._solved().cells.partitions]
    assert len(trees) == 2
    assert min(tree.n_cells for tree in trees) > 3
    expected, left = np.zeros(len(NEW)), np.zeros(len(X))
    for tree in trees:
        cells = tree.cells_of(rows)
        for cell in cells.unique():
            inside = cells == cell
            fit = fitted(kernel, rows[inside], torch.from_numpy(y)[inside, None], None, 0.1, intercept)
            left[inside.numpy()] += (y[inside.numpy()] - fit.errors[:, 0].numpy()) / 2
            asked = tree.cells_of(queries) == cell
            scores = kernel(queries[asked], rows[inside]) @ fit.A + fit.b
            expected[asked.numpy()] += scores[:, 0].numpy() / 2
    np.testing.assert_allclose(machine.predict(NEW), expected, atol=1e-8)
    found = np.asarray(machine.held_out_predictions_)
    np.testing.assert_allclose(found, left[machine.held_out_rows_], atol=1e-8)


@pytest.mark.parametrize("kind", ["regression", "weighted", "classes", "balanced", "landmarks"])
def test_rows_added_merged_and_forgotten_are_a_refit(kind):
    """Also rows of one corner, which change the mean of the targets for cells that are not solved again."""
    classes = kind in ("classes", "balanced")
    options = ABOVE_LANDMARKS if kind == "landmarks" else SMALL
    if classes:
        targets = NAMES
        machine = KernelRidgeClassifier(**options, class_weight="balanced" if kind == "balanced" else None)
    else:
        targets = np.where(X[:, 0] > 1, y + 50, y)
        machine = KernelRidgeRegressor(**options)
    machine.fit(X, targets)
    assert machine.local_.kind == ("landmarks and cells" if kind == "landmarks" else "cells")
    order = np.argsort(X[:, 0], kind="stable")  # the last rows are the corner
    rows, targets = X[order], targets[order]
    weight = WEIGHT if kind == "weighted" else np.ones(400)

    def of(part: slice, first: int = 0):
        return refit(machine, rows[part], targets[part], sample_weight=weight[part], first_row=first)

    whole_fit, most = of(slice(None)), of(slice(350))
    assert_same_machine(refit(machine, X, targets[np.argsort(order)]), machine)
    most.predict(NEW)  # solved, so that its cells are known
    added = most.partial_fit(rows[350:], targets[350:], sample_weight=weight[350:])
    assert_same_machine(added, whole_fit)
    merged = of(slice(350)).merge(of(slice(350, 400), 350))
    assert_same_machine(merged, whole_fit)
    gone = np.setdiff1d(np.arange(350, 400), machine.landmark_indices_ if kind == "landmarks" else [])
    merged.forget(rows[gone], targets[gone], rows=gone, sample_weight=weight[gone])
    left = machine.empty_copy()
    for i in np.setdiff1d(np.arange(350, 400), gone).tolist():
        left.partial_fit(rows[i : i + 1], targets[i : i + 1], sample_weight=weight[i : i + 1], first_row=i)
    left.partial_fit(rows[:350], targets[:350], sample_weight=weight[:350], first_row=0)
    assert_same_machine(merged, left)


def test_weights_are_repetitions():
    machine = KernelRidgeRegressor(**SMALL).fit(X, y)
    times = 1 + np.arange(400) % 3
    repeated = refit(machine, np.repeat(X, times, axis=0), np.repeat(y, times))
    weighted = refit(machine, X, y, sample_weight=times)
    sizes = [len(part.starts) for each in (repeated, weighted) for part in each._solved().cells.partitions]
    if sizes[:2] != sizes[2:]:  # repeated rows fill cells, which are then split again
        plan = machine.local_
        pytest.fail(f"choose a size with room: {sizes}, {plan.size}")
    np.testing.assert_allclose(repeated.predict(NEW), weighted.predict(NEW), atol=1e-8)


def test_groups_are_refits():
    group = np.array(["a", "b", "c"])[np.arange(400) % 3]
    machine = KernelRidgeRegressor(**SMALL).fit(X, y, groups=group)
    for found, inside in ((machine.only("b"), group == "b"), (machine.without("b"), group != "b")):
        np.testing.assert_allclose(
            found.predict(NEW), refit(machine, X[inside], y[inside]).predict(NEW), atol=1e-8
        )


class Counted(Engine):
    """Runs here, and counts the rows of every cell that is solved."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.sizes.append(len(item.X))
            yield function(item)


def test_only_cells_that_changed_are_solved_again():
    engine = Counted()
    machine = KernelRidgeRegressor(**SMALL, engine=engine).fit(X, y)
    machine.predict(NEW)
    n_cells = sum(part.tree.n_cells for part in machine._solved().cells.partitions)
    assert len(engine.sizes) == n_cells
    engine.sizes.clear()
    machine.partial_fit(X[:1], y[:1]).predict(NEW)
    assert 2 <= len(engine.sizes) < n_cells / 2  # a cell of each partition, or what it was split into
    engine.sizes.clear()
    machine.forget(X[:1], y[:1], rows=[400])
    machine.predict(NEW)
    assert 2 <= len(engine.sizes) < n_cells / 2


@pytest.mark.parametrize("change", [{"penalty": 10.0}, {"kernel": Gaussian(0.3), "lengthscale": 0.3}])
def test_a_second_fit_knows_nothing_of_the_first(change):
    machine = KernelRidgeRegressor(**SMALL).fit(X, y)
    machine.predict(NEW)
    again = machine.set_params(**change).fit(X, y)
    fresh = KernelRidgeRegressor(**{**SMALL, **change}).fit(X, y)
    assert np.array_equal(again.predict(NEW), fresh.predict(NEW))


def test_a_space_that_is_given_is_of_landmarks():
    machine = KernelRidgeRegressor(**SMALL).fit(X, y)
    machine.set_params(local="auto")
    space = KernelRidgeRegressor(**FIXED, n_landmarks=20).prepare(X, y)
    machine.fit(X, y, space=space)
    assert machine.local_ is None
    expected = KernelRidgeRegressor(**FIXED, local=False).fit(X, y, space=space)
    assert np.array_equal(machine.predict(NEW), expected.predict(NEW))


@pytest.mark.parametrize("options", [SMALL, ABOVE_LANDMARKS], ids=["cells", "above landmarks"])
def test_a_saved_machine_is_the_same(options, tmp_path):
    machine = KernelRidgeRegressor(**options).fit(X[:300], y[:300])
    machine.save(tmp_path / "model.krepes")
    again = load(tmp_path / "model.krepes")
    assert np.array_equal(again.predict(NEW), machine.predict(NEW))
    assert str(again.local_) == str(machine.local_)
    again.partial_fit(X[300:], y[300:])
    assert_same_machine(again, machine.partial_fit(X[300:], y[300:]))


@pytest.mark.parametrize("rows_per_block", [16, 1000])
def test_blocks_do_not_matter(rows_per_block):
    machine = KernelRidgeRegressor(**SMALL).fit(X, y)
    blocks = KernelRidgeRegressor(**SMALL, engine=Local(rows_per_block)).fit(X, y)
    assert np.array_equal(machine.predict(NEW), blocks.predict(NEW))


@pytest.mark.parametrize("classes", [False, True], ids=["numbers", "classes"])
def test_the_mean_of_both_is_the_weighted_mean_of_two_machines(classes, monkeypatch, tmp_path):
    """f = (1 - w) f_landmarks + w f_cells; so are predictions of rows left out, with landmarks by folds."""
    kind, targets = (KernelRidgeClassifier, NAMES) if classes else (KernelRidgeRegressor, y)
    options = {**FIXED, "n_landmarks": 20}
    of_landmarks = kind(**options, local=False).fit(X, targets)
    in_cells = kind(**options, local=Cells(size=80)).fit(X, targets)
    monkeypatch.setattr(asked_cells, "ENOUGH", 2)
    monkeypatch.setattr(choosing, "as_cells", lambda local: (Cells(size=80), True))
    monkeypatch.setattr(asked_cells, "as_cells", lambda local: (Cells(size=80), local == "auto"))
    monkeypatch.setattr(choosing, "best_share", lambda *errors: 0.25)
    monkeypatch.setattr(choosing, "clearly_lower", lambda errors, others: errors is not others)
    both = kind(**options, local="auto").fit(X, targets)
    assert both.local_.kind == "mean of both"
    assert "0.25 of cells" in str(both.local_)
    expected = 0.75 * of_landmarks._scores(NEW) + 0.25 * in_cells._scores(NEW)
    np.testing.assert_allclose(both._scores(NEW), expected, atol=1e-8)
    left = [each.held_out_ for each in (of_landmarks, in_cells, both)]
    left = [(each.by_folds.numpy()[np.argsort(each.rows.numpy())]) for each in left]
    np.testing.assert_allclose(left[2], 0.75 * left[0] + 0.25 * left[1], atol=1e-8)
    both.save(tmp_path / "both.krepes")
    assert np.array_equal(load(tmp_path / "both.krepes")._scores(NEW), both._scores(NEW))


# Centres


def naive_on_centres(kernel, rows, targets, centres, penalty):
    """min over a, b of |Y - K_nm a - b|^2 + penalty a^T K_mm a, by its normal equations."""
    K, n = kernel(rows, rows[centres]), len(rows)
    H = torch.eye(n, dtype=torch.float64) - 1 / n
    a = torch.linalg.solve(K.T @ H @ K + penalty * kernel(rows[centres]), K.T @ H @ targets)
    return a, (targets - K @ a).mean(0)


def test_a_cell_on_centres_is_ridge_regression_on_their_kernels():
    rows, Y, kernel = torch.from_numpy(X[:40]), torch.from_numpy(y[:40, None]), Gaussian(0.5)
    found = on_centres(kernel, rows, Y, None, 0.1, True, torch.arange(40), 12)
    centres = (found.A != 0).any(1).nonzero()[:, 0]
    assert len(centres) == 12
    a, b = naive_on_centres(kernel, rows, Y, centres, 0.1)
    torch.testing.assert_close(found.A[centres], a, atol=1e-8, rtol=0)
    torch.testing.assert_close(found.b, b, atol=1e-8, rtol=0)
    others = [i for i in range(40) if i not in centres][:5]  # leaving one of them out keeps the centres
    for i in others:
        rest = torch.arange(40) != i
        places = torch.searchsorted(rest.nonzero()[:, 0], centres)
        a, b = naive_on_centres(kernel, rows[rest], Y[rest], places, 0.1)
        expected = Y[i] - (kernel(rows[i : i + 1], rows[centres]) @ a + b)[0]
        torch.testing.assert_close(found.errors[i], expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("landmarks", [False, True])
def test_a_model_of_centres_is_saved_without_its_rows(landmarks, tmp_path):
    cells = Cells(size=80, centres=10, landmarks=landmarks)
    machine = KernelRidgeRegressor(**{**ABOVE_LANDMARKS, "local": cells}).fit(X, y)
    whole_fit = KernelRidgeRegressor(**{**ABOVE_LANDMARKS, "local": Cells(size=80, landmarks=landmarks)}).fit(
        X, y
    )
    for name, each in (("few", machine), ("all", whole_fit)):
        each.save(tmp_path / f"{name}.krepes", sums=False)
    machine.save(tmp_path / "sums.krepes")
    few, sums = load(tmp_path / "few.krepes"), load(tmp_path / "sums.krepes")
    sizes = [(tmp_path / f"{name}.krepes").stat().st_size for name in ("few", "all")]
    assert sizes[0] < sizes[1]
    assert np.allclose(
        few.predict(NEW), machine.predict(NEW), rtol=1e-12
    )  # products of other blocks of centres
    cells_of = few._solved().cells
    assert len(cells_of.inputs) <= 10 * sum(part.tree.n_cells for part in cells_of.partitions) < len(X)
    assert few.total_ is None
    few.save(tmp_path / "again.krepes", sums=False)
    assert np.array_equal(load(tmp_path / "again.krepes").predict(NEW), few.predict(NEW))
    with refuses(ValueError, "without sums"):
        few.partial_fit(X[:5], y[:5])
    with refuses(ValueError, "centres"):
        machine.row_weights(NEW[:1])
    assert_same_machine(sums.partial_fit(X[:50], y[:50]), machine.partial_fit(X[:50], y[:50]))
    with refuses(ValueError, "centres"):
        Cells(centres=0).check()


def test_the_size_of_a_model_is_known_before_the_fit(tmp_path):
    """Within a sixth, for rows enough."""
    rows = np.random.default_rng(2).normal(size=(4000, 3))
    machine = KernelRidgeRegressor(**{**FIXED, "local": Cells(size=400), "n_kept": 10})
    expected = machine.cell_bytes(4000, 3, 8, 1)
    machine.fit(rows, rows[:, 0]).save(tmp_path / "model.krepes")
    assert abs((tmp_path / "model.krepes").stat().st_size / expected - 1) < 1 / 6


# Trees


def route(tree: Partition, x: np.ndarray) -> int:
    """The cell of one row, by recursion."""

    def below(node: int) -> int:
        if node < 0:
            return -1 - node
        right = float(tree.directions[node].numpy() @ x) > tree.thresholds[node].item()
        return below(int(tree.children[node, int(right)]))

    return below(0) if len(tree.thresholds) else 0


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("scale", [None, torch.tensor([1.0, 0.1, 10.0])], ids=["plain", "metric"])
def test_cells_are_between_bounds(directions, scale):
    """Median splits of n rows until none has more than s: every cell has more than 0.1 s of them."""
    rows = torch.from_numpy(X)
    tree = grown(rows, 50, DIRECTIONS[directions], torch.Generator().manual_seed(0), scale)
    cells = tree.cells_of(rows)
    counts = cells.bincount(minlength=tree.n_cells)
    assert counts.max() <= 50
    assert counts.min() >= 5
    assert cells.tolist() == [route(tree, x) for x in X]
    tree.check_restored()
    assert torch.equal(tree.cells_of(rows.float().double()), tree.cells_of(rows.float()))
    parts = torch.cat([tree.cells_of(part) for part in rows.split(7)])
    assert torch.equal(parts, cells)


def test_a_cell_that_is_split_again_keeps_all_other_numbers():
    rows, generator = torch.from_numpy(X), torch.Generator().manual_seed(0)
    pairs = DIRECTIONS["pairs"]
    tree = grown(rows, 120, pairs, generator)
    for cell in range(tree.n_cells):
        before = tree.cells_of(rows)
        inside = before == cell
        more = grown(rows[inside], 30, pairs, generator)
        found = tree.split_again(cell, more)
        found.check_restored()
        after = found.cells_of(rows)
        assert torch.equal(after[~inside], before[~inside])
        below = more.cells_of(rows[inside])
        expected = torch.where(below == 0, cell, below - 1 + tree.n_cells)
        assert torch.equal(after[inside], expected)
        assert after.tolist() == [route(found, x) for x in X]
        tree = found
    assert tree.split_again(0, whole(3)) is tree
    only = whole(3).split_again(0, grown(rows, 200, pairs, generator))
    assert only.cells_of(rows).tolist() == [route(only, x) for x in X]


def test_cells_that_grew_too_large_are_split():
    machine = KernelRidgeRegressor(**SMALL).fit(X, y)
    more = np.random.default_rng(1).normal(size=(2000, 3))
    machine.partial_fit(more, more[:, 0])
    for planned, part in zip(machine.local_.partitions, machine._solved().cells.partitions):
        assert part.tree.n_cells > planned.n_cells
        assert part.starts.diff().max() <= TOO_LARGE * 80
        part.check_restored()
