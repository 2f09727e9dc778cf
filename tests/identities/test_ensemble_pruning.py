"""Ensemble pruning: optimal, invariant, and exactly the weighted sum of the members that are kept."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_iris, make_friedman1
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

from alignment_oracles import naive_cka, pairwise_products
from krepes.alignment import prune_ensemble
from krepes.alignment.pruning.ensemble_members import MemberOutputs, members_of
from krepes.alignment.pruning.held_out_scores import sums_of_all, sums_of_kept
from krepes.alignment.pruning.member_selection import METHODS, products, select_members
from krepes.alignment.pruning.shrunk_weights import CentredMoments, in_order, penalised_weights
from krepes.alignment.similarity.nonnegative_minimum import active_set_minimum

X, y = make_friedman1(160, noise=1.0, random_state=0)
FLOWERS, codes = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[codes]
TWO = codes < 2


def noisy(rng, n=60, p=12, c=1):
    """Members that are the target with errors of their own, and the target."""
    Y = rng.normal(size=(n, c))
    return Y[:, None, :] + rng.normal(size=(n, p, c)) * rng.uniform(0.3, 2, size=p)[:, None], Y


@pytest.mark.parametrize("c", [1, 3])
def test_stacking_is_non_negative_least_squares_with_an_intercept(c):
    """The weights minimise |Y - intercept - sum_k w_k f_k|^2 over w >= 0."""
    F, Y = noisy(np.random.default_rng(c), c=c)
    found = select_members(MemberOutputs(F, Y), "stacking")
    A = np.hstack([F.transpose(0, 2, 1).reshape(-1, F.shape[1]), np.tile(np.eye(c), (len(F), 1))])
    low = np.r_[np.zeros(F.shape[1]), np.full(c, -np.inf)]
    expected = lsq_linear(A, Y.ravel(), (low, np.inf), tol=1e-14, max_iter=1000).x
    assert np.allclose(np.r_[found.weights, found.intercept], expected, atol=1e-6)
    assert found.optimality < 1e-12


@pytest.mark.parametrize("c", [1, 3])
def test_the_first_step_maximises_alignment(c):
    """No random non-negative combination of the kernels f_k f_k^T aligns better with Y Y^T than that of the choice."""
    rng = np.random.default_rng(10 + c)
    F, Y = noisy(rng, n=25, p=5, c=c)
    found = products(MemberOutputs(F, Y))
    kernels = [F[:, k] @ F[:, k].T for k in range(5)]
    L = Y @ Y.T
    alone = [naive_cka(K, L, "biased") for K in kernels]
    assert np.allclose(found.target_squares, alone, atol=1e-12)
    assert np.allclose(
        found.cross_squares, [[naive_cka(K, J, "biased") for J in kernels] for K in kernels], atol=1e-12
    )
    v = active_set_minimum(found.cross_squares, found.target_squares, np.zeros(5))
    lengths = [np.linalg.norm(_centred(K)) for K in kernels]
    best = naive_cka(sum(a * K / s for a, K, s in zip(v, kernels, lengths)), L, "biased")
    assert best >= max(alone) - 1e-12
    for _ in range(200):
        mu = rng.exponential(size=5) / lengths * (rng.random(5) < 0.6)
        if mu.any():
            assert naive_cka(sum(a * K for a, K in zip(mu, kernels)), L, "biased") <= best + 1e-12


def _centred(K):
    H = np.eye(len(K)) - 1 / len(K)
    return H @ K @ H


def test_r2_keeps_the_member_that_correlates_most():
    F, Y = noisy(np.random.default_rng(3))
    found = select_members(MemberOutputs(F, Y), "r2")
    correlations = [np.corrcoef(F[:, k, 0], Y[:, 0])[0, 1] for k in range(F.shape[1])]
    assert np.flatnonzero(found.weights).tolist() == [np.argmax(correlations)]
    assert np.allclose(found.alone, np.square(correlations))
    line = np.polyfit(F[:, np.argmax(correlations), 0], Y[:, 0], 1)
    assert np.allclose([found.weights.max(), found.intercept[0]], line)


def test_repeated_members_reach_the_optimum():
    """Conditions of optimality hold where columns repeat, as votes of stumps do; scipy's nnls alone misses them."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        votes = np.sign(rng.normal(size=(40, 8)))[:, rng.integers(0, 8, size=20), None]
        Y = votes[:, :3].sum(axis=1) + rng.normal(size=(40, 1))
        for method in METHODS:
            assert select_members(MemberOutputs(votes, Y), method).optimality < 1e-10


