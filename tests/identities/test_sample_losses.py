"""Losses of samples have the value of their published formula, written as loops, and the symmetries it implies."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import oracles
from krepes.losses import BYOL, Autoencoder, Batch, SimCLR, SimpleContrastive, SpectralContrastive
from krepes.losses.directions import directions
from krepes.moments import Moments
from refusals import refuses


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(b=7, h=3):
    Z1 = normal(b, h) + 0.5
    return Z1, Z1 + 0.7 * normal(b, h, seed=1)


def value(loss, batch):
    return sum(loss.terms(batch).values()).item()


def close(actual, expected):
    return actual == pytest.approx(expected, rel=1e-11, abs=1e-11)


# Directions


def test_directions_have_length_one_however_long_the_rows_are():
    Z = normal(4, 3) * torch.tensor([[1e-300], [1e-3], [1.0], [1e300]], dtype=torch.float64)
    assert torch.allclose(directions(Z).square().sum(1), torch.ones(4, dtype=torch.float64), rtol=1e-14)
    assert torch.allclose(directions(Z)[2], Z[2] / Z[2].norm(), rtol=1e-14)


def test_derivatives_of_directions_are_right_to_second_order():
    """The factor that rows are divided by first is held constant; the result does not depend on it."""
    Z = normal(3, 3).requires_grad_()
    assert torch.autograd.gradcheck(directions, (Z,))
    assert torch.autograd.gradgradcheck(directions, (Z,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1e-30])
@pytest.mark.parametrize(
    "loss", [SimCLR(), BYOL(), BYOL(predictor="linear"), Autoencoder(covariance_weight=1.0)], ids=str
)
def test_embeddings_of_no_length_give_finite_values_and_gradients(loss, size, dtype):
    for zeros in (slice(0, 1), slice(None)):
        Z1, Z2 = (Z.to(dtype).clone() for Z in pairs())
        Z1[zeros] *= size
        Z1.requires_grad_()
        own = loss.parameters(3) if loss.offers("parameters") else {}
        batch = Batch(
            (Z1, Z2),
            X=normal(7, 2).to(dtype),
            target_Z=(Z2, Z1.detach()),
            parameters={name: tensor.to(dtype) for name, tensor in own.items()},
        )
        total = sum(loss.terms(batch).values())
        total.backward()
        assert torch.isfinite(total)
        assert torch.isfinite(Z1.grad).all()


# SimCLR


@pytest.mark.parametrize("temperature", [0.05, 0.5, 10.0])
def test_simclr(temperature):
    Z1, Z2 = pairs()
    expected = oracles.simclr(Z1.numpy(), Z2.numpy(), temperature)
    assert close(value(SimCLR(temperature), Batch((Z1, Z2))), expected)


def test_simclr_ignores_the_order_of_samples_the_order_of_views_and_the_length_of_each_embedding():
    Z1, Z2 = pairs()
    first = value(SimCLR(), Batch((Z1, Z2)))
    order = torch.tensor([3, 1, 0, 6, 5, 2, 4])
    assert close(value(SimCLR(), Batch((Z1[order], Z2[order]))), first)
    assert close(value(SimCLR(), Batch((Z2, Z1))), first)
    assert close(value(SimCLR(), Batch((Z1 * normal(7, 1).exp(), 0.01 * Z2))), first)
    assert not close(value(SimCLR(), Batch((Z1[order], Z2))), first)
    assert not close(value(SimCLR(), Batch((Z1 * normal(3).exp(), Z2 * normal(3).exp()))), first)


def test_simclr_of_equal_embeddings_is_a_guess_among_all_others():
    Z = torch.ones(5, 2)
    assert value(SimCLR(), Batch((Z, Z))) == pytest.approx(np.log(9), rel=1e-6)


# BYOL


@pytest.mark.parametrize("hidden", [None, 4, 9])
def test_byol_with_a_hidden_layer(hidden):
    Z1, Z2 = pairs()
    T1, T2 = normal(7, 3, seed=2), normal(7, 3, seed=3)
    loss = BYOL(hidden=hidden)
    own = {
        name: tensor + 0.2 for name, tensor in loss.parameters(3, torch.Generator().manual_seed(0)).items()
    }
    predicted = [
        oracles.byol_predictor(Z.numpy(), **{k: v.numpy() for k, v in own.items()}) for Z in (Z1, Z2)
    ]
    expected = oracles.byol(*predicted, T1.numpy(), T2.numpy())
    assert close(value(loss, Batch((Z1, Z2), target_Z=(T1, T2), parameters=own)), expected)


def test_byol_with_a_matrix():
    Z1, Z2 = pairs()
    T1, T2 = normal(7, 3, seed=2), normal(7, 3, seed=3)
    weight = normal(3, 3, seed=4)
    batch = Batch((Z1, Z2), target_Z=(T1, T2), parameters={"weight": weight})
    expected = oracles.byol(*((Z @ weight).numpy() for Z in (Z1, Z2)), T1.numpy(), T2.numpy())
    assert close(value(BYOL(predictor="linear"), batch), expected)


@pytest.mark.parametrize("hidden", [None, 20])
def test_the_predictor_begins_as_the_identity_of_the_standardised_embedding(hidden):
    Z, _ = pairs(b=50)
    loss = BYOL(hidden=hidden)
    predicted = loss.predicted(Z, loss.parameters(3, torch.Generator().manual_seed(0)))
    assert torch.allclose(predicted, (Z - Z.mean(0)) / Z.std(0, correction=0), atol=1e-5)
    linear = BYOL(predictor="linear")
    assert torch.equal(linear.predicted(Z, linear.parameters(3)), Z)


def test_the_predictor_begins_where_the_generator_says():
    def start(seed):
        return BYOL(hidden=5).parameters(4, torch.Generator().manual_seed(seed))

    assert all(torch.equal(start(0)[name], start(0)[name]) for name in start(0))
    assert not torch.equal(start(0)["inward"], start(1)["inward"])
    # Kaiming: the variance of a unit is 2 for inputs of variance 1
    wide = BYOL(hidden=399).parameters(200, torch.Generator().manual_seed(0))
    assert wide["inward"].square().sum(0).mean().item() == pytest.approx(2, rel=0.02)
    assert wide["outward"].square().sum(0).mean().item() == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("predictor", ["mlp", "linear"])
def test_byol_ignores_the_scale_of_the_embeddings_and_of_the_targets(predictor):
    Z1, Z2 = pairs()
    loss = BYOL(predictor=predictor)
    own = {
        name: tensor + 0.1 for name, tensor in loss.parameters(3, torch.Generator().manual_seed(0)).items()
    }
    first = value(loss, Batch((Z1, Z2), target_Z=(Z1, Z2), parameters=own))
    scaled = Batch((1e-4 * Z1, 1e-4 * Z2), target_Z=(50 * Z1, 50 * Z2), parameters=own)
    assert close(value(loss, scaled), first)


def test_byol_sends_no_gradient_to_the_targets():
    Z1, Z2 = pairs()
    targets = Z1.clone().requires_grad_()
    own = BYOL().parameters(3, torch.Generator().manual_seed(0))
    batch = Batch((Z1.requires_grad_(), Z2), target_Z=(targets, targets), parameters=own)
    sum(BYOL().terms(batch).values()).backward()
    assert targets.grad is None
    assert Z1.grad.abs().max() > 0
    assert BYOL(decay=0.7).target_decay == 0.7


# The autoencoder


@pytest.mark.parametrize("lengthscale", [0.4, 1.5, None])
@pytest.mark.parametrize("lam", [1e-3, 0.5])
def test_autoencoder_in_sample_is_the_expression_of_theorem_5(lengthscale, lam):
    """lam tr(X^T (K + lam I)^-1 X) = |Q - X|^2 + lam tr(Q^T K^-1 Q), for the Q that is least."""
    Z, X = normal(6, 6), normal(6, 4, seed=1)  # as many components as samples: K is invertible if linear too
    expected = oracles.autoencoder_in_sample(Z.numpy(), X.numpy(), lam, lengthscale)
    loss = Autoencoder(
        "gaussian" if lengthscale else "linear", lengthscale or 1.0, lam, reconstruction="in_sample"
    )
    assert loss.terms(Batch((Z,), X=X))["reconstruction"].item() == pytest.approx(expected, rel=1e-9)


def test_no_decoder_is_better_than_the_one_that_is_solved_for():
    """min over Q of |X - Q|^2 + lam tr(Q^T K^-1 Q), by least squares: rows [I; sqrt(lam) L^-1] Q = [X; 0]."""
    Z, X, lam = normal(8, 3).numpy(), normal(8, 2, seed=1).numpy(), 0.05
    X = X - X.mean(0)
    inverse_root = np.linalg.inv(np.linalg.cholesky(oracles.decoder_kernel(Z, 0.7)))
    system = np.concatenate([np.eye(8), lam**0.5 * inverse_root])
    _, least, _, _ = np.linalg.lstsq(system, np.concatenate([X, np.zeros_like(X)]), rcond=None)
    loss = Autoencoder(lengthscale=0.7, decoder_regularization=lam, reconstruction="in_sample")
    found = value(loss, Batch((torch.from_numpy(Z),), X=torch.from_numpy(X)))
    assert found == pytest.approx(least.sum() / (X**2).sum(), rel=1e-9)


@pytest.mark.parametrize("lengthscale", [0.4, 1.5, None])
@pytest.mark.parametrize("lam", [1e-3, 0.5])
def test_autoencoder_left_out_solves_for_every_sample_on_all_others(lengthscale, lam):
    Z, X = normal(9, 3), normal(9, 4, seed=1)
    expected = oracles.autoencoder_left_out(Z.numpy(), X.numpy(), lam, lengthscale)
    loss = Autoencoder("gaussian" if lengthscale else "linear", lengthscale or 1.0, lam)
    assert value(loss, Batch((Z,), X=X)) == pytest.approx(expected, rel=1e-9)


def test_the_covariance_term_of_the_autoencoder():
    Z, X = normal(9, 3), normal(9, 4, seed=1)
    term = Autoencoder(covariance_weight=2.5).terms(Batch((Z,), X=X))["covariance"].item()
    assert close(term, 2.5 * oracles.off_diagonal_covariance(Z.numpy()))


def test_two_views_are_reconstructed_each_to_the_same_sample():
    Z1, Z2 = pairs()
    X = normal(7, 2)
    loss = Autoencoder(covariance_weight=1.0)
    both = value(loss, Batch((Z1, Z2), X=X))
    assert close(both, (value(loss, Batch((Z1,), X=X)) + value(loss, Batch((Z2,), X=X))) / 2)


def test_reconstruction_is_a_fraction_of_the_variance():
    """Whatever the unit and the origin of X; and images count as their pixels."""
    Z, X = normal(8, 3), normal(8, 4, seed=1)
    first = value(Autoencoder(), Batch((Z,), X=X))
    assert close(value(Autoencoder(), Batch((Z,), X=300 * X + 5)), first)
    assert close(value(Autoencoder(), Batch((Z,), X=X.reshape(8, 2, 2))), first)
    assert value(Autoencoder(), Batch((Z,), X=torch.ones(8, 4))) == 0


@pytest.mark.parametrize("reconstruction", ["leave_one_out", "in_sample"])
def test_the_autoencoder_in_float32_where_embeddings_coincide(reconstruction):
    """K is then singular, and lam = 1e-6 far below float32's rounding of it."""
    Z = normal(200, 3)
    Z[100:] = Z[:100]
    X = normal(200, 4, seed=1)
    loss = Autoencoder(decoder_regularization=1e-6, reconstruction=reconstruction)
    small = Z.float().requires_grad_()
    found = sum(loss.terms(Batch((small,), X=X.float())).values())
    found.backward()
    assert torch.isfinite(small.grad).all()
    assert found.item() == pytest.approx(value(loss, Batch((Z,), X=X)), rel=0.02)


