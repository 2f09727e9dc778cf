"""The kernel autoencoder against the formulas of [esser], written out naively."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes import KernelAutoencoder, KernelEmbedding
from krepes.autoencoder.objective import BottleneckObjective, descend, kernel_pull, tangent
from krepes.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from krepes.losses import Autoencoder
from krepes.losses.batch import Batch
from krepes.solvers import SGD
from krepes.views import Tabular
from krepes.views.views import NoViews
from labels import label
from refusals import refuses

DECODERS = [
    Gaussian(0.7),
    Linear(),
    Polynomial(degree=2, scale=1.0),
    Matern(lengthscale=1.0),
    Laplacian(1.0),
    Gaussian(0.7) + 0.5 * Linear(),
    Gaussian(0.7) * Linear(),
]


def spread_rows(n: int = 14, d: int = 3, seed: int = 0) -> np.ndarray:
    """Rows so far apart that their Gaussian kernel matrix is well conditioned."""
    return np.random.default_rng(seed).normal(scale=2.0, size=(n, d))


def unit(n: int, h: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(n, h, generator=generator, dtype=torch.float64), dim=1)


def objective_of(X, m, decoder, lam=0.2, encoder_lam=0.1, noise=0.05) -> BottleneckObjective:
    rows = torch.from_numpy(X - X.mean(0))
    K = Gaussian(2.0)(rows, rows[:m])
    P = torch.linalg.inv(K[:m] + noise * torch.eye(m))
    return BottleneckObjective(decoder, P, K[:m] @ P, None if m == len(X) else K @ P, rows, lam, encoder_lam)


@pytest.mark.parametrize("decoder", DECODERS, ids=label)
@pytest.mark.parametrize("m", [14, 6], ids=["all rows", "landmarks"])
def test_the_gradient_is_that_of_finite_differences(decoder, m):
    objective, Z, step = objective_of(spread_rows(), m, decoder), unit(m, 3), 1e-6
    gradient = objective(Z)[1]
    for i, j in np.ndindex(*Z.shape):
        E = torch.zeros_like(Z)
        E[i, j] = step
        difference = (objective(Z + E)[0] - objective(Z - E)[0]) / (2 * step)
        assert difference == pytest.approx(gradient[i, j].item(), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("decoder", DECODERS, ids=label)
def test_with_all_rows_as_landmarks_both_forms_have_one_value(decoder):
    """|X|^2 - tr B^T (K^2 + lam K)^-1 B = lam tr X^T (K + lam I)^-1 X for K > 0."""
    exact = objective_of(spread_rows(), 14, decoder)
    nystrom = BottleneckObjective(
        decoder, exact.P, exact.landmarks, exact.landmarks, exact.X, exact.lam, exact.encoder_lam
    )
    Z = unit(14, 3)
    value, gradient = exact(Z)
    assert nystrom(Z)[0] == pytest.approx(value, rel=1e-6)
    assert torch.allclose(nystrom(Z)[1], gradient, rtol=1e-4, atol=1e-6 * gradient.abs().max().item())


def test_kernels_without_a_derivative_are_refused():
    X = unit(4, 3)
    with refuses(TypeError, "Laplacian(lengthscale=1.0, norm=1)", "derivative"):
        kernel_pull(Laplacian(1.0, norm=1), X, X, torch.ones(4, 4))


def test_the_objective_is_that_of_theorem_5():
    """lam [tr X (K_Z + lam I)^-1 X^T + tr Z K_X^-1 Z^T] at the decoder's optimum, and with its parts written out."""
    X, lam = spread_rows(), 0.2
    model = KernelAutoencoder(
        2,
        kernel=Gaussian(1.0),
        decoder_kernel=Gaussian(0.8),
        regularization=lam,
        encoder_noise=0.0,
        random_state=0,
    ).fit(X)
    Z = model.bottleneck_  # (n, h), the transpose of the paper's
    Xc = X - X.mean(0)
    Xc /= np.sqrt(np.square(Xc).sum(1).mean())
    K_X = np.array([[np.exp(-np.square(a - b).sum() / 2) for b in X] for a in X])
    K_Z = np.array([[np.exp(-np.square(a - b).sum() / (2 * 0.8**2)) for b in Z] for a in Z])
    n = len(X)
    Q = K_Z @ np.linalg.solve(K_Z + lam * np.eye(n), Xc)
    encoder = np.trace(Z.T @ np.linalg.solve(K_X, Z))
    written_out = np.square(Q - Xc).sum() + lam * (encoder + np.trace(Q.T @ np.linalg.solve(K_Z, Q)))
    short = lam * (np.trace(Xc.T @ np.linalg.solve(K_Z + lam * np.eye(n), Xc)) + encoder)
    assert model.history_[-1] == pytest.approx(short, rel=1e-8)
    assert model.history_[-1] == pytest.approx(written_out, rel=1e-6)