@pytest.mark.parametrize(
    "method", ["alignment", "stacking", "r2"]
)  # equal weights depend on the members' scale
def test_scale_shift_and_repetition_of_members_do_not_matter(method):
    rng = np.random.default_rng(5)
    F, Y = noisy(rng)
    weights, intercept = _fitted(F, Y, method)
    moved, shift = rng.uniform(1e-3, 1e3, size=12), rng.normal(size=12)
    other, start = _fitted(F * moved[:, None] + shift[:, None], Y, method)
    assert np.allclose(other * moved, weights, atol=1e-10)
    assert start + shift @ other == pytest.approx(intercept)
    twice, start = _fitted(np.concatenate([F, F], axis=1), Y, method)
    assert np.allclose(twice[:12] + twice[12:], weights, atol=1e-9)
    assert start == pytest.approx(intercept)


def _fitted(F, Y, method):
    found = select_members(MemberOutputs(F, Y), method)
    assert (found.weights >= 0).all()
    return found.weights, found.intercept[0]


@pytest.mark.parametrize("c", [1, 2])
def test_out_of_bag_products_are_means_over_the_rows_that_both_have(c):
    rng = np.random.default_rng(6)
    F, Y = noisy(rng, n=30, p=4, c=c)
    usable = rng.random((30, 4)) < 0.7
    found = products(MemberOutputs(np.where(usable[:, :, None], F, np.nan), Y, usable))
    cross, squares = pairwise_products(F, usable)
    assert np.allclose(found.cross, cross, atol=1e-12)
    assert np.allclose(found.cross_squares, squares, atol=1e-12)
    whole = products(MemberOutputs(F, Y, np.ones((30, 4), dtype=bool)))
    assert np.allclose(whole.cross, products(MemberOutputs(F, Y)).cross, atol=1e-14)


def test_bagging_uses_the_rows_that_members_have_not_seen():
    """The default equals an array of predictions with gaps at the training rows of each member."""
    model = BaggingRegressor(n_estimators=12, max_samples=0.6, max_features=0.7, random_state=0).fit(X, y)
    P = np.column_stack([m.predict(X[:, f]) for m, f in zip(model.estimators_, model.estimators_features_)])
    for k, rows in enumerate(model.estimators_samples_):
        P[rows, k] = np.nan
    pruned, expected = prune_ensemble(model, X, y), prune_ensemble(P, y=y, predictions="out_of_bag")
    assert pruned.predictions_ == expected.predictions_ == "out_of_bag"
    assert [row.weight for row in pruned.table_] == [row.weight for row in expected.table_]
    held_out = prune_ensemble(model, X[:100], y[:100])
    assert held_out.predictions_ == "given"


