"""Forgetting rows is a fit of the others in the same feature space."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from krepes.kernels import Gaussian
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from refusals import refuses

OPTIONS = {"kernel": "gaussian", "n_landmarks": 30, "random_state": 0}
N = 300
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
y = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=N)
weight = rng.uniform(0.2, 3.0, size=N)
weight[::17] = 0.0


def refit(model, X, y, rows, weight=None):
    """The same model on some rows under their own indices, added in runs of consecutive ones."""
    again = model.empty_copy()
    take = X.iloc.__getitem__ if isinstance(X, pd.DataFrame) else X.__getitem__
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        given = {} if weight is None else {"sample_weight": weight[run]}
        if weight is None or given["sample_weight"].any():
            again.partial_fit(take(run), y[run], first_row=int(run[0]), **given)
    return again


def free_rows(model, n=60, seed=0):
    free = np.setdiff1d(np.arange(N), model.landmark_indices_)
    return np.random.default_rng(seed).permutation(free)[:n]


CASES = {
    "quantity": (KernelRidgeRegressor(**OPTIONS), X, y, None),
    "two quantities": (KernelRidgeRegressor(**OPTIONS), X, np.column_stack([y, -3 * y**2]), None),
    "weights": (KernelRidgeRegressor(**OPTIONS), X, y, weight),
    "a sample is kept": (KernelRidgeRegressor(n_kept=80, **OPTIONS), X, y, None),
    "classes": (KernelRidgeClassifier(**OPTIONS), X, np.digitize(y, [0, 1]), None),
    "balanced classes": (KernelRidgeClassifier(class_weight="balanced", **OPTIONS), X, y > 1, weight),
    "weighted classes": (KernelRidgeClassifier(class_weight={True: 3.0}, **OPTIONS), X, y > 1, None),
    "a frame": (
        KernelRidgeRegressor(**OPTIONS),
        pd.DataFrame(X, columns=list("abc")).assign(d=np.where(X[:, 2] > 0, "yes", "no")),
        y,
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_forgetting_equals_a_fit_of_the_other_rows(case):
    """Scores agree to 1e-8 in float64; so does all that follows from them."""
    model, X, y, weight = CASES[case]
    model.fit(X, y, sample_weight=weight)
    first = model.predict(X)
    gone = free_rows(model)
    take = X.iloc.__getitem__ if isinstance(X, pd.DataFrame) else X.__getitem__
    again = refit(model, X, y, np.setdiff1d(np.arange(N), gone), weight)
    # In two parts, and in an order of their own.
    for part in (gone[:20], gone[20:]):
        model.forget(take(part), y[part], rows=part, sample_weight=None if weight is None else weight[part])
    assert np.abs(model._scores(X) - again._scores(X)).max() < 1e-8
    assert not np.array_equal(model.predict(X), first)
    assert model.penalty_ == pytest.approx(again.penalty_, rel=1e-9)
    assert model.n_samples_seen_ == N - 60
    assert model.total_.n == pytest.approx(again.total_.n)
    if model.n_kept > N:
        assert sorted(model.held_out_rows_) == sorted(again.held_out_rows_)
        order, other = np.argsort(model.held_out_rows_), np.argsort(again.held_out_rows_)
        held, theirs = model._solved().held_out, again._solved().held_out
        for name in ("predictions", "by_folds"):
            assert np.allclose(getattr(held, name)[order], getattr(theirs, name)[other], atol=1e-8)
    else:
        assert not set(model.held_out_rows_) & set(gone)


def test_single_precision_forgets_to_rounding():
    kernel = Gaussian(lengthscale=1.0)  # short, so that features are well conditioned
    model = KernelRidgeRegressor(
        **OPTIONS | {"kernel": kernel, "input_metric": None, "dtype": "float32"}
    ).fit(X, y)
    gone = free_rows(model)
    again = refit(model, X, y, np.setdiff1d(np.arange(N), gone))
    model.forget(X[gone], y[gone], rows=gone)
    assert np.abs(model._scores(X) - again._scores(X)).max() < 1e-3


def test_a_fold_that_loses_all_rows_is_left_out():
    model = KernelRidgeRegressor(n_folds=3, landmarks=X[:20], random_state=0).fit(
        X[:40], y[:40], sample_weight=weight[:40]
    )
    held = model._solved().held_out
    gone = held.rows[held.folds == 1].numpy()
    again = refit(model, X[:40], y[:40], np.setdiff1d(np.arange(40), gone), weight[:40])
    model.forget(X[gone], y[gone], rows=gone, sample_weight=weight[gone])
    assert model._solved().folds == [0, 2]
    assert np.abs(model._scores(X) - again._scores(X)).max() < 1e-8


def test_rows_added_later_are_numbered_after_those_forgotten(tmp_path):
    model = KernelRidgeRegressor(**OPTIONS).fit(X[:200], y[:200])
    gone = np.setdiff1d(np.arange(200), model.landmark_indices_)[:50]
    model.forget(X[gone], y[gone], rows=gone)
    model.save(tmp_path / "m")
    model = KernelRidgeRegressor.load(tmp_path / "m")
    model.partial_fit(X[200:250], y[200:250])
    assert sorted(model.held_out_rows_) == sorted(np.setdiff1d(np.arange(250), gone))
    again = refit(model, X, y, np.setdiff1d(np.arange(250), gone))
    assert np.abs(model._scores(X) - again._scores(X)).max() < 1e-8


def test_a_sample_stays_uniform_after_forgetting():
    """Rows added later do not fill the places of rows forgotten: those with the next draws are not known."""
    model = KernelRidgeRegressor(n_kept=80, **OPTIONS).fit(X[:200], y[:200])
    gone = np.setdiff1d(model.held_out_rows_, model.landmark_indices_)[:30]
    kept = model.total_.kept
    model.forget(X[gone], y[gone], rows=gone)
    largest = model.total_.kept.draws.max()
    model.partial_fit(X[200:], y[200:])
    assert len(model.held_out_rows_) == 50
    assert model.total_.kept.draws.max() <= largest <= kept.draws.max()


def test_it_says_what_still_depends_on_the_rows():
    model = KernelRidgeRegressor(**OPTIONS).fit(X, y)
    gone = free_rows(model, 1)
    assert model.forget(X[gone], y[gone], rows=gone) == [
        "which rows are landmarks",
        "the kernel, its lengthscale and metric",
        "the unit of the targets",
    ]


def test_objects_are_forgotten_too():
    words = ["".join(rng.choice(list("abc"), size=6)) for _ in range(80)]
    count = np.array([word.count("a") for word in words], float)

    def same_letters(first, second):
        return np.array([[sum(a == b for a, b in zip(s, t)) / 6 for t in second] for s in first])

    model = KernelRidgeRegressor(kernel=same_letters, landmarks=words[:15], random_state=0).fit(words, count)
    again = (
        model.empty_copy()
        .partial_fit(words[:30], count[:30])
        .partial_fit(words[40:], count[40:], first_row=40)
    )
    found = model.forget(words[30:40], count[30:40], rows=range(30, 40))
    assert found == ["the unit of the targets"]  # kernel and landmarks were given
    assert np.abs(model.predict(words) - again.predict(words)).max() < 1e-7
    with refuses(ValueError, "X", "y"):
        model.forget(["xxxxxx"], count[:1], rows=[0])
