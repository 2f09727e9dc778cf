"""How far an explanation can be trusted: measured, for every way to name rows, on rows of the data.

Of representations and processes, where landmarks are named:

    deletion        what is left without the terms of the first 1, 2, 5, 10, 20 landmarks; less is more faithful
    insertion       what is there with these landmarks alone: the smoothest function with their values
    same label      how often the first landmark has the row's label
    perturbed       how close the first landmark is to that of a row between this one and its nearest landmark, a tenth
                    of the way
    random weights  how many of five landmarks are named for random weights too: all of them, if a method ignores what
                    was learned [adebayo]
    rows for 90 %   that hold nine tenths of all values of a method

What is left is the accuracy of predictions; without labels, 1 / (1 + |change| / |z - centre|). Closeness of l and l' is
1 - 2 * (share of landmarks that are more like l than l' is): 1 is the same or the nearest, 0 chance. Of ridge machines,
where training rows are named, the truth is known by retraining: `krepes.explain.retraining`. How close landmarks are to
those of refitted models takes many fits: `benchmarks/faithfulness.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.display import text_table
from krepes.base.validation import as_array, check_count, check_same_rows, generator_of
from krepes.embedding import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.explain.examples import agreement
from krepes.explain.expansion import (
    Expansion,
    Explained,
    Values,
    checked,
    in_cells,
    landmark_rows,
    landmarks_are_rows_of,
    n_landmarks,
    over_views,
)
from krepes.explain.retraining import Compared, Mean, retrained_check
from krepes.explain.training_rows import TrainingRows
from krepes.machines import KernelRidgeClassifier
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.preprocessing.labels import missing_values

STEPS = (1, 2, 5, 10, 20)
N_COMPARED, N_RANDOM = 5, 3  # landmarks named for learned and for random weights; draws of these
PROBE_ROWS = 5000
IGNORES = 0.9  # landmarks named again for random weights, from which a method ignores what was learned
Method = Callable[[Expansion], Values]


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Ways to name rows, compared on the same rows; print it for a table.

    Attributes
    ----------
    methods : dict of dicts of ndarrays
        Figures of every row, by method and column.
    facts : dict of str
        What holds of the model whatever the method.
    title : str
    default : str
        The method of `krepes.explain.explain`.
    """

    methods: Compared
    facts: dict[str, str]
    title: str
    default: str

    def table(self) -> list[dict[str, Any]]:
        """One dictionary per method; every number is a `Mean` with its standard error."""
        return [
            {"method": name, **{column: Mean.of(values) for column, values in each.items()}}
            for name, each in self.methods.items()
        ]

    def ignores_weights(self, name: str) -> bool:
        """Whether a method names the same rows for random weights: then it ignores what was learned."""
        return float(np.mean(self.methods[name]["random weights"])) > IGNORES

    def __repr__(self) -> str:
        rows = self.table()
        lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
        facts = [f"{name}: {words}" for name, words in self.facts.items()]
        return "\n".join([self.title, text_table(lines, right=False), *facts])


def terms(expansion: Expansion) -> Values:
    """k_x -> the part of the way from the centre to z that a landmark's own term makes; terms cancel."""

    def parts(K: Tensor) -> Tensor:
        own = expansion.at(K) - expansion.centre
        squares = own.square().sum(1, keepdim=True)
        along = own / torch.where(squares > 0, squares, torch.inf)
        return over_views(K * (along @ expansion.A.mT), expansion.n_views)

    return parts


