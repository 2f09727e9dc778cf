"""The truth about the rows of a ridge machine: what it says without them, retrained exactly from sums.

Ways to name training rows give every row a value for a prediction f(x) . v (see `krepes.explain.predictions`):

    explain       s_i (f - f_-i) . v, the default        effects    (f - f_-i) . v, without the similarity
    kernel value  s_i, which ignores targets             random

and are compared by

    LDS           the linear datamodeling score [ilyas, park]: the rank correlation, over random halves S of the rows,
                  between f_S(x) . v, retrained on S, and the sum of the values of the rows in S
    deletion      f(x) . v without the first ten rows, retrained; as a share of what it was above the mean
    same label    how often the first row has the label of the row explained
    stability     how close the first row is to that of a machine without a tenth of the rows: 1 - 2 * (share of rows
                  that are more like the one than the other is)
    shortcut      a mark is given to a tenth of the rows, all of one class; rows of other classes with the mark: how
                  often the first row has it, too
    random weights   the share of five rows that are named again when targets are permuted

Facts: the largest difference between closed form and refit; how well rows with a wrong label are found, a tenth of the
labels being changed: the area under the curve of their leave-one-out error, e_i / (1 - h_i), along their own label.
A half of n rows costs O(n r^2 + r^3). At most MOST_ROWS rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score
from torch import Tensor

from krepes.explain.expansion import all_inputs
from krepes.explain.predictions import directions_of, similarities
from krepes.explain.training_rows import LinearInRows, TrainingRows, query_features
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.targets import Classes
from krepes.regression.ridge_algebra import FULL, NormalSums
from krepes.sources import open_source
from krepes.sources.row_subset import subset

MOST_ROWS = 2000
N_SUBSETS = 100
N_DELETED = 10
N_NAMED = 5
SHARE = 0.1  # of labels changed, of rows marked, of rows left out
MARK = 1.0  # length of the mark's feature, in lengths of a row in the kernel's space

Compared = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Mean:
    """A mean over rows or draws, and its standard error.

    >>> print(Mean.of(np.array([0.0, 1.0, 1.0, 0.0])))
    0.50 ± 0.29
    """

    value: float
    error: float

    @classmethod
    def of(cls, values: np.ndarray) -> Mean:
        values = np.asarray(values, dtype=np.float64).ravel()
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        return cls(float(values.mean()), float(error))

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.error:.2f}"


@dataclass(frozen=True, eq=False)
class Trained:
    """A ridge machine of rows in memory: features (n, r), targets (n, c), weights (n,); queries (q, r), along V (q, c).

    S (q, n) and own (n, n) are similarities of the queries, and of the rows among themselves.
    """

    linear: LinearInRows
    Phi: Tensor
    Y: Tensor
    weight: Tensor
    queries: Tensor
    V: Tensor
    S: Tensor

    def solved(self) -> Trained:
        """Solved from these rows, with the same penalty; rows of weight zero are not there."""
        there = self.weight > 0
        sums = NormalSums.of_rows(self.Phi[there], self.Y[there], self.weight[there])
        return replace(self, linear=replace(self.linear, sums=sums))

    def only(self, counts: Tensor) -> Trained:
        """The machine of rows with other weights."""
        return replace(self, weight=self.weight * counts).solved()

    def with_targets(self, Y: Tensor) -> Trained:
        return replace(self, Y=Y).solved()

    def outputs(self) -> Tensor:
        """f(x) . v, (q,)."""
        return (self.linear.whole.scores(self.queries) * self.V).sum(1)

    def effects(self) -> Tensor:
        """(f - f_-i) . v, (q, n)."""
        found = self.linear.effects(self.queries, self.Phi, self.Y, self.weight)
        return torch.einsum("qnc,qc->qn", found, self.V)

    def values(self, method: str, generator: np.random.Generator) -> Tensor:
        """The values of all rows by a method, (q, n)."""
        if method == "explain":
            return self.S * self.effects()
        if method == "effects":
            return self.effects()
        return self.S if method == "kernel value" else torch.from_numpy(generator.random(self.S.shape))

    def left_out_errors(self) -> Tensor:
        """e_i / (1 - h_i), (n, c)."""
        whole, Phi = self.linear.whole, self.Phi - self.linear.whole.mu
        own = (torch.linalg.solve(whole.damped, Phi.mT).mT * Phi).sum(1)
        own = own + (1 / self.linear.sums.n if self.linear.centres[0] else 0.0)
        return (self.Y - whole.scores(self.Phi)) / (1 - self.weight * own).clamp(min=FULL)[:, None]


METHODS = ("explain", "effects", "kernel value", "random")


def retrained_check(
    machine: RidgeMachine,
    kept: TrainingRows,
    X: Any,
    y: np.ndarray | None,
    n_rows: int,
    generator: np.random.Generator,
) -> tuple[Compared, dict[str, str], str]:
    """Figures by method, facts and a title, of predictions of rows of X that the machine has not seen if possible."""
    source = open_source(X)
    drawn = np.sort(generator.permutation(source.n_rows)[:n_rows])
    some = subset(source, drawn)
    if len(kept.numbers) > MOST_ROWS:
        kept = kept.at(np.sort(generator.permutation(len(kept.numbers))[:MOST_ROWS]))
    S = similarities(machine, all_inputs(machine, some), kept.inputs).cpu()
    own = similarities(machine, kept.inputs, kept.inputs).cpu()
    V = torch.from_numpy(directions_of(machine, machine._scores(some))[0])
    Phi, Y, weight = (part.cpu() for part in kept.features(machine))
    queries = query_features(machine, some).cpu()
    trained = Trained(LinearInRows.of(machine), Phi, Y, weight, queries, V, S).solved()
    classes = None
    if y is not None and isinstance(machine.targets_, Classes):
        classes = kept.y, machine.targets_.encoded(y[drawn])
    found = check_of(trained, own, classes, generator)
    facts = {"closed form and refit differ by at most": f"{exactness(trained):.1e} of the effect"}
    if classes is not None:
        area = mislabels_found(trained, kept.y, generator)
        facts["wrong labels found (area under the curve)"] = f"{area:.3f}, of 10 % changed"
    title = (
        f"{len(drawn)} predictions, {len(Phi):,} training rows, {N_SUBSETS} random halves retrained exactly."
    )
    return found, facts, title


def check_of(
    trained: Trained,
    own: Tensor,
    classes: tuple[np.ndarray, np.ndarray] | None,
    generator: np.random.Generator,
) -> Compared:
    """Figures of every method, by column; `classes` are codes of the rows and of the queries, if these are known."""
    n = len(trained.Phi)
    halves = np.array([generator.permutation(n) < n // 2 for _ in range(N_SUBSETS)], dtype=np.float64)
    truth = torch.stack([trained.only(torch.from_numpy(half)).outputs() for half in halves], dim=1).numpy()
    fewer = trained.only(torch.from_numpy((generator.random(n) >= SHARE).astype(np.float64)))
    permuted = trained.with_targets(trained.Y[torch.from_numpy(generator.permutation(n))])
    marked = None if classes is None else _marked(trained, *classes, generator)
    ybar = (trained.V @ trained.linear.whole.ybar).numpy()
    above = trained.outputs().numpy() - ybar
    found: Compared = {}
    for method in METHODS:
        values = trained.values(method, generator)
        order = values.topk(min(N_DELETED, n), dim=1).indices
        first = order[:, 0]
        figures = {"LDS": rank_correlations(values.numpy() @ halves.T, truth)}
        left = []
        for q, rows in enumerate(order):
            without = trained.linear.without(trained.Phi[rows], trained.Y[rows], trained.weight[rows])
            left.append(float(without.scores(trained.queries[q : q + 1])[0] @ trained.V[q]))
        figures["deletion"] = (np.array(left) - ybar) / np.where(np.abs(above) > 1e-12, above, np.inf)
        if classes is not None:
            figures["same label"] = (classes[0][first.numpy()] == classes[1]).astype(np.float64)
        there = torch.where(fewer.weight > 0, fewer.values(method, generator), -torch.inf)
        nearer = (own[first] > own[first, there.argmax(1)][:, None]).double().mean(1)
        figures["stability"] = (1 - 2 * nearer).numpy()
        if marked is not None:
            shortcut, mark, asked = marked
            named = shortcut.values(method, generator).argmax(1)
            figures["shortcut"] = mark[named].numpy()[asked]
        again = permuted.values(method, generator).topk(N_NAMED, dim=1).indices
        same = (order[:, :N_NAMED, None] == again[:, None]).any(2)
        figures["random weights"] = same.double().mean(1).numpy()
        found[method] = figures
    return found


def rank_correlations(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Spearman's correlation of the rows of two matrices.

    >>> rank_correlations(np.array([[1.0, 2.0, 9.0]]), np.array([[0.0, 3.0, 4.0]])).round(6).tolist()
    [1.0]
    """
    a, b = (ranks - ranks.mean(1, keepdims=True) for ranks in (rankdata(A, axis=1), rankdata(B, axis=1)))
    sizes = np.sqrt((a * a).sum(1) * (b * b).sum(1))
    return (a * b).sum(1) / np.where(sizes > 0, sizes, np.inf)


