"""The work of `krepes demo`: a representation of digits, compared, explained and drawn; and a machine for wines."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.manifold import TSNE

from krepes import KernelEmbedding
from krepes.base.storage.files import atomic_path
from krepes.cli.terminal import line, show_table
from krepes.evaluation import ProtocolResult, plan_protocol
from krepes.evaluation.linear import C_GRID
from krepes.explain.examples import examples
from krepes.machines import KernelRidgeClassifier
from krepes.report import write_report
from krepes.report.facts import component_words, plain_kernel, views_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The width and the sample were chosen by looking at these digits: a demonstration, not a benchmark.
N_TEST, N_LANDMARKS, N_COMPONENTS, N_SHOWN = 500, 500, 32, 6
N_COLUMNS = 3
SAMPLE = 49  # of the test rows
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

Compared = dict[str, tuple[ProtocolResult, float, int | None]]  # result, seconds to fit, rank; by name


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits in random order: training rows first, then test rows."""

    X: np.ndarray  # shape: (1797, 8, 8), in [0, 1]
    y: np.ndarray
    n_train: int


@dataclass(frozen=True)
class Explained:
    """The landmarks that one row is made of, and the share of each."""

    row: int
    shares: dict[int, float]  # by row number, largest first
    unexplained: float


def show_digits(paths: dict[str, Path], seed: int, overwrite: bool) -> dict[str, Any]:
    """Learn, compare and explain; write model, data, figure and page."""
    data = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.target))
    images = (data.images[order] / 16).astype(np.float32)
    digits = Digits(images, data.target[order], len(order) - N_TEST)
    line(
        f"{len(digits.X):,} images of handwritten digits, 8 × 8 pixels. The model sees {digits.n_train:,} of them and "
        "no label;\nthen a linear classifier learns from a tenth of their labels and is tested on the other "
        f"{N_TEST}."
    )
    model, rows = _compare(digits, seed)
    explained = _explain(model, digits, digits.n_train + SAMPLE)
    model.save(paths["model"], overwrite=overwrite)
    with atomic_path(paths["data"], overwrite=overwrite) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, X=digits.X, y=digits.y, n_train=digits.n_train)
    with atomic_path(paths["figure"], overwrite=overwrite) as temporary:
        _draw(temporary, digits, model.transform(digits.X), rows, explained, seed)
    shown: dict[str, Any] = {"labels": digits.y, "title": "Handwritten digits", "random_state": seed}
    write_report(model, digits.X, paths["report"], overwrite=overwrite, **shown)
    compared = {
        name: {
            "accuracies": result.values("accuracy"),
            "balanced_accuracies": result.values("balanced_accuracy"),
            "rank": rank,
            "seconds": seconds,
        }
        for name, (result, seconds, rank) in rows.items()
    }
    made_of = [{"row": row, "label": digits.y[row], "share": s} for row, s in explained.shares.items()]
    told = {"row": explained.row, "label": digits.y[explained.row], "landmarks": made_of}
    return {"compared": compared, "explained": told | {"unexplained": explained.unexplained}}


def _compare(digits: Digits, seed: int) -> tuple[KernelEmbedding, Compared]:
    """The learned model, and what it is compared with, which is printed."""
    train = np.arange(len(digits.X)) < digits.n_train
    plan = plan_protocol(digits.y, train, ~train, label_fraction=0.1, n_repeats=5, random_state=seed)
    needed = digits.X[plan.rows]
    decades = C_GRID[::2]  # half the usual grid, because nobody likes to wait for a demo
    rows: Compared = {"raw pixels": (plan.run(needed.reshape(len(needed), -1), C_grid=decades), 0.0, None)}
    default = KernelEmbedding(N_COMPONENTS, n_landmarks=N_LANDMARKS, random_state=seed)
    for name, loss in (("kernel PCA", "kernel_pca"), ("krepes", default.loss)):
        start = time.perf_counter()
        model = clone(default).set_params(loss=loss).fit(digits.X[: digits.n_train])
        seconds = time.perf_counter() - start
        rows[name] = (plan.run(model.transform(needed), C_grid=decades), seconds, model.rank_)
    shown = []
    for name, (result, seconds, rank) in rows.items():
        width = needed[0].size if rank is None else N_COMPONENTS
        scores = (result.words(metric) for metric in ("accuracy", "balanced_accuracy"))
        fitted = ("", "") if rank is None else (f"{rank:,}", f"{seconds:.1f} s")
        shown.append([name, str(width), fitted[0], *scores, fitted[1]])
    heads = ("", "width", "rank", "accuracy", "balanced accuracy", "time to fit")
    show_table(heads, shown, style=lambda row: "bold green" if row[0] == "krepes" else "")
    parts = f"{component_words(model.loss_)} loss, {component_words(model.kernel_)} kernel"
    line(f"krepes: {len(model.landmarks_):,} landmarks, {parts}, views: {views_words(model)}\n", style="dim")
    return model, rows


