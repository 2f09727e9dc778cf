"""What every loss owes: found by discovery, so that a new loss is held to it without a line here."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.base import clone
from torch.nn.functional import cross_entropy, one_hot

from krepes.base.components import named, resolve
from krepes.losses import (
    BYOL,
    Autoencoder,
    BarlowTwins,
    Batch,
    Loss,
    MomentForms,
    SimCLR,
    SpectralContrastive,
    VICReg,
    as_loss,
    check_loss,
)
from krepes.losses.batch import SampleStatistics
from krepes.solvers import choose_solver
from krepes.solvers.solver import regularizer
from paired_features import KINDS, paired
from refusals import refuses

VARIANTS = [
    SpectralContrastive(negatives="triplet"),
    BarlowTwins(redundancy=0.7),
    BarlowTwins(center=False),
    BarlowTwins(redundancy=2.0, normalize=False),
    BarlowTwins(normalize=False, center=False),
    VICReg(variance="quadratic", beta=0.4),
    SimCLR(temperature=0.1),
    BYOL(predictor="linear"),
    BYOL(hidden=5),
    Autoencoder(reconstruction="in_sample", covariance_weight=2.0),
    Autoencoder(decoder_kernel="linear", decoder_regularization=0.3),
]
LOSSES = [cls() for cls in named(Loss).values()] + VARIANTS
MOMENT_LOSSES = [loss for loss in LOSSES if loss.offers("of_statistics")]
LEAST_SQUARES = [loss for loss in LOSSES if loss.offers("residuals")]
CLASSIFICATIONS = [loss for loss in LOSSES if loss.offers("logits")]


def random_map(r: int, h: int, seed: int = 1):
    generator = torch.Generator().manual_seed(seed)
    W = torch.randn(r, h, generator=generator, dtype=torch.float64) / 2
    return W, torch.randn(h, generator=generator, dtype=torch.float64)


def own_parameters(loss, h=3):
    """The loss's own parameters, moved from where they start."""
    if not loss.offers("parameters"):
        return {}
    generator = torch.Generator().manual_seed(2)
    start = loss.parameters(h, generator)
    return {
        name: value + 0.1 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in start.items()
    }


def batch_of(loss, data, W, gamma, parameters=None):
    """The batch of the pairs that the moments stand for; a loss of single views sees both views as rows."""
    views = [data.Phi1, data.Phi2] + ([data.negatives] if data.negatives is not None else [])
    if loss.views_needed == 1:
        views = [torch.cat([data.Phi1, data.Phi2])]
    W_target, gamma_target = random_map(*W.shape, seed=5)
    return Batch(
        tuple(Phi @ W + gamma for Phi in views),
        X=views[0][:, :4],
        phi_norm_sq=(views[0] - data.moments.mean).square().sum(1),
        gram=W.mT @ W,
        target_Z=tuple(Phi @ W_target + gamma_target for Phi in views),
        parameters=own_parameters(loss, W.shape[1]) if parameters is None else parameters,
    )


def value_of(loss, batch):
    return torch.stack(list(loss.terms(batch).values())).sum()


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


