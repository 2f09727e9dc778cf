"""Self-expression, its local covariance, the projections and the clusters: what they must equal."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import orthogonal_mp
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import clustering_oracles as oracles
import kernel_oracles
from krepes.base.components import named
from krepes.clustering import (
    Covariance,
    ElasticNet,
    Inverse,
    LeastSquares,
    MatchingPursuit,
    Precision,
    SubspaceClustering,
    within_share,
)
from krepes.clustering.affinity import (
    affinity,
    components,
    estimate_n_clusters,
    leading_eigenpairs,
    linked,
    relative_gap,
)
from krepes.clustering.self_expression import SPACES, DualExpression, PrimalExpression
from krepes.features import FeatureSpace
from krepes.kernels import Gaussian, Kernel, Laplacian, Linear, Matern, Polynomial
from labels import label
from refusals import refuses

EVERYTHING = slice(None)


def quadratic(x, y):
    return float(np.dot(x, y)) ** 2


def cubic(x, y):
    return kernel_oracles.polynomial(x, y, degree=3, offset=1.0, scale=0.5)


def gaussian(x, y):
    return kernel_oracles.gaussian(x, y, 0.9)


def matern(x, y):
    r = math.sqrt(3 * sum((x - y) ** 2)) / 1.1
    return (1 + r) * math.exp(-r)


# Kernel, its formula for one pair, and the formula of its gradient dk(x, y)/dy.
CASES = [
    (Polynomial(2, offset=0.0, scale=1.0), quadratic, lambda x, y: 2 * np.dot(x, y) * x),
    (Polynomial(3, offset=1.0, scale=0.5), cubic, lambda x, y: 1.5 * (0.5 * np.dot(x, y) + 1) ** 2 * x),
    (Linear(), lambda x, y: float(np.dot(x, y)), lambda x, y: x),
    (Gaussian(0.9), gaussian, lambda x, y: gaussian(x, y) * (x - y) / 0.9**2),
    (
        Matern(1.1, nu=1.5),
        matern,
        lambda x, y: 3 / 1.1**2 * math.exp(-math.sqrt(3 * sum((x - y) ** 2)) / 1.1) * (x - y),
    ),
]
every_case = pytest.mark.parametrize(
    ("kernel", "formula", "grad"), CASES, ids=[label(case[0]) for case in CASES]
)


def samples(n: int = 14, d: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def both_forms(kernel: Kernel, X: torch.Tensor, lam: float):
    return [DualExpression(kernel, X, lam), PrimalExpression(FeatureSpace.on(kernel, X), X, lam)]


def assert_relative(actual, expected, tolerance: float) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    worst = np.abs(actual - expected).max() / np.abs(expected).max()
    assert worst <= tolerance, f"relative difference {worst:.2g}"


@every_case
@pytest.mark.parametrize("lam", [0.01, 1.0])
def test_coefficients_equal_n_separate_solves(kernel, formula, grad, lam):
    """c_i = (K_-i + lam I)^-1 k_i for every i, from one factorisation; in both forms."""
    X = samples()
    expected = oracles.leave_one_out(formula, X.numpy(), lam)
    for expression in both_forms(kernel, X, lam):
        assert_relative(expression.coefficients(EVERYTHING), expected, 1e-8)
        assert_relative(expression.coefficients(torch.tensor([3, 9])), expected[[3, 9]], 1e-8)


@every_case
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("lam", [0.03, 1.0])
def test_local_covariance_equals_n_separate_solves(kernel, formula, grad, space, lam):
    """The mean of J_i^T J_i without a loop over samples; in both forms and in both spaces."""
    X = samples()
    expected = oracles.local_covariance(formula, grad, X.numpy(), lam, space)
    for expression in both_forms(kernel, X, lam):
        assert_relative(expression.local_covariance(space), expected, 1e-8)


def with_slopes() -> list[Kernel]:
    fitted = [cls() for name, cls in named(Kernel).items() if name != "empirical_ntk"]
    fitted += [
        Matern(nu=0.5),
        Matern(nu=2.5),
        Polynomial(1),
        Gaussian() * Matern(),
        Gaussian() + 2.0 * Laplacian(),
    ]
    return [kernel for kernel in fitted if kernel.geometry is not None]


@pytest.mark.parametrize("kernel", with_slopes(), ids=label)
def test_slopes_are_the_gradients_of_kernels(kernel):
    """Every kernel of |x - y| or of x.y, found by discovery: dk/dy = R (x - y) or R x, by finite differences."""
    X, Y = samples(5), samples(4, seed=1)
    kernel = kernel.fitted(torch.cat([X, Y]))
    R = kernel.slope(X, Y).numpy()
    for i, x in enumerate(X.numpy()):
        for j, y in enumerate(Y.numpy()):
            expected = oracles.gradient(lambda a, b: kernel(a[None], b[None]).item(), x, y)
            found = R[i, j] * (x - y if kernel.geometry == "radial" else x)
            assert np.abs(found - expected).max() <= 1e-7 * max(1, np.abs(expected).max())


def test_slopes_are_finite_where_samples_coincide():
    X = samples(3)
    for kernel in with_slopes():
        assert torch.isfinite(kernel.fitted(X).slope(X, X)).all()


def test_kernels_of_neither_kind_say_so():
    for kernel in (Gaussian([1.0, 2.0, 3.0]), Laplacian(1.0, norm=1), Gaussian(1.0) + Linear()):
        assert kernel.geometry is None
        with refuses(TypeError, "derivative"):
            kernel.slope(samples(2), samples(2))


def test_few_features_keep_the_primal_form_accurate():
    """Quadratic kernel, n > d(d+1)/2, lam = 1e-10: explicit features are the truth, the dual form loses digits."""
    X, lam = samples(40), 1e-10
    pairs = [(a, b) for a in range(3) for b in range(a, 3)]
    Phi = torch.stack([X[:, a] * X[:, b] * (1 if a == b else 2**0.5) for a, b in pairs], dim=1)
    H = Phi @ torch.linalg.solve(Phi.T @ Phi + lam * torch.eye(6), Phi.T)
    expected = (H / (1 - H.diagonal())[:, None]).fill_diagonal_(0)
    kernel = Polynomial(2, offset=0.0, scale=1.0)
    assert kernel.feature_count(3) == 6
    assert_relative(
        PrimalExpression(FeatureSpace.on(kernel, X[:12]), X, lam).coefficients(EVERYTHING), expected, 1e-8
    )
    dual = DualExpression(kernel, X, lam).coefficients(EVERYTHING)
    assert (dual - expected).abs().max() > 1e-8 * expected.abs().max()


def test_new_samples_are_expressed_by_all():
    """c(y) = (K + lam I)^-1 k_y  [zou, Eq. 4], in both forms."""
    X, Y, kernel = samples(), samples(3, seed=1), Gaussian(0.9)
    expected = torch.linalg.solve(kernel(X) + 0.1 * torch.eye(14), kernel(X, Y)).T
    for expression in both_forms(kernel, X, 0.1):
        assert_relative(expression.coefficients_of(Y), expected, 1e-8)


@pytest.mark.parametrize("rank", [4, 2])
def test_lemma_1(rank):
    """(S + lam)^(-1/2) S (S + lam)^(-1/2) -> I as lam -> 0, or to the projection on the range of a singular S."""
    G = samples(4, rank)
    S = G @ G.T
    U = torch.linalg.svd(G, full_matrices=False).U
    errors = []
    for lam in (1e-2, 1e-4, 1e-6):
        gains = Inverse(filter=lam, relative=False)
        D, V = torch.linalg.eigh(S)
        root = (V * gains.gains(D.clamp(min=0)).sqrt()) @ V.T
        errors.append((root @ S @ root - U @ U.T).abs().max().item())
    smallest = torch.linalg.eigvalsh(S)[4 - rank].item()
    for lam, error in zip((1e-2, 1e-4, 1e-6), errors):
        assert error <= 1.01 * lam / (lam + smallest) + 1e-9


def test_the_filter_is_a_band_pass():
    """D / (D + s)^2 is largest at D = s, about 1/D above and D/s^2 below; 1/(D + s) only decreases."""
    D, s = torch.logspace(0, -6, 121, dtype=torch.float64), 1e-3
    gains = Precision(filter=s).gains(D)
    assert D[gains.argmax()].item() == pytest.approx(s, rel=0.1)
    assert gains[0].item() == pytest.approx(1.0, rel=0.01)
    assert gains[-1].item() == pytest.approx(1e-6 / s**2, rel=0.01)
    assert (Inverse(filter=s).gains(D).diff() > 0).all()


def toy(kind: str, seed: int = 0, n: int = 40, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """The three subspaces of [zou, Sec. 5.1], which share e3, e4, e5; coefficients there are small."""
    rng = np.random.default_rng(seed)
    directions = np.array([[1, 1.3], [1.3, 1], [5.2 / 5**0.5, 1 / 5**0.5]])
    y = np.repeat(np.arange(3), n)
    t = rng.normal(size=3 * n) if kind == "two-sided" else rng.uniform(0.5, 1.5, 3 * n)
    return np.hstack([t[:, None] * directions[y], noise * rng.normal(size=(3 * n, 3))]), y


TOY = {
    "quadratic": (
        "two-sided",
        {"kernel": Polynomial(2, offset=0.0, scale=1.0), "projection": Precision(0.3)},
    ),
    "gaussian": ("one-sided", {"kernel": Gaussian(0.3), "projection": Precision(0.3)}),
}


@pytest.mark.parametrize("name", TOY)
def test_the_toy_becomes_block_diagonal(name):
    """[zou, Sec. 5.1]: the share of the affinity within clusters rises, and the clusters are found."""
    kind, parameters = TOY[name]
    X, y = toy(kind)
    common = {"truncation": None, "random_state": 0, "selection": "last"} | parameters
    before = SubspaceClustering(3, **common, n_iterations=0).fit(X)
    after = SubspaceClustering(3, **common, n_iterations=8).fit(X)
    share_before, share_after = (within_share(model.affinity_matrix_, y) for model in (before, after))
    assert share_before < 0.9 < share_after
    assert normalized_mutual_info_score(y, after.labels_) == pytest.approx(1.0)


def subspaces(n: int = 40, d: int = 12, k: int = 3, dim: int = 3, seed: int = 0, noise: float = 0.01):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(k), n)
    bases = rng.normal(size=(k, dim, d))
    X = np.einsum("na,nad->nd", rng.normal(size=(k * n, dim)), bases[y])
    return X + noise * rng.normal(size=X.shape), y


POLYNOMIAL = Polynomial(2, offset=0.0)


@pytest.mark.parametrize("kernel", [POLYNOMIAL, "auto"], ids=label)
def test_clusters_do_not_depend_on_order_or_rotation(kernel):
    """Permuted rows give permuted clusters; rotated data give the same."""
    X, y = subspaces()
    coding = "ridge"  # one method, not the family
    model = SubspaceClustering(3, kernel=kernel, coding=coding, n_iterations=3, random_state=0)
    labels = model.fit_predict(X)
    if kernel == POLYNOMIAL:
        assert adjusted_rand_score(y, labels) > 0.95
    order = np.random.default_rng(1).permutation(len(X))
    assert adjusted_rand_score(model.fit_predict(X[order]), labels[order]) == pytest.approx(1.0)
    gaps = [entry["gap"] for entry in model.history_]
    Q = np.linalg.qr(np.random.default_rng(2).normal(size=(12, 12)))[0]
    assert adjusted_rand_score(model.fit_predict(X @ Q), labels) == pytest.approx(1.0)
    assert np.allclose(gaps, [entry["gap"] for entry in model.history_], atol=1e-6)


def test_more_features_than_rows_are_the_same_problem():
    """Padding the features with zeros and rotating them (d > n, the thin basis) changes nothing."""
    X, _ = subspaces(n=20, d=8)
    one = {"coding": "ridge", "n_iterations": 2, "random_state": 0}
    model = SubspaceClustering(3, **one).fit(X)
    Q = np.linalg.qr(np.random.default_rng(2).normal(size=(90, 90)))[0]
    wide = SubspaceClustering(3, **one).fit(X @ Q[:8])
    assert wide.projection_.shape[0] == 90
    assert adjusted_rand_score(wide.labels_, model.labels_) == pytest.approx(1.0)
    assert_relative(wide.affinity_matrix_.toarray(), model.affinity_matrix_.toarray(), 1e-8)


@pytest.mark.parametrize("projection", [Precision(), Covariance()], ids=label)
def test_the_projection_maps_new_rows_as_the_training_rows(projection):
    X, _ = subspaces()
    model = SubspaceClustering(
        3, projection=projection, selection="last", n_iterations=3, random_state=0
    ).fit(X)
    assert model.n_iter_ == 3
    assert_relative(model.project(X), model._kept.X.numpy(), 1e-8)
    assert adjusted_rand_score(model.predict(X), model.labels_) > 0.95


def test_without_projection_it_is_ktrr():
    """n_iterations = 0, projection = None: the truncated leave-one-out coefficients of the data as given."""
    X, _ = subspaces()
    model = SubspaceClustering(3, kernel=Gaussian(0.8), projection=None, truncation=4, random_state=0).fit(X)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    C = np.abs(oracles.leave_one_out(lambda x, y: kernel_oracles.gaussian(x, y, 0.8), unit, 1.0))
    C[np.sort(C, axis=1)[:, [-4]] > C] = 0
    C /= C.max(axis=1, keepdims=True)
    assert_relative(model.affinity_matrix_.toarray(), C + C.T, 1e-8)
    same = SubspaceClustering(3, kernel=Gaussian(0.8), n_iterations=0, truncation=4, random_state=0).fit(X)
    assert np.array_equal(same.labels_, model.labels_)


def test_the_iteration_with_the_largest_gap_is_kept():
    X, _ = subspaces(noise=0.2)
    model = SubspaceClustering(3, kernel=POLYNOMIAL, n_iterations=5, random_state=0).fit(X)
    gaps = [entry["gap"] for entry in model.history_]
    assert len(gaps) == 6
    assert model.n_iter_ == int(np.argmax(gaps))
    values, _ = leading_eigenpairs(model.affinity_matrix_, 4, np.random.default_rng(0))
    assert relative_gap(values, 3) == pytest.approx(max(gaps), abs=1e-8)


def test_landmarks_that_span_the_data_change_nothing():
    """The Nyström form with all rows as landmarks has the affinity and the metric of the n x n form."""
    X, _ = subspaces(n=20)
    common = {"n_iterations": 2, "selection": "last", "random_state": 0}
    dual = SubspaceClustering(3, n_landmarks=None, **common).fit(X)
    primal = SubspaceClustering(3, n_landmarks=60, **common).fit(X)
    assert_relative(primal.projection_, dual.projection_, 1e-6)
    assert_relative(primal.affinity_matrix_.toarray(), dual.affinity_matrix_.toarray(), 1e-5)


def test_the_number_of_clusters_is_estimated():
    X, y = subspaces(k=4, d=20)
    model = SubspaceClustering(kernel=POLYNOMIAL, random_state=0).fit(X)
    assert model.n_clusters_ == 4
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert estimate_n_clusters(np.array([1.0, 0.2, 0.1])) == 1


# --- baselines ---


def test_matching_pursuit_is_scikit_learns():
    X = samples(30, 8)
    C = MatchingPursuit(n_nonzero=3).rows(DualExpression(Linear(), X, 1.0))(EVERYTHING)
    unit = (X / X.norm(dim=1, keepdim=True)).numpy()
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i]
        expected = (
            orthogonal_mp(unit[others].T, X[i].numpy(), n_nonzero_coefs=3) / X[others].norm(dim=1).numpy()
        )
        assert np.allclose(C[i, others], expected, atol=1e-8)
        assert C[i, i] == 0


def test_elastic_net_meets_its_optimality_conditions():
    """|x_j . r - a (1 - rho) c_j| <= a rho, with equality and the sign of c_j where c_j != 0."""
    X, rho, strength = samples(20, 6), 0.9, 10.0
    coding = ElasticNet(l1_ratio=rho, strength=strength, max_iter=10_000)
    C = coding.rows(DualExpression(Linear(), X, 1.0))(EVERYTHING)
    for i in range(len(X)):
        others = torch.arange(len(X)) != i
        c, Y = C[i, others], X[others]
        a = (Y @ X[i]).abs().max() / (rho * strength)
        slack = Y @ (X[i] - c @ Y) - a * (1 - rho) * c
        assert (slack.abs() <= a * rho * 1.1).all()
        assert torch.allclose(slack[c != 0], a * rho * c[c != 0].sign(), rtol=0.1)


def test_least_squares_minimises_its_objective():
    """LSR against a linear solve per row."""
    X, lam = samples(12, 5), 0.3
    one = LeastSquares(lam).rows(DualExpression(Linear(), X, 1.0))(EVERYTHING)
    assert_relative(one, oracles.leave_one_out(lambda x, y: float(np.dot(x, y)), X.numpy(), lam), 1e-8)


@pytest.mark.parametrize("coding", ["least_squares", "matching_pursuit", "elastic_net"])
def test_baselines_find_separate_subspaces(coding):
    X, y = subspaces(noise=0.0, d=20)
    model = SubspaceClustering(3, coding=coding, projection=None, random_state=0)
    assert adjusted_rand_score(y, model.fit_predict(X)) > 0.95


# --- affinity and spectral step ---


def test_blocks_of_rows_make_the_same_affinity(monkeypatch):
    import krepes.clustering.affinity as module

    expression = DualExpression(Gaussian(1.0), samples(200), 1.0)
    whole = affinity(expression.coefficients, 200, 5)
    monkeypatch.setattr(module, "rows_within", lambda *_: 7)
    assert abs(affinity(expression.coefficients, 200, 5) - whole).max() == 0


def test_stray_components_are_linked_by_their_strongest_coefficient():
    C = torch.tensor([[0, 1, 0.1, 0], [1, 0, 0, 0], [0.3, 0, 0, 1], [0, 0, 1, 0]], dtype=torch.float64)
    W = affinity(lambda rows: C[rows], 4, 1)
    assert components(W)[0] == 2
    joined = linked(W, lambda rows: C[rows], 1)
    assert components(joined)[0] == 1
    assert joined[0, 2] == pytest.approx(0.1) or joined[2, 0] == pytest.approx(0.3)
    assert abs(linked(W, lambda rows: C[rows], 2) - W).max() == 0


def test_separate_components_are_the_clusters():
    """A gap of 1, and labels that are the components, whatever their sizes."""
    W = np.kron(np.diag([1.0, 1.0, 1.0]), np.ones((5, 5)))
    values, _ = leading_eigenpairs(W, 4, np.random.default_rng(0))
    assert relative_gap(values, 3) == pytest.approx(1.0)
    assert estimate_n_clusters(values) == 3


@pytest.mark.parametrize("rank", [6, 4], ids=["positive definite", "of rank 4"])
def test_lemma_1_the_precision_matrix_makes_what_is_kept_isotropic(rank):
    """[zou, Lemma 1]: (Sigma + s I)^(-1/2) Sigma (Sigma + s I)^(-1/2) tends to the projector on Sigma's range.

    That is I where Sigma is positive definite. The lemma's covariance is the transpose of the true one, J P J^T for a
    map with the Jacobian J and Sigma = J^T J; both have the same eigenvalues, D / (D + s).
    """
    rng = np.random.default_rng(0)
    J = torch.from_numpy(rng.normal(size=(6, rank)) @ rng.normal(size=(rank, 6)))
    Sigma = J.mT @ J
    D, U = torch.linalg.eigh(Sigma)
    range_of = U[:, -rank:] @ U[:, -rank:].mT
    for s in (1e-2, 1e-4, 1e-6):
        projection = Inverse(filter=s, relative=False)
        root = projection.root(Sigma) * projection.gains(D.flip(0).clamp(min=0)).max().sqrt()
        ours = root @ Sigma @ root
        smallest = D[-rank].item()
        torch.testing.assert_close(ours, range_of, atol=1.5 * s / smallest + 1e-7, rtol=0)
        true = J @ root @ root @ J.mT
        torch.testing.assert_close(
            torch.linalg.eigvalsh(true), torch.linalg.eigvalsh(ours), atol=1e-8, rtol=0
        )
