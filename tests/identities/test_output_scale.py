"""The scale of the output: what each promises, and that nothing but the scale changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

from krepes import KernelEmbedding, load
from krepes.explain import attribution
from krepes.features.task import SCALES, Spread
from krepes.kernels import ArcCosine, Gaussian, Laplacian, Linear, Polynomial
from krepes.losses import BarlowTwins, KernelPCA, Loss, SimCLR, SpectralContrastive, VICReg, as_loss
from krepes.losses.batch import Batch
from krepes.views import Tabular
from refusals import refuses

X = load_digits().data[:400] / 16
SMALL = {"n_components": 6, "n_landmarks": 60, "random_state": 0, "dtype": "float64"}
LOSSES = [
    *("kernel_pca", "simple_contrastive", "spectral_contrastive", "barlow_twins", "vicreg"),
    BarlowTwins(redundancy=1.0, normalize=False),
    VICReg(variance="quadratic"),
]


def fitted(loss: object = "spectral_contrastive", **given: object) -> KernelEmbedding:
    return KernelEmbedding(**{**SMALL, "loss": loss, **given}).fit(X)


def directions(model: KernelEmbedding) -> torch.Tensor:
    """W, from A = F W and W^T W = A^T K_mm A."""
    K = model.kernel_(model.landmarks_).double()
    A = torch.from_numpy(model.coefficients_)
    return A.mT @ K @ A


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_components_have_norm_one_in_the_kernels_space(loss):
    gram = directions(fitted(loss, scale="kernel"))
    torch.testing.assert_close(gram.diagonal(), torch.ones(len(gram)).double(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_orthonormal_components(loss):
    gram = directions(fitted(loss, scale="orthonormal"))
    torch.testing.assert_close(gram, torch.eye(len(gram)).double(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_unit_variance_over_the_views(loss):
    model = fitted(loss, scale="unit")
    W = torch.linalg.lstsq(model.features_.F, torch.from_numpy(model.coefficients_)).solution
    variance = (W.mT @ model.moments_.covariance @ W).diagonal()
    torch.testing.assert_close(variance, torch.ones(len(variance)).double(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("scale", ["kernel", "unit"])
def test_principal_axes_come_in_order(scale):
    """W^T S W is diagonal, largest first, where the loss does not fix a basis."""
    model = fitted("kernel_pca", scale=scale)
    Z = model.transform(X)
    C = np.cov(Z.T, bias=True)
    assert np.abs(C - np.diag(C.diagonal())).max() <= 1e-8 * C.max()
    if scale == "kernel":
        assert (np.diff(C.diagonal()) <= 1e-10).all()


@pytest.mark.parametrize("loss", ["barlow_twins", "vicreg"])
def test_a_loss_that_fixes_its_basis_keeps_it(loss):
    """Every output component is a multiple of one of the loss's."""
    by_loss, scaled = (fitted(loss, scale=scale).transform(X) for scale in ("loss", "kernel"))
    ratios = scaled.std(0) / by_loss.std(0)
    np.testing.assert_allclose(scaled, by_loss * ratios, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_span_is_the_same_at_every_scale(loss):
    model = fitted(loss)
    first = model.rescaled("loss").transform(X)
    for scale in SCALES:
        Z = model.rescaled(scale).transform(X)
        change, *_ = np.linalg.lstsq(first, Z, rcond=None)
        np.testing.assert_allclose(first @ change, Z, rtol=1e-6, atol=1e-7 * np.abs(Z).max())


def test_ridge_on_orthonormal_components_is_kernel_ridge_within_their_span():
    """min |y - Z b|^2 + a |b|^2 over b is that over f in the span, with |f|^2 in the kernel's space."""
    rng = np.random.default_rng(0)
    y, model = rng.normal(size=len(X)), fitted(scale="orthonormal")
    by_components = (
        Ridge(alpha=0.3, fit_intercept=False).fit(model.transform(X), y).predict(model.transform(X))
    )
    # The same problem in another basis of the span, penalised by its Gram matrix in the kernel's space.
    other = model.rescaled("loss")
    Z, gram = other.transform(X), directions(other).numpy()
    by_kernel = Z @ np.linalg.solve(Z.T @ Z + 0.3 * gram, Z.T @ y)
    np.testing.assert_allclose(by_components, by_kernel, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", ["kernel_pca", "spectral_contrastive"])
def test_with_all_components_every_loss_gives_the_features_up_to_rotation(loss):
    model = fitted(loss, n_components=60, regularization=0.0, scale="orthonormal", feature_noise=0.0)
    Z = model.transform(X) - model.intercept_
    Phi = model.features_(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(Z @ Z.T, Phi @ Phi.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", SCALES)
def test_refits_files_merges_and_explanations_agree(scale, tmp_path):
    model = fitted(scale=scale)
    Z = model.transform(X)
    np.testing.assert_allclose(model.rescaled("loss").rescaled(scale).transform(X), Z, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        fitted(scale="unit").refit(scale=scale).transform(X), Z, rtol=1e-10, atol=1e-12
    )
    model.save(tmp_path / "m.krepes")
    np.testing.assert_allclose(load(tmp_path / "m.krepes").transform(X), Z, rtol=1e-10, atol=1e-12)
    model.save(tmp_path / "small.krepes", moments=False)
    small = load(tmp_path / "small.krepes")
    np.testing.assert_allclose(
        small.rescaled("unit").transform(X), model.rescaled("unit").transform(X), rtol=1e-8
    )
    parts = model.empty_copy().partial_fit(X[:200])
    parts.merge(model.empty_copy().partial_fit(X[200:], first_row=200))
    np.testing.assert_allclose(np.abs(parts.transform(X)), np.abs(Z), rtol=1e-5, atol=1e-7 * np.abs(Z).max())
    direction = np.arange(1.0, Z.shape[1] + 1)
    shares = attribution(model, X[:5], direction)
    np.testing.assert_allclose(shares.sum(1) + model.intercept_ @ direction, Z[:5] @ direction, rtol=1e-8)


def test_models_trained_on_samples_have_all_scales(tmp_path):
    model = KernelEmbedding(**SMALL, loss=SimCLR()).set_params(solver__max_epochs=2).fit(X)
    gram = directions(model)
    torch.testing.assert_close(gram.diagonal(), torch.ones(len(gram)).double(), rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "m.krepes")
    for scale in SCALES:
        mine, theirs = (each.rescaled(scale).transform(X) for each in (model, load(tmp_path / "m.krepes")))
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(LOSSES), st.integers(0, 2**31))
def test_rotation_invariant_losses_are(loss, seed):
    """What a loss declares of itself, on random embeddings and rotations."""
    loss, generator = as_loss(loss), torch.Generator().manual_seed(seed)
    Z = [
        torch.randn(30, 4, generator=generator, dtype=torch.float64) for _ in range(max(2, loss.views_needed))
    ]
    Q = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=torch.float64))[0]
    phi_norm_sq = torch.full((30,), 10.0, dtype=torch.float64)
    values = [
        sum(loss.terms(Batch(tuple(each), phi_norm_sq=phi_norm_sq, gram=gram)).values()).item()
        for each, gram in ((Z, torch.eye(4).double()), ([z @ Q for z in Z], torch.eye(4).double()))
    ]
    if loss.rotation_invariant:
        assert values[1] == pytest.approx(values[0], rel=1e-9, abs=1e-12)


def test_declared_or_not():
    invariant = {str(as_loss(loss)): as_loss(loss).rotation_invariant for loss in LOSSES}
    assert [name for name, yes in invariant.items() if not yes] == ["BarlowTwins()", "VICReg()"]
    assert not Loss.rotation_invariant.fget(KernelPCA())  # unknown ones keep their basis


@pytest.mark.parametrize(("wrong", "error"), [("wide", ValueError), (None, ValueError), (2.0, ValueError)])
def test_unknown_scales_are_refused(wrong, error):
    with refuses(error, "'kernel'"):
        fitted(scale=wrong)
    with refuses(error, "'kernel'"):
        fitted().rescaled(wrong)


def test_constant_components_are_not_blown_up():
    zeros = torch.zeros(2, 2, dtype=torch.float64)
    spread = Spread(zeros, zeros[0], zeros)
    for scale in SCALES:
        change = spread.change(scale, SpectralContrastive())
        assert change is None or torch.isfinite(change).all()


# What strengths are relative to


# Losses of the features' own size: of W with W^T W = I they take the directions, not the size.
OF_FEATURES = ("kernel_pca", "simple_contrastive")


@settings(max_examples=30)
@given(
    st.floats(-6, 6).map(lambda exponent: 10.0**exponent),
    st.sampled_from([*OF_FEATURES, "spectral_contrastive", "barlow_twins", "vicreg"]),
    st.sampled_from(SCALES),
)
def test_the_kernels_scale_does_not_matter(factor, loss, scale):
    """k -> c k: the representation is the same up to the factor sqrt(c) of the features, or none, by the scale."""
    one, other = (
        fitted(loss, kernel=kernel, scale=scale).transform(X)
        for kernel in (Gaussian(2.0), factor * Gaussian(2.0))
    )
    grows = scale in ("kernel", "orthonormal") or (scale == "loss" and loss in OF_FEATURES)
    other = other / factor**0.5 if grows else other
    # A descent stops near its minimum, by other roundings at another place.
    allowed = 0.02 if loss in ("barlow_twins", "vicreg") else 1e-6
    assert np.linalg.norm(other @ other.T - one @ one.T) <= allowed * np.linalg.norm(one @ one.T)


@settings(max_examples=20)
@given(
    st.sampled_from([*OF_FEATURES, "spectral_contrastive", "vicreg"]),
    st.sampled_from([Gaussian(2.0), Laplacian(3.0), Linear(), Polynomial(degree=2)]),
    st.integers(20, 120),
    st.integers(0, 2**31 - 1),
)
def test_precision_does_not_change_the_model(loss, kernel, n_landmarks, seed):
    """float32 is float64 up to its rounding, which the closed forms and the number of features do not blow up."""
    given = {"kernel": kernel, "n_landmarks": n_landmarks, "random_state": seed, "scale": "unit"}
    # As points, because landmarks that are drawn by nearly equal weights may differ by rounding.
    points = X[np.random.default_rng(seed).choice(len(X), n_landmarks, replace=False)]
    one, other = (fitted(loss, **given, landmarks=points, dtype=dtype) for dtype in ("float64", "float32"))
    assert one.moments_.variance == pytest.approx(other.moments_.variance, rel=1e-4)
    Z, W = (each.transform(X) - each.transform(X).mean(0) for each in (one, other))
    assert W.dtype == np.float32
    change, *_ = np.linalg.lstsq(W.astype(np.float64), Z, rcond=None)
    assert np.linalg.norm(W @ change - Z) <= 0.02 * np.linalg.norm(Z)


@settings(max_examples=20)
@given(
    st.sampled_from([*OF_FEATURES, "spectral_contrastive", "barlow_twins", "vicreg"]),
    st.sampled_from([Gaussian(2.0), Laplacian(3.0), Gaussian(1.0) + Linear(), ArcCosine()]),
    st.lists(st.integers(10, 200), min_size=2, max_size=3),
    st.integers(0, 2**31 - 1),
)
def test_strengths_do_not_depend_on_the_number_of_landmarks(loss, kernel, sizes, seed):
    """lambda and noise are shares of v = mean k(x, x) - |mu|^2, of which landmarks approximate mu alone.

    Where they span the mean, v is that of the data, which a naive sum over all pairs of rows gives.
    """
    K = kernel(torch.from_numpy(X)).double()
    variance = (K.diagonal().mean() - K.mean()).item()
    for m in sizes:
        model = fitted(loss, kernel=kernel, n_landmarks=m, random_state=seed, views=Tabular(noise=1e-9))
        spanned = model.features_(torch.from_numpy(X)).double().mean(0).square().sum().item()
        assert model.moments_.variance == pytest.approx(K.diagonal().mean().item() - spanned, rel=1e-5)
        assert model.moments_.variance >= variance * (1 - 1e-6)  # a projection shortens mu
        assert model.moments_.variance <= variance * (1.05 if m >= 40 else 1.2)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplacian(3.0)], ids=str)
