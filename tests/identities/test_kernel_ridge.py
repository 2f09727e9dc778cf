"""Kernel ridge machines: the lecture's solution, other libraries' answers, refits, and sums that add up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import r2_score

import ridge_oracles as oracles
from krepes.base.blocks import Block
from krepes.base.split import ByFold
from krepes.engines import Local
from krepes.kernels import Gaussian, Laplacian, Linear, Polynomial
from krepes.machines import GaussianProcessRegressor, KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.kept_rows import KeepRows
from krepes.machines.kernel_ridge import sample_fit
from krepes.machines.kernel_ridge.leave_one_out_score import LeaveOneOutTrials
from krepes.machines.kernel_ridge.sample_fit import SHORTEST, Sample
from krepes.machines.kernel_search import compared
from krepes.regression import TransductiveRidge
from krepes.regression.ridge_algebra import PENALTIES, NormalSums
from refusals import refuses

FLOWERS, CODES = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[CODES]
_draws = np.random.default_rng(0)
X = _draws.normal(size=(120, 3))
y = 5 + np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * _draws.normal(size=120)
Y = np.column_stack([y, 100 * X[:, 0] - y])
NEW = _draws.normal(size=(20, 3))

FIXED = {
    "kernel": Gaussian(1.5),
    "lengthscale": 1.5,
    "input_metric": None,
    "random_state": 0,
    "preprocess": None,
}
EXACT = {**FIXED, "n_landmarks": None, "penalty": 0.1}
FEW = {**FIXED, "n_landmarks": 25}


def features(model, rows=X) -> np.ndarray:
    return model.features_(model.input_space_.tensor(rows, torch.float64, torch.device("cpu"))).numpy()


def folds(model, n: int = len(X)) -> np.ndarray:
    return ByFold(model.n_folds, model.seed_)(Block(torch.arange(n), (np.zeros((n, 1)),)))


@pytest.mark.parametrize("given", [{"kernel": Gaussian(2.0)}, {"kernel": "gaussian", "lengthscale": 2.0}])
def test_a_kernel_given_in_full_stays_as_it_is(given):
    """M1: columns of scales 1 and 30 are not standardised for a kernel whose lengthscale is a number."""
    wide = X * [1, 30, 1]
    machine = KernelRidgeRegressor(**given, input_metric=None, penalty=0.1, fit_intercept=False).fit(wide, y)
    theirs = KernelRidge(kernel="rbf", gamma=1 / 8, alpha=0.1).fit(wide, y)
    assert machine.metric_ == "as given"
    np.testing.assert_allclose(machine.predict(wide), theirs.predict(wide), atol=1e-10)


def test_a_linear_kernel_is_given_in_full():
    """M1: a kernel without a lengthscale takes columns as they are."""
    wide = X * [1, 30, 1]
    machine = KernelRidgeRegressor(kernel="linear", input_metric=None, penalty=5.0).fit(wide, y)
    np.testing.assert_allclose(machine.predict(wide), Ridge(5.0).fit(wide, y).predict(wide), atol=1e-8)


# The lecture


TABLE = np.array([[0.25, 1.00, 0.25], [0.10, 0.90, 0.50], [0.02, 0.60, 0.90], [0.00, 0.01, 0.30]])
PRINTED = [1.12, 1.05, 0.83, 0.08]  # k(x_1, .), which is f for v = (1, 0, 0, 0)


def test_the_table_of_the_lecture():
    """With y = (K + penalty I) e_1 the solution is v = e_1, and f is k(x_1, .): the printed numbers."""
    penalty = 0.3
    targets = TABLE @ TABLE[0] + penalty * np.eye(4)[0]
    model = KernelRidgeRegressor(
        kernel=Linear(), penalty=penalty, fit_intercept=False, n_landmarks=None, input_metric=None, preprocess=None,
        random_state=0,
    )  # fmt: skip
    found = model.fit(TABLE, targets).predict(TABLE)
    np.testing.assert_allclose(found, TABLE @ TABLE[0], rtol=1e-9)
    assert np.abs(found - PRINTED).max() < 0.006


def test_the_dual_coefficients_are_those_of_the_lecture():
    """v = (K + penalty I)^-1 y, where every row is a landmark."""
    model = KernelRidgeRegressor(**{**EXACT, "fit_intercept": False}).fit(X, y)
    K = Gaussian(1.5)(X).numpy()
    v = np.linalg.solve(K + 0.1 * np.eye(len(X)), y)
    order = model.landmark_indices_
    assert sorted(order) == list(range(len(X)))
    np.testing.assert_allclose(model.dual_coef_[:, 0] * model.targets_.scale, v[order], atol=1e-6)
    assert model.targets_.shift == 0
    assert model.intercept_ == 0
    np.testing.assert_allclose(model.predict(NEW), Gaussian(1.5)(NEW, X).numpy() @ v, rtol=1e-8)


def test_weight_space_equals_function_space():
    """Ridge on explicit features is kernel ridge with their inner products, also with fewer features than rows."""
    model = KernelRidgeRegressor(
        kernel=Polynomial(2, 1.0, 1.0), penalty=0.3, fit_intercept=False, n_landmarks=None, input_metric=None,
        preprocess=None,
    ).fit(X, y)  # fmt: skip

    def monomials(Z):
        columns = [np.ones(len(Z)), *(2**0.5 * Z.T), *(Z**2).T]
        columns += [2**0.5 * Z[:, i] * Z[:, j] for i in range(3) for j in range(i)]
        return np.column_stack(columns)

    W, _ = oracles.ridge(monomials(X), y[:, None], 0.3, intercept=False)
    np.testing.assert_allclose(model.predict(NEW), (monomials(NEW) @ W)[:, 0], rtol=1e-8)
    assert model.rank_ == 10


# Other libraries


@pytest.mark.parametrize("targets", [y, Y], ids=["one output", "two outputs"])
@pytest.mark.parametrize("weight", [None, np.linspace(0.1, 3, 120)], ids=["plain", "weighted"])
def test_it_is_scikit_learns_kernel_ridge(targets, weight):
    model = KernelRidgeRegressor(**{**EXACT, "fit_intercept": False}).fit(X, targets, sample_weight=weight)
    theirs = KernelRidge(alpha=0.1, kernel="rbf", gamma=1 / 2 / 1.5**2).fit(X, targets, sample_weight=weight)
    np.testing.assert_allclose(model.predict(NEW), theirs.predict(NEW), rtol=1e-8)
    assert model.predict(NEW).shape == (20, *targets.shape[1:])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("targets", [y, Y], ids=["one output", "two outputs"])
def test_it_is_scikit_learns_ridge_on_its_features(targets, intercept):
    model = KernelRidgeRegressor(**FEW, penalty=0.02, fit_intercept=intercept)
    w = np.linspace(0.1, 3, 120)
    model.fit(X, targets, sample_weight=w)
    theirs = Ridge(alpha=0.02, fit_intercept=intercept).fit(features(model), targets, sample_weight=w)
    np.testing.assert_allclose(model.predict(NEW), theirs.predict(features(model, NEW)), rtol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_penalty_is_the_one_of_scikit_learns_leave_one_out(intercept):
    model = KernelRidgeRegressor(**FEW, fit_intercept=intercept).fit(X, y)
    Phi = features(model)
    theirs = RidgeCV(alphas=model.penalty_errors_.penalties, fit_intercept=intercept, store_cv_results=True)
    theirs.fit(Phi, y)
    assert model.penalty_errors_.by == "leave one out"
    assert theirs.alpha_ == pytest.approx(model.penalty_)
    assert (
        len(PENALTIES) / 2 < len(model.penalty_errors_.penalties) <= len(PENALTIES)
    )  # those that were tried
    expected = (
        theirs.cv_results_.mean(0) / y.var() if intercept else theirs.cv_results_.mean(0) / np.mean(y**2)
    )
    np.testing.assert_allclose(model.penalty_errors_.errors, expected, rtol=1e-5)
    np.testing.assert_allclose(model.predict(NEW), theirs.predict(features(model, NEW)), rtol=1e-8)


# Rows left out


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_fold_errors_are_those_of_refits(intercept, weighted):
    """In the same feature space, from the sums alone."""
    weight = np.linspace(0.1, 3, 120) if weighted else None
    model = KernelRidgeRegressor(**FEW, fit_intercept=intercept, n_kept=30).fit(X, Y, sample_weight=weight)
    Phi, targets = features(model), model.targets_.encoded(Y)
    assert model.penalty_errors_.by == "folds"
    for penalty, error in zip(model.penalty_errors_.penalties, model.penalty_errors_.errors):
        if penalty < 1e-5:  # beyond, both are rounding
            continue
        expected = oracles.left_out(Phi, targets, penalty, folds(model), weight, intercept)
        squares = np.square(targets - expected).sum(1)
        assert error == pytest.approx(np.average(squares, weights=weight), rel=1e-9, abs=1e-10)
    held = model._solved().held_out
    expected = oracles.left_out(Phi, targets, model.penalty_, folds(model), weight, intercept)
    assert len(held.rows) == 30
    np.testing.assert_allclose(held.predictions, expected[held.rows], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(held.y, targets[held.rows], rtol=1e-12)


def test_single_rows_are_left_out_where_all_are_kept():
    model = KernelRidgeRegressor(**FEW, penalty=0.05).fit(X, Y)
    Phi, targets, held = features(model), model.targets_.encoded(Y), model._solved().held_out
    singly = oracles.left_out(Phi, targets, 0.05, np.arange(120))
    by_folds = oracles.left_out(Phi, targets, 0.05, folds(model))
    np.testing.assert_allclose(held.predictions, singly[held.rows], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(held.by_folds, by_folds[held.rows], rtol=1e-8, atol=1e-9)
    assert np.array_equal(held.folds, folds(model)[held.rows])


def test_folds_that_come_in_any_order_are_kept_apart():
    """The first rows may all be of the last fold."""
    model = KernelRidgeRegressor(**FEW, penalty=0.05).fit(X, y)
    order = np.argsort(-folds(model), kind="stable")
    parts = model.empty_copy()
    for i in order:
        parts.partial_fit(X[[i]], y[[i]], first_row=int(i))
    mine, theirs = parts._solved(), model._solved()
    assert mine.folds == theirs.folds == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(mine.held_out.by_folds, theirs.held_out.by_folds, rtol=1e-9, atol=1e-9)
    assert torch.equal(mine.held_out.folds, theirs.held_out.folds)


# Weights


def test_weights_are_repetitions():
    w = _weights = np.random.default_rng(1).integers(0, 4, len(X))
    options = {**FEW, "penalty": 0.05, "landmarks": X[:25]}
    weighted = KernelRidgeRegressor(**options).fit(X, y, sample_weight=w)
    repeated = KernelRidgeRegressor(**options).fit(np.repeat(X, w, axis=0), np.repeat(y, _weights))
    np.testing.assert_allclose(weighted.predict(NEW), repeated.predict(NEW), rtol=1e-9)
    held = weighted._solved().held_out
    assert len(held.rows) == (w > 0).sum()
    assert torch.isfinite(held.predictions).all()


def test_rows_of_weight_zero_change_nothing():
    w = np.r_[np.ones(100), np.zeros(20)]
    wild = np.r_[y[:100], np.full(20, 1e4)]
    options = {**FEW, "landmarks": X[:25]}
    with_them = KernelRidgeRegressor(**options).fit(X, wild, sample_weight=w)
    without = KernelRidgeRegressor(**options).fit(X[:100], y[:100])
    assert with_them.penalty_ == pytest.approx(without.penalty_)
    np.testing.assert_allclose(with_them.predict(NEW), without.predict(NEW), rtol=1e-7)


BALANCED = np.r_[np.arange(30), np.arange(50, 100), np.arange(100, 140)]  # 30, 50 and 40 flowers


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2, 120)], ids=["plain", "weighted"])
def test_balanced_classes_are_explicit_weights(weight):
    flowers, names = FLOWERS[BALANCED], NAMES[BALANCED]
    balanced = KernelRidgeClassifier(**FEW, class_weight="balanced").fit(flowers, names, sample_weight=weight)
    counted = np.ones(120) if weight is None else weight
    counts = {name: counted[names == name].sum() for name in np.unique(names)}
    classes = {name: counted.sum() / 3 / count for name, count in counts.items()}
    rows = np.array([classes[name] for name in names]) * counted
    by_rows = KernelRidgeClassifier(**FEW).fit(flowers, names, sample_weight=rows, space=balanced.space_)
    by_dict = KernelRidgeClassifier(**FEW, class_weight=classes)
    by_dict.fit(flowers, names, sample_weight=weight, space=balanced.space_)
    parts = balanced.empty_copy()
    for part in (slice(0, 35), slice(35, 90), slice(90, 120)):
        parts.partial_fit(flowers[part], names[part], sample_weight=None if weight is None else weight[part])
    for other in (by_rows, by_dict, parts):
        assert other.penalty_ == pytest.approx(balanced.penalty_)
        np.testing.assert_allclose(
            other.decision_function(FLOWERS), balanced.decision_function(FLOWERS), atol=1e-8
        )
        np.testing.assert_allclose(other.predict_proba(FLOWERS), balanced.predict_proba(FLOWERS), atol=1e-6)


# Parts


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_add_up(dtype):
    """partial_fit, merge, and a fit in the same space, whatever the parts."""
    model = KernelRidgeRegressor(**FEW, dtype=dtype, n_kept=50).fit(X, Y)
    whole = KernelRidgeRegressor(**FEW, dtype=dtype, n_kept=50).fit(X, Y, space=model.space_)
    parts = model.empty_copy().partial_fit(X[:50], Y[:50]).partial_fit(X[50:], Y[50:])
    other = model.empty_copy().partial_fit(X[70:], Y[70:], first_row=70)
    merged = model.empty_copy().partial_fit(X[:70], Y[:70]).merge(other)
    tolerance = 1e-8 if dtype == "float64" else 1e-4
    for found in (whole, parts, merged):
        assert found.n_samples_seen_ == 120
        assert found.penalty_ == pytest.approx(model.penalty_)
        np.testing.assert_allclose(found.predict(NEW), model.predict(NEW), rtol=tolerance, atol=tolerance)
        assert torch.equal(found.total_.kept.rows, model.total_.kept.rows)
        mine, theirs = found._solved().held_out, model._solved().held_out
        np.testing.assert_allclose(mine.predictions, theirs.predictions, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_the_size_of_blocks_does_not_matter(size):
    options = {**FEW, "n_kept": 40}
    whole = KernelRidgeRegressor(**options).fit(X, y)
    blocks = KernelRidgeRegressor(**options, engine=Local(size)).fit(X, y)
    assert torch.equal(whole.total_.kept.rows, blocks.total_.kept.rows)
    assert torch.equal(whole.total_.kept.inputs, blocks.total_.kept.inputs)
    assert whole.penalty_ == pytest.approx(blocks.penalty_)
    np.testing.assert_allclose(blocks.predict(NEW), whole.predict(NEW), rtol=1e-8)


def test_sums_subtract_to_those_of_the_rest():
    Phi, T = torch.from_numpy(X), torch.from_numpy(Y)
    w = torch.linspace(0.5, 2, 120, dtype=torch.float64)
    part, rest = (NormalSums.of_rows(Phi[s], T[s], w[s]) for s in (slice(0, 40), slice(40, 120)))
    difference = NormalSums.of_rows(Phi, T, w) - part
    for name in ("outer", "cross", "sum_phi", "sum_y", "squares"):
        torch.testing.assert_close(getattr(difference, name), getattr(rest, name), rtol=1e-10, atol=1e-10)
    assert difference.n == pytest.approx(rest.n)
    assert ((part + rest) * 2.0).trace == pytest.approx(2 * NormalSums.of_rows(Phi, T, w).trace)


def test_the_kept_rows_are_a_uniform_sample():
    """How often each of 60 rows is among the 20 kept, over seeds, within 4.5 deviations of what is expected."""
    counts, rows = np.zeros(60), torch.arange(60)
    for seed in range(300):
        keeping = KeepRows(20, seed)
        for block in Block(rows, (rows[:, None].double(),), y=np.zeros(60)).blocks(13):
            keeping.add(block)
        counts[keeping.result().rows.numpy()] += 1
    assert counts.sum() == 300 * 20
    assert (np.abs(counts - 100) < 4.5 * np.sqrt(300 * 2 / 9)).all()


# Targets


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shift", "scale"), [(1e6, 1.0), (0.0, 1e-12), (-3e9, 1e3), (0.0, 1e12)])
def test_the_unit_of_the_target_does_not_matter(dtype, shift, scale):
    plain = KernelRidgeRegressor(**FEW, dtype=dtype).fit(X, y)
    other = KernelRidgeRegressor(**FEW, dtype=dtype).fit(X, shift + scale * y)
    assert other.penalty_ == pytest.approx(plain.penalty_)
    found = (other.predict(NEW) - shift) / scale
    np.testing.assert_allclose(found, plain.predict(NEW), rtol=1e-3 if dtype == "float32" else 1e-5)


def test_a_target_far_from_zero_is_learned_in_single_precision():
    far = 1e6 + np.sin(X[:, 0]) + 0.01 * np.random.default_rng(2).normal(size=120)
    inner = np.abs(X).max(1) < 2
    model = KernelRidgeRegressor(dtype="float32", random_state=0).fit(X[:100], far[:100])
    assert model.score(X[100:][inner[100:]], far[100:][inner[100:]]) > 0.95


def test_classes_are_regressions_on_indicators():
    model = KernelRidgeClassifier(**FEW, penalty=0.05).fit(FLOWERS, NAMES)
    W, b = oracles.ridge(features(model, FLOWERS), np.eye(3)[CODES], 0.05)
    scores = features(model, FLOWERS) @ W + b
    np.testing.assert_allclose(model.decision_function(FLOWERS), scores, atol=1e-8)
    assert model.predict(FLOWERS).tolist() == np.unique(NAMES)[scores.argmax(1)].tolist()
    np.testing.assert_allclose(model.predict_proba(FLOWERS).sum(1), 1)
    two = KernelRidgeClassifier(**FEW, penalty=0.05).fit(FLOWERS[:100], NAMES[:100])
    assert two.decision_function(FLOWERS).shape == (150,)
    assert np.array_equal(two.predict(FLOWERS) == "versicolor", two.decision_function(FLOWERS) > 0)


def test_without_an_intercept_zero_stays_zero():
    """Far from all rows f is zero, not the mean of the targets."""
    far = np.full((1, 3), 1e3)
    assert KernelRidgeRegressor(**{**EXACT, "fit_intercept": False}).fit(X, y).predict(far) == pytest.approx(
        0
    )
    assert KernelRidgeRegressor(**EXACT).fit(X, y).predict(far)[0] > 3


def test_the_chosen_kernel_is_the_one_tried():
    """What the choice says of its error is what leave-one-out says of the fit with that kernel and penalty."""
    model = KernelRidgeRegressor(kernel=["gaussian", Laplacian(norm=1)], random_state=0).fit(X, y)
    chosen = model.choice_.chosen
    assert model.kernel_ is chosen.kernel
    fixed = KernelRidgeRegressor(
        preprocess=None,
        kernel=chosen.kernel,
        penalty=chosen.penalty,
        input_metric=None,
        n_landmarks=None,
        random_state=0,
    )
    fixed.fit(X, y)
    assert fixed.penalty_errors_.errors[0] == pytest.approx(chosen.error, rel=1e-4)


def test_the_transductive_form_is_that_of_its_features():
    labelled, free = np.arange(0, 150, 5), np.setdiff1d(np.arange(150), np.arange(0, 150, 5))
    model = KernelRidgeClassifier(transductive=True, random_state=0)
    model.fit(FLOWERS[labelled], NAMES[labelled], X_unlabelled=FLOWERS[free])
    Phi, rest = features(model, FLOWERS[labelled]), features(model, FLOWERS[free])
    codes = np.searchsorted(model.classes_, NAMES[labelled])
    oracle = TransductiveRidge().fit(Phi, np.eye(3)[codes], rest)
    np.testing.assert_allclose(
        model.decision_function(FLOWERS), oracle.predict(features(model, FLOWERS)), atol=1e-7
    )
    plain = KernelRidgeClassifier(random_state=0)
    plain.fit(FLOWERS[labelled], NAMES[labelled], X_unlabelled=FLOWERS[free])
    assert np.array_equal(plain.landmark_indices_, model.landmark_indices_)
    with refuses(ValueError, "sample_weight", "weights"):
        model.fit(
            FLOWERS[labelled], NAMES[labelled], X_unlabelled=FLOWERS[free], sample_weight=np.full(30, 2.0)
        )


def test_columns_are_scaled_by_unlabelled_rows_too():
    frame = pd.DataFrame(FLOWERS, columns=list("abcd"))
    model = KernelRidgeClassifier(random_state=0).fit(frame[:60:3], NAMES[:60:3], X_unlabelled=frame)
    alone = KernelRidgeClassifier(random_state=0).fit(frame[:60:3], NAMES[:60:3])
    spread = [space.inputs.encoder.columns_[2].scale for space in (model.space_, alone.space_)]
    assert spread[0] > 1.1 * spread[1]


# The choice of the lengthscale


def test_a_fit_to_many_more_rows_takes_the_shortest_lengthscale_that_chance_allows():
    """Not worse than the best by two standard errors of the differences between rows; half of it would be."""
    rows = torch.from_numpy(X)
    targets = torch.from_numpy(y + _draws.normal(size=len(y)))[
        :, None
    ]  # noise: long lengthscales are good enough
    sample = Sample(rows, targets, None, True, 0)
    options = {"search_lengthscale": True, "metric": None, "standardise": False}
    few, many = (
        compared(LeaveOneOutTrials(sample, n_rows=n * len(X)), [Laplacian(norm=1)], **options) for n in (1, 4)
    )
    assert few.chosen.error == min(each.error for each in few.tried)
    assert many.chosen.medians < few.chosen.medians

    def worse(other):
        difference = other.row_errors - few.chosen.row_errors
        return difference.mean() > 2 * difference.std() / np.sqrt(len(difference))

    by_length = {each.medians: each for each in many.tried}
    assert not worse(many.chosen)
    assert many.chosen in many.tried
    assert many.chosen.medians == SHORTEST or worse(by_length[many.chosen.medians / 2])


def test_a_smooth_kernel_must_win_with_all_rows_as_landmarks_too(monkeypatch):
    """A fine pattern: with 40 landmarks, which cannot follow it, the Gaussian is ahead; with all rows it is not."""
    monkeypatch.setattr(sample_fit, "MOST_LANDMARKS", 40)
    x = np.random.default_rng(0).uniform(0, 10, size=(400, 1))
    targets = torch.from_numpy(np.sin(x) + 0.05 * np.sign(np.sin(8 * x)))
    sample = Sample(torch.from_numpy(x), targets, None, True, 0)
    options = {"search_lengthscale": True, "metric": None, "standardise": False}
    few, found = (
        compared(LeaveOneOutTrials(sample, n_landmarks=m), [Laplacian(norm=1), Gaussian()], **options)
        for m in (40, 401)
    )
    assert isinstance(few.chosen.kernel, Gaussian)
    ahead = min(found.tried, key=lambda each: each.error)
    assert isinstance(ahead.kernel, Gaussian)
    assert isinstance(found.chosen.kernel, Laplacian)
    whole = sample.with_all_points()
    errors = [whole.fitted(each.kernel).error for each in (found.chosen, ahead)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("machine", [KernelRidgeRegressor, GaussianProcessRegressor])
def test_score_takes_the_name_of_a_column(machine, tmp_path):
    """As fit does; rows without a target do not count."""
    table = pd.DataFrame(X[:60], columns=list("abc")).assign(y=y[:60])
    model = machine(random_state=0, n_landmarks=20).fit(table, "y")
    expected = r2_score(table.y, model.predict(table.drop(columns="y")))
    assert model.score(table, "y") == pytest.approx(expected)
    table.to_parquet(tmp_path / "rows.parquet")
    assert model.score(str(tmp_path / "rows.parquet"), "y") == pytest.approx(expected)
    table.loc[[3, 7], "y"] = np.nan
    some = table.dropna()
    assert model.score(table, "y") == pytest.approx(r2_score(some.y, model.predict(some)))


def test_l1_distances_are_tried_on_tables_with_text():
    """A column of text alone is 128 encoded columns."""
    words = np.random.default_rng(0).integers(0, 9, size=(60, 5))
    frame = pd.DataFrame({"x": words[:, 0] / 2, "note": [" ".join(f"word{w}" for w in row) for row in words]})
    machine = KernelRidgeClassifier(random_state=0).fit(frame, words[:, 0] > 4)
    assert machine.input_space_.encoder.n_features_out_ > 128
    assert "Laplacian(norm=1)" in str(machine.choice_)
