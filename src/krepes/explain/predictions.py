"""explain: the one door. Of a representation the rows it is made of; of a prediction the training rows that carry it.

    representation, process   landmarks in shares that never cancel                       `krepes.explain.examples`
    ridge machine             training rows that are near and hold the prediction up:  s_i(x) (f(x) - f_-i(x)) . v
    novelty                   the nearest landmarks and the columns that deviate          `NoveltyDetector.explain`

v is the score of the predicted class against the mean of the others, or the unit of the target. s is the normalised
kernel value: among rows whose absence would matter equally, the more similar one says more to a reader, and the ranking
changes less with the data (docs/explain.md has the table). Beside each row stands what it adds, exactly:

    f(x) . v = constant + sum over all training rows of what they add                  `krepes.explain.training_rows`

The rows are those kept with the machine, of which the NEAR nearest are looked at. A counterfactual is the nearest of
these rows with another prediction: another class, or a quantity FAR deviations of the target away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.rows import Rows, take_rows
from krepes.base.validation import check_count
from krepes.embedding import KernelEmbedding
from krepes.evaluation.probe_result import Label
from krepes.explain.attribution import class_place
from krepes.explain.examples import Examples, examples
from krepes.explain.expansion import Expansion, all_inputs, in_cells, landmark_rows
from krepes.explain.training_rows import LinearInRows, LinearMachine, TrainingRows, query_features
from krepes.machines import NoveltyDetector
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.labelled_machine import LabelledMachine
from krepes.machines.novelty.explanation import NoveltyExplanation
from krepes.machines.targets import Classes, Quantities

NEAR = 500
FAR = 0.5
BLOCK = 256  # rows explained at once


@dataclass(frozen=True, eq=False)
class Reasons:
    """The training rows that n predictions rest on: totals = constant + adds.sum(1) + others.

    Attributes
    ----------
    predictions : ndarray of shape (n,)
    totals, constant, others : ndarrays of shape (n,)
        The score of the class against the mean of the others, or the prediction; the mean of the targets; and what all
        rows add that are not shown.
    rows : ndarray of shape (n, k)
        Global indices of training rows; -1 where there are fewer.
    targets : ndarray of shape (n, k)
    similarity, adds, effects : ndarrays of shape (n, k)
        Normalised kernel values; what each row adds; and how much would be gone without it, exactly.
    """

    predictions: np.ndarray
    totals: np.ndarray
    constant: np.ndarray
    others: np.ndarray
    rows: np.ndarray
    targets: np.ndarray
    similarity: np.ndarray
    adds: np.ndarray
    effects: np.ndarray

    def words(self, row: int) -> str:
        """One prediction in words."""
        parts = [f"row {r} ({t})" for r, t in zip(self.rows[row], self.targets[row]) if r >= 0]
        return f"row {row}: {self.predictions[row]}, carried by {', '.join(parts) or 'no row'}."

    def __str__(self) -> str:
        return "\n".join(map(self.words, range(min(20, len(self.rows)))))


def explain(
    model: KernelEmbedding | LabelledMachine | NoveltyDetector,
    X: Any,
    n_top: int = 8,
    label: Label | None = None,
) -> Examples | Reasons | NoveltyExplanation:
    """Why every row is where it is, or is predicted to be what it is, by real rows.

    Parameters
    ----------
    model : KernelEmbedding, kernel ridge machine, Gaussian process or NoveltyDetector
    X : rows, in any form that the model takes
    n_top : int, default=8
    label : a class, default=None
        Of a classifier by ridge regression: the class whose score is explained; None is the predicted one.

    Returns
    -------
    Examples
        Of representations and Gaussian processes, and of ridge machines that keep no rows with their sums.
    Reasons
        Of ridge machines.
    NoveltyExplanation
        Of a NoveltyDetector.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from krepes.machines import KernelRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = KernelRidgeClassifier(random_state=0).fit(X, y)
    >>> found = explain(machine, X[:1], n_top=3)
    >>> found.targets[0].tolist(), bool(np.allclose(found.constant + found.adds.sum(1) + found.others, found.totals))
    ([0, 0, 0], True)
    """
    check_count("n_top", n_top)
    if label is not None and not isinstance(getattr(model, "targets_", None), Classes):
        raise ValueError(f"label={label!r:.60}: a class is for classifiers; got a {type(model).__name__}.")
    if isinstance(model, NoveltyDetector):
        return model.explain(X, n_landmarks=n_top)
    kept = TrainingRows.kept_by(model) if isinstance(model, RidgeMachine) else None
    if kept is None or getattr(model, "loss", "squared") != "squared":
        return examples(model, X, n_top)
    assert isinstance(model, RidgeMachine)
    model.check_input(X)
    scores = model._scores(X)
    V, shift, predictions = directions_of(model, scores, label)
    totals = (scores * V).sum(1) + shift
    found = (_in_cells if in_cells(model) else _by_rows)(model, kept, X, V, n_top)
    places, similarity, adds, effects, mean = found
    known = np.append(kept.numbers, -1)
    targets = np.array([*_targets(model, kept.y).tolist(), None], dtype=object)
    constant = mean + shift
    others = totals - constant - adds.sum(1)
    return Reasons(
        predictions, totals, constant, others, known[places], targets[places], similarity, adds, effects
    )


def directions_of(
    machine: LabelledMachine, scores: np.ndarray, label: Label | None = None
) -> tuple[np.ndarray, float, np.ndarray]:
    """v for every row (n, c), what is added to scores along it, and predictions (n,)."""
    targets = machine.targets_
    if isinstance(targets, Quantities):
        if not targets.flat:
            raise ValueError(
                "This machine predicts several quantities at once: explain one fitted to one of them."
            )
        if label is not None:
            raise ValueError("A class is for classifiers; this machine predicts a quantity.")
        return np.tile(targets.scale, (len(scores), 1)), float(targets.shift[0]), targets.decoded(scores)
    assert isinstance(targets, Classes)
    best = scores.argmax(1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.int64)
    asked = best if label is None else np.full(len(scores), class_place(label, targets.values.tolist()))
    if scores.shape[1] == 1:  # of a process of two classes
        return np.where(asked == 1, 1.0, -1.0)[:, None], 0.0, targets.values[best]
    own = np.eye(scores.shape[1])[asked]
    return own - (1 - own) / (scores.shape[1] - 1), 0.0, targets.values[best]


def _targets(machine: LabelledMachine, y: np.ndarray) -> np.ndarray:
    """Targets in their own units, or classes, of encoded ones."""
    found = machine.targets_
    return found.values[y] if isinstance(found, Classes) else found.decoded(y)  # type: ignore[attr-defined]


def similarities(machine: LabelledMachine, rows: Rows, others: Rows) -> Tensor:
    """k(x, x') / sqrt(k(x, x) k(x', x')), (n, m)."""
    own, theirs = (machine.kernel_.diag(part).double().clamp(min=1e-300) for part in (rows, others))
    return machine.kernel_(rows, others).double() / (own[:, None] * theirs).sqrt()


Carried = tuple[np.ndarray, ...]


def _by_rows(machine: LinearMachine, kept: TrainingRows, X: Any, V: np.ndarray, n_top: int) -> Carried:
    """Places among kept rows, similarity, adds, effects, (n, k) each, and the mean along v, (n,)."""
    linear, queries = LinearInRows.of(machine), query_features(machine, X)
    S = similarities(machine, all_inputs(machine, X), kept.inputs).to(queries)
    near = S.topk(min(NEAR, S.shape[1]), dim=1).indices
    union, back = near.unique(return_inverse=True)
    known, v = kept.at(union.cpu().numpy()).features(machine), torch.from_numpy(V).to(queries)
    parts = []
    for rows in torch.arange(len(S)).split(BLOCK):
        effects, adds = (
            torch.einsum("qkc,qc->qk", f(queries[rows], *known), v[rows]).gather(1, back[rows])
            for f in (linear.effects, linear.adds)
        )
        alike = S[rows].gather(1, near[rows])
        best = (alike * effects).topk(min(n_top, near.shape[1]), dim=1).indices
        each = (near[rows].double(), alike, adds, effects)
        parts.append(torch.stack([values.gather(1, best) for values in each]))
    places, alike, adds, effects = torch.cat(parts, dim=1).cpu().numpy()
    return places.astype(np.int64), alike, adds, effects, (v @ linear.whole.ybar).cpu().numpy()


def _in_cells(machine: RidgeMachine, kept: TrainingRows, X: Any, V: np.ndarray, n_top: int) -> Carried:
    """The same of a machine in cells: weights of rows, times what is left of their targets without the mean."""
    found, total = machine.row_weights(X, NEAR), machine.total_
    assert total is not None
    solver = machine._cell_solver(total, machine._solved())
    order = np.argsort(kept.numbers)
    places = order[
        np.searchsorted(kept.numbers, found.rows.clip(min=0), sorter=order).clip(max=len(order) - 1)
    ]
    rest = solver.residuals(torch.from_numpy(places.ravel())).reshape(*places.shape, -1).numpy()
    adds = found.weights * np.einsum("nkc,nc->nk", rest, V)
    effects = np.einsum("nkc,nc->nk", found.effects / machine.targets_.unit, V)
    rank = np.where(found.rows >= 0, found.similarity * effects, -np.inf)
    best = np.argsort(-rank, axis=1, kind="stable")[:, :n_top]
    places = np.where(found.rows >= 0, places, -1)
    each = [np.take_along_axis(values, best, 1) for values in (places, found.similarity, adds, effects)]
    return *each, V @ solver.mean.numpy()


@dataclass(frozen=True, eq=False)
class Counterfactuals:
    """The nearest real rows with another prediction, of n rows.

    Attributes
    ----------
    rows : ndarray of shape (n,) or None
        Global indices; -1 where no row has another prediction; None if landmarks were given as points.
    predictions : ndarray of shape (n,)
    similarity : ndarray of shape (n,)
    inputs : Rows
        They themselves, in the machine's input space.
    """

    rows: np.ndarray | None
    predictions: np.ndarray
    similarity: np.ndarray
    inputs: Rows


def counterfactuals(machine: LabelledMachine, X: Any) -> Counterfactuals:
    """The nearest real row with another prediction, for every row: what would have to differ.

    Rows are those kept with a ridge machine, whose predictions are made without them; or the landmarks of a process.

    Examples
    --------
    >>> from krepes.machines import KernelRidgeClassifier
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> machine = KernelRidgeClassifier(random_state=0).fit(X, X[:, 0] > 0)
    >>> counterfactuals(machine, X[22:23]).predictions.tolist()
    [False]
    """
    if not isinstance(machine, LabelledMachine):
        raise TypeError(
            f"machine is a {type(machine).__name__}; expected a kernel machine or Gaussian process."
        )
    rows = all_inputs(machine, X)
    known: np.ndarray | None
    if isinstance(machine, RidgeMachine) and machine.total_ is not None:
        kept = machine.total_.kept
        held = machine._solved().held_out
        place = {row: i for i, row in enumerate(kept.rows.tolist())}
        known, theirs = held.rows.numpy(), held.predictions.numpy()
        inputs = take_rows(kept.inputs, np.array([place[row] for row in known.tolist()]))
    else:
        known, inputs = landmark_rows(machine), machine.landmarks_
        theirs = Expansion.of(machine).values.cpu().numpy()
    own = machine._scores(X)
    S = similarities(machine, rows, inputs).cpu().numpy()
    mine, others = directions_of(machine, own)[2], directions_of(machine, theirs)[2]
    if isinstance(machine.targets_, Quantities):
        differs = np.abs(mine[:, None] - others) >= FAR * machine.targets_.scale[0]
    else:
        differs = mine[:, None] != others
    best = np.where(differs, S, -np.inf).argmax(1)
    none = ~differs.any(1)
    found = None if known is None else np.where(none, -1, known[best])
    return Counterfactuals(
        found, others[best], np.where(none, np.nan, S[np.arange(len(S)), best]), take_rows(inputs, best)
    )