@pytest.mark.parametrize("kind", ["ordered", "with negatives"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_gradients_on_samples_agree_with_finite_differences(loss, kind):
    """With respect to W, gamma and the loss's own parameters; the regulariser is part of it."""
    data = paired(kind, n=10)
    own = own_parameters(loss)

    def value(W, gamma, *values):
        batch = batch_of(loss, data, W, gamma, dict(zip(own, values, strict=True)))
        return value_of(loss, batch) + regularizer(loss, SampleStatistics(batch), 0.1)

    variables = (*random_map(6, 3), *own.values())
    assert torch.autograd.gradcheck(value, tuple(variable.requires_grad_() for variable in variables))


@pytest.mark.parametrize("loss", LEAST_SQUARES, ids=str)
def test_the_squared_length_of_the_residuals_is_the_loss(loss):
    batch = batch_of(loss, paired("ordered"), *random_map(6, 3))
    residuals = loss.residuals(batch)
    assert residuals.ndim == 1
    assert torch.isclose(residuals @ residuals, value_of(loss, batch), rtol=1e-12)


@pytest.mark.parametrize("loss", CLASSIFICATIONS, ids=str)
def test_the_mean_cross_entropy_of_the_logits_is_the_loss(loss):
    batch = batch_of(loss, paired("ordered"), *random_map(6, 3))
    values, targets = loss.logits(batch)
    assert torch.isclose(cross_entropy(values, targets), value_of(loss, batch), rtol=1e-12)
    assert torch.isfinite(values.gather(1, targets[:, None])).all()


@pytest.mark.parametrize("loss", [*LEAST_SQUARES, *CLASSIFICATIONS], ids=str)
def test_jacobian_products_of_residuals_and_logits(loss):
    """J by forward and by reverse products is one matrix, and J^T of the inner gradient is the loss's gradient.

    The inner gradient is 2 r for residuals, (softmax - one-hot) / rows for logits.
    """
    batch = batch_of(loss, paired("ordered", n=10), *random_map(6, 3))
    views, own = len(batch.Z), batch.parameters
    generator = torch.Generator().manual_seed(3)

    def normal(like):
        return torch.randn(like.shape, generator=generator, dtype=like.dtype)

    def with_variables(*u):
        return replace(batch, Z=u[:views], parameters=dict(zip(own, u[views:], strict=True)))

    def function(*u):
        changed = with_variables(*u)
        if loss.offers("residuals"):
            return loss.residuals(changed)
        values = loss.logits(changed).values
        return torch.where(values.isinf(), 0.0, values)  # what is no choice has no derivative either

    u = (*(Z.detach() for Z in batch.Z), *own.values())
    directions = tuple(normal(x) for x in u)
    outputs, pushed = torch.func.jvp(function, u, directions)
    transposed = torch.func.vjp(function, *u)[1]
    v = normal(outputs)
    pulled = sum((d * x).sum() for d, x in zip(directions, transposed(v), strict=True))
    assert torch.isclose((pushed * v).sum(), pulled, rtol=1e-9)

    if loss.offers("residuals"):
        inner = 2 * outputs
    else:
        values, targets = loss.logits(batch)
        inner = (values.softmax(1) - one_hot(targets, values.shape[1])) / len(values)
    gradients = torch.func.grad(lambda *u: value_of(loss, with_variables(*u)), argnums=tuple(range(len(u))))(
        *u
    )
    for expected, found in zip(gradients, transposed(inner), strict=True):
        assert torch.allclose(expected, found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_terms_are_finite_scalars_in_the_dtype_of_the_embedding(loss):
    batch = batch_of(loss, paired("ordered"), *random_map(6, 3))
    small = Batch(
        tuple(Z.float() for Z in batch.Z),
        batch.X.float(),
        batch.phi_norm_sq.float(),
        batch.gram.float(),
        tuple(Z.float() for Z in batch.target_Z),
        {name: value.float() for name, value in batch.parameters.items()},
    )
    exact, terms = loss.terms(batch), loss.terms(small)
    assert terms
    for name, term in terms.items():
        assert term.ndim == 0
        assert term.dtype == torch.float32
        assert torch.isclose(term.double(), exact[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", MOMENT_LOSSES, ids=str)
def test_scale_invariance_is_as_declared_and_shared_by_the_regularizer(loss):
    forms = MomentForms.of(paired("ordered").moments)
    W, gamma = random_map(6, 3)
    scale = torch.tensor([0.1, 3.0, 20.0], dtype=torch.float64)
    before, after = forms.embed(W, gamma), forms.embed(W * scale, gamma * scale)

    def values(statistics):
        return sum(loss.of_statistics(statistics).values()), regularizer(loss, statistics, 0.1)

    for value, scaled in zip(values(before), values(after), strict=True):
        assert torch.isclose(value, scaled, rtol=1e-10) == loss.scale_invariant


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_one_factor_on_the_embedding_changes_value_and_regularizer_or_neither(loss):
    data = paired("ordered")
    W, gamma = random_map(6, 3)

    def values(factor):
        batch = batch_of(loss, data, factor * W, factor * gamma)
        return value_of(loss, batch), regularizer(loss, SampleStatistics(batch), 0.1)

    for value, scaled in zip(values(1.0), values(7.0), strict=True):
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
    batch = batch_of(loss, paired("ordered"), *random_map(6, 3))
    value = value_of(loss, batch)
    assert vars(loss) == vars_before
    unread = {field: None for field in ("X", "phi_norm_sq", "gram") if field not in loss.needs}
    if not loss.target_decay is not None:
        unread["target_Z"] = None
    assert torch.equal(value_of(loss, replace(batch, **unread)), value)
    for field in loss.needs:
        with refuses(ValueError, field):
            loss.terms(replace(batch, **{field: None}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("h", [2, 9])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_every_loss_passes_its_own_check(loss, h, dtype):
    check_loss(loss, h, dtype=dtype)
    check_loss(loss, h, n_rows=30, n_views=3, dtype=dtype)


def test_a_class_offers_what_it_writes():
    class Own(Loss):
        target_decay = 0.9

        def terms(self, batch):
            return {"error": self.residuals(batch).square().sum()}

        def residuals(self, batch):
            return (batch.Z[0] - batch.Z[1]).flatten() / len(batch.Z[0]) ** 0.5

    optional = (
        "of_statistics",
        "minimiser",
        "start",
        "smoothed",
        "sufficient_lam",
        "column_scale",
        "parameters",
    )
    assert [name for name in (*optional, "residuals", "logits") if Own().offers(name)] == ["residuals"]
    assert Own().target_decay == 0.9
    with refuses(ValueError, "Own()", "minimiser()"):
        Own().minimiser(paired("exchangeable").moments, 2, 0.1)
    check_loss(Own())


def test_what_a_loss_offers_goes_with_its_settings():
    with refuses(ValueError, "VICReg()", "minimiser()"):
        VICReg().minimiser(paired("exchangeable").moments, 2, 0.1)
    W, _ = VICReg(variance="quadratic").minimiser(paired("exchangeable").moments, 2, 0.1)
    assert W.shape[1] == 2


def batch_alone(loss):
    """A batch with nothing but what a call can be given."""
    Z = torch.randn(3, 8, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Batch(tuple(Z[: loss.views_needed + loss.uses_negatives]), X=Z[0])


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_call_is_the_sum_of_the_terms_or_says_what_it_lacks(loss):
    batch = batch_alone(loss)
    X = batch.X if "X" in loss.needs else None
    lacking = [name for name in loss.needs if name != "X"] + ["target_Z"] * (loss.target_decay is not None)
    if lacking:
        with refuses(ValueError, type(loss).__name__, lacking[0]):
            loss(*batch.Z, X=X)
        return
    Z = tuple(z.clone().requires_grad_() for z in batch.Z)
    value = loss(*Z, X=X)
    torch.testing.assert_close(value, value_of(loss, batch))
    torch.testing.assert_close(loss(*(z.numpy() for z in batch.Z), X=X), value.detach())
    value.backward()
    assert all(z.grad is not None for z in Z)
    assert loss(*(z.float() for z in batch.Z), X=X).dtype == torch.float32


@pytest.mark.parametrize("loss", [BarlowTwins(), SpectralContrastive(negatives="triplet"), SimCLR()], ids=str)
def test_a_call_with_another_number_of_views_is_refused(loss):
    Z = torch.eye(3)
    for count in (0, 1, 3 + loss.uses_negatives):
        with refuses(ValueError, f"{count} embeddings", "2"):
            loss(*[Z] * count)
    with refuses(ValueError, "(2, 3)", "(3, 3)"):
        loss(Z, Z[:2])
    with refuses(ValueError, "(3,)"):
        loss(Z[0], Z[0])


def test_a_call_takes_negatives_samples_and_modules():
    anchors, positives, negatives = (torch.tensor([[x]]) for x in (1.0, 2.0, -1.0))
    assert as_loss("simple_contrastive")(anchors, positives, negatives).item() == -3.0
    with refuses(ValueError, "loss(Z, X=...)"):
        Autoencoder()(torch.eye(3))
    module = torch.nn.Bilinear(2, 2, 1)
    Z = torch.ones(4, 2)
    as_loss(lambda Z1, Z2: module(Z1, Z2).mean())(Z, Z).backward()
    expected = module.weight.grad.clone()
    module.zero_grad()

    class Mean(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, Z1, Z2):
            return self.inner(Z1, Z2).mean()

    as_loss(Mean())(Z, Z).backward()
    assert torch.equal(module.weight.grad, expected)
