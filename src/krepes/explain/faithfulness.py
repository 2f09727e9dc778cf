"""Whether the landmarks that an explanation names are those that a representation rests on: measured, not assumed.

For every ranking of `krepes.explain.rankings`, and for landmarks in random order:

    deletion      what is left of the row without its first 1, 2, 5, 10, 20 landmarks
    insertion     what is there with these landmarks alone
    same label    how often the first landmark has the row's label
    overlap       how many of five landmarks are named for random weights too: a method that names all of them
                  again ignores what was learned [adebayo]
    stability     how close the first landmark is to that of a model with other landmarks

What is left is the accuracy of predictions; without labels, 1 / (1 + |change| / |z - centre|).
Kernel values alone are the yardstick: they ignore what was learned. Cost, per method: O(n m (h + r)), and n solves of
order 20.

    stability = 1 - 2 * mean share of the other model's landmarks that are more like l than l' is

l and l' are the first landmarks of a row in the two models, which have no landmark in common, so "the same" is the
closest that there is: 1 where l' is the landmark most like l, 0 on average for a landmark drawn at random.

Representations without some landmarks, or from them alone: three ways to test what a list of landmarks claims.

    subtracted   f(x) - sum over S of k(x, x_l) a_l                       the terms are gone, all others stay
    left out     f(x) - (k_x^T B)_S B_SS^-1 A_S,  B = (K_mm + eps I)^-1       the others take over
    alone        gamma + k_xS (K_SS + eps I)^-1 (f(S) - gamma)            the smoothest function with the values at S

Subtracting a term leaves what it cancelled, so that even a random one may move a row far; leaving it out is the model
without the landmark: the nearest function to f, in the kernel's norm, that the others can express. Methods are compared
by the first, which asks what the sum contains; the second, what the model needs, stands beside it.
Cost O(n k (k^2 + h)) for k landmarks a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.validation import as_array, check_count, check_same_rows, generator_of
from krepes.evaluation import linear_probe
from krepes.explain.expansion import (
    Expansion,
    Explained,
    Values,
    checked,
    landmark_rows,
    landmarks_are_rows_of,
    n_landmarks,
)
from krepes.explain.faithfulness_result import Faithfulness, MethodCheck
from krepes.explain.rankings import RANKINGS, ranking_name
from krepes.machines import KernelRidgeClassifier
from krepes.machines.labelled_machine import LabelledMachine
from krepes.preprocessing.labels import missing_values

STEPS = (1, 2, 5, 10, 20)
N_COMPARED = 5  # landmarks named for learned and for random weights
PROBE_ROWS = 5000
Judge = Callable[[Tensor], np.ndarray]  # representations (n, h) -> 1 where the class is predicted
Method = Callable[[Expansion], Values]


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """Rows to explain: their kernel values (n, p m), float64, the sum that they enter, and the landmarks' labels."""

    expansion: Expansion
    K: Tensor
    landmark_labels: np.ndarray | None = None

    @property
    def Z(self) -> Tensor:
        return self.expansion.at(self.K)

    def centres(self, chosen: Tensor) -> Tensor:
        """The places of all views of the landmarks chosen for each row: (n, k) -> (n, k p)."""
        return self.expansion.landmarks.centres[chosen].flatten(1)

    def terms(self, chosen: Tensor) -> Tensor:
        """The sum of the terms of the landmarks chosen, (n, h)."""
        places = self.centres(chosen)
        return (self.K.gather(1, places)[:, None] @ self.expansion.A[places])[:, 0]


def subtracted(rows: ExplainedRows, chosen: Tensor) -> Tensor:
    return rows.Z - rows.terms(chosen)


def others_take_over(rows: ExplainedRows, chosen: Tensor) -> Tensor:
    B, places = rows.expansion.landmarks.inverse, rows.centres(chosen)
    parts = (rows.K @ B).gather(1, places)  # (n, k p)
    moves = torch.linalg.solve(B[places[:, :, None], places[:, None]], rows.expansion.A[places])
    return rows.Z - (parts[:, None] @ moves)[:, 0]


def alone(rows: ExplainedRows, chosen: Tensor) -> Tensor:
    landmarks, places = rows.expansion.landmarks, rows.centres(chosen)
    K = landmarks.K[places[:, :, None], places[:, None]].clone()
    K.diagonal(dim1=1, dim2=2).add_(landmarks.damping)
    weights = torch.linalg.solve(K, rows.expansion.values[places] - rows.expansion.gamma)
    return rows.expansion.gamma + (rows.K.gather(1, places)[:, None] @ weights)[:, 0]


