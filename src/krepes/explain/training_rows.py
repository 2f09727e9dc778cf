"""A prediction as a sum over the rows of the training data, and what it would be without some of them: exact.

    f(x) = ybar + sum_i w_i g_i(x) (y_i - ybar)                                        what every row adds
    f(x) - f_-i(x) = w_i (g_i(x) + 1 / n) e_i / (1 - h_i)                              what leaving it out takes away
    g_i(x) = (phi(x) - mu)^T (A + penalty I)^-1 (phi_i - mu),   e_i = y_i - f(x_i),   h_i = w_i (g_i(x_i) + 1 / n)

A is the centred second moment of all rows, n the sum of their weights. Without an intercept mu, ybar and 1 / n are
zero. A Gaussian process centres targets only: mu = 0, and leaving a row out moves ybar by d_i = w_i (y_i - ybar) / (n -
w_i). With a(x) = sum_j w_j g_j(x),

    f(x) - f_-i(x) = d_i (1 - a(x)) + w_i g_i(x) (e_i + d_i (1 - a(x_i))) / (1 - w_i g_i(x_i))

Without a group of rows, their sums are subtracted and the machine is solved again. Penalty (noise and amplitude of a
process), kernel, landmarks and class weights stay as they are. Cost O(r^3) once, then O(r (r + q)) a row; O(r^3) a
group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.rows import Rows, take_rows
from krepes.machines import GaussianProcessRegressor
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.regression.ridge_algebra import FULL, NormalSums

LinearMachine = RidgeMachine | GaussianProcessRegressor


@dataclass(frozen=True, eq=False)
class Retrained:
    """A machine solved from sums: W (r, c), mu (r,), ybar (c,), and A + penalty I as `damped`, (r, r)."""

    W: Tensor
    mu: Tensor
    ybar: Tensor
    damped: Tensor

    def scores(self, Phi: Tensor) -> Tensor:
        """f of rows with these features, (n, c)."""
        return (Phi - self.mu) @ self.W + self.ybar

    def reach(self, queries: Tensor, Phi: Tensor) -> Tensor:
        """g of queries (q, r) and rows (k, r), (q, k)."""
        return (queries - self.mu) @ torch.linalg.solve(self.damped, (Phi - self.mu).mT)


@dataclass(frozen=True, eq=False)
class LinearInRows:
    """A machine as a function of its training rows.

    Attributes
    ----------
    sums : NormalSums
        Of all rows.
    penalty : float
    centres : (bool, bool)
        Whether features and targets are centred by their means.
    """

    sums: NormalSums
    penalty: float
    centres: tuple[bool, bool]

    @classmethod
    def of(cls, machine: LinearMachine) -> LinearInRows:
        """Of a ridge machine with landmarks, or of the mean of a Gaussian process."""
        machine._check_has_total()
        centred = bool(machine.fit_intercept)
        if isinstance(machine, GaussianProcessRegressor):
            process = machine.total_
            assert process is not None
            return cls(process.equations, machine.noise_ / machine.amplitude_, (False, centred))
        total = machine.total_
        assert total is not None
        loss = getattr(machine, "loss", "squared")
        if loss != "squared":
            raise ValueError(
                f"loss={loss!r} has no closed form, from which the effect of a row would follow: fit with "
                "loss='squared'."
            )
        sums = total.by_fold(machine._class_weight(total)).total
        return cls(sums, machine.penalty_, (centred, centred))

    @cached_property
    def whole(self) -> Retrained:
        """The machine of all rows."""
        return self.solved(self.sums)

    def solved(self, sums: NormalSums) -> Retrained:
        """The machine of these sums."""
        mu, ybar = sums.about(self.centres[0])[0], sums.about(self.centres[1])[1]
        centred = sums.centred(mu, ybar)
        damped = centred.A + self.penalty * torch.eye(len(mu)).to(centred.A)
        return Retrained(torch.linalg.solve(damped, centred.B), mu, ybar, damped)

    def without(self, Phi: Tensor, Y: Tensor, weight: Tensor) -> Retrained:
        """The machine without a group of its rows: features (k, r), targets (k, c), weights (k,)."""
        return self.solved(self.sums - NormalSums.of_rows(Phi, Y, weight))

    def adds(self, queries: Tensor, Phi: Tensor, Y: Tensor, weight: Tensor) -> Tensor:
        """What rows (k, r) add to queries (q, r): (q, k, c)."""
        whole = self.whole
        return (whole.reach(queries, Phi) * weight)[:, :, None] * (Y - whole.ybar)

    def effects(self, queries: Tensor, Phi: Tensor, Y: Tensor, weight: Tensor) -> Tensor:
        """f(x) - f_-i(x) of queries (q, r) and rows (k, r), (q, k, c)."""
        whole, n = self.whole, self.sums.n
        away = torch.linalg.solve(whole.damped, (Phi - whole.mu).mT)  # (r, k)
        reach, own = (queries - whole.mu) @ away, (away.mT * (Phi - whole.mu)).sum(1)
        errors, steady = Y - whole.scores(Phi), torch.zeros(()).to(Phi)
        if self.centres == (False, True):
            total = torch.linalg.solve(whole.damped, self.sums.sum_phi)
            moved = (weight / (n - weight).clamp(min=FULL))[:, None] * (Y - whole.ybar)
            errors = errors + moved * (1 - Phi @ total)[:, None]
            steady = (1 - queries @ total)[:, None, None] * moved
        elif self.centres[0]:
            reach, own = reach + 1 / n, own + 1 / n
        factors = weight / (1 - weight * own).clamp(min=FULL)
        return (reach * factors)[:, :, None] * errors + steady


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows that a machine has learned from.

    Attributes
    ----------
    numbers : ndarray of shape (n,)
        Global indices.
    inputs : Rows
        In the machine's input space.
    y : ndarray
        Encoded targets.
    weight : Tensor of shape (n,)
        With class weights.
    """

    numbers: np.ndarray
    inputs: Rows
    y: np.ndarray
    weight: Tensor

    @classmethod
    def kept_by(cls, machine: object) -> TrainingRows | None:
        """Those that are kept with a machine: a sample, where there are many; none, if it keeps none."""
        total = getattr(machine, "total_", None)
        kept = getattr(total, "rows", None) or getattr(total, "kept", None)  # `rows`: all of them, in cells
        if kept is None:
            return None
        return cls(kept.rows.numpy(), kept.inputs, kept.y, _weighed(machine, kept.y, kept.weight))

    @classmethod
    def given(cls, machine: LinearMachine, X: Any, y: Any, rows: np.ndarray, weight: Any) -> TrainingRows:
        """Some rows of the training data, as they were given to `fit`."""
        data = machine._reopened(X, y=y, weight=weight)
        block = data.reader(machine.space_.inputs, machine.space_.placement).take(rows)
        assert block.y is not None
        w = np.ones(len(rows)) if block.weight is None else block.weight
        return cls(rows, block.inputs[0], block.y, _weighed(machine, block.y, torch.from_numpy(w)))

    def at(self, places: np.ndarray) -> TrainingRows:
        """Some of them."""
        inputs = take_rows(self.inputs, places)
        return TrainingRows(self.numbers[places], inputs, self.y[places], self.weight[places])

    def features(self, machine: LinearMachine) -> tuple[Tensor, Tensor, Tensor]:
        """Features (n, r), targets (n, c) and weights (n,), float64."""
        Phi = machine.space_.features(self.inputs).double()
        return Phi, machine.targets_.matrix(self.y).to(Phi), self.weight.to(Phi)


def _weighed(machine: object, y: np.ndarray, weight: Tensor) -> Tensor:
    found = None
    if isinstance(machine, RidgeMachine):
        assert machine.total_ is not None
        found = machine._class_weight(machine.total_)
    return weight.double() if found is None else weight * torch.from_numpy(found[y])


def query_features(machine: LinearMachine, X: Any) -> Tensor:
    """phi of rows in any form that the machine takes, (q, r), float64."""
    return torch.from_numpy(machine._mapped(machine.space_.features, X)).double().to(machine.space_.device)
