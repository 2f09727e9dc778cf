"""The logistic probe is logistic regression: the minimum is scikit-learn's, whatever metric the descent uses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from krepes.regression import logistic
from krepes.regression.logistic import logistic_path


def clouds(n: int, d: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes in columns whose scales differ by a factor of a thousand."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    X = rng.normal(size=(n_classes, d))[codes] + rng.normal(size=(n, d))
    return X * np.geomspace(1, 1e-3, d) + 0.3, codes


def objective(W: np.ndarray, b: np.ndarray, X: np.ndarray, codes: np.ndarray, C: float) -> float:
    """|W|^2 / 2 - C sum_i log p_i(y_i), as a loop over rows."""
    total = 0.5 * float((W**2).sum())
    for x, code in zip(X, codes):
        scores = W @ x + b
        scores = np.array([0.0, scores[0]]) if len(W) == 1 else scores
        total -= C * (scores[code] - scores.max() - np.log(np.exp(scores - scores.max()).sum()))
    return total


@pytest.mark.parametrize("worth", [0.0, np.inf], ids=["diagonal", "complete"])
@pytest.mark.parametrize(("n", "d", "n_classes"), [(200, 5, 2), (150, 8, 4), (30, 60, 3)])
def test_the_path_ends_at_scikit_learns_minimum(monkeypatch, n, d, n_classes, worth):
    monkeypatch.setattr(logistic, "WORTH", worth)
    monkeypatch.setattr(logistic, "HESSIAN_ROWS", 100)  # so that leverage chooses rows, too
    X, codes = clouds(n, d, n_classes)
    C_values = [1e-2, 1.0, 100.0]
    for C, (W, b) in zip(C_values, logistic_path(X, codes, n_classes, C_values), strict=True):
        exact = LogisticRegression(C=C, tol=1e-10, max_iter=100_000).fit(X, codes)
        least = objective(exact.coef_, exact.intercept_, X, codes, C)
        assert W.shape == exact.coef_.shape
        assert objective(W, b, X, codes, C) <= least + 2e-5 * C * n


def test_many_rows_end_at_the_minimum_too():
    """A million cells, which single precision would not carry to the end of the path."""
    X, codes = clouds(5000, 210, 2)
    C_values = [0.1, 10.0, 1000.0]
    for C, (W, b) in zip(C_values, logistic_path(X, codes, 2, C_values), strict=True):
        exact = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10).fit(X, codes)
        least = objective(exact.coef_, exact.intercept_, X, codes, C)
        assert objective(W, b, X, codes, C) <= least + 1e-5 * C * len(X)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_start_at_the_minimum_stays_there(n_classes):
    X, codes = clouds(120, 4, n_classes)
    ((W, b),) = logistic_path(X, codes, n_classes, [1.0])
    ((W_again, b_again),) = logistic_path(X, codes, n_classes, [1.0], (W, b))
    value, again = objective(W, b, X, codes, 1.0), objective(W_again, b_again, X, codes, 1.0)
    assert again <= value
    assert again >= value - 1e-4 * len(X)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 20), d=st.integers(1, 6), constant=st.booleans())
def test_any_rows_give_finite_weights(seed, n, d, constant):
    """Also separable, repeated or constant rows, and a class that has none."""
    rng = np.random.default_rng(seed)
    X = np.ones((n, d)) if constant else rng.integers(0, 3, (n, d)).astype(float)
    for W, b in logistic_path(X, np.arange(n) % 2, 3, [1e-4, 1.0, 1e3]):
        assert np.isfinite(W).all()
        assert np.isfinite(b).all()
        if constant:
            assert not W.any()
