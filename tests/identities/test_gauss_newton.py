"""Gauss-Newton products agree with the matrix that they never form."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from krepes.base.components import named
from krepes.kernels import Gaussian
from krepes.landmarks.nystrom import NystromMap
from krepes.losses import BarlowTwins, Loss, VICReg
from krepes.losses.batch import SampleStatistics
from krepes.solvers.sgd.coordinates import Landmarks, Whitened
from krepes.solvers.sgd.gauss_newton import (
    MOMENT_ROWS,
    Curvature,
    Flat,
    GaussNewton,
    Metric,
)
from krepes.solvers.sgd.objective import GAMMA, Objective, P
from krepes.solvers.sgd.steps import StepRule
from sample_problems import fitted, full_batch, random_batch

LOSSES = [
    loss
    for loss in [
        *(cls() for cls in named(Loss).values()),
        BarlowTwins(center=False, redundancy=0.7),
        BarlowTwins(normalize=False, redundancy=1.0),
        VICReg(variance="quadratic"),
    ]
    if loss.offers("residuals") or loss.offers("logits")
]


def problem(loss, kind=Whitened, lam=0.3):
    generator = torch.Generator().manual_seed(1)
    landmarks = torch.randn(7, 2, generator=generator, dtype=torch.float64)
    coordinates = kind(NystromMap(Gaussian(1.0), landmarks, torch.float64))
    objective = Objective(loss, coordinates, lam)
    theta = {P: torch.randn(coordinates.width, 3, generator=generator, dtype=torch.float64)}
    if objective.learned:
        theta[GAMMA] = torch.randn(1, 3, generator=generator, dtype=torch.float64)
    if loss.offers("parameters"):
        theta |= {name: value.double() for name, value in loss.parameters(3, generator).items()}
    target = None
    if loss.target_decay is not None:
        target = {name: theta[name] + 0.1 for name in (P, GAMMA) if name in theta}
    return objective, theta, random_batch(loss, width=coordinates.width), target


def explicit_matrix(objective, theta, samples, target):
    """H = 2 J^T J, or J^T Q J, with J from automatic differentiation row by row."""
    flat, loss = Flat(theta), objective.loss

    def outputs(vector):
        batch = objective.batch(flat.unpacked(vector), samples, target)
        if loss.offers("residuals"):
            return loss.residuals(batch)
        values = loss.logits(batch).values
        return torch.where(torch.isfinite(values), values, 0.0).reshape(-1)

    start = flat.packed(theta)
    J = torch.autograd.functional.jacobian(outputs, start)
    if loss.offers("residuals"):
        H = 2 * J.mT @ J
    else:
        p = loss.logits(objective.batch(theta, samples, target)).values.softmax(1)
        Q = torch.block_diag(*(torch.diag(row) - torch.outer(row, row) for row in p)) / len(p)
        H = J.mT @ Q @ J
    scale = torch.ones(3, dtype=torch.float64)
    if loss.scale_invariant:
        scale = loss.column_scale(SampleStatistics(objective.batch(theta, samples, target)))
    regulariser = torch.autograd.functional.hessian(
        lambda v: objective.lam * (objective.coordinates.gram(flat.unpacked(v)[P]).diagonal() / scale).sum(),
        start,
    )
    return H + regulariser, flat


@pytest.mark.parametrize("kind", [Whitened, Landmarks])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_products_agree_with_the_explicit_matrix(loss, kind):
    """H d by two products with the features equals the matrix built from the explicit Jacobian, to 1e-8."""
    objective, theta, samples, target = problem(loss, kind)
    H, flat = explicit_matrix(objective, theta, samples, target)
    curvature = Curvature(objective, theta, samples, target)
    generator = torch.Generator().manual_seed(2)
    for _ in range(3):
        d = torch.randn(len(H), generator=generator, dtype=torch.float64)
        found = flat.packed(curvature.product(flat.unpacked(d)))
        assert (found - H @ d).abs().max() <= 1e-8 * (H @ d).abs().max()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_jacobian_products_agree_with_finite_differences(loss):
    objective, theta, samples, target = problem(loss)
    curvature, flat = Curvature(objective, theta, samples, target), Flat(theta)
    d = torch.randn(len(flat.packed(theta)), generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def outputs(t):
        batch = objective.batch(flat.unpacked(flat.packed(theta) + t * d), samples, target)
        return loss.residuals(batch) if loss.offers("residuals") else loss.logits(batch).values

    step = 1e-6
    expected = (outputs(step) - outputs(-step)) / (2 * step)
    finite = torch.isfinite(expected)
    found = curvature.jacobian(flat.unpacked(d))
    assert (found - expected)[finite].abs().max() <= 1e-6 * expected[finite].abs().max()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_transposed_products_are_transposed(loss):
    """v^T (J d) = (J^T v)^T d."""
    objective, theta, samples, target = problem(loss)
    curvature, flat = Curvature(objective, theta, samples, target), Flat(theta)
    generator = torch.Generator().manual_seed(4)
    d = torch.randn(len(flat.packed(theta)), generator=generator, dtype=torch.float64)
    Jd = curvature.jacobian(flat.unpacked(d))
    v = torch.randn(Jd.shape, generator=generator, dtype=torch.float64)
    v, Jd = (torch.where(torch.isfinite(Jd), values, 0.0) for values in (v, Jd))
    back = flat.packed(curvature.transposed_jacobian(v))
    assert (v * Jd).sum().item() == pytest.approx((back @ d).item(), rel=1e-9)


@pytest.mark.parametrize("loss", ["barlow_twins", "simclr"])
def test_steps_on_all_rows_never_raise_the_loss_and_beat_the_gradient(loss):
    low = GaussNewton(max_iter=20, damping=0.3)  # the gradient of all rows has no noise to damp
    newton = fitted(loss, full_batch(preconditioner=low, max_epochs=12))
    totals = [epoch["total"] for epoch in newton.history_]
    assert all(after <= before + 1e-12 for before, after in pairwise(totals))
    adam = fitted(loss, full_batch(learning_rate=0.02, max_epochs=12))
    assert totals[-1] < adam.history_[-1]["total"]
    assert newton.history_[-1]["jacobian_products"] > 0


def test_the_metric_is_solved_by_its_inverse():
    """D^-1 D d = d, D = S + floor mean(diag S) I over the columns' scale, S the mean over all rows gathered."""
    objective, theta, samples, _ = problem(BarlowTwins(center=False))
    metric, scale = Metric(floor=0.3), torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64)
    first, second = samples.first(5), random_batch(objective.loss, width=objective.coordinates.width, seed=3)
    for batch in (first, second):
        metric.gather(batch)
    Phi = torch.cat([*first.features, *second.features])
    S = Phi.mT @ Phi / len(Phi)
    D = S + 0.3 * S.diagonal().mean() * torch.eye(len(S), dtype=S.dtype)
    found = metric.times(theta, scale)
    torch.testing.assert_close(found[P], D @ theta[P] / scale)
    torch.testing.assert_close(found[GAMMA], theta[GAMMA] / scale)
    back = metric.solve(found, scale)
    for name in theta:
        torch.testing.assert_close(back[name], theta[name])


