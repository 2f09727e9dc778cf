"""Heat maps of alignment: layer by layer, model by model, layer by target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from krepes.alignment.transfer.transferability import HEADINGS, Transferability
from krepes.base.validation import as_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_NAMES = 40  # beside a heat map; of more, every second or third is named


def plot_alignment(values: ArrayLike, rows: list[str], columns: list[str] | None = None) -> Figure:
    """Draw a table of alignments.

    Parameters
    ----------
    values : array of shape (a, b)
        Undefined alignments are NaN and stay white.
    rows, columns : lists of a and b names; columns are named like the rows if not given.

    Returns
    -------
    figure : matplotlib Figure
        Made without pyplot, so that nothing stays open.
    """
    from matplotlib.figure import Figure

    values = as_numbers(values, "values", finite=False)
    columns = rows if columns is None else columns
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"values has shape {values.shape} for {len(rows)} rows and {len(columns)} columns of names."
        )
    shown = [slice(None, None, -(-len(names) // MOST_NAMES)) for names in (columns, rows)]
    size = (2.5 + 0.35 * min(len(columns), MOST_NAMES), 1.8 + 0.3 * min(len(rows), MOST_NAMES))
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    image = panel.imshow(values, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
    panel.set_xticks(range(len(columns))[shown[0]], columns[shown[0]], rotation=60, ha="right", fontsize=8)
    panel.set_yticks(range(len(rows))[shown[1]], rows[shown[1]], fontsize=8)
    if values.size <= 144:
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                colour = "w" if value > 0.6 else "k"
                panel.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    figure.colorbar(image, ax=panel, label="CKA")
    return figure


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