CURVES: dict[str, Callable[[ExplainedRows, Tensor], Tensor]] = {
    "subtracted": subtracted,
    "left out": others_take_over,
    "alone": alone,
}


def faithfulness(
    model: Explained,
    X: Any,
    y: Any = None,
    *,
    methods: Sequence[str] | None = None,
    fit_rows: Any = None,
    fit_labels: Any = None,
    n_rows: int = 300,
    steps: Sequence[int] = STEPS,
    n_random: int = 3,
    n_refits: int = 0,
    random_state: int = 0,
) -> Faithfulness:
    """Compare ways to name the landmarks that matter, on rows of X.

    Parameters
    ----------
    model : KernelEmbedding, or a kernel ridge machine or Gaussian process
    X : rows, in any form that the model takes
        `n_rows` of them are explained, drawn at random; landmarks are left out.
    y : labels of X, optional
        Classes. Deletion is then judged by predictions: of a linear probe, or of the machine itself.
    methods : sequence of names, optional
        By default all: "contributions", "re_expansion", "kernel".
    fit_rows, fit_labels : optional
        The rows that the model was fitted on, and their labels: for the labels of landmarks, the probe and refits. By
        default X and y, if the landmarks are rows of X.
    n_rows : int, default=300
    steps : numbers of landmarks to delete, default=(1, 2, 5, 10, 20)
    n_random : int, default=3
        Draws of random weights.
    n_refits : int, default=0
        Models with other landmarks to compare with.
    random_state : int, default=0

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from krepes import KernelEmbedding
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelEmbedding(4, n_landmarks=30, random_state=0).fit(X)
    >>> found = faithfulness(model, X, y, methods=["contributions", "kernel"])
    >>> found.methods["kernel"].ignores_weights, found.methods["contributions"].ignores_weights
    (True, False)
    """
    for name, value, least in (("n_rows", n_rows, 2), ("n_random", n_random, 1), ("n_refits", n_refits, 0)):
        check_count(name, value, least)
    checked(model).check_input(X)
    labels, generator = None if y is None else as_array(y, "y"), generator_of(random_state)
    if fit_rows is None and landmarks_are_rows_of(model, X):
        fit_rows, fit_labels = X, labels
    of_fit = None if fit_labels is None else as_array(fit_labels, "fit_labels")
    explained = _explained(model, X, labels, fit_rows, n_rows, generator)
    data = _Data(X, labels, explained, fit_rows, of_fit, generator)
    rows = data.rows_in(model)
    kept = tuple(sorted({int(step) for step in steps if 1 <= step <= n_landmarks(model)}))
    if not kept:
        raise ValueError(f"steps={tuple(steps)!r:.60}: expected numbers from 1 to {n_landmarks(model)}.")
    judge, accuracy = data.judge(model, rows)
    others = data.refits(model, n_refits, random_state)
    found = {
        name: _checked(method, rows, data, kept, judge, n_random, others)
        for name, method in _chosen(methods, random_state).items()
    }
    return Faithfulness(found, kept, accuracy, len(data.explained), n_landmarks(model))


def _chosen(names: Sequence[str] | None, seed: int) -> dict[str, Method]:
    """Methods by name, by default all; and landmarks in random order."""
    generator = torch.Generator().manual_seed(seed)

    def at_random(expansion: Expansion) -> Values:
        m = expansion.landmarks.n_landmarks
        return lambda K: torch.rand(len(K), m, dtype=torch.float64, generator=generator).to(K)

    chosen = map(ranking_name, RANKINGS if names is None else names)
    return {name: RANKINGS[name] for name in chosen} | {"random": at_random}


