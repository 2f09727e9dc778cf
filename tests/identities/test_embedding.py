"""What a KernelEmbedding is equal to, and what it does not depend on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image as Picture
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as ExactKernelPCA

from faults import Interrupted
from krepes import KernelEmbedding, load
from krepes.base import linalg
from krepes.base.components import named
from krepes.engines import Local
from krepes.kernels import Gaussian, Linear
from krepes.losses import Loss
from krepes.solvers import choose_solver
from krepes.views import Image, Tabular
from refusals import refuses, warns_of

X = load_iris().data
SMALL = {"n_components": 3, "n_landmarks": 40, "random_state": 0, "dtype": "float64"}
MOMENT_LOSSES = sorted(name for name, loss in named(Loss).items() if choose_solver(loss()).data == "moments")


def same_up_to_signs(Z1: np.ndarray, Z2: np.ndarray, tolerance: float = 1e-8) -> bool:
    return np.abs(np.abs(Z1) - np.abs(Z2)).max() <= tolerance * np.abs(Z1).max()


def test_linear_kernel_pca_is_pca():
    """With the linear kernel and no regularization, the embedding is the principal component scores."""
    model = KernelEmbedding(
        3, kernel="linear", loss="kernel_pca", regularization=0, landmarks=np.arange(len(X)), dtype="float64"
    )
    assert same_up_to_signs(model.fit_transform(X), PCA(3).fit_transform(X))


def test_kernel_pca_with_all_landmarks_is_exact_kernel_pca():
    """With every row a landmark and no regularization, the embedding equals exact kernel PCA."""
    model = KernelEmbedding(
        3,
        kernel=Gaussian(1.5),
        loss="kernel_pca",
        regularization=0,
        landmarks=np.arange(len(X)),
        dtype="float64",
    )
    exact = ExactKernelPCA(3, kernel="rbf", gamma=1 / (2 * 1.5**2)).fit_transform(X)
    assert same_up_to_signs(model.fit_transform(X), exact, 1e-6)


@pytest.mark.parametrize("loss", MOMENT_LOSSES)
def test_transform_is_coefficients_times_kernel(loss):
    """f(x) = A^T k_x + gamma."""
    model = KernelEmbedding(loss=loss, **SMALL).fit(X)
    K = model.kernel_(torch.from_numpy(X), model.landmarks_).numpy()
    assert np.allclose(model.transform(X), K @ model.coefficients_ + model.intercept_)


@pytest.mark.parametrize("loss", MOMENT_LOSSES)
def test_merge_of_parts_is_the_whole(loss):
    whole = KernelEmbedding(loss=loss, **SMALL).fit(X)
    first = whole.empty_copy().partial_fit(X[:70])
    second = whole.empty_copy().partial_fit(X[70:], first_row=70)
    merged = first.merge(second)
    assert merged.n_samples_seen_ == len(X)
    assert torch.allclose(merged.moments_.S, whole.moments_.S, rtol=1e-12, atol=1e-14)
    if merged.solver_.name == "closed_form":
        assert np.allclose(merged.transform(X), whole.transform(X), atol=1e-6)
    else:  # descent: the value is what is determined; W may be rotated by rounding
        assert merged.history_[-1]["total"] == pytest.approx(whole.history_[-1]["total"], rel=1e-3)


def test_partial_fits_are_one_fit():
    whole = KernelEmbedding(**SMALL).fit(X)
    parts = whole.empty_copy()
    for start in range(0, len(X), 37):
        parts.partial_fit(X[start : start + 37])
    assert torch.allclose(parts.moments_.S_12, whole.moments_.S_12, rtol=1e-12, atol=1e-14)


def test_partial_fit_fixes_landmarks_and_defers_the_solve():
    model = KernelEmbedding(**SMALL).partial_fit(X[:100])
    landmarks = model.landmarks_.clone()
    before = model.coefficients_
    model.partial_fit(X[100:])
    assert model._solution is None
    assert torch.equal(model.landmarks_, landmarks)
    assert not np.array_equal(model.coefficients_, before)


@pytest.mark.parametrize("views", ["tabular", Tabular(n_views=4)])
def test_results_do_not_depend_on_block_size(views):
    whole = KernelEmbedding(views=views, **SMALL).fit(X)
    small = KernelEmbedding(views=views, **SMALL, engine=Local(16)).fit(X)
    assert torch.allclose(small.moments_.S_12, whole.moments_.S_12, rtol=1e-12, atol=1e-14)
    assert np.allclose(small.transform(X), whole.transform(X), atol=1e-6)


def test_a_resumed_pass_has_the_same_bits(tmp_path, monkeypatch):
    """A pass that is interrupted and resumed from its checkpoint equals one that was not."""
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    whole = KernelEmbedding(**SMALL, engine=Local(16)).fit(X)
    path, engine = tmp_path / "pass", Interrupted(at=7)
    with pytest.raises(KeyboardInterrupt):
        KernelEmbedding(**SMALL, engine=engine).fit(X, checkpoint=path)
    assert path.exists()
    resumed = KernelEmbedding(**SMALL, engine=engine).fit(X, checkpoint=path)
    assert engine.n_blocks == 7 + 10 - 4  # ten blocks; four were in the checkpoint
    assert torch.equal(resumed.moments_.S_12, whole.moments_.S_12)
    assert np.array_equal(resumed.coefficients_, whole.coefficients_)
    assert not path.exists()


def test_a_checkpoint_of_another_fit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    path = tmp_path / "pass"
    with pytest.raises(KeyboardInterrupt):
        KernelEmbedding(**SMALL, engine=Interrupted(at=7)).fit(X, checkpoint=path)
    with refuses(ValueError, "another fit"):
        KernelEmbedding(**{**SMALL, "random_state": 1}, engine=Local(16)).fit(X, checkpoint=path)
    with refuses(ValueError, "random_state"):
        KernelEmbedding().fit(X, checkpoint=path)


@pytest.mark.parametrize("loss", MOMENT_LOSSES)
def test_refit_from_moments_is_a_fit(loss):
    base = KernelEmbedding(views="tabular", **SMALL).fit(X)
    refitted = base.refit(loss=loss, n_components=2, regularization=0.01)
    fitted = KernelEmbedding(
        2, loss=loss, regularization=0.01, views="tabular", n_landmarks=40, random_state=0, dtype="float64"
    ).fit(X)
    assert np.allclose(refitted.transform(X), fitted.transform(X), atol=1e-8)
    assert base.n_components == 3


def test_float32_and_float64_span_the_same_space(monkeypatch):
    """With the same relative cut and lambda > 0, precision does not change the subspace."""
    digits = load_digits().data / 16
    models = [
        KernelEmbedding(
            8, kernel=Gaussian(2.5), loss="spectral_contrastive", n_landmarks=200, dtype=dtype, random_state=0
        )
        for dtype in ("float32", "float64")
    ]
    monkeypatch.setitem(linalg.RELATIVE_CUT, torch.float64, linalg.RELATIVE_CUT[torch.float32])
    Z32, Z64 = (model.fit(digits).transform(digits) for model in models)
    assert np.degrees(subspace_angles(Z32, Z64)).max() < 0.1


@pytest.mark.parametrize("factor", [1e-3, 50.0])
def test_kernel_scale_does_not_matter(factor):
    """lambda is relative: a kernel multiplied by a constant gives the same subspace."""
    plain, scaled = (
        KernelEmbedding(kernel=kernel, loss="spectral_contrastive", **SMALL).fit_transform(X)
        for kernel in (Gaussian(1.5), factor * Gaussian(1.5))
    )
    assert np.degrees(subspace_angles(plain, scaled)).max() < 1e-3


def test_exact_views_are_ordered():
    """S - S_+ is positive semi-definite however few views were sampled."""
    model = KernelEmbedding(views=Tabular(noise=0.3, drop=0.2), **SMALL)
    model.fit(X[:20], space=replace(model.prepare(X[:20]), exact_views=True))
    gap = torch.linalg.eigvalsh(model.moments_.S - model.moments_.S_plus)
    assert gap.min() >= -1e-14


def test_exact_views_are_the_limit_of_many_views():
    """Averaged over many seeds, sampled S_+ agrees with the exact one within 4 standard errors."""
    exact = KernelEmbedding(views=Tabular(noise=0.3, drop=0.2), **SMALL)
    exact.fit(X, space=replace(exact.prepare(X), exact_views=True))
    draws = []
    for seed in range(60):
        sampled = clone(exact).fit(X, space=replace(exact.space_, seed=seed, exact_views=False))
        draws.append(sampled.moments_.S_plus)
    stack = torch.stack(draws)
    error = (stack.mean(0) - exact.moments_.S_plus).abs()
    standard_error = stack.std(0) / len(draws) ** 0.5
    # 4 standard errors hold for each of the entries separately; the few larger ones are within chance.
    assert (error <= 4 * standard_error + 1e-12).double().mean() > 0.999


def test_views_given_as_pairs_equal_views_drawn():
    """Drawn views passed as positives give the ordered moments of the same pairs."""
    drawn = KernelEmbedding(views=Tabular(noise=0.2, drop=0.0), **SMALL).fit(X)
    rows = torch.arange(len(X))
    Z1, Z2 = drawn.views_(torch.from_numpy(X), rows, drawn.seed_)
    given = KernelEmbedding(**{**SMALL}, landmarks=drawn.landmarks_, kernel=drawn.kernel_)
    given.fit(Z1, positives=Z2)
    drawn.fit(X, space=replace(drawn.space_, exact_views=False))
    assert torch.allclose(given.moments_.S_plus, drawn.moments_.S_plus, rtol=1e-10, atol=1e-12)


def test_images_flat_and_square_agree():
    images = load_digits().images[:300] / 16
    common = {
        "n_components": 4,
        "n_landmarks": 60,
        "random_state": 0,
        "dtype": "float64",
        "kernel": "gaussian",
    }
    square = KernelEmbedding(views=Image(), **common).fit_transform(images)
    flat = KernelEmbedding(views=Image(shape=(8, 8)), **common).fit_transform(images.reshape(300, 64))
    assert np.allclose(square, flat, atol=1e-8)


def test_integer_pixels_are_divided_by_255():
    pixels = (load_digits().images[:200] * 15.9).astype(np.uint8)
    common = {"n_components": 4, "n_landmarks": 60, "random_state": 0}
    assert np.allclose(
        KernelEmbedding(**common).fit_transform(pixels),
        KernelEmbedding(**common).fit_transform(pixels.astype(np.float32) / 255),
        atol=1e-4,
    )


def test_coverage_is_one_at_landmarks_and_small_far_away():
    model = KernelEmbedding(n_landmarks=40, n_components=3, random_state=0, dtype="float64").fit(X)
    assert np.allclose(model.coverage(model.landmarks_), 1, atol=1e-6)
    assert model.coverage(X.mean(0, keepdims=True) + 100)[0] < 1e-6
    assert np.all(model.residual(X) >= 0)


def test_linear_kernel_beyond_its_rank_warns():
    with warns_of(UserWarning, "n_components=10"):
        model = KernelEmbedding(10, kernel=Linear(), loss="kernel_pca", n_landmarks=50, random_state=0).fit(X)
    assert model.transform(X).shape[1] == model.coefficients_.shape[1] <= 4


def test_normalised_channels_have_mean_zero_and_unit_deviation(tmp_path):
    """preprocess="normalize" standardises each channel, for clean rows and views alike, and is saved."""
    images = np.random.default_rng(0).random((60, 5, 5, 3)) * np.array([1.0, 2.0, 5.0]) + 3
    model = KernelEmbedding(
        3, preprocess="normalize", n_landmarks=60, landmarks="uniform", dtype="float64"
    ).fit(images)
    pixels = model.landmarks_.reshape(-1, 3)
    assert torch.allclose(pixels.mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-10)
    assert torch.allclose(pixels.std(0, correction=0), torch.ones(3, dtype=torch.float64), atol=1e-10)
    model.save(tmp_path / "a.krepes")
    assert np.allclose(load(tmp_path / "a.krepes").transform(images), model.transform(images))


def test_a_folder_of_positives_comes_at_the_size_of_the_images(tmp_path):
    """Images of another size are brought to that of the images that they are paired with."""
    images = (load_digits().images[:30] * 15).astype(np.uint8)
    for name, size in (("anchors", 8), ("positives", 12)):
        (tmp_path / name).mkdir()
        for i, image in enumerate(images):
            Picture.fromarray(image).resize((size, size)).save(tmp_path / name / f"{i:02}.png")
    model = KernelEmbedding(2, n_landmarks=10, random_state=0)
    model.fit(tmp_path / "anchors", positives=str(tmp_path / "positives"))
    assert model.n_features_in_ == 64
    assert model.transform(tmp_path / "anchors").shape == (30, 2)
