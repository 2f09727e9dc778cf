"""The demo's figure: a map of the representation, one digit with its landmarks, and the accuracies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from krepes.cli.commands.demo import Compared, Digits, Explained

# Ten colours of similar lightness that stay apart for colour-blind readers as far as ten can.
COLOURS = (
    "#3b6fb6",
    "#e08a1e",
    "#3f9b5a",
    "#c8453b",
    "#8a63b8",
    "#8c6046",
    "#d672ac",
    "#6e7681",
    "#a9a52e",
    "#2aa5b3",
)
INK, FAINT, GROUND = "#22272e", "#8b949e", "#ffffff"


def draw(path: Path, digits: Digits, Z: np.ndarray, rows: Compared, explained: Explained, seed: int) -> None:
    """Write the figure as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 7.2), dpi=150, facecolor=GROUND)
    FigureCanvasAgg(figure)
    _text(figure, 0.035, 0.945, "Handwritten digits, learned without labels", 19, weight="bold")
    about = f"{Z.shape[1]} components learned from {digits.n_train:,} images; colours show the digits, which the model "
    _text(figure, 0.035, 0.9, f"{about}was never told", 11.5, FAINT)
    places = flat_map(Z, seed)
    _map(figure.add_axes((0.02, 0.03, 0.56, 0.84)), places, digits, explained)
    _explanation(figure, digits, explained)
    _accuracies(figure, rows)
    figure.savefig(path, format="png")


def _text(
    drawn: Figure | Axes, x: float, y: float, words: str, size: float, colour: str = INK, **style: Any
) -> None:
    drawn.text(x, y, words, fontsize=size, color=colour, va="center", **style)


def flat_map(Z: np.ndarray, seed: int) -> np.ndarray:
    """Two coordinates in which near rows stay near (t-SNE)."""
    from sklearn.manifold import TSNE

    scaled = (Z - Z.mean(0)) / Z.std()
    return TSNE(init="pca", perplexity=40, max_iter=300, random_state=seed).fit_transform(scaled)


def _map(axes: Axes, places: np.ndarray, digits: Digits, explained: Explained) -> None:
    """All rows as dots in the colour of their digit, with one row and its landmarks joined by lines."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=4, foreground=GROUND)]
    for digit, colour in enumerate(COLOURS):
        members = places[digits.y == digit]
        axes.scatter(members[:, 0], members[:, 1], s=13, color=colour, alpha=0.7, linewidths=0)
        middle = members[np.linalg.norm(members - np.median(members, 0), axis=1).argmin()]
        style: dict[str, Any] = {"weight": "bold", "ha": "center", "path_effects": halo, "zorder": 4}
        _text(axes, middle[0], middle[1], str(digit), 24, colour, **style)
    x, y = places[explained.row]
    for landmark in explained.landmarks:
        ends = places[[explained.row, landmark]].T
        axes.plot(*ends, color=INK, linewidth=0.9, alpha=0.8, zorder=3)
    marks = places[explained.landmarks]
    axes.scatter(marks[:, 0], marks[:, 1], s=34, facecolor=GROUND, edgecolor=INK, linewidths=1.3, zorder=5)
    axes.scatter([x], [y], s=190, marker="*", facecolor="#f2b705", edgecolor=INK, linewidths=1.0, zorder=6)
    axes.set_axis_off()
    axes.margins(0.03)


def _explanation(figure: Figure, digits: Digits, explained: Explained) -> None:
    """The row and its landmarks as images."""
    left, top = 0.615, 0.855
    _text(figure, left, top, "Why does ★ lie there?", 14, weight="bold")
    words = "The training images that add most to it, in parts of the way there:"
    _text(figure, left, top - 0.042, words, 10.5, FAINT)
    star = (left, 0.53, 0.125, 0.125 * 13 / 7.2)
    _picture(figure, star, digits.X[explained.row], "#f2b705", 3.0)
    caption = f"★ row {explained.row}, a {digits.y[explained.row]}"
    _text(figure, left + star[2] / 2, star[1] - 0.025, caption, 10, ha="center")
    for i, (row, value) in enumerate(zip(explained.landmarks, explained.parts)):
        x, y = 0.765 + 0.074 * (i % 3), 0.655 - 0.165 * (i // 3)
        _picture(figure, (x, y, 0.055, 0.055 * 13 / 7.2), digits.X[row], COLOURS[digits.y[row]], 2.0)
        _text(figure, x + 0.0275, y - 0.018, f"row {row}, a {digits.y[row]}", 8.5, ha="center")
        _text(figure, x + 0.0275, y - 0.040, f"{value:.2f}", 8.5, FAINT, ha="center")


def _picture(
    figure: Figure, place: tuple[float, float, float, float], image: np.ndarray, colour: str, width: float
) -> None:
    axes = figure.add_axes(place)
    axes.imshow(image, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color=colour, linewidth=width)


def _accuracies(figure: Figure, rows: Compared) -> None:
    """Bars of mean accuracy with the deviation over draws of the labels."""
    names = list(rows)[::-1]
    results = [rows[name][0] for name in names]
    title = f"Test accuracy with {results[0].n_labels} labels"
    _text(figure, 0.615, 0.375, title, 14, weight="bold")
    words = "A linear classifier on each representation, mean ± deviation"
    _text(figure, 0.615, 0.333, words, 10.5, FAINT)
    axes = figure.add_axes((0.695, 0.075, 0.275, 0.225))
    means = [100 * result.accuracy for result in results]
    deviations = [100 * result.values("accuracy").std(ddof=1) for result in results]
    low = 5 * np.floor((min(means) - 5) / 5)
    for i, (name, mean, deviation) in enumerate(zip(names, means, deviations)):
        ours = name == "krepes"
        color = "#2f6fd0" if ours else "#8b949e"
        # Points, not bars, because the axis does not start at zero.
        axes.errorbar(mean, i, xerr=deviation, fmt="o", color=color, markersize=9, linewidth=2.2)
        axes.text(mean, i + 0.22, f"{mean:.1f} %", ha="center", fontsize=11, color=color, weight="bold")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.5, len(names) - 0.4)
    axes.set_xlim(low, 100)
    axes.set_xticks(np.arange(low, 101, 5))
    axes.tick_params(length=0, labelsize=10.5, labelcolor=INK)
    axes.tick_params(axis="x", labelcolor=FAINT, labelsize=9.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#d0d7de")