def test_precision_and_landmarks_do_not_change_the_strength(kernel):
    """M2: lambda was relative to tr(S) / r, and fell with every landmark."""
    variances = [
        fitted("kernel_pca", kernel=kernel, n_landmarks=m, dtype=dtype).moments_.variance
        for m in (50, 100, 200)
        for dtype in ("float32", "float64")
    ]
    np.testing.assert_allclose(variances, variances[-1], rtol=2e-2)


def test_deviations_of_digits_do_not_depend_on_the_precision():
    """M2: deviation of component 16 at m = 200: 0.512 in float32, 0.559 in float64; at 800: 0.567, 0.836."""
    digits = load_digits().data
    for m in (50, 200, 800):
        one, other = (
            KernelEmbedding(
                16, kernel=Gaussian(10.0), n_landmarks=m, scale="loss", dtype=dtype, random_state=0
            ).fit(digits)
            for dtype in ("float32", "float64")
        )
        assert one.moments_.variance == pytest.approx(other.moments_.variance, rel=1e-6)
        np.testing.assert_allclose(one.transform(digits).std(0), other.transform(digits).std(0), rtol=1e-3)


@pytest.mark.parametrize("loss", ["kernel_pca", "vicreg"])
def test_columns_at_a_mean_of_100(loss):
    """M1: kernel PCA raised a ValueError, and the deviations of VICReg were 0.008."""
    rows = np.random.default_rng(0).normal(size=(1500, 5))
    model = KernelEmbedding(4, kernel="linear", loss=loss, n_landmarks=100, random_state=0)
    plain = model.fit(rows).transform(rows).std(0)
    moved = model.fit(rows + 100).transform(rows + 100).std(0)
    np.testing.assert_allclose(np.sort(moved), np.sort(plain), rtol=0.03)
    assert (moved > 0.95).all()


def test_a_mean_does_not_change_kernel_pca():
    """M1: lambda and noise came from the uncentred trace, and columns with a mean lost their variance."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 5))
    kernel = {
        "kernel": Linear(),
        "loss": "kernel_pca",
        "n_landmarks": 100,
        "random_state": 0,
        "dtype": "float64",
    }
    plain = KernelEmbedding(4, **kernel).fit(rows)
    for shift in (10.0, 100.0):
        moved = KernelEmbedding(4, **kernel).fit(rows + shift)
        np.testing.assert_allclose(
            moved.transform(rows + shift).std(0), plain.transform(rows).std(0), rtol=1e-4
        )
