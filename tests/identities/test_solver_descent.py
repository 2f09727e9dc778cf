"""Descent on the moments: it reaches what can be reached, from a start that is no saddle."""

from __future__ import annotations

import pytest
import torch

from krepes.losses import BarlowTwins, KernelPCA, MomentForms, SpectralContrastive, VICReg
from krepes.moments import Moments
from krepes.solvers import ClosedForm, MomentDescent
from krepes.solvers.solver import objective
from paired_features import paired
from random_starts import best_of_random_starts

H = 3
EXACT = MomentDescent(max_iter=300, tol=1e-10)
SMOOTH = [BarlowTwins(), BarlowTwins(redundancy=1.0), BarlowTwins(redundancy=0.5, normalize=False)]


def total(loss, moments, lam):
    """The regularised loss as a function of W and gamma."""
    forms = MomentForms.of(moments)
    return lambda W, gamma=None: objective(loss, forms.embed(W, gamma), lam)[0]


@pytest.mark.parametrize("lam", [0.0, 0.05])
@pytest.mark.parametrize("kind", ["exchangeable", "ordered"])
@pytest.mark.parametrize(
    "loss",
    [
        KernelPCA(),
        SpectralContrastive(),
        VICReg(variance="quadratic", beta=0.5),
        BarlowTwins(redundancy=1.0, normalize=False),
    ],
    ids=str,
)
def test_descent_reaches_the_closed_form(loss, kind, lam):
    moments = paired(kind).moments
    exact = ClosedForm().solve(loss, moments, H, lam).history[-1]["total"]
    found = EXACT.solve(loss, moments, H, lam)
    assert found.converged
    assert found.history[-1]["total"] == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("lam", [pytest.param(0.0, marks=pytest.mark.full), 0.05])
@pytest.mark.parametrize("kind", ["exchangeable", "ordered"])
@pytest.mark.parametrize("loss", SMOOTH, ids=str)
def test_descent_ends_where_the_best_random_start_ends(loss, kind, lam):
    moments = paired(kind).moments
    lowest = best_of_random_starts(total(loss, moments, lam), (6, H), starts=4)
    assert EXACT.solve(loss, moments, H, lam).history[-1]["total"] <= lowest + 1e-6 * abs(lowest) + 1e-10


@pytest.mark.parametrize("kind", ["exchangeable", "ordered"])
def test_hinge_vicreg_ends_where_the_best_random_start_ends(kind):
    """The hinge has a corner at standard deviation 1, where many components end."""
    moments = paired(kind).moments
    lowest = best_of_random_starts(total(VICReg(), moments, 0.01), (6, H), starts=3, maxiter=150)
    assert MomentDescent().solve(VICReg(), moments, H, 0.01).history[-1]["total"] <= lowest * (1 + 1e-4)


@pytest.mark.parametrize(("noise", "lam"), [(0.05, 0.1), (0.6, 0.0)])
@pytest.mark.parametrize(
    "loss",
    [VICReg(), VICReg(variance_weight=8.0), VICReg(covariance_weight=0.0), VICReg(invariance_weight=5.0)],
    ids=str,
)
def test_hinge_vicreg_of_shared_moments_is_solved_without_descent(loss, noise, lam):
    """With the corner rounded over 0.01 the loss is nowhere lower, and higher by at most 0.01/4 of its weight; so is
    its least value, which random starts find. Components have one variance, at the corner or below."""
    moments = paired("exchangeable", noise=noise).moments
    rounded = best_of_random_starts(total(loss.smoothed(0.01), moments, lam), (6, H), starts=4, maxiter=100)
    solution = MomentDescent().solve(loss, moments, H, lam)
    found = total(loss, moments, lam)(solution.W, solution.gamma).item()
    assert (solution.n_iter, solution.converged, solution.dropped) == (1, True, 0)
    assert found == pytest.approx(solution.history[-1]["total"], rel=1e-12)
    assert rounded - loss.variance_weight * 0.01 / 4 <= found <= rounded
    variances = MomentForms.of(moments).embed(solution.W).variance_1
    assert torch.allclose(variances, variances[0].expand(H), rtol=1e-10)
    assert variances[0] <= 1 - 1e-4 + 1e-10


def test_hinge_vicreg_ends_below_its_corner_where_views_share_little():
    """There the loss is smooth, so that its gradient at the minimum must vanish."""
    moments = paired("exchangeable", noise=2.0).moments
    solution = MomentDescent().solve(VICReg(variance_weight=8.0), moments, H, 0.1)
    W = solution.W.clone().requires_grad_()
    total(VICReg(variance_weight=8.0), moments, 0.1)(W).backward()
    assert MomentForms.of(moments).embed(solution.W).variance_1.max() < 0.9
    assert W.grad.abs().max() < 1e-8