ENSEMBLES = {
    "bagging": (BaggingRegressor(KNeighborsRegressor(3), 8, max_features=0.5, random_state=0), X, y),
    "forest": (RandomForestRegressor(8, random_state=0), X, y),
    "extra trees": (ExtraTreesRegressor(8, random_state=0, max_depth=4), X, y),
    "gradient": (GradientBoostingRegressor(n_estimators=12, random_state=0), X, y),
    "gradient on lines": (GradientBoostingRegressor(n_estimators=6, init=LinearRegression()), X, y),
    "adaboost": (AdaBoostRegressor(n_estimators=8, random_state=0), X, y),
    "stacking": (StackingRegressor([("line", LinearRegression()), ("near", KNeighborsRegressor())]), X, y),
    "bagging of classes": (
        BaggingClassifier(KNeighborsClassifier(1), 10, max_samples=8, random_state=0),
        FLOWERS,
        NAMES,
    ),
    "forest of classes": (RandomForestClassifier(8, random_state=0), FLOWERS, NAMES),
    "gradient of classes": (GradientBoostingClassifier(n_estimators=4, random_state=0), FLOWERS, NAMES),
    "gradient of two": (GradientBoostingClassifier(n_estimators=4), FLOWERS[TWO, 1:2], NAMES[TWO]),
    "adaboost of classes": (
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=8, random_state=0),
        FLOWERS,
        NAMES,
    ),
    "hard votes": (
        VotingClassifier([("a", LogisticRegression(max_iter=1000)), ("b", KNeighborsClassifier())]),
        FLOWERS,
        NAMES,
    ),
}


@pytest.fixture(scope="module")
def fitted():
    return {name: (clone(model).fit(A, b), A, b) for name, (model, A, b) in ENSEMBLES.items()}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_a_pruned_ensemble_is_the_weighted_sum_of_kept_members(fitted, name):
    model, A, b = fitted[name]
    pruned = prune_ensemble(model, A, b)
    members = members_of(model).members
    kept = [row for row in pruned.table_ if row.kept]
    assert len(pruned.table_) == len(members) == pruned.n_members_
    assert len(kept) == pruned.size_ == len(pruned.members) > 0
    total = pruned.intercept_ + sum(
        row.weight * members[row.index].outputs(pruned.checked(A)) for row in kept
    )
    if is_classifier(model):
        assert is_classifier(pruned)
        assert np.array_equal(pruned.classes_, model.classes_)
        assert np.array_equal(pruned.predict(A), model.classes_[np.argmax(total, axis=1)])
        assert np.allclose(total.sum(axis=1), 1)
        positive = np.maximum(total, 0)
        assert np.allclose(pruned.predict_proba(A), positive / positive.sum(axis=1, keepdims=True))
    else:
        assert is_regressor(pruned)
        assert not hasattr(pruned, "predict_proba")
        assert np.allclose(pruned.predict(A), total[:, 0], rtol=1e-12)
    assert pruned.optimality_ < 1e-10
    assert pruned.n_features_in_ == A.shape[1]
    assert 0 < pruned.savings_.bytes_after <= pruned.savings_.bytes_before
    again = pickle.loads(pickle.dumps(pruned))
    assert np.array_equal(again.predict(A), pruned.predict(A))
    assert clone(pruned).fit(A, b).score(A, b) >= pruned.score(A, b) - (
        0.05 if is_classifier(model) else 1e-9
    )


def test_dropped_members_are_never_called(fitted):
    model, A, b = fitted["forest"]
    pruned = prune_ensemble(model, A, b)
    expected = pruned.predict(A)
    kept = {row.index for row in pruned.table_ if row.kept}
    assert 0 < len(kept) < len(model.estimators_)
    for k, member in enumerate(model.estimators_):
        if k not in kept:
            member.tree_ = None  # any prediction raises now
    with pytest.raises(AttributeError):
        model.predict(A)
    assert np.array_equal(pruned.predict(A), expected)


@pytest.mark.parametrize("name", ["gradient", "gradient on lines", "gradient of classes", "gradient of two"])
def test_the_stages_of_boosting_sum_to_the_ensemble(fitted, name):
    model, A, _ = fitted[name]
    A = A.astype(np.float32)  # as scikit-learn does
    total = sum(member.outputs(A) for member in members_of(model).members)
    if is_regressor(model):
        start = 0 if name == "gradient on lines" else model.init_.predict(A[:1])[0]
        assert np.allclose(start + total[:, 0], model.predict(A), rtol=1e-12)
        return
    logits = np.log(model.init_.predict_proba(A))
    logits = logits + total
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(probabilities, model.predict_proba(A), atol=1e-12)