def test_the_autoencoder_passes_nan_on():
    """So that the solver can name the step; a failing decomposition would hide it."""
    Z = normal(8, 3)
    Z[2, 1] = torch.nan
    assert np.isnan(value(Autoencoder(), Batch((Z,), X=normal(8, 2))))


# Triplets


def test_triplets_of_contrastive_losses():
    Z1, Z2 = pairs()
    negatives = normal(7, 3, seed=9)
    arrays = [Z.numpy() for Z in (Z1, Z2, negatives)]
    spectral = SpectralContrastive(negatives="triplet")
    assert close(value(spectral, Batch((Z1, Z2, negatives))), oracles.spectral_triplets(*arrays))
    assert close(value(spectral, Batch((Z1, Z2))), oracles.spectral_triplets(*arrays[:2]))
    assert close(value(SimpleContrastive(), Batch((Z1, Z2, negatives))), oracles.simple_contrastive(*arrays))


def test_all_pairs_are_the_mean_over_all_triplets():
    """With every shift of the batch as negatives, and one view, the mean of the triplet form is that of all pairs."""
    Z, _ = pairs()
    loss = SpectralContrastive(negatives="triplet")
    shifted = [value(loss, Batch((Z, Z, Z.roll(shift, 0)))) for shift in range(len(Z))]
    assert close(np.mean(shifted), value(SpectralContrastive(), Batch((Z, Z))))


def test_triplets_have_neither_moments_nor_a_closed_form():
    triplets, pairs = SpectralContrastive(negatives="triplet"), SpectralContrastive()
    for kind in ("of_statistics", "minimiser"):
        assert pairs.offers(kind)
        assert not triplets.offers(kind)
    moments = Moments.of_views(*(normal(5, 2, seed=seed) for seed in (0, 1)))
    for call in (triplets.of_moments, triplets.minimiser):
        with refuses(ValueError, "SpectralContrastive(negatives='triplet')"):
            call(moments, torch.eye(2, dtype=torch.float64), 0.0)
    assert triplets.uses_negatives
    assert not pairs.uses_negatives
