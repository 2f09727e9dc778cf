"""Accuracy against the number of labels: the same draws for everything that is compared.

For every repeat of a protocol, `count` of its labels are drawn, from every class in proportion to its size; what is
compared learns from these alone, and is tested on the same rows for every count.

The figure of a label curve: one line for everything that is compared, with a band of its deviation over draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from krepes.base.display import text_table
from krepes.base.reporting import display
from krepes.base.validation import check_same_rows, is_integer
from krepes.evaluation.budget import Budget, as_budget
from krepes.evaluation.comparison.draws import Method, run_draws
from krepes.evaluation.comparison.verdict import OURS, PCA, RAW
from krepes.evaluation.probe_inputs import check_matrix
from krepes.evaluation.probe_result import NAMES
from krepes.evaluation.protocol import Protocol, plan_protocol
from krepes.evaluation.scoring import PERCENT, ProtocolResult
from krepes.preprocessing.targets import guess_task

COUNTS = (50, 100, 300, 1000)

# results by name, of one protocol, and notes
Runner = Callable[[Protocol], tuple[Mapping[str, ProtocolResult], Sequence[str]]]
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, RULE = "#22272e", "#8b949e", "#d0d7de"
COLOURS = {OURS: "#2f6fd0", PCA: "#e08a1e", RAW: "#6e7681"}
OTHERS = ("#3f9b5a", "#8a63b8", "#c8453b", "#2aa5b3", "#8c6046", "#d672ac")
APART = 0.045  # of the height: names at the right end that are nearer are moved


@dataclass(frozen=True)
class LabelCurve:
    """Results by the number of labels.

    Attributes
    ----------
    counts : numbers of labels, in order.
    results : {name: a ProtocolResult for every count}.
    notes : remarks, such as counts that were left out.
    """

    counts: list[int]
    results: dict[str, list[ProtocolResult]]
    notes: list[str] = field(default_factory=list)

    def at(self, count: int) -> dict[str, ProtocolResult]:
        """The results with one number of labels, by name."""
        place = self.counts.index(count)
        return {name: found[place] for name, found in self.results.items()}

    def __str__(self) -> str:
        head = ["", *(f"{count:,}" for count in self.counts)]
        rows = [[name, *(result.words() for result in found)] for name, found in self.results.items()]
        return text_table([head, *rows])


def label_curve(
    representations: Mapping[str, Any],
    y: Any,
    train: ArrayLike | None = None,
    test: ArrayLike | None = None,
    *,
    counts: Sequence[int] = COUNTS,
    n_repeats: int = 5,
    probe: str | None = None,
    test_fraction: float = 0.2,
    random_state: int | None = 0,
    scoring: str | None = None,
    budget: Budget | float | None = None,
    verbose: int = 0,
    **options: Any,
) -> LabelCurve:
    """How well a probe does on several representations, with few labels and with more.

    Parameters
    ----------
    representations : {name: array of shape (n, h)}, of the same n rows.
    y, train, test, n_repeats, test_fraction, random_state, scoring : as in `probe_protocol`.
    counts : numbers of labels. Those above the number of training labels are left out; a note says so.
    probe : as in `probe_protocol`; by default "linear", and "ridge" where y looks like a quantity.
    budget : seconds. Draws, representations and counts that do not fit are left out; notes say so. No limit by default.
    verbose : 1 shows progress on a terminal.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> curve = label_curve({"pixels": X, "half of them": X[:, :32]}, y, counts=[50, 200], n_repeats=2, C_grid=[0.1])
    >>> curve.counts, curve.results["pixels"][1].accuracy > curve.results["pixels"][0].accuracy
    ([50, 200], True)
    """
    features = {name: check_matrix(Z, name) for name, Z in representations.items()}
    if not features:
        raise ValueError("representations is empty: give at least one, {name: array}.")
    task = guess_task(y).name if probe is None else "regression" if probe == "ridge" else "classification"
    method = probe or ("ridge" if task == "regression" else "linear")
    plan = plan_protocol(
        y,
        train,
        test,
        label_fraction=None,
        n_repeats=n_repeats,
        test_fraction=test_fraction,
        random_state=random_state,
        task=task,
    )
    for name, Z in features.items():
        check_same_rows(len(plan.labels.codes), len(Z), "y", repr(name))

    limit, counted = as_budget(budget), usable_counts(counts, plan.n_labels)[0]
    with display(verbose).stage("Probing", len(counted) * len(features) * n_repeats, unit="fits") as stage:

        def run(smaller: Protocol) -> tuple[Mapping[str, ProtocolResult], Sequence[str]]:
            methods = {name: Method(Z[smaller.rows], method, options) for name, Z in features.items()}
            return run_draws(smaller, methods, limit, scoring=scoring, progress=lambda _: stage.advance(1))

        return curve_of(plan, counts, run, random_state)


def curve_of(plan: Protocol, counts: Sequence[int], run: Runner, random_state: int | None = 0) -> LabelCurve:
    """The curve of anything that `run` can evaluate by a protocol, from few labels to many, until draws are missing."""
    usable, notes = usable_counts(counts, plan.n_labels)
    found: list[Mapping[str, ProtocolResult]] = []
    for count in usable:
        if found and len(next(iter(found[-1].values())).results) < len(plan.draws):
            rest = ", ".join(f"{count:,}" for count in usable[len(found) :])
            notes.append(f"{rest} labels: left out, to keep the budget")
            break
        results, remarks = run(plan.with_labels(count, random_state))
        found.append(results)
        notes += [f"with {count:,} labels, {remark}" for remark in remarks]
    names = [name for name in found[0] if all(name in results for results in found)]
    return LabelCurve(usable[: len(found)], {name: [part[name] for part in found] for name in names}, notes)


def usable_counts(counts: Sequence[int], n_labels: int) -> tuple[list[int], list[str]]:
    """Numbers of labels that can be drawn, sorted, and a note on the others.

    >>> usable_counts([300, 50, 5000], 1000)
    ([50, 300], ['5,000 labels: left out, there are 1,000 to learn from'])
    """
    if isinstance(counts, str) or not all(is_integer(count, 2) for count in counts) or len(counts) == 0:
        raise ValueError(f"label_counts={counts!r:.80}: expected whole numbers of labels, each at least 2.")
    asked = np.unique(counts).tolist()
    usable = [count for count in asked if count <= n_labels]
    if not usable:
        raise ValueError(
            f"label_counts={asked!r}: there are {n_labels:,} labels to learn from. Give smaller numbers."
        )
    above = ", ".join(f"{count:,}" for count in asked if count > n_labels)
    return usable, [f"{above} labels: left out, there are {n_labels:,} to learn from"] if above else []


def plot_label_curve(curve: LabelCurve, title: str = "") -> Figure:
    """Draw the score against the number of labels.

    Parameters
    ----------
    curve : what `label_curve` returns
    title : of the figure; empty for none.

    Returns
    -------
    figure : matplotlib Figure
        Made without pyplot, so that nothing stays open.
    """
    from matplotlib.figure import Figure

    if not isinstance(curve, LabelCurve):
        raise TypeError(f"curve is a {type(curve).__name__}; expected what `label_curve` returns.")
    figure = Figure(figsize=(7.6, 4.4), layout="constrained", facecolor="white")
    axes = figure.subplots()
    first = next(iter(curve.results.values()))[0]
    factor = 100 if first.metric in PERCENT else 1
    others, ends = iter(OTHERS * len(curve.results)), {}
    for name, results in curve.results.items():
        colour = COLOURS.get(name) or next(others)
        mean = factor * np.array([result.mean() for result in results])
        spread = factor * np.nan_to_num([result.spread() for result in results])
        width, size = (2.6, 6) if name == OURS else (1.8, 4.5)
        axes.plot(curve.counts, mean, "o-", color=colour, lw=width, ms=size, zorder=3 + (name == OURS))
        axes.fill_between(curve.counts, mean - spread, mean + spread, color=colour, alpha=0.13, lw=0)
        ends[name] = (mean[-1], colour)
    axes.set_xscale("log")
    axes.set_xticks(curve.counts, [f"{count:,}" for count in curve.counts])
    axes.minorticks_off()
    axes.set_xlabel("labels", color=INK)
    unit = " in %" if factor == 100 else ""
    axes.set_ylabel(f"{NAMES.get(first.metric, first.metric)}{unit} on {first.n_test:,} test rows", color=INK)
    axes.grid(axis="y", color=RULE, lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(RULE)
    axes.tick_params(length=0, labelcolor=FAINT, labelsize=9.5)
    _name_lines(axes, ends, curve.counts[-1])
    if title:
        axes.set_title(title, loc="left", color=INK, weight="bold", fontsize=12, pad=12)
    if len(first.results) > 1:
        note = f"bands: deviation over {len(first.results)} draws of the labels"
        figure.supxlabel(note, fontsize=8.5, color=FAINT, x=0.02, ha="left")
    return figure


def _name_lines(axes: Axes, ends: dict[str, tuple[float, str]], last: int) -> None:
    """Names at the right end of the lines, moved apart where they would cover one another."""
    low, high = axes.get_ylim()
    order = sorted(ends, key=lambda name: ends[name][0])
    raised = APART * (high - low) * np.arange(len(order))  # each at least this far above the lowest
    places = np.maximum.accumulate([ends[name][0] for name in order] - raised) + raised
    for name, place in zip(order, places):
        weight = "bold" if name == OURS else "normal"
        style: dict[str, Any] = {"color": ends[name][1], "fontsize": 10, "weight": weight, "va": "center"}
        beside: dict[str, Any] = {"xytext": (9, 0), "textcoords": "offset points"}
        axes.annotate(name, (last, place), **beside, **style, annotation_clip=False)