def test_probabilities_and_votes_in_arrays_agree_with_the_ensemble(fitted):
    model, A, b = fitted["forest of classes"]
    P = np.stack([tree.predict_proba(A) for tree in model.estimators_], axis=1)
    pruned = prune_ensemble(P, y=b)
    expected = prune_ensemble(model, A, b, predictions="given")
    assert np.allclose(pruned.predict_proba(P), expected.predict_proba(A))
    votes = model.classes_[np.stack([tree.predict(A) for tree in model.estimators_], axis=1).astype(int)]
    assert prune_ensemble(votes, y=b).score(votes, b) > 0.9
    two = prune_ensemble(P[TWO][:, :, 1], y=b[TWO], method="stacking")
    assert two.classes_.tolist() == ["setosa", "versicolor"]
    assert np.array_equal(
        two.predict(P[TWO][:, :, 1]),
        prune_ensemble(P[TWO][:, :, :2], y=b[TWO], method="stacking").predict(P[TWO][:, :, :2]),
    )


def test_the_same_input_gives_the_same_bits(fitted):
    model, A, b = fitted["bagging"]
    first, second = prune_ensemble(model, A, b), prune_ensemble(model, A, b)
    assert first.table_ == second.table_
    assert np.array_equal(first.predict(A), second.predict(A))


def test_the_score_is_of_rows_left_out_of_the_choice():
    """Each fifth is predicted by the choice that the other four give, and all members by their mean."""
    rng = np.random.default_rng(7)
    F, Y = noisy(rng, n=50, p=6)
    P, target = F[:, :, 0], Y[:, 0]
    pruned = prune_ensemble(P, y=target)
    fold = np.random.default_rng(0).permutation(50) % 5
    predicted = np.empty(50)
    for part in range(5):
        rest = fold != part
        predicted[~rest] = prune_ensemble(P[rest], y=target[rest]).predict(P[fold == part])
    assert pruned.score_ == pytest.approx(r2_score(target, predicted), abs=1e-12)
    assert pruned.score_of_all_ == pytest.approx(r2_score(target, P.mean(axis=1)), abs=1e-12)


@pytest.mark.parametrize("name", ["gradient", "adaboost", "stacking", "gradient of classes", "hard votes"])
def test_the_score_of_all_is_that_of_the_ensemble(fitted, name):
    model, A, b = fitted[name]
    assert prune_ensemble(model, A, b).score_of_all_ == pytest.approx(model.score(A, b), abs=1e-12)


def test_out_of_bag_scores_are_of_members_that_have_not_seen_the_row(fitted):
    """For classes the vote of these; for numbers the error of the whole mean, from pairs: with all rows it is exact."""
    model, A, b = fitted["forest of classes"]
    model = clone(model).set_params(oob_score=True, n_estimators=30).fit(A, b)
    assert prune_ensemble(model, A, b).score_of_all_ == pytest.approx(model.oob_score_)
    rng = np.random.default_rng(8)
    F, Y = noisy(rng, n=40, p=5)
    everywhere = np.ones((40, 5), dtype=bool)
    for sums in (sums_of_all, partial(sums_of_kept, method="alignment")):
        assert sums(MemberOutputs(F, Y, everywhere)).explained() == pytest.approx(
            sums(MemberOutputs(F, Y)).explained()
        )
    usable = rng.random((40, 5)) < 0.5
    expected = sum(
        np.mean(
            [(Y[i, 0] - F[i, k, 0]) * (Y[i, 0] - F[i, m, 0]) for i in range(40) if usable[i, [k, m]].all()]
        )
        for k in range(5)
        for m in range(5)
    )
    found = sums_of_all(MemberOutputs(np.where(usable[:, :, None], F, np.nan), Y, usable)).explained()
    assert found == pytest.approx(1 - expected / 25 / Y.var())


