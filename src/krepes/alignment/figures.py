"""A figure of transferability scores: a panel for every score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from krepes.alignment.transfer.transferability import HEADINGS, Transferability

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_transferability(found: Transferability) -> Figure:
    """Draw the scores of a `Transferability`: one panel per score, the models in the order of the ranking.

    Accuracies on rows left out have bars of two standard errors.

    Returns
    -------
    figure : matplotlib Figure
    """
    from matplotlib.figure import Figure

    if not isinstance(found, Transferability):
        raise TypeError(f"found is a {type(found).__name__}; expected what `transferability` returns.")
    order, scores = found.order(), found.scores
    names = [found.names[i] for i in order]
    figure = Figure(figsize=(2 + 2.4 * len(scores), 1.2 + 0.28 * len(names)), layout="constrained")
    panels = figure.subplots(1, len(scores), sharey=True, squeeze=False)[0]
    places = np.arange(len(names))[::-1]
    for panel, (score, values) in zip(panels, scores.items()):
        values = np.where(np.isfinite(values), values, np.nan)[order]
        if score == "leave_one_out":
            values = 100 * values
            errors = 200 * found.column("leave_one_out_error")[order]
            panel.errorbar(values, places, xerr=errors, fmt="none", ecolor="#1f5fa8", lw=1)
        known = np.isfinite(values)
        if known.any():
            panel.hlines(places[known], values[known].min(), values[known], color="0.8", lw=1)
        related = found.p_values[order] < 0.05
        for mask, face in ((related, "#1f5fa8"), (~related, "w")):
            panel.scatter(values[mask], places[mask], s=28, color=face, edgecolors="#1f5fa8", zorder=3)
        panel.set_title(HEADINGS[score], fontsize=10)
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.tick_params(axis="y", length=0)
        panel.tick_params(axis="x", labelsize=8)
        panel.margins(x=0.12)
        panel.set_ylim(-0.6, len(names) - 0.4)
    panels[0].set_yticks(places, names, fontsize=9)
    if (found.p_values >= 0.05).any():
        figure.supxlabel("hollow: not distinguishable from chance (p ≥ 0.05)", fontsize=8)
    return figure
