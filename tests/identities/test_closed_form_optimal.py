"""Each closed form is the global minimum: nothing that L-BFGS finds from ten random starts is lower."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes.base.components import named
from krepes.losses import (
    BarlowTwins,
    KernelPCA,
    Loss,
    MomentForms,
    SimpleContrastive,
    SpectralContrastive,
    VICReg,
)
from krepes.moments import Moments
from krepes.solvers import ClosedForm
from paired_features import paired
from random_starts import best_of_random_starts

H = 3
VARIANTS = [
    VICReg(variance="quadratic"),
    VICReg(variance="quadratic", beta=0.4),
    VICReg(variance="quadratic", beta=3.0),
    BarlowTwins(redundancy=1.0, normalize=False),
    BarlowTwins(redundancy=4.0, normalize=False),
]
CLOSED = [loss for loss in [cls() for cls in named(Loss).values()] if loss.offers("minimiser")] + VARIANTS


def total(loss, moments, lam):
    """The regularised loss as a function of W, with the intercept that the loss prescribes."""
    forms = MomentForms.of(moments)
    if loss.intercept == "centered":
        forms = forms.shifted(moments.mean)
    return lambda W: sum(loss.of_statistics(forms.embed(W)).values()) + lam * W.square().sum()


def lowest_found(loss, moments, lam):
    value = total(loss, moments, lam)
    if loss.constraint == "orthogonal":
        return best_of_random_starts(lambda W: value(torch.linalg.qr(W)[0]), (moments.rank, H))
    return best_of_random_starts(value, (moments.rank, H))


def padded(W):
    """Components that were cut are zero columns of a W with H columns."""
    return torch.cat([W, W.new_zeros(len(W), H - W.shape[1])], dim=1)


def check_minimum(loss, moments, lam):
    solution = ClosedForm().solve(loss, moments, H, lam)
    W = solution.W if loss.constraint == "orthogonal" else padded(solution.W)
    value, lowest = total(loss, moments, lam)(W).item(), lowest_found(loss, moments, lam)
    assert value <= lowest + 1e-8
    assert value >= lowest - 1e-5, "random starts should come close to a global minimum of so small a problem"
    if W.shape[1] == solution.W.shape[1]:
        assert solution.history[-1]["total"] == pytest.approx(value, abs=1e-12)
    return solution


@pytest.mark.parametrize("lam", [pytest.param(0.0, marks=pytest.mark.full), 0.1])
@pytest.mark.parametrize("kind", ["exchangeable", "ordered"])
@pytest.mark.parametrize("loss", CLOSED, ids=str)
def test_closed_form_is_at_or_below_the_best_of_ten_random_starts(loss, kind, lam):
    check_minimum(loss, paired(kind).moments, lam)


@pytest.mark.parametrize("loss", [KernelPCA(), SpectralContrastive(), *VARIANTS], ids=str)
def test_closed_form_is_minimal_where_the_regulariser_cuts_components(loss):
    moments = paired("ordered").moments
    lam = next(lam for lam in np.geomspace(0.1, 10, 100) if loss.minimiser(moments, H, lam)[0].shape[1] < H)
    solution = check_minimum(loss, moments, lam)
    assert solution.dropped > 0


def test_simple_contrastive_is_minimal_with_explicit_negatives():
    solution = check_minimum(SimpleContrastive(), paired("with negatives").moments, 0.1)
    identity = torch.eye(H, dtype=torch.float64)
    assert torch.allclose(solution.W.mT @ solution.W, identity, atol=1e-12)


def test_kernel_pca_finds_the_principal_components_of_the_features():
    """Without regularisation, Z is the projection of the centred rows on their leading singular vectors."""
    Phi = paired("ordered").Phi1
    solution = ClosedForm().solve(KernelPCA(), Moments.of_rows(Phi), H, 0.0)
    Z = Phi @ solution.W + solution.gamma
    U, s, _ = torch.linalg.svd(Phi - Phi.mean(0), full_matrices=False)
    assert torch.allclose(Z.abs(), (U * s)[:, :H].abs(), atol=1e-10)
    assert solution.history[-1]["total"] == pytest.approx((s[H:] ** 2).sum().item() / len(Phi), abs=1e-10)


@pytest.mark.parametrize("lam", [0.0, 0.2])
def test_spectral_contrastive_has_the_value_of_its_positive_eigenvalues(lam):
    """min = -sum_i (e_i)_+^2 over the leading eigenvalues of S^(-1/2) (S_+ - lam/2) S^(-1/2)."""
    moments = paired("ordered").moments
    s, U = np.linalg.eigh(moments.S.numpy())
    root = U / np.sqrt(s) @ U.T
    e = np.linalg.eigvalsh(root @ (moments.S_plus.numpy() - lam / 2 * np.eye(len(s))) @ root)[::-1][:H]
    solution = ClosedForm().solve(SpectralContrastive(), moments, H, lam)
    assert solution.history[-1]["total"] == pytest.approx(-np.sum(np.maximum(e, 0) ** 2), abs=1e-10)


def test_quadratic_vicreg_at_beta_one_is_spectral_contrastive_on_centred_features():
    """|C - I|^2 + E|z1 - z2|^2 = |C|^2 - 2 tr C_12 + h, once the mean is gone."""
    data = paired("exchangeable")
    both = torch.cat([data.Phi1, data.Phi2])
    centred = Moments.of_pairs(data.Phi1 - both.mean(0), data.Phi2 - both.mean(0))
    W_vicreg, _ = VICReg(variance="quadratic", beta=1.0).minimiser(data.moments, H, 0.05)
    W_spectral, _ = SpectralContrastive().minimiser(centred, H, 0.05)
    assert torch.allclose(W_vicreg.abs(), W_spectral.abs(), atol=1e-8)


@pytest.mark.parametrize("loss", CLOSED, ids=str)
def test_the_rule_for_lambda_makes_the_solution_independent_of_the_kernels_scale(loss):
    """k -> c k with lam = regularization tr(S) / r leaves Z as it was; an orthonormal W lets it grow by sqrt(c)."""
    data, c = paired("ordered"), 9.0
    Z = []
    for factor in (1.0, c):
        moments = Moments.of_pairs(data.Phi1 * factor**0.5, data.Phi2 * factor**0.5)
        lam = 0.1 * moments.S.trace().item() / moments.rank
        solution = ClosedForm().solve(loss, moments, H, lam)
        Z.append(data.Phi1 * factor**0.5 @ solution.W + solution.gamma)
    grows = isinstance(loss, KernelPCA | SimpleContrastive)
    assert torch.allclose(Z[1].abs(), Z[0].abs() * (c**0.5 if grows else 1.0), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("loss", CLOSED, ids=str)
def test_moments_of_parts_give_the_solution_of_the_whole(loss):
    data = paired("ordered")
    whole = Moments.of_pairs(data.Phi1, data.Phi2)
    parts = Moments.of_pairs(data.Phi1[:11], data.Phi2[:11]) + Moments.of_pairs(
        data.Phi1[11:], data.Phi2[11:]
    )
    one, other = (ClosedForm().solve(loss, moments, H, 0.1) for moments in (whole, parts))
    assert torch.allclose(one.W, other.W, atol=1e-10)
    assert torch.allclose(one.gamma, other.gamma, atol=1e-10)
