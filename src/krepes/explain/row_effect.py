"""The effect of rows of the training data, landmarks or not, on a model: what would be different without them?

The rows' part is subtracted from the sums, and the model solved again in the same feature space: exact.

Of an embedding, the effect is on which rows are alike: G = Z Z^T at the scale "orthonormal", that is Phi P Phi^T with P
the projection onto the span of what was learned. It does not depend on how components are rotated, which ties leave
open. Of a machine, it is on scores, for all rows at once: `krepes.explain.training_rows`; in cells, by the weights of
rows. Where `rows` holds groups, each is left out as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.validation import as_row_indices
from krepes.embedding import KernelEmbedding
from krepes.explain.expansion import in_cells
from krepes.explain.training_rows import LinearInRows, LinearMachine, TrainingRows, query_features
from krepes.machines.kernel_ridge.machine import RidgeMachine


@dataclass(frozen=True)
class RowEffects:
    """What k rows of the training data do to q other rows.

    Attributes
    ----------
    rows : ndarray of shape (k,)
        -1 stands for a group.
    total : ndarray of shape (k,)
        |change of G| / |G| of an embedding; of a machine, the root mean square change of the scores of the q rows.
    on : ndarray of shape (k, q)
        The same for each of the q rows: |change of its row of G| / |its row|; |change of its scores|.
    changes : ndarray of shape (k, q, c) or None
        Of a machine: its scores without the rows, less its scores with them.
    """

    rows: np.ndarray
    total: np.ndarray
    on: np.ndarray
    changes: np.ndarray | None = None


def row_effect(
    model: KernelEmbedding | LinearMachine,
    X: Any,
    rows: Any,
    *,
    on: Any,
    y: Any = None,
    positives: Any = None,
    negatives: Any = None,
    sample_weight: Any = None,
) -> RowEffects:
    """How a model would see some rows if a row of its training data had not been there.

    Parameters
    ----------
    model : KernelEmbedding with a closed form, kernel ridge machine, or GaussianProcessRegressor
    X, y, positives, negatives, sample_weight : the training data, as they were given to `fit`
    rows : integers of shape (k,), or a list of k arrays of integers
        Rows of X whose effect is asked for, one at a time; or groups of them.
    on : rows to look at, in any form that the model takes

    Examples
    --------
    An outlier has more effect than a row among many:

    >>> from krepes import KernelEmbedding
    >>> X = np.random.default_rng(0).standard_normal((60, 2)); X[7] += 3
    >>> model = KernelEmbedding(2, n_landmarks=20, loss="kernel_pca", random_state=0, dtype="float64").fit(X)
    >>> found = row_effect(model, X, [7, 8], on=X)
    >>> bool(found.total[0] > found.total[1])
    True
    """
    if not isinstance(model, KernelEmbedding | LinearMachine):
        raise TypeError(
            f"model is a {type(model).__name__}; expected a fitted KernelEmbedding, kernel ridge machine or "
            "GaussianProcessRegressor."
        )
    model.check_input(X)
    groups, named = _groups(rows, model.space_.reader(X).n_rows)
    if isinstance(model, LinearMachine):
        if y is None:
            raise ValueError("The effect of a row on a machine depends on its target: give y= as in fit.")
        found = _score_changes(model, X, y, groups, on, sample_weight)
        sizes = found.norm(dim=2)
        total = sizes.square().mean(1).sqrt()
        return RowEffects(named, total.cpu().numpy(), sizes.cpu().numpy(), found.cpu().numpy())
    given = {"positives": positives, "negatives": negatives, "sample_weight": sample_weight}
    Phi = torch.from_numpy(model._mapped(model.features_, on)).double()
    G = _alike(model, Phi)
    changes = [_alike(model.without_rows(X, group, **given), Phi) - G for group in groups]
    on_rows = torch.stack([change.norm(dim=1) / G.norm(dim=1).clamp(min=1e-300) for change in changes])
    total = torch.stack([change.norm() for change in changes]) / G.norm().clamp(min=1e-300)
    return RowEffects(named, total.cpu().numpy(), on_rows.cpu().numpy())


def _groups(rows: Any, n_rows: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Groups of rows, each checked, and the row that each is; -1 for several."""
    several = isinstance(rows, list | tuple) and any(np.ndim(group) > 0 for group in rows)
    if not several:
        named = as_row_indices(rows, n_rows)
        return list(named[:, None]), named
    groups = [as_row_indices(group, n_rows) for group in rows]
    return groups, np.array([group[0] if len(group) == 1 else -1 for group in groups])


def _score_changes(
    machine: LinearMachine, X: Any, y: Any, groups: list[np.ndarray], on: Any, sample_weight: Any
) -> Tensor:
    """(k, q, c): how the scores of q rows change without each of k groups of the training data."""
    rows, single = np.concatenate(groups), all(len(group) == 1 for group in groups)
    if isinstance(machine, RidgeMachine) and in_cells(machine):
        if not single:
            raise ValueError("This machine is in cells: ask for the effect of one row at a time.")
        return -torch.from_numpy(_effects_in_cells(machine, rows, on))
    linear, queries = LinearInRows.of(machine), query_features(machine, on)
    known = TrainingRows.given(machine, X, y, rows, sample_weight).features(machine)
    if single:
        return -linear.effects(queries, *known).transpose(0, 1)
    parts = zip(*(part.split([len(group) for group in groups]) for part in known))
    before = linear.whole.scores(queries)
    return torch.stack([linear.without(*part).scores(queries) - before for part in parts])


def _effects_in_cells(machine: RidgeMachine, rows: np.ndarray, on: Any) -> np.ndarray:
    """(k, q, c), in units of encoded targets; zero for rows that share no cell with a query."""
    found = machine.row_weights(on, n_top=int(machine.n_samples_seen_))
    effects = found.effects / machine.targets_.unit
    return np.stack([np.where((found.rows == row)[:, :, None], effects, 0.0).sum(1) for row in rows])


def _span(model: KernelEmbedding) -> Tensor:
    """An orthonormal basis of the span of W, (r, h), from A = F W: W = F^T K_mm A."""
    F, eigenvalues = model.features_.F, model.features_.eigenvalues
    A = torch.from_numpy(model.coefficients_).to(F)
    W = eigenvalues[:, None] * (F.mT @ A)  # because F^T F = diag(1 / eigenvalues)
    return torch.linalg.qr(W / W.norm(dim=0).clamp(min=1e-300))[0].cpu()


def _alike(model: KernelEmbedding, Phi: Tensor) -> Tensor:
    """G of rows with these features."""
    Z = Phi @ _span(model)
    return Z @ Z.mT
