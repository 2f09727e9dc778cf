"""Infinitely wide networks: the recursion by quadrature, values by hand, and wide finite networks."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy import integrate, special
from torch import nn

from kernel_oracles import matrix
from krepes.kernels import ArcCosine, InfiniteWidth
from krepes.networks import MLP
from krepes.networks.mlp import ScaledLinear
from labels import label
from refusals import refuses
from tolerances import TOLERANCE, assert_same

KERNELS = [
    InfiniteWidth(kind, activation, depth, *variances)
    for kind, activation, depth, variances in product(
        ("ntk", "nngp"), ("relu", "erf"), (1, 3), ((2.0, 0.0), (1.3, 0.4))
    )
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=label)


def rows(n: int, d: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def cdf(z):
    return (1 + math.erf(z / math.sqrt(2))) / 2


def pdf(z):
    return math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


# f, E[f(m + s g)], f', E[f'(m + s g)] with g standard normal: no formula of two variables
FUNCTIONS = {
    "relu": (
        lambda u: max(u, 0.0),
        lambda m, s: m * cdf(m / s) + s * pdf(m / s),
        lambda u: float(u > 0),
        lambda m, s: cdf(m / s),
    ),
    "erf": (
        math.erf,
        lambda m, s: math.erf(m / math.sqrt(1 + 2 * s**2)),
        lambda u: 2 / math.sqrt(math.pi) * math.exp(-(u**2)),
        lambda m, s: 2 / math.sqrt(math.pi * (1 + 2 * s**2)) * math.exp(-(m**2) / (1 + 2 * s**2)),
    ),
}


def expectation(f, f_mean, q, k, p):
    """E[f(u) f(v)] for variances q, p and covariance k: over u by quadrature, over v given u in closed form."""
    slope, rest = k / q, p - k**2 / q
    if rest > 1e-13 * p:
        given = lambda u: f(u) * f_mean(slope * u, math.sqrt(rest))  # noqa: E731
    else:
        given = lambda u: f(u) * f(slope * u)  # noqa: E731
    integrand = lambda z: given(math.sqrt(q) * z) * pdf(z)  # noqa: E731
    pieces = [(-12, 0), (0, 12)]
    return sum(integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-13, limit=200)[0] for a, b in pieces)


def recursion(x, y, kernel):
    """NNGP and NTK layer by layer from the 2 x 2 covariance of one pair."""
    f, f_mean, slope, slope_mean = FUNCTIONS[kernel.activation]
    s_w, s_b, d = kernel.weight_variance, kernel.bias_variance, len(x)
    q, k, p = (s_w * float(np.dot(a, b)) / d + s_b for a, b in ((x, x), (x, y), (y, y)))
    tangent = k
    for _ in range(kernel.depth):
        derivative = s_w * expectation(slope, slope_mean, q, k, p)
        q, k, p = (
            s_w * expectation(f, f_mean, *covariance) + s_b
            for covariance in ((q, q, q), (q, k, p), (p, p, p))
        )
        tangent = k + tangent * derivative
    return tangent if kernel.kind == "ntk" else k


@every_kernel
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_values_equal_the_recursion_by_quadrature(kernel, dtype):
    X, Y = rows(3, dtype=dtype), rows(2, seed=1, dtype=dtype)
    expected = matrix(lambda x, y: recursion(x, y, kernel), X, Y)
    difference = (kernel(X, Y).double() - expected).abs().max().item()
    assert difference <= max(1e-10, TOLERANCE[dtype]) * max(
        1.0, expected.abs().max().item()
    )  # quadrature: 1e-10


def test_relu_values_by_hand():
    """x = (1, 0), y = (0, 1), variances 2 and 0, d = 2: q = p = 1, K_0 = 0.

    K_1 = 2 / (2 pi); T_1 = K_1. Then cos t = 1/pi: K_2 = (sin t + (pi - t) cos t) / pi, T_2 = K_2 + T_1 (pi - t) / pi.
    """
    X = torch.eye(2, dtype=torch.float64)
    t = math.acos(1 / math.pi)
    second = (math.sin(t) + (math.pi - t) / math.pi) / math.pi
    for kind, depth, expected in [
        ("nngp", 1, 1 / math.pi),
        ("ntk", 1, 1 / math.pi),
        ("nngp", 2, second),
        ("ntk", 2, second + (math.pi - t) / math.pi**2),
    ]:
        assert InfiniteWidth(kind, depth=depth)(X)[0, 1].item() == pytest.approx(expected, rel=1e-14)


def test_erf_values_by_hand():
    """x = y = (1), variances 1 and 0: K_0 = 1, K_1 = 2/pi arcsin(2/3), T_1 = K_1 + 4/pi / sqrt(9 - 4)."""
    X = torch.ones(1, 1, dtype=torch.float64)
    gaussian_process = 2 / math.pi * math.asin(2 / 3)
    for kind, expected in [
        ("nngp", gaussian_process),
        ("ntk", gaussian_process + 4 / math.pi / math.sqrt(5)),
    ]:
        kernel = InfiniteWidth(kind, "erf", weight_variance=1.0)
        assert kernel(X).item() == pytest.approx(expected, rel=1e-14)
        assert kernel.diag(X).item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_relu_tangent_kernel_of_a_sample_with_itself_counts_the_layers(depth):
    """T_L(x, x) = (L + 1) 2 |x|^2 / d with the default variances: every layer contributes the same."""
    X = rows(4)
    expected = (depth + 1) * 2 * X.square().sum(1) / 3
    assert_same(InfiniteWidth(depth=depth).diag(X), expected)


@pytest.mark.parametrize("depth", [1, 4])
def test_nngp_of_relu_is_the_arc_cosine_kernel(depth):
    X = rows(9)
    assert_same(InfiniteWidth("nngp", depth=depth)(X) * 3 / 2, ArcCosine(depth=depth)(X))


def network_values(kernel, X, width, seed):
    """One finite network: the tangent kernel by explicit Jacobians, or the products of its outputs."""
    network = MLP(
        (width,) * kernel.depth, kernel.activation, "ntk", kernel.weight_variance, kernel.bias_variance
    )
    generator = torch.Generator().manual_seed(seed)
    module = network.build((X.shape[1],), generator)
    head = ScaledLinear(width, 1, kernel.weight_variance, kernel.bias_variance)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(generator=generator)
    scalar = nn.Sequential(module, head)
    jacobian = [
        torch.cat(
            [g.flatten() for g in torch.autograd.grad(scalar(x[None])[0, 0], list(scalar.parameters()))]
        )
        for x in X
    ]
    J = torch.stack(jacobian)
    return J @ J.T


@pytest.mark.parametrize(("activation", "bias_variance"), [("relu", 0.0), ("relu", 0.5), ("erf", 0.5)])
def test_tangent_kernels_of_wide_networks_average_to_it(activation, bias_variance):
    """Within 4 standard errors of 16 networks of width 2048, for two hidden layers."""
    kernel = InfiniteWidth("ntk", activation, depth=2, weight_variance=1.8, bias_variance=bias_variance)
    X = rows(3, d=4, seed=3, dtype=torch.float32)
    values = torch.stack([network_values(kernel, X, 2048, seed) for seed in range(16)]).double()
    error = values.std(0) / len(values) ** 0.5
    assert (error < 0.02 * kernel.diag(X).max()).all()  # the networks say something
    assert ((values.mean(0) - kernel(X.double())).abs() <= 4 * error).all()


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_outputs_of_wide_networks_have_its_covariance(activation):
    """The features of a wide network, E[f(u) f(v)] by their mean: s_w / width z.z + s_b is the NNGP."""
    kernel = InfiniteWidth("nngp", activation, depth=2, weight_variance=1.8, bias_variance=0.3)
    X = rows(3, d=4, seed=3, dtype=torch.float32)
    network = MLP((2048, 2048), activation, "standard", 1.8, 0.3)
    values = []
    with torch.no_grad():
        for seed in range(24):
            Z = network.build((4,), torch.Generator().manual_seed(seed))(X).double()
            values.append(1.8 * Z @ Z.T / 2048 + 0.3)
    values = torch.stack(values)
    error = values.std(0) / len(values) ** 0.5
    assert (error < 0.02 * kernel.diag(X).max()).all()
    assert ((values.mean(0) - kernel(X.double())).abs() <= 4 * error).all()


@every_kernel
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_float32_is_accurate_at_equal_and_opposite_directions(kernel, scale):
    """cos t = +-1, and almost: the derivative of arccos is infinite there.

    The erf kernel has 1 / sqrt(1 + 4q) for equal and for opposite directions: at opposite ones 2 - v is rounded, and
    the error is that of v times q.
    """
    X = scale * rows(6)
    near = X * (1 + 1e-7) + scale * 1e-5 * rows(6, seed=1)
    Y = torch.cat([X, -X, 2 * X, near, -near, torch.zeros(1, 3)]).float()
    exact = kernel(X.float().double(), Y.double())
    found = kernel(X.float(), Y)
    assert torch.isfinite(found).all()
    largest = (
        kernel.weight_variance * X.square().sum(1).max().item() / 3 if kernel.activation == "erf" else 0.0
    )
    allowed = 2e-5 + torch.finfo(torch.float32).eps * largest
    assert ((found.double() - exact).abs().max() / exact.abs().max()).item() <= allowed


@every_kernel
def test_positive_semidefinite_with_copies_and_opposites(kernel):
    X = rows(15)
    K = kernel(torch.cat([X, X[:4], -X[:4], 3 * X[:4], torch.zeros(1, 3)]))
    values = torch.linalg.eigvalsh(K)
    assert values[0] >= -1e-12 * values[-1]
    assert_same(K.diagonal(), kernel.diag(torch.cat([X, X[:4], -X[:4], 3 * X[:4], torch.zeros(1, 3)])))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kind": "tangent"}, ("ntk", "nngp")),
        ({"activation": "gelu"}, ("relu", "erf")),
        ({"depth": 0}, "integer"),
        ({"depth": 1.5}, "integer"),
        ({"weight_variance": 0.0}, ("number", "> 0")),
        ({"weight_variance": "auto"}, ("number", "> 0")),
        ({"bias_variance": -0.1}, ("0", "number")),
        ({"bias_variance": math.nan}, ("0", "number")),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    kernel = InfiniteWidth(**parameters)
    for use in (kernel, kernel.diag):
        with refuses(ValueError, message):
            use(rows(2))


def test_the_quadrature_agrees_with_a_known_moment():
    """E[erf(u)^2] = 2/pi arcsin(2q / (1 + 2q)), through scipy's error function."""
    direct = integrate.quad(lambda z: special.erf(1.5 * z) ** 2 * pdf(z), -12, 12, epsabs=0, epsrel=1e-12)[0]
    assert expectation(*FUNCTIONS["erf"][:2], 2.25, 2.25, 2.25) == pytest.approx(direct, rel=1e-10)
