"""Every loss has the value of its formula, written as loops over samples; ordered pairs included."""

from __future__ import annotations

import pytest
import torch

import oracles
from krepes.losses import (
    BarlowTwins,
    Batch,
    KernelPCA,
    MomentForms,
    SimpleContrastive,
    SpectralContrastive,
    VICReg,
)
from krepes.moments import Moments
from paired_features import KINDS, paired


@pytest.fixture(params=KINDS)
def data(request):
    return paired(request.param, n=12, r=5)


@pytest.fixture
def W():
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64) / 2


def value(loss, data, W, gamma=None):
    return sum(loss.of_moments(data.moments, W, gamma).values()).item()


def embedded(data, W, gamma=0.0):
    views = [data.Phi1, data.Phi2, data.negatives]
    return [None if Phi is None else (Phi @ W + gamma).numpy() for Phi in views]


def close(actual, expected):
    return actual == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_kernel_pca(data, W):
    """The cross term is -2 tr C, the square's own; [krepes] prints -1."""
    rows = torch.cat([data.Phi1, data.Phi2])
    gamma = -W.mT @ rows.mean(0)
    assert close(value(KernelPCA(), data, W, gamma), oracles.kernel_pca(rows, W))


def test_kernel_pca_counts_what_the_landmarks_do_not_span(W):
    """With k(x, x) above |phi(x)|^2, the difference is part of the error whatever W is."""
    Phi = paired("ordered", r=5).Phi1
    norms = Phi.square().sum().item() + 2.5 * len(Phi)
    moments = Moments.of_rows(Phi, trace=norms)
    of_moments = KernelPCA().of_moments(moments, W, -W.mT @ moments.mean)["reconstruction"]
    assert close(of_moments.item(), oracles.kernel_pca(Phi, W, outside=2.5))


def test_simple_contrastive(data, W):
    Z1, Z2, negatives = embedded(data, W)
    assert close(value(SimpleContrastive(), data, W), oracles.simple_contrastive(Z1, Z2, negatives))


def test_spectral_contrastive(data, W):
    Z1, Z2, _ = embedded(data, W)
    assert close(value(SpectralContrastive(), data, W), oracles.spectral_contrastive(Z1, Z2))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("center", [True, False])
def test_barlow_twins(data, W, normalize, center):
    gamma = torch.tensor([0.5, -1.0, 0.2], dtype=torch.float64)
    Z1, Z2, _ = embedded(data, W, gamma)
    loss = BarlowTwins(redundancy=0.3, normalize=normalize, center=center)
    assert close(value(loss, data, W, gamma), oracles.barlow_twins(Z1, Z2, 0.3, normalize, center))


def test_vicreg_hinge(data, W):
    W = W * torch.tensor([0.2, 1.0, 5.0], dtype=torch.float64)  # components on both sides of the hinge
    Z1, Z2, _ = embedded(data, W, gamma=1.0)
    loss = VICReg(invariance_weight=3.0, variance_weight=5.0, covariance_weight=2.0)
    gamma = torch.ones(3, dtype=torch.float64)
    assert close(value(loss, data, W, gamma), oracles.vicreg_hinge(Z1, Z2, 3.0, 5.0, 2.0))


def test_vicreg_quadratic(data, W):
    Z1, Z2, _ = embedded(data, W, gamma=1.0)
    loss = VICReg(variance="quadratic", beta=0.7)
    gamma = torch.ones(3, dtype=torch.float64)
    assert close(value(loss, data, W, gamma), oracles.vicreg_quadratic(Z1, Z2, 0.7))


@pytest.mark.parametrize("loss", [BarlowTwins(), VICReg()], ids=str)
def test_a_component_that_does_not_vary_has_correlation_zero(loss):
    """A constant column is no division by zero: Barlow Twins counts it as (1 - 0)^2, with a finite gradient."""
    Z = torch.randn(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    Z[:, 1] = 3.0
    Z.requires_grad_()
    terms = loss.terms(Batch((Z, Z * 1.0)))
    sum(terms.values()).backward()
    assert torch.isfinite(Z.grad).all()
    if isinstance(loss, BarlowTwins):
        assert terms["invariance"].item() == pytest.approx(1.0, abs=1e-12)
        assert terms["redundancy"].item() == 0.0


@pytest.mark.parametrize("width", [0.1, 0.01])
def test_smoothed_vicreg_lies_within_its_bounds(data, width):
    """loss <= smoothed(width) <= loss + variance_weight * width / 4, with the corner crossed by some components."""
    loss, seen = VICReg(), set()
    for seed in range(20):
        W = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        W = W / MomentForms.of(data.moments).embed(W).variance.sqrt()  # at the corner, where it matters
        exact, smooth = value(loss, data, W), value(loss.smoothed(width), data, W)
        assert exact - 1e-12 <= smooth <= exact + 25 * width / 4 + 1e-12
        seen.add(smooth > exact + 1e-6)
    assert True in seen
