"""The verdict: is a representation better than the raw features, and than kernel PCA, or is it chance?

    d = mean over repeats of (ours - theirs),     error^2 = Var_repeats(d) / R  +  error_rows(d)^2

Two things could have come out otherwise: the draws of the labels, whose error is that of the paired differences of R
repeats, and the test rows, whose error is a jackknife of the paired difference over groups of them. Repeats that share
their test rows know nothing of the second; those with test rows of their own overlap, which the sum makes up for: with
a fifth of the rows for testing and five repeats it is about what Nadeau and Bengio (2003) correct to. One repeat has
the second error alone. A difference counts where it exceeds twice its error, and half a point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from krepes.base.display import displayed
from krepes.evaluation.probe_result import NAMES
from krepes.evaluation.scoring import PERCENT, ProtocolResult, digits_of, jackknife_error

OURS, RAW, PCA = "representation", "raw features", "kernel PCA"
LEAST = 0.005  # that is worth a word; of a score with a unit of its own, as a share of it
ERRORS = 2.0
RARE = 0.8  # share of the most frequent class above which accuracy says little

ADVICE = {
    PCA: "Try loss='kernel_pca', or gentler views.",
    RAW: "Try a longer lengthscale or more components, let `krepes tune` search, or use the raw features.",
    "level with raw": "Try a longer lengthscale, let `krepes tune` search, or use the raw features, which are simpler.",
    "level with kernel PCA": "Its views add nothing here: loss='kernel_pca' is simpler.",
    "unsure": "More repeats, or more rows to test on, would tell.",
    "nothing": "The labels may not be in these columns, or there are too few of them.",
    "rare": "Most rows have one class, so that accuracy says little: try scoring='balanced_accuracy' or "
    "scoring='roc_auc'.",
}


@dataclass(frozen=True)
class Difference:
    """Ours minus theirs, on the same draws.

    Attributes
    ----------
    name : of the other.
    metric : name of the score.
    mean, error : of the difference.
    least : below which a difference is not worth a word.
    """

    name: str
    metric: str
    mean: float
    error: float
    least: float = 0.0

    @property
    def sign(self) -> int:
        """1 if ours is better, -1 if it is worse, 0 if chance can explain the difference."""
        return int(np.sign(self.mean)) if abs(self.mean) > max(self.least, ERRORS * self.error) else 0

    def words(self, signed: bool = False) -> str:
        """Its size, such as 2.3 points or 0.041 in R²."""
        size = self.mean if signed else abs(self.mean)
        plus = "+" if signed else ""
        if self.metric in PERCENT:
            return f"{100 * size:{plus}z.1f} points"
        return f"{size:{plus}z.{digits_of(self.metric, size)}f} in {NAMES.get(self.metric, self.metric)}"


@displayed
@dataclass(frozen=True)
class Verdict:
    """What a comparison says. `str(verdict)` is the findings and the advice.

    Attributes
    ----------
    text : the findings.
    advice : what to try, in terms of parameters; empty where the representation is better.
    winner : the name of the best, or "" where chance cannot tell.
    differences : of the representation from each of the others.
    """

    text: str
    advice: str
    winner: str
    differences: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.text} {self.advice}".strip()


def paired_difference(name: str, ours: ProtocolResult, theirs: ProtocolResult) -> Difference:
    """The difference of two results of one protocol, with the error of both its draws and its test rows."""
    metric = ours.metric
    if ours.without[metric].shape != theirs.without.get(metric, np.empty(0)).shape:
        raise ValueError(f"{name} was not tested on the same draws by {metric}: run all by one protocol.")
    d = ours.values(metric) - theirs.values(metric)
    draws = float(d.std(ddof=1)) / len(d) ** 0.5 if len(d) > 1 else 0.0
    groups = ours.without[metric] - theirs.without[metric]
    rows = jackknife_error(groups.mean(0))
    error = float(np.hypot(draws, rows)) if np.isfinite(rows) else (draws or float("inf"))
    own_unit = metric.startswith("neg_")
    least = LEAST * abs(ours.mean(metric)) if own_unit else LEAST
    return Difference(name, metric, float(d.mean()), error, least)


def verdict(results: Mapping[str, ProtocolResult], floor: ProtocolResult | None = None) -> Verdict:
    """Judge a representation beside the raw features, kernel PCA and other methods.

    Parameters
    ----------
    results : {name: result}, all of one protocol. "representation" is judged; "raw features" and "kernel PCA" are what
        it should beat; others, such as "random forest", are named where they are better.
    floor : the result of not looking at the rows, `Protocol.floor()`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from krepes.evaluation import plan_protocol
    >>> X, y = load_digits(return_X_y=True)
    >>> plan = plan_protocol(y, n_repeats=3)
    >>> outcome = {"representation": plan.run(X[plan.rows]), "raw features": plan.run(X[plan.rows, :8])}
    >>> print(verdict(outcome, plan.floor()))
    The representation is better than raw features by ... points.
    """
    if OURS not in results:
        raise ValueError(f"results has {', '.join(map(repr, results))}; {OURS!r} is missing.")
    ours = results[OURS]
    found = {name: paired_difference(name, ours, other) for name, other in results.items() if name != OURS}
    everything = list(found.values())
    if floor is not None and _no_better(results, floor):
        most = floor.mean() if floor.metric == "accuracy" else 0.0
        what = "the most frequent class" if floor.metric in PERCENT else "a constant"
        text = f"Nothing here is better than always predicting {what}."
        return Verdict(text, ADVICE["rare" if most > RARE else "nothing"], "", everything)
    rivals = [found[name] for name in (RAW, PCA) if name in found]
    others = [difference for name, difference in found.items() if name not in (RAW, PCA)]
    text, case = _said(rivals)
    best = min(others, key=lambda other: other.mean, default=None)
    if best is not None and best.sign < 0:
        text += f" {_capital(best.name)} on the raw features is better by {best.words()}."
    lost = sorted((other for other in everything if other.sign < 0), key=lambda other: other.mean)
    won = rivals and all(rival.sign > 0 for rival in rivals)
    winner = lost[0].name if lost else OURS if won else ""
    return Verdict(text, ADVICE.get(case, ""), winner, everything)


def _no_better(results: Mapping[str, ProtocolResult], floor: ProtocolResult) -> bool:
    return all(paired_difference(name, result, floor).sign <= 0 for name, result in results.items())


def _said(rivals: list[Difference]) -> tuple[str, str]:
    """The findings on the raw features and kernel PCA, and which advice they call for."""
    if not rivals:
        return "There is nothing to compare the representation with.", ""
    better, level, worse = ([r for r in rivals if r.sign == sign] for sign in (1, 0, -1))
    if worse:
        first, *rest = sorted(worse, key=lambda r: r.mean)
        text = f"{_capital(first.name)} {_verb(first.name)} better than the representation by {first.words()}"
        text += "".join(f", {r.name} by {r.words()}" for r in rest)
        text += "".join(f"; the representation is better than {r.name} by {r.words()}" for r in better)
        text += "".join(f"; it is level with {r.name} ({r.words(signed=True)})" for r in level)
        return f"{text}.", first.name
    if not level:
        return f"The representation is better {_by(better)}.", ""
    if all(r.mean > r.least for r in level):
        text = f"The representation is better {_by(better)}. It" if better else "The representation"
        return f"{text} is ahead {_by(level, 'of')}, which chance can explain.", "unsure"
    near = " and ".join(f"{r.name} ({r.words(signed=True)})" for r in level)
    chance = any(abs(r.mean) <= ERRORS * r.error for r in level)
    why = "chance can explain the difference" if chance else "the difference is too small to matter"
    case = "level with raw" if any(r.name == RAW for r in level) else "level with kernel PCA"
    if better:
        gained = " and ".join(f"{r.name} by {r.words()}" for r in better)
        return f"The representation is better than {gained}, and no better than {near}.", case
    return f"The representation is no better than {near} here: {why}.", case


def _by(differences: list[Difference], word: str = "than") -> str:
    return " and ".join(f"{word} {r.name} by {r.words()}" for r in differences)


def _verb(name: str) -> str:
    return "are" if name.endswith("s") else "is"


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
