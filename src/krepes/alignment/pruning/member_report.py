"""What pruning reports: a row per member, the memory that is saved, and warnings if the choice cannot be trusted."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np

from krepes.alignment.pruning.ensemble_members import Ensemble
from krepes.alignment.pruning.held_out_scores import (
    is_chance,
    is_clearly_worse,
    repeats_target,
    sums_of_all,
    sums_of_kept,
)
from krepes.alignment.pruning.member_selection import Selection


@dataclass(frozen=True)
class MemberRow:
    """One member: whether it was kept, with which weight, and why.

    Attributes
    ----------
    index : its position in the ensemble.
    name : its name in the ensemble: a number, "stage 3", the name given in voting and stacking, or a frame's column.
    kept : bool
    weight : the weight of its predictions in the pruned ensemble.
    score : R^2, or accuracy, of the pruned ensemble that would keep it alone, on the rows of the choice; NaN if it has
        none.
    alignment : centred alignment with the target, alone; NaN if it is constant. For regression this is `score`.
    reason : why it was kept or dropped.
    """

    index: int
    name: str
    kept: bool
    weight: float
    score: float
    alignment: float
    reason: str


@dataclass(frozen=True)
class Savings:
    """What the members take before and after, in bytes as pickled."""

    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        return f"{1 - self.bytes_after / max(self.bytes_before, 1):.0%} of the memory saved"


@dataclass(frozen=True)
class Scores:
    """R^2 or accuracy of the kept members and of all members, and the warnings to give."""

    kept: float
    of_all: float
    warnings: list[str]


def judge(
    outputs: np.ndarray,  # (n, p, c)
    target: np.ndarray,  # (n, c)
    usable: np.ndarray | None,  # (n, p)
    parts: Ensemble,
    selection: Selection,
    method: str,
    whole: np.ndarray | None = None,  # (n,), what the ensemble itself predicts; its members' mean by default
    y: np.ndarray | None = None,  # (n,), what `whole` is compared with
) -> Scores:
    """What pruning costs, and signs that the rows mislead."""
    numbers, n = parts.classes is None, len(target)
    kept, everyone = sums_of_kept(outputs, target, usable, method), sums_of_all(outputs, target, usable)
    explained = np.nan if kept is None else kept.explained()
    explained_by_all = everyone.explained()
    if numbers:
        score, of_all = explained, explained_by_all
    else:
        score = np.nan if kept is None else kept.accuracy()
        of_all = everyone.accuracy()
    if whole is not None and y is not None:
        of_all = _r2(whole, y) if numbers else float((whole == y).mean())
    # Out of bag the accuracy of few members is too low to be compared.
    pair = (score, of_all) if usable is None else (explained, explained_by_all)
    loss = 1 - pair[1]
    shares = not numbers and usable is None  # of errors; otherwise shares of a variance
    noise = 2 * np.sqrt(loss / n) if shares else 2 * loss / np.sqrt(n)
    best = np.where(np.isnan(selection.alone), 0.0, selection.alone)
    rows = n if usable is None else int(usable[:, np.argmax(best)].sum())
    texts = []
    if is_chance(selection.alone, rows):
        texts.append(
            f"No member explains more of the target than noise would: the best {best.max():.1%} of the variance, of "
            f"{rows:,} rows and {len(best)} members. Do not trust this choice."
        )
    elif usable is None and (repeats_target(outputs, target) or (numbers and 1 - of_all < 1e-9)):
        texts.append(
            "The members fit the given rows perfectly: they were probably trained on them, and the choice says nothing "
            "about other rows. Give rows held out from training."
        )
    elif is_clearly_worse(*pair, noise):
        what = (
            "R²" if numbers else "accuracy" if usable is None else "share of the classes' variance explained"
        )
        texts.append(
            f"The kept members predict worse than all: {what} {pair[0]:.3f}, with all {pair[1]:.3f} (on rows left out "
            "of the choice in turn). Keep the whole ensemble where this matters."
        )
    return Scores(float(score), float(of_all), texts)


def _r2(predicted: np.ndarray, y: np.ndarray) -> float:
    scale = np.abs(y).max()
    errors, spread = (predicted - y) / scale, (y - y.mean()) / scale
    return float(1 - np.square(errors).sum() / np.square(spread).sum())


def member_rows(parts: Ensemble, selection: Selection, scores: np.ndarray) -> list[MemberRow]:
    """A row per member."""
    return [
        MemberRow(k, member.name, bool(weight > 0), float(weight), float(score), float(alignment), reason)
        for k, (member, weight, score, alignment, reason) in enumerate(
            zip(parts.members, selection.weights, scores, selection.alignment, selection.reasons)
        )
    ]


def savings_of(parts: Ensemble, kept: np.ndarray) -> Savings | None:
    """None if the members cannot be pickled."""
    try:
        sizes = np.array([len(pickle.dumps(member, protocol=5)) for member in parts.members])
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return Savings(int(sizes.sum()), int(sizes[kept].sum()))
