"""With all points as landmarks a model is the one of the representer theorems  [esser, Thm. 1-4]."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from contrastive_oracles import ContrastiveForms, TripletSpectralForms, contrastive_embedding
from krepes import KernelEmbedding
from krepes.kernels import Gaussian, Laplacian, Linear
from krepes.losses import SimpleContrastive, SpectralContrastive
from krepes.moments import Moments
from krepes.solvers import FullBatch
from oracles import spectral_triplets
from random_starts import best_of_random_starts
from refusals import refuses, warns_of

H = 3
ENOUGH = 0.4  # regularization at which the triplet loss has a minimum


def triplets(n=25, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X + 0.2 * rng.normal(size=(n, d)), rng.normal(size=(n, d))


def tensors(data):
    return [torch.from_numpy(part) for part in data]


def fitted(data, loss, h=H, kernel=None, **parameters):
    X, P, N = data
    model = KernelEmbedding(
        h,
        kernel=kernel or Gaussian(1.0),
        loss=loss,
        n_landmarks=None,
        scale="loss",
        random_state=0,
        **parameters,
    )
    return model.fit(X, positives=P, negatives=N)


def gram_of(model):
    """W^T W = A^T K_mm A."""
    A = torch.from_numpy(model.coefficients_)
    return A.mT @ model.kernel_(model.landmarks_) @ A


def same_up_to_rotation(Z, other, atol=1e-8):
    np.testing.assert_allclose(Z @ Z.T, other @ other.T, atol=atol)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(2.0), Linear()], ids=str)
def test_the_forms_of_theorem_3_are_the_naive_sums(kernel):
    """K_1 holds <u_a, u_b> of the 2n functions; Tr(A^T K_2 A) is minus the mean of z^T (z- - z+)."""
    X, P, N = data = tensors(triplets(6))
    forms, n = ContrastiveForms.of(kernel, *data), len(X)
    parts = [[(X[i], 1.0)] for i in range(n)] + [[(N[i], 1.0), (P[i], -1.0)] for i in range(n)]

    def product(a, b):
        return sum(s * t * kernel(x[None], y[None]).item() for x, s in a for y, t in b)

    K_1 = torch.tensor([[product(a, b) for b in parts] for a in parts], dtype=torch.float64)
    assert torch.allclose(forms.K_1, K_1, atol=1e-12)
    A = torch.randn(2 * n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    Z, Zp, Zn = (contrastive_embedding(kernel, *data, A, part) for part in data)
    assert forms.loss(A) == pytest.approx((Z * (Zn - Zp)).sum(1).mean().item(), abs=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_theorem_3_is_optimal_among_orthonormal_maps_from_random_starts(seed):
    """No W with W^T W = I that manifold descent finds in the span of all 3n points has a lower loss."""
    data = triplets(12, seed=seed)
    forms = ContrastiveForms.of(Gaussian(1.0), *tensors(data))
    A = forms.minimiser(H)
    assert torch.allclose(A.mT @ forms.K_1 @ A, torch.eye(H, dtype=torch.float64), atol=1e-8)
    points = torch.cat(tensors(data))
    s, U = torch.linalg.eigh(Gaussian(1.0)(points))
    Phi, Phi_p, Phi_n = (U * s.clamp_min(0).sqrt()).chunk(3)

    def loss(W):
        Q = torch.linalg.qr(W)[0]
        return ((Phi @ Q) * ((Phi_n - Phi_p) @ Q)).sum(1).mean()

    lowest = best_of_random_starts(loss, (len(points), H), starts=6)
    assert forms.loss(A) <= lowest + 1e-8
    assert forms.loss(A) == pytest.approx(lowest, abs=1e-6)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(2.0), Linear()], ids=str)
def test_simple_contrastive_with_all_points_is_theorem_3(kernel):
    data, new = triplets(), np.random.default_rng(9).normal(size=(7, 3))
    h = 2 if isinstance(kernel, Linear) else H
    model = fitted(data, "simple_contrastive", h, kernel)
    forms = ContrastiveForms.of(kernel, *tensors(data))
    A = forms.minimiser(h)
    terms = model.history_[-1]
    assert terms["positive"] + terms["negative"] == pytest.approx(forms.loss(A), abs=1e-10)
    assert torch.allclose(gram_of(model), torch.eye(h, dtype=torch.float64), atol=1e-8)
    expected = contrastive_embedding(kernel, *tensors(data), A, torch.from_numpy(new)).numpy()
    same_up_to_rotation(model.transform(new), expected)
    same_up_to_rotation(model.rescaled("kernel").transform(new), expected)


def test_components_stop_where_eigenvalues_do_and_the_warning_says_why():
    """[esser, Thm. 2]: with fewer positive eigenvalues than h, some minimiser is not in the span of the data."""
    data = triplets(6, d=2)
    forms = ContrastiveForms.of(Linear(), *tensors(data))
    n_positive = len(forms.eigenpairs()[0])
    assert n_positive <= 2
    with warns_of(UserWarning, "n_components=5"):
        model = fitted(data, "simple_contrastive", 5, Linear())
    assert model.n_components_ == n_positive


def test_no_component_at_all_is_an_error_that_does_not_blame_the_regularization():
    X = triplets(8)[0]
    with refuses(ValueError, "direction", "alike"):
        fitted((X, X / 2, X), "simple_contrastive", 2, Linear())


def test_theorem_4_value_and_gradient_agree_with_autograd():
    data = tensors(triplets(5))
    forms = TripletSpectralForms.of(Gaussian(1.0), *data, lam=0.3)
    Z = torch.randn(
        2, 15, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True
    )
    value = forms.loss(Z)
    (gradient,) = torch.autograd.grad(value, Z)
    assert torch.allclose(forms.gradient(Z.detach()), gradient, rtol=1e-8, atol=1e-8)
    parts = [part.T.numpy() for part in Z.detach().chunk(3, dim=1)]
    W_norm = (Z @ torch.linalg.inv(forms.K) @ Z.mT).trace().item()
    assert value.item() == pytest.approx(spectral_triplets(*parts) + 0.3 * W_norm, rel=1e-8)


def test_theorem_4_with_coinciding_points_stays_in_the_row_space():
    X, _, N = triplets(4)
    forms = TripletSpectralForms.of(Gaussian(1.0), *tensors((X, X, N)), lam=0.3)
    Z = forms.in_row_space(
        torch.randn(2, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    )
    assert torch.allclose(Z[:, :4], Z[:, 4:8], atol=1e-10), "coinciding points share their embedding"
    step = 1e-6 * forms.in_row_space(torch.ones(2, 12, dtype=torch.float64))
    slope = (forms.loss(Z + step) - forms.loss(Z - step)).item() / 2
    assert slope == pytest.approx((forms.gradient(Z) * step).sum().item(), rel=1e-6)
    assert torch.allclose(forms.embedding(Z, forms.K), Z, atol=1e-10)


@pytest.mark.filterwarnings("ignore:n_components=6, but only")
@pytest.mark.parametrize("h", [1, 2, 6])
def test_the_triplet_loss_is_minimised_as_well_as_descent_on_theorem_4_from_random_starts(h):
    data = triplets(15)
    model = fitted(data, SpectralContrastive("triplet"), h, regularization=ENOUGH)
    assert isinstance(model.solver_, FullBatch)
    Z = torch.from_numpy(np.concatenate([model.transform(part) for part in data])).T
    lam = model.history_[-1]["regularizer"] / gram_of(model).trace().item()
    forms = TripletSpectralForms.of(Gaussian(1.0), *tensors(data), lam)
    assert forms.loss(Z).item() == pytest.approx(model.history_[-1]["total"], abs=1e-8)
    assert forms.gradient(Z).abs().max() < 1e-3
    K_root = torch.linalg.cholesky(forms.K + 1e-13 * torch.eye(45, dtype=torch.float64))

    def value_and_gradient(
        v,
    ):  # Z = V K^(1/2): the descent of the paper, in coordinates where it is not stiff
        Z = torch.from_numpy(v).reshape(h, 45) @ K_root.mT
        return forms.loss(Z).item(), (forms.gradient(Z) @ K_root).reshape(-1).numpy()

    rng = np.random.default_rng(0)
    options = {"maxiter": 3000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-10}
    found = [
        minimize(
            value_and_gradient, rng.normal(size=h * 45), jac=True, method="L-BFGS-B", options=options
        ).fun
        for _ in range(5)
    ]
    assert model.history_[-1]["total"] <= min(found) + 1e-7
    assert model.history_[-1]["total"] == pytest.approx(min(found), abs=1e-5)


@pytest.mark.filterwarnings("ignore:n_components=8, but only")
def test_enough_components_give_the_minimum_over_all_ranks():
    """The loss is convex in M = W W^T: the gradient in M is positive semi-definite, and zero on the span of W."""
    data = triplets(15)
    model = fitted(data, SpectralContrastive("triplet"), 8, regularization=ENOUGH)
    assert model.n_components_ < 8
    Z, _, Zn = (model.transform(part) for part in data)
    Phi, Phi_p, Phi_n = (model.features_(torch.from_numpy(part)).numpy() for part in data)
    lam = model.history_[-1]["regularizer"] / gram_of(model).trace().item()
    u = (Z * Zn).sum(1)
    G = (-2 * Phi.T @ Phi_p + 2 * (u[:, None] * Phi).T @ Phi_n) / len(Z)
    values = np.linalg.eigvalsh((G + G.T) / 2 + lam * np.eye(len(G)))
    assert values[0] > -1e-4 * abs(values).max()


@pytest.mark.filterwarnings("ignore:n_components=3, but only")
def test_the_triplet_fit_is_the_same_every_time_and_scales_as_its_stationarity_says():
    """At a minimum, the derivative in the scale of W W^T is zero: positive + regularizer = -2 negative."""
    first, second = (
        fitted(triplets(), SpectralContrastive("triplet"), regularization=ENOUGH) for _ in range(2)
    )
    assert np.array_equal(first.coefficients_, second.coefficients_)
    terms = first.history_[-1]
    assert terms["positive"] + terms["regularizer"] == pytest.approx(-2 * terms["negative"], abs=1e-5)


def test_the_triplet_loss_has_no_minimum_without_enough_regularization():
    with refuses(ValueError, "regularization"):
        fitted(triplets(), SpectralContrastive("triplet"), regularization=1e-4)


@pytest.mark.filterwarnings("ignore:n_components=4, but only")
def test_the_sufficient_regularization_suffices():
    data = tensors(triplets())
    points = torch.cat(data)
    s, U = torch.linalg.eigh(Gaussian(1.0)(points))
    Phi, Phi_p, Phi_n = (U * s.clamp_min(0).sqrt()).chunk(3)
    lam = SpectralContrastive("triplet").sufficient_lam(Moments.of_pairs(Phi, Phi_p, Phi_n))
    moments = Moments.of_rows(torch.cat([Phi, Phi_p]))
    model = fitted(
        triplets(), SpectralContrastive("triplet"), 4, regularization=1.01 * lam / moments.variance
    )
    assert -1.0 <= model.history_[-1]["total"] < 0


@pytest.mark.filterwarnings("ignore:.*does not look at negatives")
@pytest.mark.parametrize("loss", ["simple_contrastive", "spectral_contrastive"])
def test_all_points_are_what_landmarks_given_by_hand_are(loss):
    X, P, N = triplets(20)
    everything = fitted((X, P, N), loss, kernel="gaussian")
    by_hand = KernelEmbedding(
        H,
        kernel="gaussian",
        loss=loss,
        landmarks=np.concatenate([X, P, N]),
        dtype="float64",
        scale="loss",
        random_state=0,
    ).fit(X, positives=P, negatives=N)
    assert everything.space_.dtype == torch.float64
    assert np.array_equal(everything.transform(X), by_hand.transform(X))
    assert everything.landmark_indices_.tolist() == list(range(20)) * 3


def test_drawn_views_are_landmarks_so_nothing_of_them_is_lost():
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = KernelEmbedding(4, n_landmarks=None, random_state=0).fit(X)
    views = model.views_(torch.from_numpy(X), torch.arange(30), model.seed_)
    assert len(model.landmarks_) == 30 * len(views)
    assert not model.exact_views_
    assert torch.equal(model.landmarks_, torch.cat(views))
    assert model.features_.coverage(torch.cat(views)).min() > 1 - 1e-9


def test_kernel_pca_with_all_points_is_kernel_pca():
    """Components of variance s_j / n, with s_j the eigenvalues of the centred kernel matrix."""
    X = triplets(30)[0]
    model = KernelEmbedding(
        4, kernel=Gaussian(1.0), loss="kernel_pca", n_landmarks=None, regularization=0
    ).fit(X)
    K = Gaussian(1.0)(torch.from_numpy(X)).numpy()
    C = np.eye(30) - 1 / 30
    expected = np.linalg.eigvalsh(C @ K @ C)[::-1][:4]
    np.testing.assert_allclose((model.transform(X) ** 2).sum(0), expected, rtol=1e-9)


def test_rows_of_weight_zero_are_no_landmarks():
    X, P, N = triplets(12)
    weight = np.r_[np.ones(8), np.zeros(4)]
    parts = [
        KernelEmbedding(2, kernel=Gaussian(1.0), loss="simple_contrastive", n_landmarks=None, random_state=0)
        for _ in range(2)
    ]
    parts[0].fit(X, positives=P, negatives=N, sample_weight=weight)
    parts[1].fit(X[:8], positives=P[:8], negatives=N[:8])
    assert len(parts[0].landmarks_) == 24
    np.testing.assert_allclose(parts[0].transform(X), parts[1].transform(X), atol=1e-10)


@pytest.mark.parametrize("loss", [pytest.param("simclr", marks=pytest.mark.full), "vicreg"])
def test_full_batch_ends_no_higher_than_it_started_for_other_losses(loss):
    X = triplets(20)[0]
    model = KernelEmbedding(3, loss=loss, n_landmarks=None, solver=FullBatch(tol=1e-5), random_state=0).fit(X)
    totals = [step["total"] for step in model.history_]
    assert totals[-1] < totals[0]
    assert np.all(np.diff(totals) <= 1e-12)


def test_full_batch_and_descent_on_moments_agree():
    """The spectral loss over all pairs of given pairs: both find the closed form's value."""
    X, P, _ = triplets(20)
    values = []
    for solver in ("closed_form", "full_batch"):
        model = KernelEmbedding(3, n_landmarks=None, solver=solver, regularization=0.01, random_state=0)
        values.append(model.fit(X, positives=P).history_[-1]["total"])
    assert values[1] == pytest.approx(values[0], rel=1e-6)


def test_a_constrained_loss_is_refused_by_full_batch():
    with refuses(ValueError, "constraint"):
        fitted(triplets(), SimpleContrastive(), solver="full_batch")


def test_a_regularization_that_leaves_nothing_is_an_error():
    with refuses(ValueError, "component"):
        fitted(triplets(), SpectralContrastive("triplet"), regularization=3.0)