def _explain(model: KernelEmbedding, digits: Digits, row: int) -> Explained:
    """The landmarks of the default explanation (`krepes.explain`), which are printed."""
    top = examples(model, digits.X[row : row + 1], N_SHOWN)
    assert top.rows is not None
    shares = dict(zip(top.rows[0].tolist(), top.shares[0].tolist()))
    explained = Explained(row, shares, float(top.unexplained[0]))
    line(
        f"Why does test row {row}, a {digits.y[row]}, lie where it lies? It is made of these landmarks, real training "
        "rows:"
    )
    for landmark, share in shares.items():
        line(f"  row {landmark:>4}  a {digits.y[landmark]}  {share:4.0%}")
    line(
        f"The other {explained.unexplained:.0%} of its way from the middle of the data stay unexplained by them.\n"
    )
    return explained


def show_machine(table: Path, output: Path, seed: int, overwrite: bool) -> dict[str, Any]:
    """Train on half of scikit-learn's wines, test on the others, and leave the table and the machine."""
    data = load_wine()
    cultivar = data.target_names[data.target]
    wines = pa.table([*data.data.T, cultivar.tolist()], names=[*data.feature_names, "cultivar"])
    with atomic_path(table, overwrite=overwrite) as temporary:
        csv.write_csv(wines, temporary, csv.WriteOptions(quoting_style="none"))
    train = np.random.default_rng(seed).permutation(len(wines)) < len(wines) // 2
    start = time.perf_counter()
    machine = KernelRidgeClassifier(random_state=seed).fit(
        wines, "cultivar", sample_weight=train.astype(float)
    )
    seconds = time.perf_counter() - start
    accuracy = float((machine.predict(wines.filter(~train)) == cultivar[~train]).mean())
    found = machine.column_importances()
    machine.save(output, overwrite=overwrite)
    first = ", ".join(f"{found.names[j]} {found.words(j)}" for j in found.order[:N_COLUMNS])
    line(
        f"A machine for a table: trained on {train.sum()} of {len(wines)} wines, in {seconds:.1f} s, it predicts the "
        f"cultivar of the\nothers with an accuracy of {100 * accuracy:.1f} %. Chosen by rows left out: "
        f"{component_words(plain_kernel(machine))}.\nThe columns that count most: {first}.\n"
    )
    return {"accuracy": accuracy, "n_train": int(train.sum()), "seconds": seconds, "columns": found.names}


