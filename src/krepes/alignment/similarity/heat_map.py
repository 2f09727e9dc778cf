"""A heat map of alignments: layer by layer, model by model, layer by target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

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
