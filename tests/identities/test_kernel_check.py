"""Kernels are called kernels, and functions that are not are found out, with a proof."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from krepes import check_kernel
from krepes.kernels import (
    ArcCosine,
    Custom,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Sigmoid,
)

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(300, 4))
ROWS[250:] = ROWS[:50]  # copies
WORDS = ["".join(rng.choice(list("abcde"), size=rng.integers(2, 7))) for _ in range(120)]


def letters_in_common(a: str, b: str) -> int:
    return len(set(a) & set(b))


def smallest_sum(X, Y):
    """sum_j min(x_j, y_j) of rows that are not negative: the covariance of Brownian motion."""
    return torch.minimum(X.abs()[:, None], Y.abs()).sum(2)


def single_gaussian(X, Y):
    """Computed in single precision, in the way that loses most digits."""
    X, Y = X.float() + 30, Y.float() + 30
    D = (X * X).sum(1)[:, None] + (Y * Y).sum(1) - 2 * X @ Y.T
    return torch.exp(-D.clamp(min=0) / 8)


GOOD = {
    "gaussian": (Gaussian(), ROWS),
    "laplacian, L1 and L2": (Laplacian(norm=1) + Laplacian(), ROWS),
    "matern": (Matern(nu=2.5), ROWS),
    "polynomial": (Polynomial(degree=3), ROWS),
    "linear: rank 4 of 300": (Linear(), 1e-6 * ROWS),
    "arc-cosine": (ArcCosine(degree=0), ROWS),
    "letters in common": (Custom(letters_in_common, pairwise=True), WORDS),
    "min(x, y)": (smallest_sum, 1e6 * ROWS),
    "product and sum": (Gaussian(0.5) * Polynomial(2) + 3.0 * Linear(), ROWS),
    "single precision, nearly singular": (single_gaussian, ROWS),
}


def lecture(X, Y):
    return X @ Y.T + 0.5 * (X * X).sum(1)[:, None]


def logistic(X, Y):
    return torch.sigmoid(X @ Y.T)


def gaussian_of_no_metric(X, Y):
    """exp(-d^4): d^2 is not of negative type."""
    return torch.exp(-(torch.cdist(X, Y) ** 4) / 10)


def root_of_product(X, Y):
    product = X @ Y.T
    return product.sign() * product.abs() ** 0.5


def nearer_than_one(X, Y):
    return (torch.cdist(X, Y) < 1).double()


def thresholded(X, Y):
    K = torch.exp(-(torch.cdist(X, Y) ** 2) / 4)
    return K * (K > 0.3)


def centred_in_batch(X, Y):
    return (X - X.mean(0)) @ (Y - Y.mean(0)).T


def noisy(X, Y):
    return torch.exp(-(torch.cdist(X, Y) ** 2) / 4) + 0.01 * torch.rand(len(X), len(Y))


BAD = {
    "the lecture's counter-example": (lecture, "symmetric"),
    "sigmoid, tanh": (Sigmoid(), "positive_semidefinite"),
    "sigmoid, logistic": (logistic, "positive_semidefinite"),
    "gaussian of what is no metric": (gaussian_of_no_metric, "positive_semidefinite"),
    "distance": (lambda X, Y: torch.cdist(X, Y), "positive_semidefinite"),
    "minus squared distance": (lambda X, Y: -(torch.cdist(X, Y) ** 2), "positive_semidefinite"),
    "root of x.y": (root_of_product, "positive_semidefinite"),
    "indicator of near rows": (nearer_than_one, "positive_semidefinite"),
    "sine of the distance": (lambda X, Y: torch.sin(torch.cdist(X, Y)), "positive_semidefinite"),
    "thresholded gaussian": (thresholded, "positive_semidefinite"),
    "centred in the batch": (centred_in_batch, "consistent"),
    "random": (noisy, "deterministic"),
}


@pytest.mark.parametrize(("kernel", "X"), GOOD.values(), ids=GOOD.keys())
def test_kernels_are_kernels(kernel, X):
    found = check_kernel(kernel, X)
    assert found.ok, str(found)
    assert found.finite
    assert found.symmetric
    assert found.positive_semidefinite
    assert found.deterministic
    assert found.consistent


@pytest.mark.parametrize(("kernel", "broken"), BAD.values(), ids=BAD.keys())
def test_what_is_not_a_kernel_is_found_out(kernel, broken):
    found = check_kernel(kernel, ROWS)
    assert not found.ok
    assert getattr(found, broken) is False, str(found)
    others = {"symmetric", "positive_semidefinite", "consistent", "deterministic"} - {broken}
    assert all(getattr(found, name) is not False for name in others if broken == "positive_semidefinite")


@pytest.mark.parametrize(("kernel", "broken"), BAD.values(), ids=BAD.keys())
def test_few_points_prove_it(kernel, broken):
    """a^T K a < 0 for the rows and coefficients that are named, by the kernel's own values."""
    found = check_kernel(kernel, ROWS, n_rows=200)
    if broken != "positive_semidefinite":
        assert found.negative is None
        return
    rows = torch.as_tensor(ROWS[list(found.negative.rows)])
    a = np.array(found.negative.coefficients)
    K = np.asarray(found.kernel(rows))
    assert a @ K @ a == pytest.approx(found.negative.value, rel=1e-6)
    assert a @ K @ a < 0
    assert abs(a).max() == 1
    assert len(a) <= 6
    assert str(found.negative.rows[0]) in found.problems[0]