def test_a_step_on_one_batch_solves_the_damped_system():
    """theta - rate (H + mu D)^-1 g with the explicit H of the batch, where conjugate gradients are run to the end."""
    objective, theta, samples, _ = problem(BarlowTwins(normalize=False, redundancy=1.0))
    H, flat = explicit_matrix(objective, theta, samples, None)
    g, start = flat.packed(objective.gradient(theta, samples)[1]), flat.packed(theta)
    steps = GaussNewton(max_iter=1000, damping=2.0, tol=1e-13).steps(objective, theta, StepRule("adam", {}))
    steps.step(theta, samples, None, 0.1)
    scale = torch.ones(3, dtype=torch.float64)
    D = torch.stack(
        [flat.packed(steps.metric.times(flat.unpacked(e), scale)) for e in torch.eye(len(H), dtype=H.dtype)]
    )
    s = torch.linalg.solve(D, g)
    mu = 2 * (s @ H @ s) / (s @ D @ s)
    expected = 0.1 * torch.linalg.solve(H + mu * D, g)
    assert steps.mu == pytest.approx(mu.item(), rel=1e-8)
    torch.testing.assert_close(start - flat.packed(theta), expected, rtol=1e-6, atol=1e-12)


def test_the_curvature_is_that_of_the_batch_before():
    """A second step depends on the first batch only through its curvature, and on theta and S."""
    loss = BarlowTwins()

    def second_step(previous):
        objective, theta, samples, _ = problem(loss)
        steps = GaussNewton().steps(objective, theta, StepRule("adam", {}))
        steps.mu = 1.0
        steps.metric.gather(samples)
        steps.metric.rows = MOMENT_ROWS
        steps.previous = previous
        steps.step(theta, samples, None, 0.1)
        assert steps.previous is samples
        return theta[P]

    objective, _, samples, _ = problem(loss)
    other = random_batch(loss, width=objective.coordinates.width, seed=9)
    assert torch.equal(second_step(None), second_step(samples))
    assert not torch.allclose(second_step(None), second_step(other))
