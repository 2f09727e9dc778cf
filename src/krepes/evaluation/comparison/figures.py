"""The figure of a label curve: one line for everything that is compared, with a band of its deviation over draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from krepes.evaluation.comparison.label_curve import LabelCurve
from krepes.evaluation.comparison.verdict import OURS, PCA, RAW
from krepes.evaluation.probe_result import NAMES
from krepes.evaluation.protocol_result import PERCENT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, RULE = "#22272e", "#8b949e", "#d0d7de"
COLOURS = {OURS: "#2f6fd0", PCA: "#e08a1e", RAW: "#6e7681"}
OTHERS = ("#3f9b5a", "#8a63b8", "#c8453b", "#2aa5b3", "#8c6046", "#d672ac")
APART = 0.045  # of the height: names at the right end that are nearer are moved


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
        axes.annotate(
            name,
            (last, place),
            xytext=(9, 0),
            textcoords="offset points",
            color=ends[name][1],
            fontsize=10,
            weight="bold" if name == OURS else "normal",
            va="center",
            annotation_clip=False,
        )