METHODS: dict[str, Method] = {
    "explain": agreement,
    "attribution": terms,
    "kernel value": lambda expansion: expansion.similarity,
}


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """Rows to explain: their kernel values (n, p m), float64, the sum that they enter, labels, and predictions."""

    expansion: Expansion
    K: Tensor
    labels: np.ndarray | None = None
    landmark_labels: np.ndarray | None = None
    predict: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def Z(self) -> Tensor:
        return self.expansion.at(self.K)

    def intact(self, Z: Tensor) -> np.ndarray:
        """How much of the rows other representations keep: 1 where the class is predicted, or by how far they moved."""
        if self.predict is not None:
            return (self.predict(Z.cpu().numpy()) == self.labels).astype(np.float64)
        distance = (self.Z - self.expansion.centre).norm(dim=1).clamp(min=1e-300)
        return 1 / (1 + ((Z - self.Z).norm(dim=1) / distance).cpu().numpy())

    def centres(self, chosen: Tensor) -> Tensor:
        """The places of all views of the landmarks chosen for each row: (n, k) -> (n, k p)."""
        p = self.expansion.n_views
        return (chosen[:, :, None] + len(self.expansion.K) // p * torch.arange(p).to(chosen)).flatten(1)

    def subtracted(self, chosen: Tensor) -> Tensor:
        """f(x) - sum over chosen l of k(x, x_l) a_l, (n, h)."""
        places = self.centres(chosen)
        return self.Z - (self.K.gather(1, places)[:, None] @ self.expansion.A[places])[:, 0]

    def alone(self, chosen: Tensor) -> Tensor:
        """gamma + k_xS (K_SS + eps I)^-1 (f(S) - gamma), (n, h)."""
        all_of, places = self.expansion, self.centres(chosen)
        K = all_of.K[places[:, :, None], places[:, None]].clone()
        K.diagonal(dim1=1, dim2=2).add_(all_of.damping)
        weights = torch.linalg.solve(K, all_of.values[places] - all_of.gamma)
        return all_of.gamma + (self.K.gather(1, places)[:, None] @ weights)[:, 0]

    def perturbed(self) -> ExplainedRows:
        """Kernel values a tenth of the way to those of the nearest landmark."""
        nearest = self.expansion.similarity(self.K).argmax(1)
        return replace(self, K=torch.lerp(self.K, self.expansion.K[nearest], 0.1))


def faithfulness(
    model: Explained,
    X: Any,
    y: Any = None,
    *,
    fit_rows: Any = None,
    fit_labels: Any = None,
    n_rows: int = 300,
    random_state: int = 0,
) -> Faithfulness:
    """Compare ways to name the rows that matter, on rows of X.

    Parameters
    ----------
    model : KernelEmbedding, or a kernel ridge machine or Gaussian process
    X : rows, in any form that the model takes
        `n_rows` of them are explained, drawn at random; landmarks are left out.
    y : labels of X, optional
        Classes. Deletion is then judged by predictions: of a linear probe, or of the machine itself.
    fit_rows, fit_labels : optional
        The rows that the model was fitted on, and their labels: for the labels of landmarks and the probe. By default
        X and y, if the landmarks are rows of X.
    n_rows : int, default=300
    random_state : int, default=0

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from krepes import KernelEmbedding
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelEmbedding(4, n_landmarks=30, random_state=0).fit(X)
    >>> found = faithfulness(model, X, y)
    >>> found.ignores_weights("kernel value"), found.ignores_weights("attribution")
    (True, False)
    """
    check_count("n_rows", n_rows, 2)
    model.check_input(X)
    labels, generator = None if y is None else as_array(y, "y"), generator_of(random_state)
    if isinstance(model, RidgeMachine) and not in_cells(model):
        kept = TrainingRows.kept_by(model)
        if kept is not None and getattr(model, "loss", "squared") == "squared":
            found, facts, title = retrained_check(model, kept, X, labels, n_rows, generator)
            return Faithfulness(found, facts, title, "explain")
    checked(model)
    if fit_rows is None and landmarks_are_rows_of(model, X):
        fit_rows, fit_labels = X, labels
    of_fit = None if fit_labels is None else as_array(fit_labels, "fit_labels")
    explained = _explained(model, X, labels, fit_rows, n_rows, generator)
    known = landmark_rows(model)
    rows = ExplainedRows(
        Expansion.of(model),
        _kernel_values(model, X, explained),
        None if labels is None else labels[explained],
        None if of_fit is None or known is None else of_fit[known],
    )
    what = "1 / (1 + relative change)"
    if labels is not None and isinstance(model, KernelRidgeClassifier):
        rows = replace(rows, predict=lambda Z: model.classes_[Z.argmax(1)])
    elif labels is not None and isinstance(model, KernelEmbedding):
        source, given = (X, labels) if fit_rows is None or of_fit is None else (fit_rows, of_fit)
        free = np.flatnonzero(~missing_values(given))
        free = np.setdiff1d(free, explained) if source is X else free
        drawn = np.sort(generator.permutation(free)[:PROBE_ROWS])
        Z = rows.expansion.at(_kernel_values(model, source, drawn)).cpu().numpy()
        probe = linear_probe(Z, given[drawn], Z, given[drawn], random_state=0).model
        rows = replace(rows, predict=probe.predict)
    if rows.predict is not None:
        what = f"accuracy ({rows.intact(rows.Z).mean():.2f} with all landmarks)"
    draws = torch.Generator().manual_seed(random_state)

    def at_random(expansion: Expansion) -> Values:
        m = len(expansion.at_landmarks)
        return lambda K: torch.rand(len(K), m, dtype=torch.float64, generator=draws).to(K)

    methods = METHODS | {"random": at_random}
    found = {name: _checked(method, rows) for name, method in methods.items()}
    title = f"{len(explained)} rows, {n_landmarks(model)} landmarks; deletion and insertion by {what}."
    return Faithfulness(found, {}, title, "explain")


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


def _kernel_values(model: Explained, X: Any, rows: np.ndarray) -> Tensor:
    return model.features_.kernel_block(model.space_.reader(X).take(rows).inputs[0]).double()


def _checked(method: Method, rows: ExplainedRows) -> dict[str, np.ndarray]:
    """Figures of one method, by column."""
    values = method(rows.expansion)(rows.K)
    order = values.topk(min(max(STEPS), values.shape[1]), dim=1).indices
    steps = [step for step in STEPS if step <= order.shape[1]]
    found = {
        name: np.mean([rows.intact(left(order[:, :step])) for step in steps], axis=0)
        for name, left in (("deletion", rows.subtracted), ("insertion", rows.alone))
    }
    if rows.landmark_labels is not None and rows.labels is not None:
        named = rows.landmark_labels[order[:, 0].cpu().numpy()]
        found["same label"] = (named == rows.labels).astype(np.float64)
    close = closeness(rows.expansion.K[: values.shape[1], : values.shape[1]])
    found["perturbed"] = close[order[:, 0], first(method, rows.perturbed(), 1)[:, 0]].cpu().numpy()
    again = [_overlap(method, rows, order, draw) for draw in range(N_RANDOM)]
    found["random weights"] = np.array(again)
    shares = values.abs().sort(dim=1, descending=True).values.cumsum(1)
    found["rows for 90 %"] = (1 + (shares < 0.9 * shares[:, -1:]).sum(1)).double().cpu().numpy()
    return found


def first(method: Method, rows: ExplainedRows, k: int) -> Tensor:
    """The first k landmarks of every row, (n, k)."""
    values = method(rows.expansion)(rows.K)
    return values.topk(min(k, values.shape[1]), dim=1).indices


def _overlap(method: Method, rows: ExplainedRows, order: Tensor, draw: int) -> float:
    """The share of the first landmarks that are also named where the weights are random."""
    random = replace(rows, expansion=rows.expansion.random(torch.Generator().manual_seed(draw)))
    again = first(method, random, N_COMPARED)
    named = order[:, : again.shape[1]]
    return (named[:, :, None] == again[:, None]).any(2).double().mean().item()


def closeness(K: Tensor) -> Tensor:
    """1 - 2 * the share of columns with larger values, of kernel values between landmarks, (m, m')."""
    more_alike = K.shape[1] - 1 - K.argsort(1).argsort(1)
    return 1 - 2 * more_alike / max(1, K.shape[1] - 1)