def exactness(trained: Trained) -> float:
    """The largest difference between effects in closed form and by refits of few rows, relative to the largest."""
    linear, queries, rows = trained.linear, trained.queries, range(min(N_NAMED, len(trained.Phi)))
    parts = [(trained.Phi[[i]], trained.Y[[i]], trained.weight[[i]]) for i in rows]
    gone = [linear.whole.scores(queries) - linear.without(*part).scores(queries) for part in parts]
    refits = torch.stack(gone, dim=1)
    closed = linear.effects(queries, *map(torch.cat, zip(*parts)))
    return ((closed - refits).abs().amax((0, 2)) / refits.abs().amax((0, 2)).clamp(min=1e-300)).max().item()


def mislabels_found(trained: Trained, codes: np.ndarray, generator: np.random.Generator) -> float:
    """The area under the curve of leave-one-out errors for rows whose label was changed."""
    changed = flipped(codes, trained.Y.shape[1], generator)
    targets = torch.eye(trained.Y.shape[1], dtype=torch.float64)[changed]
    errors = trained.with_targets(targets).left_out_errors()
    return float(roc_auc_score(changed != codes, errors[torch.arange(len(codes)), changed].numpy()))


def flipped(codes: np.ndarray, n_classes: int, generator: np.random.Generator) -> np.ndarray:
    """Codes of classes, a tenth of them changed to another class."""
    wrong = generator.random(len(codes)) < SHARE
    return np.where(wrong, (codes + generator.integers(1, n_classes, len(codes))) % n_classes, codes)


