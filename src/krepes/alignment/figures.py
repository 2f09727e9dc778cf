"""Heat maps of alignment: layer by layer, model by model, layer by target."""

from __future__ import annotations

from typing import Any

import numpy as np


def plot_alignment(values: Any, rows: list[str], columns: list[str] | None = None) -> Any:
    """Draw a table of alignments.

    Parameters
    ----------
    values : array of shape (a, b)
        Undefined alignments are NaN and stay white.
    rows, columns : lists of a and b names; columns as rows if not given.

    Returns
    -------
    figure : matplotlib Figure
        Made without pyplot, so that nothing stays open.
    """
    from matplotlib.figure import Figure

    values, columns = np.asarray(values, dtype=float), rows if columns is None else columns
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"values has shape {values.shape} for {len(rows)} rows and {len(columns)} columns of names."
        )
    size = (2.5 + 0.35 * len(columns), 1.8 + 0.3 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    image = panel.imshow(values, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    panel.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=8)
    panel.set_yticks(range(len(rows)), rows, fontsize=8)
    if values.size <= 144:
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                panel.text(
                    j,
                    i,
                    f"{value:.2f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="w" if value > 0.6 else "k",
                )
    figure.colorbar(image, ax=panel, label="CKA")
    return figure