SCALES = st.floats(-6, 6).map(lambda power: 10.0**power)
FORMULAS = st.sampled_from(
    [
        Gaussian(1.0),
        Gaussian(),
        Laplacian(0.7, norm=1),
        Laplacian(3.0),
        Matern(1.0),
        Matern(2.0, nu=2.5),
        Linear(),
        Polynomial(degree=2, offset=1.0, scale=1.0),
        Polynomial(degree=4, offset=0.0, scale=1.0),
        ArcCosine(),
        ArcCosine(degree=0, depth=2),
        Gaussian(2.0) + Linear(),
        Matern(1.0) * Polynomial(degree=2, scale=1.0),
    ]
)


@given(
    kernel=FORMULAS,
    scale=SCALES,
    factor=SCALES,
    shift=st.sampled_from([0.0, 1.0, 100.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    single=st.booleans(),
    copies=st.integers(0, 40),
    seed=st.integers(0, 1000),
)
def test_kernels_are_never_called_bad(kernel, scale, factor, shift, dtype, single, copies, seed):
    """Whatever the scale of rows and values, their precision, copies and near copies among the rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) + shift
    again = X[rng.integers(0, 60, size=copies)]
    X = (scale * np.concatenate([X, again, again * (1 + 1e-9)])).astype(dtype)
    fitted = factor * kernel.fitted(torch.as_tensor(X))

    def in_single_precision(A, B):
        return fitted(A.float(), B.float())

    found = check_kernel(in_single_precision if single else fitted, X)
    assert found.ok, str(found)


def test_similarities_are_those_of_a_plain_computation():
    found = check_kernel(Polynomial(degree=2, scale=0.3), ROWS)
    K = (0.3 * ROWS @ ROWS.T + 1) ** 2
    k = np.diag(K)
    pairs = np.triu_indices(len(K), 1)
    S = K / np.sqrt(np.outer(k, k))
    values = np.linalg.eigvalsh(K)[::-1]
    got = found.similarities
    assert (got.smallest, got.mean, got.largest) == pytest.approx((k.min(), k.mean(), k.max()))
    assert got.pairs == pytest.approx(np.percentile(S[pairs], [10, 50, 90]))
    distances = np.sqrt(np.maximum(k[:, None] + k - 2 * K, 0))[pairs]
    assert got.distance == pytest.approx(np.median(distances), rel=1e-3)  # of an even number of pairs
    np.fill_diagonal(S, -1)
    assert got.nearest == pytest.approx(np.median(S.max(1)), rel=1e-3)
    assert got.effective_dimension == pytest.approx((values / (values + 1e-3 * k.sum())).sum())
    assert values[: got.rank].sum() >= 0.99 * k.sum() > values[: got.rank - 1].sum()


def test_the_smallest_eigenvalue_is_that_of_the_matrix():
    found = check_kernel(nearer_than_one, ROWS)
    values = np.linalg.eigvalsh(np.asarray(nearer_than_one(*[torch.as_tensor(ROWS)] * 2)))
    assert found.smallest_eigenvalue == pytest.approx(values[0] / values[-1])


@pytest.mark.parametrize(("lengthscale", "words"), [(1e-3, "too narrow"), (1e3, "too wide"), (2.0, None)])
def test_widths_that_do_not_suit_the_rows_are_named(lengthscale, words):
    found = check_kernel(Gaussian(lengthscale), ROWS[:250])
    assert found.ok
    assert found.lengthscale == lengthscale
    assert found.suggested_lengthscale == Gaussian().fitted(ROWS[:250]).lengthscale
    hints = [sentence for sentence in found.advice if "too" in sentence]
    assert len(hints) == (words is not None)
    if words:
        assert words in hints[0]
        assert f"lengthscale={found.suggested_lengthscale:.3g}" in hints[0]


def test_rows_are_named_by_their_place_in_the_data():
    X = np.random.default_rng(1).normal(size=(2000, 3))
    found = check_kernel(nearer_than_one, X, n_rows=150, random_state=3)
    K = np.asarray(nearer_than_one(*[torch.as_tensor(X[list(found.negative.rows)])] * 2))
    a = np.array(found.negative.coefficients)
    assert found.n_rows == 150
    assert max(found.negative.rows) >= 150
    assert a @ K @ a == pytest.approx(found.negative.value)
    assert str(check_kernel(nearer_than_one, X, n_rows=150, random_state=3)) == str(found)


def test_many_points_are_needed_where_few_are_innocent():
    """1 on the diagonal and -1/4 beside it: any 5 points are positive semi-definite, 6 are not."""
    found = check_kernel(lambda X, Y: 1.25 * (X == Y.T) - 0.25, np.arange(40.0)[:, None])
    assert len(found.negative.rows) == 6
    assert found.negative.coefficients == pytest.approx([1.0] * 6)
    assert found.negative.value == pytest.approx(6 - 30 / 4)