def _explained(
    model: Explained,
    X: Any,
    labels: np.ndarray | None,
    fit_rows: Any,
    n_rows: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """The rows of X to explain, drawn at random: with a label, and no landmarks."""
    n, known = model.space_.reader(X).n_rows, landmark_rows(model)
    usable = np.arange(n)
    if labels is not None:
        check_same_rows(len(labels), n, "y")
        usable = np.flatnonzero(~missing_values(labels))
    if fit_rows is X and known is not None:
        usable = np.setdiff1d(usable, known)
    if len(usable) < 2:
        raise ValueError(
            f"X has {len(usable)} rows that are not landmarks and have a label: expected at least 2."
        )
    if fit_rows is None and labels is not None:  # the probe learns from the other half
        n_rows = min(n_rows, len(usable) // 2)
    return np.sort(generator.permutation(usable)[:n_rows])


@dataclass(frozen=True, eq=False)
class _Data:
    """The rows to explain, and what is known about the training rows."""

    X: Any
    y: np.ndarray | None
    explained: np.ndarray  # rows of X
    fit_rows: Any  # None if unknown
    fit_labels: np.ndarray | None
    generator: np.random.Generator

    def rows_in(self, model: Explained) -> ExplainedRows:
        """The rows explained, by a model of the same rows."""
        known = landmark_rows(model)
        labels = None if self.fit_labels is None or known is None else self.fit_labels[known]
        return ExplainedRows(Expansion.of(model), self.kernel_values(model, self.explained), labels)

    def kernel_values(self, model: Explained, rows: np.ndarray, of_fit: bool = False) -> Tensor:
        source = self.fit_rows if of_fit else self.X
        return model.features_.kernel_block(model.space_.reader(source).take(rows).inputs[0]).double()

    def judge(self, model: Explained, rows: ExplainedRows) -> tuple[Judge | None, float | None]:
        """A function that says which rows are classified correctly, and the accuracy on the rows as they are."""
        if self.y is None:
            return None, None
        if isinstance(model, KernelRidgeClassifier):
            predict: Callable[[np.ndarray], np.ndarray] = lambda Z: model.classes_[Z.argmax(1)]  # noqa: E731
        elif hasattr(model, "transform"):
            predict = self._probe(model, rows).predict
        else:
            return None, None
        truth = self.y[self.explained]
        judge: Judge = lambda Z: (predict(Z.cpu().numpy()) == truth).astype(np.float64)  # noqa: E731
        return judge, float(judge(rows.Z).mean())

    def _probe(self, model: Explained, rows: ExplainedRows) -> Any:
        """A linear classifier from rows that are not explained."""
        of_fit = self.fit_rows is not None and self.fit_labels is not None
        labels = self.fit_labels if of_fit else self.y
        assert labels is not None
        free = np.flatnonzero(~missing_values(labels))
        if not of_fit or self.fit_rows is self.X:
            free = np.setdiff1d(free, self.explained)
        drawn = np.sort(self.generator.permutation(free)[:PROBE_ROWS])
        Z = rows.expansion.at(self.kernel_values(model, drawn, of_fit)).cpu().numpy()
        return linear_probe(Z, labels[drawn], Z, labels[drawn], random_state=0).model

    def refits(self, model: Explained, n_refits: int, seed: int) -> list[tuple[ExplainedRows, Tensor]]:
        """The rows explained in models with other landmarks, and how close these are to the model's."""
        if n_refits and self.fit_rows is None:
            raise ValueError("n_refits needs the rows that the model was fitted on: give fit_rows=.")
        found = []
        for draw in range(n_refits):
            other = refitted(model, self.fit_rows, self.fit_labels, np.random.default_rng([seed, draw]))
            found.append((self.rows_in(other), closeness(model, other, self.fit_rows)))
        return found


def _checked(
    method: Method,
    rows: ExplainedRows,
    data: _Data,
    steps: tuple[int, ...],
    judge: Judge | None,
    n_random: int,
    others: list[tuple[ExplainedRows, Tensor]],
) -> MethodCheck:
    order = _first(method, rows, max(*steps, N_COMPARED))
    Z, distance = rows.Z, (rows.Z - rows.expansion.centre).norm(dim=1).clamp(min=1e-300)
    judge = judge or (lambda M: 1 / (1 + ((M - Z).norm(dim=1) / distance).cpu().numpy()))
    left = {
        name: np.stack([judge(representation(rows, order[:, :step])) for step in steps])
        for name, representation in CURVES.items()
    }
    same_label = None
    if rows.landmark_labels is not None and data.y is not None:
        named = rows.landmark_labels[order[:, 0].cpu().numpy()]
        same_label = (named == data.y[data.explained]).astype(np.float64)
    overlap = np.array([_overlap(method, rows, order, draw) for draw in range(n_random)])
    stability = None
    if others:
        firsts = [(close, _first(method, other, 1)[:, 0]) for other, close in others]
        stability = np.stack([close[order[:, 0], theirs].cpu().numpy() for close, theirs in firsts])
    return MethodCheck(left, same_label, overlap, stability)


def _first(method: Method, rows: ExplainedRows, k: int) -> Tensor:
    """The first k landmarks of every row, (n, k)."""
    values = method(rows.expansion)(rows.K)
    return values.topk(min(k, values.shape[1]), dim=1).indices


def _overlap(method: Method, rows: ExplainedRows, order: Tensor, draw: int) -> float:
    """The share of the first landmarks that are also named where the weights are random."""
    random = replace(rows, expansion=rows.expansion.random(torch.Generator().manual_seed(draw)))
    again = _first(method, random, N_COMPARED)
    named = order[:, : again.shape[1]]
    return (named[:, :, None] == again[:, None]).any(2).double().mean().item()


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
