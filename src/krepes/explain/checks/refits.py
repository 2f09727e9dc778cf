"""Whether a method names the same examples when the model has other landmarks.

    stability = 1 - 2 * mean share of the other model's landmarks that are more like l than l' is

l and l' are the first landmarks of a row in the two models, which have no landmark in common, so "the same" is the
closest that there is: 1 where l' is the landmark most like l, 0 on average for a landmark drawn at random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.explain.top_landmarks import Explained, landmark_rows, n_landmarks
from krepes.machines.labelled_machine import LabelledMachine


def refitted(model: Explained, X: Any, y: Any, generator: np.random.Generator) -> Explained:
    """The same model of the same rows, with landmarks drawn from the rows that are not landmarks yet."""
    m, n = n_landmarks(model), model.space_.reader(X).n_rows
    rows = landmark_rows(model)
    free = np.setdiff1d(np.arange(n), rows if rows is not None else [])
    if len(free) < 2:
        raise ValueError(
            f"All {n:,} rows are landmarks, so that there are no others to refit with: n_refits=0."
        )
    drawn = np.sort(generator.permutation(free)[:m])
    other = clone(model).set_params(landmarks=drawn, random_state=int(generator.integers(2**31 - 1)))
    return other.fit(X, y) if isinstance(model, LabelledMachine) else other.fit(X)


def closeness(model: Explained, other: Explained, X: Any) -> Tensor:
    """1 - 2 * the share of the other's landmarks that are more like l than l' is, (m, m'), by the model's kernel."""
    rows = landmark_rows(other)
    assert rows is not None
    order = np.argsort(rows)
    theirs = model.space_.reader(X).take(rows[order]).inputs[0]
    K = model.features_.kernel_block(theirs).double()[:, : n_landmarks(model)].mT  # (m, m'), the first views
    more_alike = K.shape[1] - 1 - K.argsort(1).argsort(1)
    back = torch.from_numpy(np.argsort(order)).to(K.device)
    return (1 - 2 * more_alike / max(1, K.shape[1] - 1))[:, back]
