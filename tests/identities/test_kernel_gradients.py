"""Gradients of weighted sums of kernels against differences, metrics against their definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes.kernels import (
    ArcCosine,
    Cosine,
    Custom,
    EmpiricalNTK,
    Gaussian,
    InfiniteWidth,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Reweighted,
    Sigmoid,
)
from krepes.machines.input_metric import gradient_outer_product, metric_of
from labels import label
from refusals import refuses
from tolerances import assert_same

LENGTHS = np.array([0.5, 1.0, 2.0])
WEIGHTS = np.array([0.3, 0.0, 2.0])
METRIC = np.array([[2.0, 0.7, 0.1], [0.7, 1.0, -0.3], [0.1, -0.3, 0.5]])

SMOOTH = [
    Gaussian(0.8),
    Gaussian(LENGTHS),
    Laplacian(0.8),
    Laplacian(LENGTHS),
    Laplacian(0.8, norm=1),
    Laplacian(LENGTHS, norm=1),
    Matern(0.8, nu=0.5),
    Matern(0.8, nu=1.5),
    Matern(LENGTHS, nu=2.5),
    Linear(),
    Polynomial(3, 0.5, 0.2),
    Sigmoid(0.3, -0.2),
    Gaussian(0.8) + Linear(),
    Gaussian(0.8) + Laplacian(1.3, norm=1),
    3.0 * (Matern(LENGTHS) + Laplacian(0.8, norm=1)),
    Gaussian(0.8) * Matern(1.2),
    2.0 * Linear() * Polynomial(2, 1.0, 0.1),
]
REWEIGHTED = [
    Reweighted(kernel, M)
    for kernel in (
        Gaussian(0.8),
        Matern(LENGTHS),
        Laplacian(0.8, norm=1),
        Polynomial(2, 1.0, 0.3),
        Gaussian(1.0) + Linear(),
    )
    for M in (WEIGHTS, METRIC)
]
KERNELS = [*SMOOTH, *REWEIGHTED, 2.0 * Reweighted(Reweighted(Gaussian(0.8), WEIGHTS), METRIC) + Linear()]

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=label)


def rows(n: int, seed: int = 0, d: int = 3) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def difference_quotients(kernel, X, Y, A, step=1e-5) -> torch.Tensor:
    """(c, n, d), by the five-point rule, one coordinate at a time."""
    columns = []
    for j in range(X.shape[1]):
        e = torch.zeros(X.shape[1], dtype=torch.float64)
        e[j] = step
        f = [kernel(X + k * e, Y) @ A for k in (-2, -1, 1, 2)]
        columns.append((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step))
    return torch.stack(columns, dim=2).transpose(0, 1)


@every_kernel
def test_gradients_are_difference_quotients(kernel):
    X, Y, A = rows(7), rows(5, seed=1), rows(5, seed=2, d=2)
    found = kernel.gradients(X, Y, A)
    assert found.shape == (2, 7, 3)
    torch.testing.assert_close(found, difference_quotients(kernel, X, Y, A), rtol=1e-7, atol=1e-8)


@every_kernel
def test_gradients_at_the_points_themselves_are_finite(kernel):
    """A kernel with a kink there has the mean of its one-sided derivatives, which is zero."""
    X = rows(6)
    found = kernel.gradients(X, X, rows(6, seed=2, d=1))
    assert torch.isfinite(found).all()
    one = kernel.gradients(X[:1], X[:1], torch.ones(1, 1, dtype=torch.float64))
    if kernel.shift_invariant:
        assert one.abs().max() < 1e-12


@pytest.mark.parametrize(
    "kernel", [Laplacian(0.8), Matern(0.8, nu=0.5), Laplacian(LENGTHS, norm=1)], ids=label
)
def test_at_a_kink_both_sides_count_half(kernel):
    Y, A = rows(4), rows(4, seed=1, d=1)
    at = kernel.gradients(Y[:1], Y, A)[0, 0]
    sides = [
        difference_quotients(kernel, Y[:1] + side, Y, A, step=1e-8)[0, 0]
        for side in (1e-5 * torch.ones(3).double(), -1e-5 * torch.ones(3).double())
    ]
    torch.testing.assert_close(at, (sides[0] + sides[1]) / 2, rtol=1e-3, atol=1e-3)


@every_kernel
def test_gradients_in_float32_agree_and_leave_their_arguments_alone(kernel):
    X, Y, A = rows(7), rows(5, seed=1), rows(5, seed=2, d=2)
    kept = [each.clone() for each in (X, Y, A)]
    expected = kernel.gradients(X, Y, A)
    found = kernel.gradients(X.float(), Y.float(), A.float())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip((X, Y, A), kept))


@pytest.mark.parametrize(
    "kernel",
    [ArcCosine(), Custom(lambda X, Y: X @ Y.T), Reweighted(ArcCosine(), WEIGHTS)],
    ids=["arc", "own", "inside"],
)
def test_a_kernel_without_gradients_says_so(kernel):
    with refuses(TypeError, "derivative"):
        kernel.gradients(rows(3), rows(2), rows(2, d=1))


# The outer product, and what becomes of it


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize(
    "kernel", [Gaussian(0.8), Laplacian(0.8, norm=1), Reweighted(Matern(), METRIC)], ids=label
)
def test_the_outer_product_is_the_mean_over_rows(kernel, full):
    """Against autograd, row by row, in more rows than a block."""
    X, Y, A = rows(300), rows(6, seed=1), rows(6, seed=2, d=2)
    kernel = kernel.fitted(X)
    expected = torch.zeros(3, 3, dtype=torch.float64)
    D = difference_quotients(kernel, X, Y, A)
    for output in D:
        for gradient in output:
            expected += torch.outer(gradient, gradient) / len(X)
    found = gradient_outer_product(kernel, X, Y, A, full)
    torch.testing.assert_close(found, expected if full else expected.diagonal(), rtol=1e-6, atol=1e-9)


def test_the_outer_product_agrees_with_autograd():
    X, Y, a = rows(20), rows(6, seed=1), rows(6, seed=2, d=1)
    Z = X.clone().requires_grad_()
    distances = (Z[:, None] - Y).square().sum(2)
    (torch.exp(-distances / 2 / 0.8**2) @ a).sum().backward()
    expected = Z.grad.mT @ Z.grad / 20
    torch.testing.assert_close(
        gradient_outer_product(Gaussian(0.8), X, Y, a, full=True), expected, rtol=1e-9, atol=1e-12
    )


def test_the_metric_is_the_root_of_the_outer_product():
    D = rows(40)
    G = D.mT @ D
    M = metric_of(G)
    np.testing.assert_allclose(
        M @ M / np.linalg.eigvalsh(M @ M).max(), G / torch.linalg.eigvalsh(G)[-1], rtol=1e-9
    )
    diagonal = metric_of(torch.tensor([4.0, 1.0, 0.0]))
    np.testing.assert_allclose(diagonal, [1.0, 0.5, 1e-8], rtol=1e-12)
    assert metric_of(torch.zeros(3)) is None
    assert metric_of(torch.zeros(3, 3)) is None
    shared = metric_of(torch.tensor([4.0, 1.0, 3.0]), [[0], [1, 2]])
    np.testing.assert_allclose(shared, [1.0, 0.5**0.5, 0.5**0.5])


# Values in another metric


@pytest.mark.parametrize(
    "M",
    [WEIGHTS, WEIGHTS.tolist(), torch.from_numpy(WEIGHTS), METRIC, torch.from_numpy(METRIC)],
    ids=["array", "list", "tensor", "matrix", "matrix tensor"],
)
def test_the_gaussian_in_a_metric_is_that_of_its_distance(M):
    X, Y = rows(6), rows(4, seed=1)
    matrix = np.asarray(M) if np.ndim(M) == 2 else np.diag(M)
    expected = torch.empty(6, 4, dtype=torch.float64)
    for i, x in enumerate(X.numpy()):
        for j, y in enumerate(Y.numpy()):
            expected[i, j] = np.exp(-(x - y) @ matrix @ (x - y) / 2 / 0.8**2)
    assert_same(Reweighted(Gaussian(0.8), M)(X, Y), expected)


def test_a_diagonal_metric_is_lengthscales_per_column():
    X, Y = rows(6), rows(4, seed=1)
    for norm in (1, 2):
        found = Reweighted(Laplacian(1.0, norm=norm), 1 / LENGTHS**2)
        assert_same(found(X, Y), Laplacian(LENGTHS, norm=norm)(X, Y))
        assert_same(
            found.gradients(X, Y, rows(4, d=1)), Laplacian(LENGTHS, norm=norm).gradients(X, Y, rows(4, d=1))
        )


def test_median_lengthscales_are_found_in_the_metric():
    X = rows(40)
    fitted = Reweighted(Gaussian(), METRIC).fitted(X)
    weighed = X @ torch.linalg.cholesky(torch.from_numpy(METRIC))
    assert fitted.kernel.lengthscale == pytest.approx(Gaussian().fitted(weighed).lengthscale, rel=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(0.8), Laplacian(LENGTHS, norm=1), 2.0 * (Gaussian(1.0) + Laplacian(0.5, norm=1))],
    ids=label,
)
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_product_terms_are_expectations_under_noise(kernel, noise):
    """E k(x + noise g, y) as a sum of products over columns, within 4 standard errors of its mean over draws."""
    reweighted, X, Y = Reweighted(kernel, WEIGHTS), rows(3), rows(2, seed=1)
    total = torch.zeros(3, 2, dtype=torch.float64)
    for weight, term in reweighted.product_terms():
        factors = [term.coordinate_product([j], X[:, [j]], Y[:, [j]], [noise]) for j in range(3)]
        total += weight * torch.stack(factors).prod(0)
    if noise == 0:
        assert_same(total, reweighted(X, Y))
        return
    draws = 20_000
    G = noise * rows(draws, seed=3)
    for i, x in enumerate(X):
        values = reweighted(x + G, Y)
        error = values.std(0) / draws**0.5
        assert ((values.mean(0) - total[i]).abs() <= 4 * error).all()


def test_a_turned_metric_is_no_product_over_columns():
    assert Reweighted(Gaussian(0.8), METRIC).product_terms() is None
    assert Reweighted(Laplacian(0.8), WEIGHTS).product_terms() is None


DIFFERENTIABLE = [
    *SMOOTH,
    ArcCosine(),
    InfiniteWidth(),
    Cosine(),
    Gaussian(0.8) + Matern(1.0),
    Gaussian(0.8) * Linear(),
    2 * Laplacian(0.8),
    Reweighted(Gaussian(0.8), WEIGHTS),
    Custom(lambda X, Y: torch.exp(-torch.cdist(X, Y).square())),
]


@pytest.mark.parametrize("kernel", DIFFERENTIABLE, ids=label)
def test_autograd_differentiates_kernels(kernel):
    """U8: gradients with respect to rows and landmarks are those of finite differences."""
    generator = torch.Generator().manual_seed(1)
    X, Y = (torch.rand(n, 3, dtype=torch.float64, generator=generator).requires_grad_() for n in (5, 4))
    assert torch.autograd.gradcheck(kernel, (X, Y))
    K = kernel(X)  # where every row meets itself
    K.sum().backward()
    assert torch.isfinite(X.grad).all()


def test_values_that_autograd_cannot_follow_are_refused():
    """U8: values were detached in silence."""
    X = torch.rand(4, 3, requires_grad=True)
    kernel = EmpiricalNTK(torch.nn.Linear(3, 2), seed=0)
    with refuses(TypeError, "EmpiricalNTK", "gradients", "X.detach()"):
        kernel(X)
    with torch.no_grad():
        assert not kernel(X).requires_grad
