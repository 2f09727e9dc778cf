"""Nyström features: exact where landmarks span the data, isometric to the RKHS, cut where they are noise."""

from __future__ import annotations

import warnings

import pytest
import torch

from krepes.base.linalg import RELATIVE_CUT
from krepes.kernels import ArcCosine, Custom, Gaussian, Laplacian, Linear, Matern, Polynomial, Sigmoid
from krepes.landmarks.nystrom import NystromMap
from labels import label
from refusals import refuses, warns_of
from tolerances import TOLERANCE, assert_same

KERNELS = [
    Gaussian(1.0),
    Laplacian(1.0),
    Laplacian(1.0, norm=1),
    Matern(1.0),
    Linear(),
    Polynomial(2, 1.0, 0.2),
    ArcCosine(),
    Gaussian(1.0) + 2.0 * Linear(),
]


def rows(n: int, d: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("kernel", KERNELS, ids=label)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_with_all_points_as_landmarks_the_kernel_is_reproduced(kernel, dtype):
    """Phi Phi^T = K up to the eigenvalues that were cut: their sum is what is missing from the trace."""
    X = rows(60, dtype=dtype)
    features = NystromMap(kernel, X, dtype)
    Phi = features(X)
    K = kernel(X.double())
    assert Phi.dtype == dtype
    assert Phi.shape == (60, features.rank)
    # What is cut is positive semi-definite with eigenvalues <= cut * largest, so are its entries. Rounding
    # of k_x enters phi divided by the square root of the smallest eigenvalue kept.
    allowed = 2 * RELATIVE_CUT[dtype] * features.eigenvalues[0] + 100 * TOLERANCE[dtype] * K.abs().max()
    assert (Phi.double() @ Phi.double().T - K).abs().max() <= allowed


@pytest.mark.parametrize("kernel", KERNELS, ids=label)
def test_features_project_onto_the_span_of_the_landmarks(kernel):
    """<phi(x), phi(y)> = k_x^T K_mm^+ k_y."""
    X, L = rows(20), rows(8, seed=1)
    Phi = NystromMap(kernel, L, torch.float64)(X)
    K_nm = kernel(X, L)
    expected = K_nm @ torch.linalg.pinv(kernel(L), rcond=1e-12, hermitian=True) @ K_nm.T
    assert (Phi @ Phi.T - expected).abs().max() <= 1e-9 * expected.abs().max()


@pytest.mark.parametrize("cut", [1e-12, 1e-6, 1e-3, 0.5])
def test_truncation_is_relative(cut):
    """r counts the eigenvalues above cut * largest, whatever the scale of the kernel."""
    L = rows(50)
    values = torch.linalg.eigvalsh(Gaussian(2.0)(L))
    expected = int((values > cut * values[-1]).sum())
    for factor in (1e-8, 1.0, 1e8):
        features = NystromMap(factor * Gaussian(2.0), L, torch.float64, cut=cut)
        assert features.rank == expected == len(features.eigenvalues) == features.F.shape[1]
    assert 1 <= expected < 50 or cut == 1e-12


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Gaussian(5.0), Matern(3.0, nu=2.5)], ids=label)
@pytest.mark.parametrize("cut", [1e-6, 1e-5, 1e-4])
def test_the_rank_is_the_same_in_float32_and_float64(kernel, cut):
    L = rows(150)
    ranks = [NystromMap(kernel, L.to(dtype), dtype, cut=cut).rank for dtype in TOLERANCE]
    assert ranks[0] == ranks[1] < 150


def test_the_same_cut_gives_float32_the_float64_features():
    L, X = rows(100), rows(50, seed=1)
    Phi64 = NystromMap(Gaussian(2.0), L, torch.float64, cut=1e-6)(X)
    Phi32 = NystromMap(Gaussian(2.0), L.float(), torch.float32, cut=1e-6)(X.float())
    assert_same(Phi32 @ Phi32.T, Phi64 @ Phi64.T, torch.float32)