def _marked(
    trained: Trained, codes: np.ndarray, labels: np.ndarray, generator: np.random.Generator
) -> tuple[Trained, Tensor, np.ndarray]:
    """The machine with one more feature: a mark on rows of one class, and on all queries, of which others are asked."""
    target = int(np.bincount(codes).argmax())
    of_class = np.flatnonzero(codes == target)
    size = MARK * trained.Phi.square().sum(1).mean().sqrt()
    mark = torch.zeros(len(codes), dtype=torch.float64)
    mark[generator.permutation(of_class)[: max(1, int(SHARE * len(codes)))]] = 1.0
    Phi = torch.cat([trained.Phi, size * mark[:, None]], dim=1)
    queries = torch.cat([trained.queries, size.expand(len(trained.queries), 1)], dim=1)
    c = trained.Y.shape[1]
    own = torch.eye(c, dtype=torch.float64)[target]
    V = (own - (1 - own) / max(1, c - 1)).expand(len(queries), c)
    lengths = (1 + MARK**2) ** 0.5  # of marked rows, whose similarity grows by the mark
    S = (trained.S + MARK**2 * mark) / (lengths * torch.where(mark > 0, lengths, 1.0))
    found = replace(trained, Phi=Phi, queries=queries, V=V, S=S).solved()
    return found, mark, labels != target