def test_new_rows_follow_the_formulas_of_theorem_5():
    """z* = Z K_X^-1 k(x*, X), here divided by its length, and x^* = X (K_Z + lam I)^-1 k(z*, Z)."""
    X, new, lam = spread_rows(), spread_rows(5, seed=3), 0.2
    model = KernelAutoencoder(
        2,
        kernel=Gaussian(1.0),
        decoder_kernel=Gaussian(0.8),
        regularization=lam,
        encoder_noise=0.0,
        random_state=0,
    ).fit(X)
    assert model.exact_
    k, k_z = Gaussian(1.0), Gaussian(0.8)
    Z = model.bottleneck_
    assert np.allclose(model.transform(X), Z, atol=1e-8)
    f = k(new, X).numpy() @ np.linalg.solve(k(X).numpy(), Z)
    z = f / np.linalg.norm(f, axis=1, keepdims=True)
    assert np.allclose(model.transform(new), z, atol=1e-8)
    centred = X - X.mean(0)
    C = np.linalg.solve(k_z(Z).numpy() + lam * np.eye(len(X)), centred)
    assert np.allclose(model.reconstruct(new), X.mean(0) + k_z(z, Z).numpy() @ C, atol=1e-7)
    assert np.array_equal(model.inverse_transform(model.transform(new)), model.reconstruct(new))


@pytest.mark.filterwarnings("ignore:The descent has not ended:UserWarning")
@pytest.mark.parametrize("n_landmarks", [None, 20])
def test_the_objective_never_rises_and_bottlenecks_have_length_one(n_landmarks):
    X = np.random.default_rng(0).normal(size=(60, 5))
    model = KernelAutoencoder(3, n_landmarks=n_landmarks, random_state=0, max_iter=30, tol=0).fit(X)
    assert model.exact_ == (n_landmarks is None)
    assert (np.diff(model.history_) <= 0).all()
    assert model.history_[-1] < 0.95 * model.history_[0]
    assert np.allclose(np.linalg.norm(model.bottleneck_, axis=1), 1)
    assert np.allclose(np.linalg.norm(model.transform(X), axis=1), 1)


def test_the_end_of_a_descent_is_a_stationary_point_of_the_spheres():
    objective = objective_of(spread_rows(), 14, Gaussian(0.7))
    found = descend(objective, unit(14, 3), lambda V: V, 2000, 0.0)
    gradient = tangent(found.Z, objective(found.Z)[1])
    start = tangent(unit(14, 3), objective(unit(14, 3))[1])
    assert gradient.norm() < 1e-4 * start.norm()


def test_the_loss_on_batches_has_the_decoder_of_the_autoencoder():
    """loss="autoencoder" in sample, times the batch's squared length, is the decoder's part of the objective."""
    objective = objective_of(spread_rows(), 14, Gaussian(0.7), noise=0.0)
    Z = unit(14, 3)
    loss = Autoencoder(lengthscale=0.7, decoder_regularization=0.2, reconstruction="in_sample")
    batch = Batch((Z,), X=objective.X)
    fraction = loss.terms(batch)["reconstruction"].item()
    assert fraction * objective.X.square().sum().item() == pytest.approx(
        objective.terms(Z)["decoder"], rel=1e-6
    )


@pytest.mark.filterwarnings("ignore:The descent has not ended:UserWarning")
def test_partial_fit_adds_rows_to_the_decoder():
    """Rows in two parts give the decoder of all of them; the encoder is that of the first part."""
    X = np.random.default_rng(0).normal(size=(60, 4))
    parts = KernelAutoencoder(2, n_landmarks=15, random_state=0, max_iter=5).fit(X[:40]).partial_fit(X[40:])
    Psi = parts._accumulator(parts.space_).features(torch.from_numpy(parts.transform(X))).numpy()
    centred = X - X.mean(0)
    W = np.linalg.solve(Psi.T @ Psi + parts.regularization * np.eye(Psi.shape[1]), Psi.T @ centred)
    assert np.allclose(parts.reconstruct(X), X.mean(0) + Psi @ W, atol=1e-8)
    assert parts.n_samples_seen_ == 60


def test_denoising_reconstructs_the_targets():
    """Of noise in all of ten dimensions, that across a circle is removed."""
    generator = np.random.default_rng(0)
    angle = generator.uniform(0, 2 * np.pi, 400)
    clean = (
        np.column_stack([np.cos(angle), np.sin(angle)]) @ np.linalg.qr(generator.normal(size=(10, 2)))[0].T
    )
    noisy = clean + generator.normal(scale=0.2, size=clean.shape)
    model = KernelAutoencoder(2, random_state=0, max_iter=40).fit(noisy[:200], targets=clean[:200])
    error = np.square(model.reconstruct(noisy[200:]) - clean[200:]).mean()
    assert error < 0.3 * np.square(noisy[200:] - clean[200:]).mean()
    assert model.score(noisy[200:], targets=clean[200:]) > model.score(noisy[200:])


def test_a_linear_autoencoder_finds_the_plane():
    """Rows on a circle in space, with linear kernels on both sides: reconstructed from two numbers."""
    angle = np.linspace(0, 2 * np.pi, 50, endpoint=False)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 2)))[0]
    X = np.column_stack([np.cos(angle), np.sin(angle)]) @ basis.T
    model = KernelAutoencoder(
        2, kernel="linear", decoder_kernel="linear", regularization=1e-3, random_state=0
    ).fit(X)
    assert np.abs(model.reconstruct(X) - X).max() < 0.01


@pytest.mark.parametrize(("views", "kind"), [("auto", Tabular), (None, NoViews)])
def test_the_loss_takes_views_where_they_are_auto(views, kind):
    X = np.random.default_rng(0).normal(size=(64, 3))
    solver = SGD(max_epochs=1, batch_size=16)
    model = KernelEmbedding(
        2, loss="autoencoder", views=views, solver=solver, n_landmarks=20, random_state=0
    ).fit(X)
    assert isinstance(model.views_, kind)