@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("strength", [0.0, 0.7, 50.0])
def test_shrunk_weights_minimise_the_penalised_error(c, strength):
    """As a least-squares problem: rows of the centred data, and a row for every difference from the mean weight."""
    F, Y = noisy(np.random.default_rng(20 + c), p=6, c=c)
    n, p, _ = F.shape
    moments = CentredMoments.of(F, Y, np.ones((n, p)))
    found, violation = penalised_weights(moments.M, moments.a, strength, exact=True)
    A = (F - F.mean(axis=0)).transpose(0, 2, 1).reshape(-1, p) / np.sqrt(n)
    penalty = np.sqrt(strength * np.trace(moments.M) / p) * (np.eye(p) - 1 / p)
    b = np.r_[(Y - Y.mean(axis=0)).ravel() / np.sqrt(n), np.zeros(p)]
    expected = lsq_linear(np.vstack([A, penalty]), b, (0, np.inf), tol=1e-14, max_iter=1000).x
    assert np.allclose(found, expected, atol=1e-6)
    assert violation < 1e-12


def test_the_error_from_moments_is_that_of_the_rows():
    rng = np.random.default_rng(23)
    F, Y = noisy(rng, n=40, p=5)
    known = CentredMoments.of(F[:30], Y[:30], np.ones((30, 5)))
    held = CentredMoments.of(F[30:], Y[30:], np.ones((10, 5)), known)
    members, weights = np.array([0, 2, 3]), rng.uniform(size=3)
    centred = (F[30:, members, 0] - known.means[members, 0]) @ weights
    expected = np.square(Y[30:, 0] - known.target_mean[0] - centred).mean()
    assert held.error(members, weights) == pytest.approx(expected, rel=1e-12)


def test_forward_selection_adds_the_member_that_raises_the_correlation_most():
    F, Y = noisy(np.random.default_rng(24), n=50, p=7)
    moments = CentredMoments.of(F, Y, np.ones((50, 7)))
    chosen: list[int] = []
    for _ in range(7):
        rest = [k for k in range(7) if k not in chosen]
        scores = [np.corrcoef(F[:, [*chosen, k], 0].sum(axis=1), Y[:, 0])[0, 1] for k in rest]
        chosen.append(rest[int(np.argmax(scores))])
    assert in_order(moments, "forward", 7).tolist() == chosen


def test_the_number_of_members_is_kept_and_a_pruned_forest_is_a_forest():
    model, A, b = RandomForestRegressor(8, random_state=0).fit(X, y), X, y
    for method in ("shrunk", "forward", "best", "first", "alignment", "stacking"):
        assert 1 <= prune_ensemble(model, A, b, n_members=3, method=method).size_ <= 3
    pruned = prune_ensemble(model, A, b, n_members=3, method="first")
    assert [row.index for row in pruned.table_ if row.kept] == [0, 1, 2]
    assert isinstance(pruned.forest_, RandomForestRegressor)
    expected = np.mean([tree.predict(A) for tree in model.estimators_[:3]], axis=0)
    assert np.allclose(pruned.forest_.predict(A), expected)
    assert len(model.estimators_) == 8


def test_members_that_are_alike_are_averaged_not_stacked():
    """Many equally good members with errors of their own: least squares on few rows overfits, the mean does not."""
    rng = np.random.default_rng(25)
    Y = rng.normal(size=(90, 1))
    F = Y[:, None] + rng.normal(size=(90, 60, 1))
    pruned, stacked = (prune_ensemble(F[:40, :, 0], y=Y[:40, 0], method=m) for m in ("shrunk", "stacking"))
    assert pruned.score(F[40:, :, 0], Y[40:, 0]) > stacked.score(F[40:, :, 0], Y[40:, 0])
    assert pruned.size_ > 30
