"""Closed forms: the loss knows its own minimiser. One or two r x r eigendecompositions, O(r^3), whatever n is."""

from __future__ import annotations

import torch

from krepes.losses import HasMinimiser, Loss, MomentForms, required
from krepes.moments import Moments
from krepes.solvers.solver import Callback, Solution, Solver, nothing_left, objective


class ClosedForm(Solver[Moments]):
    """Ask the loss for its minimiser.

    Examples
    --------
    >>> from krepes.losses import KernelPCA
    >>> rows = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    >>> solution = ClosedForm().solve(KernelPCA(), Moments.of_rows(rows), n_components=2, lam=0.0)
    >>> solution.W.tolist(), solution.dropped        # the second direction does not vary
    ([[1.0], [0.0]], 1)
    """

    name = "closed_form"
    known_elsewhere_as = ("eigen", "exact")
    required = (HasMinimiser,)
    constraints = (None, "orthogonal")
    order = 0

    def solve(
        self,
        loss: Loss,
        moments: Moments,
        n_components: int,
        lam: float,
        generator: torch.Generator | None = None,
        callback: Callback | None = None,
    ) -> Solution:
        self.check(loss, moments, n_components, lam)
        W, gamma = required(loss, HasMinimiser).minimiser(moments, n_components, lam)
        if W.shape[1] == 0:
            raise nothing_left(loss, moments, lam)
        _, values = objective(loss, MomentForms.of(moments).embed(W, gamma), lam)
        if callback is not None:
            callback(1, values)
        return Solution(W, gamma, [values], 1, True, "closed_form", n_components - W.shape[1])
