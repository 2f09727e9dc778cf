"""Kernel values: their formulas in a naive loop, their rules for lengthscales, and their exact expectations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist

import kernel_oracles as oracles
from krepes.base.components import named
from krepes.kernels import (
    ArcCosine,
    CoordinateProduct,
    Custom,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Sigmoid,
    as_kernel,
)
from krepes.kernels.distances import distances_to
from krepes.kernels.vectors import RadialKernel
from labels import label
from refusals import refuses
from tolerances import TOLERANCE, assert_same

LENGTHS = np.array([0.5, 1.0, 2.0])


def rows(n: int, d: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


FORMULAS = [
    (Gaussian(0.8), lambda x, y: oracles.gaussian(x, y, 0.8)),
    (Gaussian(LENGTHS), lambda x, y: oracles.gaussian(x, y, LENGTHS)),
    (Laplacian(0.8), lambda x, y: oracles.laplacian(x, y, 0.8, 2)),
    (Laplacian(LENGTHS), lambda x, y: oracles.laplacian(x, y, LENGTHS, 2)),
    (Laplacian(0.8, norm=1), lambda x, y: oracles.laplacian(x, y, 0.8, 1)),
    (Laplacian(LENGTHS, norm=1), lambda x, y: oracles.laplacian(x, y, LENGTHS, 1)),
    (Matern(0.8, nu=0.5), lambda x, y: oracles.matern(x, y, 0.8, 0.5)),
    (Matern(0.8, nu=1.5), lambda x, y: oracles.matern(x, y, 0.8, 1.5)),
    (Matern(LENGTHS, nu=2.5), lambda x, y: oracles.matern(x, y, LENGTHS, 2.5)),
    (Linear(), np.dot),
    (Polynomial(3, 0.5, 0.2), lambda x, y: oracles.polynomial(x, y, 3, 0.5, 0.2)),
    (Polynomial(2, 0.0, 1.0), lambda x, y: oracles.polynomial(x, y, 2, 0.0, 1.0)),
    (Sigmoid(0.3, -0.2), lambda x, y: oracles.sigmoid(x, y, 0.3, -0.2)),
    (ArcCosine(), lambda x, y: oracles.arc_cosine(x, y, 1, 1)),
    (ArcCosine(degree=0), lambda x, y: oracles.arc_cosine(x, y, 0, 1)),
    (ArcCosine(depth=3), lambda x, y: oracles.arc_cosine(x, y, 1, 3)),
    (ArcCosine(degree=0, depth=2), lambda x, y: oracles.arc_cosine(x, y, 0, 2)),
    (Gaussian(0.8) + Linear(), lambda x, y: oracles.gaussian(x, y, 0.8) + np.dot(x, y)),
    (Gaussian(0.8) * Linear() * 3.0, lambda x, y: 3 * oracles.gaussian(x, y, 0.8) * np.dot(x, y)),
]


@pytest.mark.parametrize(("kernel", "formula"), FORMULAS, ids=lambda v: repr(v) if hasattr(v, "diag") else "")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_values_equal_the_formula_in_a_loop(kernel, formula, dtype):
    X, Y = rows(12, dtype=dtype), rows(9, seed=1, dtype=dtype)
    assert_same(kernel(X, Y), oracles.matrix(formula, X, Y))


@pytest.mark.parametrize("n", [2, 7, 8, 40])
@pytest.mark.parametrize(
    "kernel", [Gaussian(), Laplacian(), Matern(), Matern(nu=2.5), Laplacian(norm=1)], ids=label
)
def test_median_rule_makes_similarity_one_over_e_at_the_median_distance(kernel, n):
    X = rows(n)
    metric = "cityblock" if getattr(kernel, "norm", 2) == 1 else "euclidean"
    expected = np.median(pdist(X.numpy(), metric))
    apart = torch.zeros(2, X.shape[1], dtype=torch.float64)
    apart[1, 0] = expected
    for fitted in (kernel.fitted(X), kernel.fitted(X.float())):
        assert fitted(apart)[0, 1].item() == pytest.approx(np.exp(-1), rel=1e-4)
    assert kernel.fitted(X).lengthscale == pytest.approx(expected / kernel.reach, rel=1e-10)


def test_median_rule_on_many_rows_uses_a_seeded_subsample():
    X = rows(3000)
    lengths = [Gaussian().fitted(X, torch.Generator().manual_seed(s)).lengthscale for s in (0, 0, 1)]
    assert lengths[0] == lengths[1] != lengths[2]
    assert lengths[2] == pytest.approx(np.median(pdist(X.numpy())) / np.sqrt(2), rel=0.05)


@pytest.mark.parametrize("n_features", [3, 7, 50])
@pytest.mark.parametrize("norm", [1, 2])
def test_median_rule_where_most_rows_coincide_is_the_mean_positive_distance(n_features, norm):
    X = rows(60, n_features) + 3
    X[torch.arange(60) % 5 != 0] = X[0].clone()
    distances = pdist(X.numpy(), "cityblock" if norm == 1 else "euclidean")
    assert np.median(distances) == 0
    expected = distances[distances > 0].mean()
    assert Laplacian(norm=norm).fitted(X).lengthscale == pytest.approx(expected, rel=1e-10)


def test_auto_scale_is_one_over_the_mean_squared_norm():
    X = rows(20)
    assert Polynomial().fitted(X).scale == pytest.approx(1 / np.mean([x @ x for x in X.numpy()]))


RADIAL = [Gaussian(1.5), Gaussian(1.3 * np.ones(5)), Laplacian(1.5), Laplacian(1.3 * np.ones(5))]
RADIAL += [
    Laplacian(1.3 * np.ones(5), norm=1),
    Matern(1.5, nu=0.5),
    Matern(1.3 * np.ones(5)),
    Matern(1.5, nu=2.5),
]


@pytest.mark.parametrize("kernel", RADIAL, ids=label)
def test_float32_is_accurate_far_from_the_origin(kernel):
    """Mean 1e4, deviation 1: the float32 rows themselves, not the formula, are all that is rounded."""
    X = rows(60, 5).float() + 1e4
    assert_same(kernel(X), kernel(X.double() - 1e4))


@pytest.mark.parametrize("kernel", [k for k in RADIAL if np.ndim(k.lengthscale) == 0], ids=label)
def test_float32_is_accurate_in_far_clusters(kernel):
    """Two clusters thousands of lengthscales apart: no row is near the mean."""
    X = rows(60, 5).float()
    X[30:] += 1e4
    assert_same(kernel(X), kernel(X.double()))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("gap", [0.0, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1])
def test_distances_of_near_neighbours_are_within_eps_to_the_three_quarters(gap, dtype):
    """The square root of a rounded square alone would be wrong by eps^(1/2) |x|."""
    X = rows(200, 8, dtype=dtype)
    Y = X + gap * rows(200, 8, seed=1, dtype=dtype)
    exact = torch.cdist(X.double(), Y.double(), compute_mode="donot_use_mm_for_euclid_dist")
    error = (distances_to(Y)(X).double() - exact).abs().max().item()
    assert error <= 2 * torch.finfo(dtype).eps ** 0.75 * X.norm(dim=1).max().item()
    if gap == 0:
        assert torch.equal(distances_to(Y)(X).diagonal(), torch.zeros(200, dtype=dtype))


@pytest.mark.parametrize(
    "kernel", [Gaussian(0.8), Gaussian(LENGTHS), Laplacian(0.8, 1), Laplacian(LENGTHS, 1)]
)
def test_coordinate_factors_multiply_to_the_kernel(kernel):
    """prod_j kappa_j(x_j, z_j) = k(x, z) without noise."""
    X, Z = rows(8), rows(5, seed=1)
    product = torch.ones(8, 5, dtype=torch.float64)
    for j in range(3):
        product *= kernel.coordinate_product([j], X[:, [j]], Z[:, [j]], [0.0])
    assert_same(product, kernel(X, Z))


@pytest.mark.parametrize(
    "kernel", [Gaussian(0.8), Gaussian(LENGTHS), 2.0 * Gaussian(0.8) + Gaussian(LENGTHS)]
)
@pytest.mark.parametrize("noise", [torch.tensor([0.3, 0.3, 0.3]), torch.tensor([0.0, 0.5, 2.0])])
def test_a_smoothed_gaussian_is_the_product_of_smoothed_factors(kernel, noise):
    X, Z = rows(8), rows(5, seed=1)
    total = torch.zeros(8, 5, dtype=torch.float64)
    for weight, term in kernel.product_terms():
        product = torch.full((8, 5), weight, dtype=torch.float64)
        for j in range(3):
            product *= term.coordinate_product([j], X[:, [j]], Z[:, [j]], [float(noise[j])])
        total += product
    assert_same(kernel.smoothed(noise)(X, Z), total)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("noise", [1e-12, 1e-3, 0.1, 1.0, 7.0, 1e3, 1e8])
@pytest.mark.parametrize("length", [0.2, 1.0, 30.0])
@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_smoothed_factors_are_the_integral_over_the_noise(name, length, noise, dtype):
    """E[kappa(t + noise g)], relative to its largest value, which noise >> length makes small."""
    t = torch.tensor([0.0, 1e-6, 0.1, 1.0, -5.0, 40.0], dtype=dtype)
    if name == "gaussian":
        kernel, factor = Gaussian(length), lambda u: np.exp(-0.5 * (u / length) ** 2)
    else:
        kernel, factor = Laplacian(length, norm=1), lambda u: np.exp(-abs(u) / length)
    values = kernel.coordinate_product([0], t[:, None], torch.zeros(1, 1, dtype=dtype), [noise])[:, 0]
    expected = torch.tensor(
        [oracles.smoothed(factor, float(u), noise, length) for u in t], dtype=torch.float64
    )
    largest = expected.max()
    assert_same(values.double() / largest, expected / largest, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("noise", [0.0, 1e-300, 1e-38, 1e-20, 1e-3, 1.0, 1e6, 1e30])
@pytest.mark.parametrize("length", [1e-6, 1.0, 1e6])
def test_smoothed_laplacian_is_finite_and_decreasing_at_extremes(noise, length, dtype):
    t = torch.tensor([0.0, 1e-30, 1e-10, 1e-3, 1.0, 50.0, 1e4, 1e10, 1e30], dtype=dtype)
    values = Laplacian(length, norm=1).coordinate_product(
        [0], t[:, None], torch.zeros(1, 1, dtype=dtype), [noise]
    )[:, 0]
    assert torch.isfinite(values).all()
    assert ((values >= 0) & (values <= 1 + TOLERANCE[dtype])).all()
    assert (values[1:] <= values[:-1] * (1 + TOLERANCE[dtype])).all()


@pytest.mark.parametrize("degree", [0, 1])
def test_arc_cosine_is_a_wide_random_layer(degree):
    """k(x, y) = 2 E[s(w.x) s(w.y)], w standard normal, s the unit; within 4 standard errors."""
    X = rows(5)
    pre = rows(200_000, seed=2) @ X.T
    units = (pre > 0).double() if degree == 0 else pre.clamp(min=0)
    K = ArcCosine(degree)(X)
    for i in range(5):
        for j in range(5):
            products = 2 * units[:, i] * units[:, j]
            error = products.std().item() / len(products) ** 0.5
            assert abs(products.mean().item() - K[i, j].item()) <= 4 * error


def test_matern_one_half_is_the_laplacian():
    assert_same(Matern(0.7, nu=0.5)(rows(20)), Laplacian(0.7)(rows(20)))


def test_kernels_of_strings():
    def common_letters(a, b):
        return len(set(a) & set(b))

    words = ["abc", "bcd", "xyz", ""]
    pairwise = Custom(common_letters, pairwise=True)
    blocks = as_kernel(lambda A, B: [[common_letters(a, b) for b in B] for a in A])
    expected = torch.tensor([[common_letters(a, b) for b in words] for a in words], dtype=torch.float64)
    for kernel in (pairwise, blocks, Custom(blocks.function, diagonal=lambda A: [len(set(a)) for a in A])):
        assert torch.equal(kernel(words), expected)
        assert torch.equal(kernel.diag(words), expected.diagonal())
        assert torch.equal((kernel + kernel)(words, words[:2]), 2 * expected[:, :2])
        assert kernel.takes_objects
        assert (2.0 * kernel + kernel * kernel).takes_objects
    assert torch.equal(pairwise.diag(words * 20), expected.diagonal().repeat(20))


RADIAL = [Gaussian(0.7), Laplacian(0.7), Matern(0.7, nu=0.5), Matern(0.7, nu=1.5), Matern(0.7, nu=2.5)]


@pytest.mark.parametrize("kernel", RADIAL, ids=str)
def test_a_profile_gives_the_kernel_and_its_slope_the_derivative(kernel):
    """k(x, y) = f(u) and profile_slope(u) = df / d(u^2 / 2), u = |x - y| / l, by central differences."""
    X, Y = rows(6), rows(5, seed=1)
    u = torch.cdist(X, Y) / 0.7
    assert_same(kernel.profile(u.clone()), kernel(X, Y))
    half, step = u.square() / 2, 1e-6
    upper, lower = (kernel.profile((2 * (half + sign * step)).sqrt()) for sign in (1, -1))
    torch.testing.assert_close(
        kernel.profile_slope(u.clone()), (upper - lower) / (2 * step), rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("kernel", RADIAL, ids=str)
def test_slopes_at_zero_are_finite_or_a_kink(kernel):
    """Smooth kernels have their limit at u = 0, kernels with a kink minus infinity, and `slope` is zero there."""
    zero = torch.zeros(1, dtype=torch.float64)
    at_zero, near = kernel.profile_slope(zero.clone()), kernel.profile_slope(zero + 1e-9)
    kink = isinstance(kernel, Laplacian) or getattr(kernel, "nu", None) == 0.5
    if kink:
        assert at_zero.item() == -math.inf
        assert kernel.slope(rows(2), rows(2)).diagonal().tolist() == [0.0, 0.0]
    else:
        torch.testing.assert_close(at_zero, near, rtol=1e-6, atol=0)
        expected = (-at_zero / 0.7**2).expand(2)
        torch.testing.assert_close(kernel.slope(rows(2), rows(2)).diagonal(), expected)


def test_a_radial_kernel_of_ones_own_needs_a_profile_only():
    class Cauchy(RadialKernel):
        def profile(self, u):
            return 1 / (1 + u.square_())

    class Sloped(Cauchy):
        def profile_slope(self, u):
            return -2 / (1 + u.square_()).square_()

    X, Y = rows(4), rows(3, seed=1)
    assert_same(
        Cauchy(LENGTHS)(X, Y),
        1 / (1 + torch.cdist(X / torch.tensor(LENGTHS), Y / torch.tensor(LENGTHS)) ** 2),
    )
    with refuses(TypeError, "Cauchy(lengthscale=1.0)", "derivative"):
        Cauchy(1.0).slope(X, Y)
    R = Sloped(0.5).slope(X, Y)
    y = Y.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((1 / (1 + ((X[0] - y[0]) / 0.5).square().sum())), y)
    torch.testing.assert_close(R[0, 0] * (X[0] - Y[0]), gradient[0])


@pytest.mark.parametrize("name", named(Kernel))
def test_products_over_coordinates_are_declared(name):
    for kernel in (named(Kernel)[name](), Laplacian(norm=1)):
        for _, term in kernel.product_terms() or []:
            assert isinstance(term, CoordinateProduct)
    with refuses(TypeError, "norm=1"):
        Laplacian(1.0, norm=2).coordinate_product([0], torch.zeros(1, 1), torch.zeros(1, 1), [0.0])