def test_hinge_vicreg_with_a_large_covariance_weight_descends():
    """Components of unequal variance are better then, and the known start is not claimed to be the minimum."""
    loss, moments = VICReg(covariance_weight=10.0), paired("exchangeable").moments
    lowest = best_of_random_starts(total(loss, moments, 0.01), (6, H), starts=3, maxiter=150)
    solution = MomentDescent().solve(loss, moments, H, 0.01)
    assert solution.n_iter > 1
    assert solution.history[-1]["total"] <= lowest * (1 + 1e-3)


@pytest.mark.parametrize("normalize", [True, False])
def test_uncentred_barlow_twins_learns_its_intercept(normalize):
    loss, moments = BarlowTwins(normalize=normalize, center=False), paired("ordered").moments

    value = total(loss, moments, 0.05)
    lowest = best_of_random_starts(lambda both: value(both[:-1], both[-1]), (7, H), starts=4)
    solution = EXACT.solve(loss, moments, H, 0.05)
    assert solution.gamma.abs().max() > 1e-3
    assert value(solution.W, solution.gamma).item() <= lowest + 1e-6 * abs(lowest)


def test_barlow_twins_leaves_the_saddle_of_canonical_correlations():
    """Canonical directions of correlation rho give sum (1 - rho)^2 and no gradient that mixes them; better exists."""
    moments, loss = paired("exchangeable").moments, BarlowTwins(redundancy=1.0)
    V = moments.covariance
    V_plus = moments.S_plus - torch.outer(moments.mean, moments.mean)
    s, U = torch.linalg.eigh(V)
    root = U / s.sqrt()
    rho, Q = torch.linalg.eigh(root.mT @ V_plus @ root)
    W = (root @ Q[:, -H:]).requires_grad_()
    canonical = total(loss, moments, 0.0)(W)
    assert canonical.item() == pytest.approx((1 - rho[-H:]).square().sum().item(), abs=1e-10)
    canonical.backward()
    assert W.grad.abs().max() < 1e-10
    assert EXACT.solve(loss, moments, H, 0.0).history[-1]["total"] < canonical.item() - 1e-4


@pytest.mark.parametrize("loss", [BarlowTwins(), BarlowTwins(center=False)], ids=str)
@pytest.mark.parametrize("kind", ["exchangeable", "ordered"])
def test_normalised_columns_come_back_with_unit_scale(loss, kind):
    moments = paired(kind).moments
    solution = MomentDescent().solve(loss, moments, H, 0.05)
    statistics = MomentForms.of(moments).embed(solution.W, solution.gamma)
    assert torch.allclose(loss.column_scale(statistics), torch.ones(H, dtype=torch.float64), atol=1e-10)
    value = total(loss, moments, 0.05)(solution.W, solution.gamma).item()
    assert value == pytest.approx(solution.history[-1]["total"], rel=1e-10)


@pytest.mark.parametrize("loss", [BarlowTwins(), VICReg()], ids=str)
def test_a_centred_loss_returns_centred_embeddings(loss):
    data = paired("exchangeable")
    solution = MomentDescent().solve(loss, data.moments, H, 0.05)
    Z = data.Phi1 @ solution.W + solution.gamma
    assert Z.mean(0).abs().max() < 1e-10


@pytest.mark.parametrize("loss", [BarlowTwins(), VICReg()], ids=str)
def test_the_rule_for_lambda_makes_descent_independent_of_the_kernels_scale(loss):
    data, Z = paired("ordered"), []
    for factor in (1.0, 9.0):
        moments = Moments.of_pairs(data.Phi1 * factor**0.5, data.Phi2 * factor**0.5)
        lam = 0.1 * moments.S.trace().item() / moments.rank
        solution = MomentDescent(max_iter=15).solve(loss, moments, H, lam)
        Z.append(data.Phi1 * factor**0.5 @ solution.W + solution.gamma)
    assert torch.allclose(Z[0], Z[1], rtol=1e-5, atol=1e-6)


def test_a_component_that_the_regulariser_drives_to_zero_is_dropped():
    """Where the closed form has fewer components, descent finds the same ones and reports as many missing."""
    moments, loss = paired("ordered").moments, BarlowTwins(redundancy=4.0, normalize=False)
    lam = 0.6
    exact, found = (solver.solve(loss, moments, H, lam) for solver in (ClosedForm(), EXACT))
    assert exact.dropped > 0
    assert found.dropped == exact.dropped