@pytest.mark.parametrize("kernel", KERNELS, ids=label)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_residual_and_coverage_are_in_range_and_exact_at_landmarks(kernel, dtype):
    X, L = rows(200, dtype=dtype), rows(30, seed=1, dtype=dtype)
    features = NystromMap(kernel, L, dtype)
    residual, coverage, total = features.residual(X), features.coverage(X), kernel.diag(X).double()
    assert ((residual >= 0) & (residual <= total * (1 + TOLERANCE[dtype]))).all()
    assert ((coverage >= 0) & (coverage <= 1)).all()
    assert_same(residual.double(), total * (1 - coverage), dtype)
    spanned = 30 * RELATIVE_CUT[dtype] * kernel.diag(L).max() + 100 * TOLERANCE[dtype] * kernel.diag(L).max()
    assert features.residual(L).max() <= spanned


def test_coverage_falls_away_from_the_landmarks():
    features = NystromMap(Gaussian(1.0), rows(30))
    line = torch.linspace(0, 20, 50)[:, None] * torch.ones(1, 3)
    coverage = features.coverage(line)
    assert coverage[0] > 0.9
    assert coverage[-1] < 1e-6


def test_coverage_of_a_point_without_norm_is_one():
    assert NystromMap(Linear(), rows(5)).coverage(torch.zeros(1, 3)).item() == 1.0


@pytest.mark.parametrize("kernel", KERNELS, ids=label)
def test_the_norm_in_the_rkhs_is_that_of_W(kernel):
    """Tr(A^T K_mm A) = |W|^2 with A = F W, and f(x) = A^T k_x = W^T phi(x)."""
    L, X = rows(40), rows(10, seed=1)
    features = NystromMap(kernel, L, torch.float64)
    W = rows(features.rank, 4, seed=2)
    A = features.coefficients(W)
    assert A.shape == (40, 4)
    assert (A.T @ kernel(L) @ A).trace().item() == pytest.approx(W.square().sum().item(), rel=1e-6)
    assert (kernel(X, L) @ A - features(X) @ W).abs().max() <= 1e-6


def test_principal_initialisation_is_that_of_the_paper():
    """A_0 = U_h diag(s_h)^(-1/2).  [krepes, 3.1]"""
    L = rows(20)
    features = NystromMap(Gaussian(1.0), L, torch.float64)
    A = features.coefficients(features.principal(3))
    values, vectors = torch.linalg.eigh(Gaussian(1.0)(L))
    U, s = vectors.flip(1)[:, :3], values.flip(0)[:3]
    assert_same(A @ A.T, (U / s) @ U.T)
    assert features.principal(1000).shape == (features.rank, features.rank)


def test_duplicate_landmarks_change_nothing():
    X, L = rows(30), rows(8, seed=1)
    once, twice = (NystromMap(Gaussian(1.0), points, torch.float64) for points in (L, torch.cat([L, L])))
    assert twice.rank == once.rank == 8
    assert_same(twice(X) @ twice(X).T, once(X) @ once(X).T)


def test_a_map_restored_from_its_factors_is_the_same():
    X, L = rows(10), rows(8, seed=1)
    fitted = NystromMap(Gaussian(1.0), L)
    restored = NystromMap.restored(fitted.kernel, L, fitted.dtype, (fitted.eigenvalues, fitted.F))
    assert torch.equal(restored(X), fitted(X))
    assert restored.n_landmarks == 8


def test_objects_have_features():
    words = ["abc", "bcd", "xyz", "abx"]
    kernel = Custom(lambda a, b: len(set(a) & set(b)), pairwise=True)
    Phi = NystromMap(kernel, words, torch.float64)(words)
    assert_same(Phi @ Phi.T, kernel(words))


def test_a_kernel_that_is_not_positive_warns_and_keeps_its_positive_part():
    L = rows(30)
    kernel = Sigmoid(scale=1.0, offset=-1.0)
    with warns_of(UserWarning, "positive semi-definite"):
        features = NystromMap(kernel, L, torch.float64)
    values, vectors = torch.linalg.eigh(kernel(L))
    positive = (vectors * values.clamp(min=0)) @ vectors.T
    Phi = features(L)
    assert_same(Phi @ Phi.T, positive)


def test_positive_kernels_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kernel in KERNELS:
            NystromMap(kernel, torch.cat([rows(40), rows(40)]))


def test_nothing_to_represent_is_an_error():
    with refuses(ValueError, "Linear()", "zero", "negative"):
        NystromMap(Linear(), torch.zeros(4, 2))
    with refuses(ValueError, "NaN"):
        NystromMap(Linear(), torch.full((4, 2), float("nan")))
