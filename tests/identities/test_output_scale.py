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
from krepes.kernels import Gaussian, Laplacian, Linear
from krepes.losses import BarlowTwins, KernelPCA, Loss, SimCLR, SpectralContrastive, VICReg, as_loss
from krepes.losses.batch import Batch
from krepes.solvers.output_scale import SCALES, Spread

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
    with pytest.raises(error, match="expected one of 'kernel'"):
        fitted(scale=wrong)
    with pytest.raises(error, match="expected one of 'kernel'"):
        fitted().rescaled(wrong)


def test_constant_components_are_not_blown_up():
    zeros = torch.zeros(2, 2, dtype=torch.float64)
    spread = Spread(zeros, zeros[0], zeros)
    for scale in SCALES:
        change = spread.change(scale, SpectralContrastive())
        assert change is None or torch.isfinite(change).all()


# What strengths are relative to


@settings(max_examples=12, deadline=None)
@given(st.floats(1e-6, 1e6), st.sampled_from(["kernel_pca", "spectral_contrastive"]))
def test_the_kernels_scale_does_not_matter(factor, loss):
    """k -> c k: the loss's own scale aside, the representation is the same."""
    one, other = (
        fitted(loss, kernel=kernel, scale="unit") for kernel in (Gaussian(2.0), factor * Gaussian(2.0))
    )
    assert one.n_components == other.n_components
    np.testing.assert_allclose(np.abs(one.transform(X)), np.abs(other.transform(X)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplacian(3.0)], ids=str)
def test_precision_and_landmarks_do_not_change_the_strength(kernel):
    """M2: lambda was relative to tr(S) / r, and fell with every landmark."""
    variances = [
        fitted("kernel_pca", kernel=kernel, n_landmarks=m, dtype=dtype).moments_.variance
        for m in (50, 100, 200)
        for dtype in ("float32", "float64")
    ]
    np.testing.assert_allclose(variances, variances[-1], rtol=2e-2)


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
