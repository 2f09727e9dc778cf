"""What every loss owes: found by discovery, so that a new loss is held to it without a line here."""

from __future__ import annotations

import pytest
import torch
from sklearn.base import clone

from krepes.components import named, resolve
from krepes.losses import BarlowTwins, Batch, Loss, MomentLoss, VICReg, as_loss
from krepes.solvers import choose_solver
from krepes.solvers.base import regularizer
from paired_features import KINDS, paired

VARIANTS = [
    BarlowTwins(redundancy=0.7),
    BarlowTwins(center=False),
    BarlowTwins(redundancy=2.0, normalize=False),
    BarlowTwins(normalize=False, center=False),
    VICReg(variance="quadratic", beta=0.4),
]
LOSSES = [cls() for cls in named(Loss).values()] + VARIANTS
MOMENT_LOSSES = [loss for loss in LOSSES if isinstance(loss, MomentLoss)]


def random_map(r: int, h: int, seed: int = 1):
    generator = torch.Generator().manual_seed(seed)
    W = torch.randn(r, h, generator=generator, dtype=torch.float64) / 2
    return W, torch.randn(h, generator=generator, dtype=torch.float64)


def batch_of(loss, data, W, gamma):
    """The batch of the pairs that the moments stand for; a loss of single views sees both views as rows."""
    views = [data.Phi1, data.Phi2] + ([data.negatives] if data.negatives is not None else [])
    if loss.views_needed == 1:
        views = [torch.cat([data.Phi1, data.Phi2])]
    mu = data.moments.mean
    phi_norm = (views[0] - mu).square().sum(1)
    return Batch(tuple(Phi @ W + gamma for Phi in views), phi_norm=phi_norm, gram=W.mT @ W)


def gamma_for(loss, data, gamma):
    """Moments with negatives do not hold the negatives' mean: a loss that uses them has no intercept there."""
    return torch.zeros_like(gamma) if loss.uses_negatives and data.negatives is not None else gamma


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", MOMENT_LOSSES, ids=str)
def test_samples_and_moments_give_the_same_value(loss, kind):
    data = paired(kind)
    W, gamma = random_map(6, 3)
    gamma = gamma_for(loss, data, gamma)
    of_samples = loss.terms(batch_of(loss, data, W, gamma))
    of_moments = loss.of_moments(data.moments, W, gamma)
    assert of_samples.keys() == of_moments.keys()
    for name in of_samples:
        difference = (of_samples[name] - of_moments[name]).abs().item()
        assert difference <= 1e-10 * max(1.0, of_samples[name].abs().item()), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", MOMENT_LOSSES, ids=str)
def test_gradients_on_moments_agree_with_finite_differences(loss, kind):
    data = paired(kind)
    W, gamma = random_map(6, 3)
    if torch.equal(gamma_for(loss, data, gamma), gamma):
        parameters = (W.requires_grad_(), gamma.requires_grad_())
    else:
        parameters = (W.requires_grad_(),)

    def value(*parameters):
        return sum(loss.of_moments(data.moments, *parameters).values())

    assert torch.autograd.gradcheck(value, parameters)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_gradients_on_samples_agree_with_finite_differences(loss):
    data = paired("ordered", n=10)
    W, gamma = random_map(6, 3)

    def value(W, gamma):
        return sum(loss.terms(batch_of(loss, data, W, gamma)).values())

    assert torch.autograd.gradcheck(value, (W.requires_grad_(), gamma.requires_grad_()))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_terms_are_finite_scalars_in_the_dtype_of_the_embedding(loss):
    data = paired("ordered")
    W, gamma = random_map(6, 3)
    batch = batch_of(loss, data, W, gamma)
    batch.Z = tuple(Z.float() for Z in batch.Z)
    batch.phi_norm, batch.gram = batch.phi_norm.float(), batch.gram.float()
    terms = loss.terms(batch)
    assert terms
    for term in terms.values():
        assert term.ndim == 0
        assert term.dtype == torch.float32
        assert torch.isfinite(term)


@pytest.mark.parametrize("loss", MOMENT_LOSSES, ids=str)
def test_scale_invariance_is_as_declared_and_shared_by_the_regularizer(loss):
    from krepes.losses import MomentForms

    forms = MomentForms.of(paired("ordered").moments)
    W, gamma = random_map(6, 3)
    scale = torch.tensor([0.1, 3.0, 20.0], dtype=torch.float64)
    before, after = forms.embed(W, gamma), forms.embed(W * scale, gamma * scale)

    def values(statistics):
        return sum(loss.of_statistics(statistics).values()), regularizer(loss, statistics, 0.1)

    for value, scaled in zip(values(before), values(after), strict=True):
        assert torch.isclose(value, scaled, rtol=1e-10) == loss.scale_invariant


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_loss_is_a_component_and_knows_what_it_needs(loss):
    assert str(clone(loss)) == str(loss)
    assert type(resolve(Loss, loss.name)) is type(loss)
    assert as_loss(loss) is loss
    assert loss.views_needed in (1, 2)
    assert loss.intercept in ("zero", "centered", "learned")
    assert loss.constraint in (None, "orthogonal")
    assert choose_solver(loss).missing(loss) == []
    vars_before = dict(vars(loss))
    loss.terms(batch_of(loss, paired("ordered"), *random_map(6, 3)))
    assert vars(loss) == vars_before
