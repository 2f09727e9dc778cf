"""Moments at the edge: singular, constant, too few rows, too many components, bad arguments, foreign losses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from krepes.losses import (
    BarlowTwins,
    Batch,
    CallableLoss,
    KernelPCA,
    SimpleContrastive,
    SpectralContrastive,
    VICReg,
    as_loss,
)
from krepes.moments import Moments
from krepes.solvers import SGD, ClosedForm, MomentDescent, choose_solver
from paired_features import paired
from refusals import refuses

LOSSES = [
    KernelPCA(),
    SimpleContrastive(),
    SpectralContrastive(),
    VICReg(),
    VICReg(variance="quadratic"),
    BarlowTwins(),
    BarlowTwins(redundancy=1.0, normalize=False),
]
CENTRED = [loss for loss in LOSSES if loss.intercept == "centered"]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def solved(loss, moments, h=3, lam=0.0):
    solution = choose_solver(loss).solve(loss, moments, h, lam)
    assert torch.isfinite(solution.W).all()
    assert torch.isfinite(solution.gamma).all()
    assert all(torch.isfinite(torch.tensor(list(values.values()))).all() for values in solution.history)
    assert solution.W.shape[1] == h - solution.dropped
    return solution


@pytest.mark.parametrize("lam", [0.0, 0.01])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_directions_without_data_change_nothing(loss, lam):
    """Features padded with zeros give the solution of the features, with zero rows."""
    data, zeros = paired("exchangeable"), torch.zeros(240, 4, dtype=torch.float64)
    plain = Moments.of_views(data.Phi1, data.Phi2)
    padded = Moments.of_views(torch.cat([data.Phi1, zeros], 1), torch.cat([data.Phi2, zeros], 1))
    one, other = solved(loss, plain, lam=lam), solved(loss, padded, lam=lam)
    assert other.W[6:].abs().max() < 1e-9
    assert other.history[-1]["total"] == pytest.approx(one.history[-1]["total"], rel=1e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_more_components_than_rank_gives_as_many_as_there_are(loss):
    signal = normal(30, 2) @ normal(2, 6, seed=1)
    moments = Moments.of_views(signal, signal)  # rank 2, no augmentation: every direction agrees perfectly
    solution = solved(loss, moments, h=5)
    assert solution.W.shape == (6, 2)
    assert solution.dropped == 3


@pytest.mark.parametrize("loss", CENTRED, ids=str)
def test_constant_data_leave_nothing_and_the_error_says_so(loss):
    constant = torch.full((20, 4), 0.3, dtype=torch.float64)
    with refuses(ValueError, "component", "features"):
        solved(loss, Moments.of_views(constant, constant))


def test_constant_data_have_one_uncentred_component():
    constant = torch.full((20, 4), 0.3, dtype=torch.float64)
    solution = solved(SpectralContrastive(), Moments.of_views(constant, constant))
    assert solution.W.shape == (4, 1)
    assert (constant @ solution.W).abs().mean().item() == pytest.approx(1.0)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_features_that_are_all_zero_are_an_error_and_not_nan(loss):
    zeros = torch.zeros(5, 3, dtype=torch.float64)
    with refuses(ValueError, "component"):
        solved(loss, Moments.of_views(zeros, zeros))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_one_sample(loss):
    Phi = normal(1, 4)
    moments = Moments.of_views(Phi, Phi)
    if loss.intercept == "zero" and not loss.uses_negatives:
        assert solved(loss, moments).W.shape == (4, 1)
    else:
        with refuses(ValueError, "component"):
            solved(loss, moments)


@pytest.mark.parametrize(
    "loss", [loss for loss in LOSSES if loss.offers("minimiser") and not loss.constraint], ids=str
)
def test_a_regulariser_that_cuts_everything_is_an_error_that_names_it(loss):
    with refuses(ValueError, "lam=1e+06"):
        solved(loss, paired("ordered").moments, lam=1e6)


def test_rounding_in_single_precision_makes_no_components():
    """40 rows in 60 features, products summed in float32: the 20 empty directions hold noise, not components."""
    signal = normal(20, 60).float()
    views = [signal + 0.1 * normal(20, 60, seed=seed).float() for seed in (1, 2)]
    S = sum((Phi.mT @ Phi for Phi in views[1:]), start=views[0].mT @ views[0]).double() / 2
    cross = (views[0].mT @ views[1]).double()
    mean = (views[0].sum(0) + views[1].sum(0)).double() / 2
    moments = Moments(20, mean, mean, S, S, (cross + cross.mT) / 2, trace=S.trace().item())
    assert torch.linalg.eigvalsh(S)[0] < 0, "the sums should carry visible rounding"
    solution = solved(SpectralContrastive(), moments, h=60)
    Z = torch.cat([Phi.double() @ solution.W for Phi in views])
    assert solution.W.shape[1] == 20, "the rows share 20 directions"
    assert torch.allclose(Z.square().mean(0), torch.ones(20, dtype=torch.float64), atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@given(
    n=st.integers(1, 12),
    r=st.integers(1, 8),
    h=st.integers(1, 10),
    rank=st.integers(0, 8),
    lam=st.sampled_from([0, 1e-3, 1.0]),
)
def test_any_moments_give_finite_components_or_a_clear_error(loss, n, r, h, rank, lam):
    signal = normal(n, min(rank, r)) @ normal(min(rank, r), r, seed=2)
    moments = Moments.of_pairs(signal, signal + 0.1 * normal(n, r, seed=3) * (rank % 2))
    try:
        solved(loss, moments, h, float(lam))
    except ValueError as error:
        assert "component" in str(error)  # noqa: PT017


@pytest.mark.parametrize("loss", [BarlowTwins(), SpectralContrastive()], ids=str)
def test_moments_of_single_views_are_refused_by_losses_of_pairs(loss):
    with refuses(ValueError, "views=", "positives="):
        solved(loss, Moments.of_rows(normal(10, 3)))


@pytest.mark.parametrize("solver", [ClosedForm(), MomentDescent()], ids=str)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 0.1), "n_components=0"), ((2, -1.0), "lam=-1.0"), ((2, float("nan")), "lam=nan")],
)
def test_arguments_out_of_range(solver, arguments, message):
    with refuses(ValueError, message):
        solver.solve(KernelPCA(), Moments.of_rows(normal(10, 3)), *arguments)


def test_moments_with_nan_are_refused():
    Phi = normal(10, 3)
    Phi[0, 0] = torch.nan
    with refuses(ValueError, "NaN"):
        ClosedForm().solve(KernelPCA(), Moments.of_rows(Phi), 2, 0.0)


def test_an_unfinished_descent_says_so_and_is_not_above_its_start():
    solution = MomentDescent(max_iter=2).solve(BarlowTwins(), paired("ordered").moments, 3, 0.0)
    assert not solution.converged
    assert solution.n_iter == 2
    assert solution.history[-1]["total"] < solution.history[0]["total"]


def test_a_callable_is_a_loss_of_samples():
    loss = as_loss(lambda Z1, Z2: (Z1 - Z2).square().mean())
    assert isinstance(loss, CallableLoss)
    assert loss.terms(Batch((torch.ones(2, 1), torch.zeros(2, 1))))["loss"].item() == 1.0
    assert isinstance(choose_solver(loss), SGD)
    with refuses(ValueError, "moment_descent", "of_statistics"):
        MomentDescent().solve(loss, paired("ordered").moments, 2, 0.0)


@pytest.mark.parametrize("value", [torch.ones(3), 1.0, None])
def test_a_callable_that_returns_no_scalar_is_named(value):
    with refuses(ValueError, "scalar", "tensor"):
        as_loss(lambda Z1, Z2: value).terms(Batch((torch.ones(2, 1), torch.zeros(2, 1))))


def test_a_batch_without_what_the_loss_needs_is_named():
    with refuses(ValueError, "phi_norm_sq"):
        KernelPCA().terms(Batch((torch.ones(2, 1),), gram=torch.eye(1)))
    with refuses(ValueError, "2 views"):
        BarlowTwins().terms(Batch((torch.ones(2, 1),)))


def test_an_unknown_variance_term_is_named():
    with refuses(ValueError, "variance='cubic'", "'hinge'", "'quadratic'"):
        solved(VICReg(variance="cubic"), paired("ordered").moments)


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (BarlowTwins(redundancy=-1.0), "redundancy=-1.0"),
        (VICReg(covariance_weight=float("nan")), "covariance_weight=nan"),
        (VICReg(variance="quadratic", beta=-2.0), "beta=-2.0"),
    ],
)
def test_weights_out_of_range_are_named(loss, name):
    with refuses(ValueError, name):
        solved(loss, paired("ordered").moments)


@pytest.mark.parametrize("value", ["barlow", 3])
def test_unknown_losses_are_refused_with_the_known_names(value):
    with refuses((ValueError, TypeError), "barlow_twins"):
        as_loss(value)
