"""What every solver of moments owes, for every loss it accepts: found by discovery."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from sklearn.base import clone

from krepes.base.components import named, resolve
from krepes.base.storage.packing import digest
from krepes.losses import BarlowTwins, Loss, VICReg
from krepes.solvers import Solver
from paired_features import paired
from refusals import refuses

SOLVERS = [solver for solver in named(Solver).values() if solver.data == "moments"]
LOSSES = [cls() for cls in named(Loss).values()] + [
    BarlowTwins(redundancy=1.0, normalize=False),
    BarlowTwins(center=False),
    VICReg(variance="quadratic"),
]
ACCEPTED = [(solver(), loss) for solver in SOLVERS for loss in LOSSES if not solver.missing(loss)]
REFUSED = [(solver(), loss) for solver in SOLVERS for loss in LOSSES if solver.missing(loss)]


def solve(solver, loss, kind="exchangeable", **more):
    return solver.solve(loss, paired(kind).moments, 3, 0.02, **more)


@pytest.mark.parametrize("kind", ["exchangeable", "ordered"])
@pytest.mark.parametrize(("solver", "loss"), ACCEPTED, ids=str)
def test_a_solution_is_complete(solver, loss, kind):
    solution = solve(solver, loss, kind)
    assert solution.W.shape == (6, 3 - solution.dropped)
    assert solution.gamma.shape == (3 - solution.dropped,)
    assert solution.W.dtype == solution.gamma.dtype == torch.float64
    assert not solution.W.requires_grad
    assert torch.isfinite(solution.W).all()
    assert torch.isfinite(solution.gamma).all()
    assert solution.solver == solver.name
    assert solution.n_iter >= 1
    if loss.intercept == "zero":
        assert not solution.gamma.any()


@pytest.mark.parametrize(("solver", "loss"), ACCEPTED, ids=str)
def test_the_history_names_every_term_and_never_rises(solver, loss):
    seen = []
    solution = solve(solver, loss, callback=lambda step, values: seen.append((step, values)))
    for values in solution.history:
        parts = [value for name, value in values.items() if name != "total"]
        assert values["total"] == pytest.approx(sum(parts), abs=1e-10)
        assert "regularizer" in values
    totals = [values["total"] for values in solution.history]
    assert all(after <= before + 1e-12 for before, after in pairwise(totals))
    assert [values for _, values in seen] == solution.history


@pytest.mark.parametrize(("solver", "loss"), ACCEPTED, ids=str)
def test_the_same_moments_give_the_same_bits_and_stay_as_they_are(solver, loss):
    moments = paired("exchangeable").moments
    before = digest(moments)
    one, other = (solver.solve(loss, moments, 3, 0.02) for _ in range(2))
    assert torch.equal(one.W, other.W)
    assert torch.equal(one.gamma, other.gamma)
    assert digest(moments) == before


@pytest.mark.parametrize(("solver", "loss"), REFUSED, ids=str)
def test_a_loss_that_does_not_fit_is_refused_with_what_it_lacks_and_what_would_do(solver, loss):
    with refuses(ValueError, solver.name):
        solve(solver, loss)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solver_is_a_component(solver):
    assert str(clone(solver())) == str(solver())
    assert type(resolve(Solver, solver.name)) is solver