def _draw(path: Path, digits: Digits, Z: np.ndarray, rows: Compared, explained: Explained, seed: int) -> None:
    """Write the figure as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 7.2), dpi=150, facecolor=GROUND)
    FigureCanvasAgg(figure)
    _text(figure, 0.035, 0.945, "Handwritten digits, learned without labels", 19, weight="bold")
    about = f"{Z.shape[1]} components learned from {digits.n_train:,} images; colours show the digits, which the model "
    _text(figure, 0.035, 0.9, f"{about}was never told", 11.5, FAINT)
    places = _flat_map(Z, seed)
    _map(figure.add_axes((0.02, 0.03, 0.56, 0.84)), places, digits, explained)
    _explanation(figure, digits, explained)
    _accuracies(figure, rows)
    figure.savefig(path, format="png")


def _text(
    drawn: Figure | Axes, x: float, y: float, words: str, size: float, colour: str = INK, **style: Any
) -> None:
    drawn.text(x, y, words, fontsize=size, color=colour, va="center", **style)


def _flat_map(Z: np.ndarray, seed: int) -> np.ndarray:
    """Two coordinates in which near rows stay near (t-SNE)."""
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
    star, marks = places[explained.row], places[list(explained.shares)]
    for mark in marks:
        axes.plot(*np.stack([star, mark]).T, color=INK, linewidth=0.9, alpha=0.8, zorder=3)
    axes.scatter(marks[:, 0], marks[:, 1], s=34, facecolor=GROUND, edgecolor=INK, linewidths=1.3, zorder=5)
    axes.scatter(
        star[0], star[1], s=190, marker="*", facecolor="#f2b705", edgecolor=INK, linewidths=1.0, zorder=6
    )
    axes.set_axis_off()
    axes.margins(0.03)


def _explanation(figure: Figure, digits: Digits, explained: Explained) -> None:
    """The row and its landmarks as images."""
    left, top = 0.615, 0.855
    _text(figure, left, top, "Why does ★ lie there?", 14, weight="bold")
    words = f"Training images it is made of; {explained.unexplained:.0%} stay unexplained:"
    _text(figure, left, top - 0.042, words, 10.5, FAINT)
    star = (left, 0.53, 0.125, 0.125 * 13 / 7.2)
    _picture(figure, star, digits.X[explained.row], "#f2b705", 3.0)
    caption = f"★ row {explained.row}, a {digits.y[explained.row]}"
    _text(figure, left + star[2] / 2, star[1] - 0.025, caption, 10, ha="center")
    for i, (row, value) in enumerate(explained.shares.items()):
        x, y = 0.765 + 0.074 * (i % 3), 0.655 - 0.165 * (i // 3)
        _picture(figure, (x, y, 0.055, 0.055 * 13 / 7.2), digits.X[row], COLOURS[digits.y[row]], 2.0)
        _text(figure, x + 0.0275, y - 0.018, f"row {row}, a {digits.y[row]}", 8.5, ha="center")
        _text(figure, x + 0.0275, y - 0.040, f"{value:.0%}", 8.5, FAINT, ha="center")


def _picture(
    figure: Figure, place: tuple[float, float, float, float], image: np.ndarray, colour: str, width: float
) -> None:
    axes = figure.add_axes(place)
    axes.imshow(image, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color=colour, linewidth=width)


def _accuracies(figure: Figure, rows: Compared) -> None:
    """Bars of mean accuracy with the deviation over draws of the labels."""
    results = {name: result for name, (result, _, _) in reversed(rows.items())}
    title = f"Test accuracy with {rows['krepes'][0].n_labels} labels"
    _text(figure, 0.615, 0.375, title, 14, weight="bold")
    words = "A linear classifier on each representation, mean ± deviation"
    _text(figure, 0.615, 0.333, words, 10.5, FAINT)
    axes = figure.add_axes((0.695, 0.075, 0.275, 0.225))
    for i, (name, result) in enumerate(results.items()):
        mean, color = 100 * result.accuracy, "#2f6fd0" if name == "krepes" else FAINT
        # Points, not bars, because the axis does not start at zero.
        deviation = 100 * result.spread("accuracy")
        axes.errorbar(mean, i, xerr=deviation, fmt="o", color=color, markersize=9, linewidth=2.2)
        _text(axes, mean, i + 0.27, f"{mean:.1f} %", 11, color, ha="center", weight="bold")
    low = 5 * np.floor(20 * min(result.accuracy for result in results.values()) - 1)
    axes.set_yticks(range(len(results)), results)
    axes.set(ylim=(-0.5, len(results) - 0.4), xlim=(low, 100), xticks=np.arange(low, 101, 5))
    axes.tick_params(length=0, labelsize=10.5, labelcolor=INK)
    axes.tick_params(axis="x", labelcolor=FAINT, labelsize=9.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#d0d7de")
