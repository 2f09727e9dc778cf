"""What leaving a row out does to the scores of a ridge machine: exact, at once for all rows.

    f_-i(x) - f(x) = - w_i e_i g_i(x) / (1 - h_i),     g_i(x) = (phi(x) - mu)^T (A + penalty I)^-1 (phi_i - mu) + 1 / n
    e_i = y_i - f(x_i),     h_i = w_i g_i(x_i)

A is the centred second moment of all rows, n the sum of their weights. Without an intercept, mu = 0 and 1 / n goes.
First order leaves the 1 - h_i out: that is the influence function [koh]. Penalty and weights of classes stay as they
are. Cost O(r^3) once, then O(r (r + q)) per row for q rows to look at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.machines.kernel_ridge.machine import RidgeMachine

FULL = 1e-12  # 1 - h below it: the row alone decides its prediction


def score_changes(
    machine: RidgeMachine, X: Any, y: Any, rows: np.ndarray, on: Any, sample_weight: Any, exact: bool
) -> Tensor:
    """(k, q, c): how the scores of q rows change without each of k rows of the training data."""
    machine._check_has_total()
    loss = getattr(machine, "loss", "squared")
    if loss != "squared":
        raise ValueError(
            f"loss={loss!r} has no closed form, from which the effect of a row would follow: fit with loss='squared'."
        )
    total, space = machine.total_, machine.space_
    assert total is not None
    class_weight = machine._class_weight(total)
    sums = total.by_fold(class_weight).total
    encoded, weight = machine._more_targets(X, y, sample_weight)
    data = space.open(X, y=encoded, weight=weight)
    block = data.reader(space.inputs, space.placement).take(rows)
    Phi = space.features(block.inputs[0]).double()
    w = torch.ones(len(rows), dtype=torch.float64) if block.weight is None else torch.from_numpy(block.weight)
    assert block.y is not None
    if class_weight is not None:
        w = w * torch.from_numpy(class_weight[block.y])
    w = w.to(Phi)
    mu, ybar = sums.about(machine.fit_intercept)
    centred = sums.centred(mu, ybar)
    damped = centred.A + machine.penalty_ * torch.eye(len(mu)).to(centred.A)
    W = torch.linalg.solve(damped, centred.B)
    constant = 1 / sums.n if machine.fit_intercept else 0.0
    away = torch.linalg.solve(damped, (Phi - mu).mT)  # (r, k)
    leverage = w * (((Phi - mu).mT * away).sum(0) + constant)
    errors = machine.targets_.matrix(block.y).to(Phi) - (Phi - mu) @ W - ybar  # (k, c)
    factors = -w / (1 - leverage).clamp(min=FULL) if exact else -w
    queries = torch.from_numpy(
        np.concatenate([part.cpu().double().numpy() for part in machine.map_rows(space.features, on)])
    ).to(Phi)
    reach = (queries - mu) @ away + constant  # (q, k)
    return torch.einsum("qk,kc->kqc", reach * factors, errors)
