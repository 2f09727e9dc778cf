"""The bounds hold where the truth is known, and their parts are what the derivation says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from krepes import KernelAutoencoder, KernelEmbedding
from krepes.evaluation import autoencoder_bound, contrastive_bound, downstream_bound, reconstruction_bound
from krepes.evaluation.generalization import GeneralizationBound, _rounded_up
from krepes.kernels import Gaussian, Linear
from krepes.losses import SpectralContrastive
from refusals import refuses

CENTRES = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])


def drawn(n, rng):
    """n independent triplets of three classes; positives share the class, negatives are of an independent one."""
    own, other = rng.integers(3, size=(2, n))
    noise = 0.4 * rng.normal(size=(3, n, 2))
    return (CENTRES[own] + noise[0], CENTRES[own] + noise[1], CENTRES[other] + noise[2]), own, other


def fitted(loss, triplets, **parameters):
    X, P, N = triplets
    model = KernelEmbedding(
        2, kernel=Gaussian(1.0), loss=loss, n_landmarks=None, random_state=0, **parameters
    )
    return model.fit(X, positives=P, negatives=N)


def loss_of(model, triplets):
    Z, Zp, Zn = (model.rescaled("loss").transform(part) for part in triplets)
    aligned, apart = (Z * Zp).sum(1), (Z * Zn).sum(1)
    simple = model.loss_.name == "simple_contrastive"
    return float((apart - aligned if simple else apart**2 - 2 * aligned).mean())


@pytest.mark.parametrize("loss", ["simple_contrastive", SpectralContrastive("triplet")], ids=str)
def test_the_loss_on_new_triplets_is_below_the_bound(loss):
    """With delta = 0.2 it may fail once in five draws; it is loose, and never does in eight."""
    rng = np.random.default_rng(0)
    new, _, _ = drawn(4000, rng)
    strength = {} if isinstance(loss, str) else {"regularization": 0.5}
    for _ in range(8):
        triplets, _, _ = drawn(60, rng)
        model = fitted(loss, triplets, **strength)
        bound = contrastive_bound(model, *triplets, delta=0.2)
        assert bound.empirical == pytest.approx(loss_of(model, triplets), abs=1e-10)
        assert loss_of(model, new) < bound.total
        assert min(bound.complexity, bound.deviation) > 0


def test_complexity_bounds_the_mean_over_signs_of_the_supremum():
    """sup over |M|_F <= s of (1/n) sum_i sigma_i <M, phi_i d_i^T> is (s/n) (sigma^T (K * K_d) sigma)^(1/2)."""
    rng = np.random.default_rng(1)
    X, P, N = triplets = drawn(50, rng)[0]
    bound = contrastive_bound(fitted("simple_contrastive", triplets), *triplets)
    kernel = Gaussian(1.0)
    K, K_nn, K_pp, K_np = (
        kernel(torch.from_numpy(a), torch.from_numpy(b)).numpy() for a, b in ((X, X), (N, N), (P, P), (N, P))
    )
    sigma = rng.choice([-1.0, 1.0], size=(2000, 50))
    products = K * (K_nn + K_pp - K_np - K_np.T)
    suprema = math.sqrt(2) / 50 * np.sqrt(np.einsum("si,ij,sj->s", sigma, products, sigma))
    assert suprema.mean() <= bound.complexity / 2 <= 1.2 * suprema.mean()


def test_the_terms_fall_with_the_square_root_of_n_and_grow_with_confidence():
    rng = np.random.default_rng(2)
    few, many = (drawn(n, rng)[0] for n in (50, 200))
    bounds = [contrastive_bound(fitted("simple_contrastive", part), *part) for part in (few, many)]
    assert bounds[1].deviation == pytest.approx(bounds[0].deviation / 2)
    assert bounds[1].complexity == pytest.approx(bounds[0].complexity / 2, rel=0.2)
    surer = contrastive_bound(fitted("simple_contrastive", few), *few, delta=1e-3)
    assert surer.deviation > bounds[0].deviation
    assert surer.complexity == bounds[0].complexity


def test_rounding_up_gives_shares_that_sum_to_delta():
    """sum over j of delta / ((j + 1)(j + 2)) = delta, and the rounded norm is at most twice the norm, or the unit."""
    shares = [_rounded_up(2.0**j, 1.0, 0.3) for j in range(1000)]
    assert sum(share for _, share in shares) == pytest.approx(0.3, rel=2e-3)
    for norm in (1e-9, 0.3, 1.0, 1.01, 37.0):
        rounded, _ = _rounded_up(norm, 1.0, 0.3)
        assert norm <= rounded <= max(1.0, 2 * norm)


def test_spectral_norms_are_those_of_the_fit_rounded_up():
    triplets, _, _ = drawn(40, np.random.default_rng(3))
    model = fitted(SpectralContrastive("triplet"), triplets, regularization=0.5)
    A = torch.from_numpy(model.rescaled("loss").coefficients_)
    norm = (A.mT @ model.kernel_(model.landmarks_) @ A).norm().item()
    rounded = contrastive_bound(model, *triplets).norm
    assert norm <= rounded <= max(1.0, 2 * norm)
    assert math.log2(rounded) == int(math.log2(rounded))


def test_margins_of_the_triplets_are_those_of_the_class_means():
    """E f(x)^T (f(x-) - f(x+)) = -(1 - collision) E[v | different], and the classifier by means errs less than that."""
    rng = np.random.default_rng(4)
    model = fitted("simple_contrastive", drawn(60, rng)[0])
    triplets, own, other = drawn(20_000, rng)
    Z = model.rescaled("loss").transform(triplets[0])
    means = np.stack([Z[own == c].mean(0) for c in range(3)])
    differ = own != other
    v = (Z * (means[own] - means[other])).sum(1)[differ]
    expected = loss_of(model, triplets)
    known = GeneralizationBound(expected, 0.0, 0.0, 1.0, largest_margin=2.0, margin=expected)
    result = downstream_bound(known, 1 / 3)
    assert result.margin == pytest.approx(-v.mean(), abs=0.01)
    assert (v <= 0).mean() <= result.error < 1


def reconstruction(n, w, rng, fresh):
    """A fixed encoder of norm w and a ridge decoder: their error on new rows, and the bound of it."""
    X, new = (np.clip(rng.normal(size=(m, 2)), -1, 1) for m in (n, fresh))
    kernel = Gaussian(1.0)

    def K(A, B):
        return kernel(torch.from_numpy(A), torch.from_numpy(B)).numpy()

    K_x = K(X, X)
    alpha = rng.normal(size=(n, 1))
    alpha *= w / math.sqrt((alpha.T @ K_x @ alpha).item())
    Z = K_x @ alpha
    beta = np.linalg.solve(K(Z, Z) + np.eye(n), X)
    decoder = math.sqrt(np.trace(beta.T @ K(Z, Z) @ beta))

    def error(rows):
        return float(((rows - K(K(rows, X) @ alpha, Z) @ beta) ** 2).sum(1).mean())

    eigenvalues = np.linalg.eigvalsh(K_x / n)
    norms = {"encoder_norm": w, "decoder_norm": decoder, "radius": math.sqrt(2), "lipschitz": 1.0}
    return error(new), reconstruction_bound(error(X), eigenvalues, n_components=1, **norms)


def test_the_reconstruction_error_on_new_rows_is_below_the_bound():
    rng = np.random.default_rng(5)
    for _ in range(5):
        error, bound = reconstruction(100, 2.0, rng, 2000)
        assert error < bound.total


@pytest.mark.filterwarnings("ignore:The descent has not ended:UserWarning")
@pytest.mark.parametrize("n_landmarks", [None, 15])
def test_a_fitted_autoencoder_has_the_figures_of_its_bound(n_landmarks):
    """Norms, eigenvalues and error from kernel matrices; the mean row is one more feature of the decoder."""
    rng = np.random.default_rng(6)
    X, new = (np.clip(rng.normal(size=(m, 3)), -1, 1) for m in (60, 2000))
    k1, k2 = Gaussian(1.5), Gaussian(0.8)
    model = KernelAutoencoder(
        2, kernel=k1, decoder_kernel=k2, n_landmarks=n_landmarks, max_iter=5, tol=0.1, random_state=0
    ).fit(X)

    def K(k, A, B):
        return k(torch.from_numpy(A), torch.from_numpy(B)).numpy()

    L = model.landmarks_.numpy()
    C = model._bottleneck.coefficients.numpy()
    Z, centres = model.transform(X), model.transform(L)
    lam, mean = model.regularization, X.mean(0)
    K_nc, K_cc = K(k2, Z, centres), K(k2, centres, centres)
    beta = np.linalg.lstsq(K_nc.T @ K_nc + lam * K_cc, K_nc.T @ (X - mean), rcond=1e-13)[0]

    def error(rows):
        f = K(k1, rows, L) @ C
        return np.square(rows - mean - K(k2, f, centres) @ beta).sum(1).mean()

    naive = reconstruction_bound(
        error(X),
        np.linalg.eigvalsh(K(k1, X, X) / len(X)),
        n_components=2,
        radius=math.sqrt(3),
        encoder_norm=math.sqrt(np.trace(C.T @ K(k1, L, L) @ C)),
        decoder_norm=math.sqrt(np.trace(beta.T @ K_cc @ beta) + mean @ mean),
        kappa=2.0,
        lipschitz=1 / 0.8,
    )
    bound = autoencoder_bound(model, X, radius=math.sqrt(3))
    assert bound.norm == naive.norm
    for name in ("empirical", "complexity", "deviation"):
        assert getattr(bound, name) == pytest.approx(getattr(naive, name), rel=1e-5)
    assert error(new) < bound.total


@pytest.mark.filterwarnings("ignore:The descent has not ended:UserWarning")
def test_what_a_models_bound_does_not_know_is_asked_for():
    X = np.random.default_rng(6).normal(size=(20, 2))
    model = KernelAutoencoder(2, decoder_kernel="matern", max_iter=2, tol=0.1, random_state=0).fit(X)
    with refuses(ValueError, "lipschitz="):
        autoencoder_bound(model, X, radius=5.0)
    assert autoencoder_bound(model, X, radius=5.0, lipschitz=2.0).total > 0
    linear = KernelAutoencoder(2, decoder_kernel="linear", max_iter=2, tol=0.1, random_state=0).fit(X)
    with refuses(ValueError, "kappa="):
        autoencoder_bound(linear, X, radius=5.0, lipschitz=1.0)
    with refuses(ValueError, "5,000"):
        autoencoder_bound(model, np.zeros((5001, 2)), radius=5.0, lipschitz=1.0)


def test_the_autoencoders_bound_grows_with_both_norms_and_shrinks_with_n():
    eigenvalues = 0.5 ** np.arange(400)
    given = {"n_components": 2, "radius": 1.0, "encoder_norm": 1.0, "decoder_norm": 1.0}
    base = reconstruction_bound(0.1, eigenvalues, **given)
    for name in ("encoder_norm", "decoder_norm", "radius", "n_components"):
        assert reconstruction_bound(0.1, eigenvalues, **given | {name: 3}).total > base.total
    more = reconstruction_bound(0.1, np.r_[eigenvalues, np.zeros(39_600)], **given)
    assert more.total < base.total


def test_without_the_encoders_norm_no_bound_of_order_one_over_root_n_can_hold():
    """An encoder that interpolates random signs makes |sum_i sigma_i phi_2(z_i)| / n at least 0.7, whatever n is."""
    rng = np.random.default_rng(6)
    for n in (20, 80):
        X = np.sort(rng.uniform(-n, n, size=(n, 1)), axis=0)
        sigma = rng.permutation(np.r_[np.ones(n // 2), -np.ones(n // 2)])
        K = Gaussian(0.5)(torch.from_numpy(X)).numpy()
        Z = K @ np.linalg.lstsq(K, 5 * sigma, rcond=1e-10)[0]
        K_z = Gaussian(1.0)(torch.from_numpy(Z[:, None])).numpy()
        assert math.sqrt(sigma @ K_z @ sigma) / n > 0.6


def test_what_voids_a_bound_is_refused():
    triplets, _, _ = drawn(20, np.random.default_rng(7))
    X, P, N = triplets
    linear = KernelEmbedding(1, kernel=Linear(), loss="simple_contrastive", n_landmarks=None, random_state=0)
    linear.fit(X, positives=P, negatives=N)
    with refuses(ValueError, "kappa="):
        contrastive_bound(linear, *triplets)
    assert contrastive_bound(linear, *triplets, kappa=30.0).total > 0
    with refuses(ValueError, "delta"):
        contrastive_bound(linear, *triplets, delta=0.0)
    pca = KernelEmbedding(2, loss="kernel_pca", n_landmarks=None).fit(X)
    with refuses(ValueError, "simple_contrastive", "spectral_contrastive"):
        contrastive_bound(pca, *triplets)
    with refuses(ValueError, "probability"):
        downstream_bound(GeneralizationBound(0, 0, 0, 1.0, 1.0, 0.0), 1.0)
    with refuses(ValueError, "classes"):
        downstream_bound(GeneralizationBound(0, 0, 0, 1.0), 0.5)
    with refuses(ValueError, "radius=nan"):
        reconstruction_bound(0.1, [1.0], n_components=1, radius=math.nan, encoder_norm=1.0, decoder_norm=1.0)
