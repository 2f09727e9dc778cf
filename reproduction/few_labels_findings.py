"""What the small-data experiments found: the kernel that leave-one-out chooses, comparisons, table and figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from reproduction.few_labels import PCA, RAW, Found, NeighbourScores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHOSEN = "by leave-one-out"


def chosen(found: Found, method: str) -> list[tuple[str, NeighbourScores]]:
    """In every split the kernel, or network, whose leave-one-out score is best; of equal ones the first.

    >>> chosen({("a", "x"): [NeighbourScores(0.5, 0.9)], ("a", "y"): [NeighbourScores(0.6, 0.7)]}, "a")
    [('y', NeighbourScores(left_out=0.6, test=0.7))]
    """
    kinds = [kind for name, kind in found if name == method]
    columns = zip(*(found[method, kind] for kind in kinds))
    best = [int(np.argmax(np.nan_to_num([s.left_out for s in column], nan=-1.0))) for column in columns]
    return [(kinds[place], found[method, kinds[place]][split]) for split, place in enumerate(best)]


@dataclass(frozen=True)
class PairedComparison:
    """Two methods on the same splits.

    Attributes
    ----------
    better, worse : int
        Splits in which the first is better or worse than the second.
    verdict : "won", "level" or "lost"
        Level where a paired t test at 5 % sees no difference, or where there is one split.
    """

    better: int
    worse: int
    verdict: str

    @classmethod
    def of(cls, ours: list[float], theirs: list[float]) -> PairedComparison:
        """
        >>> PairedComparison.of([0.8, 0.9, 0.7], [0.7, 0.8, 0.6])
        PairedComparison(better=3, worse=0, verdict='won')
        """
        gain = np.subtract(ours, theirs)
        gain = gain[np.isfinite(gain)]
        better, worse, n = int((gain > 0).sum()), int((gain < 0).sum()), len(gain)
        if n < 2:
            return cls(better, worse, "level")
        margin = stats.t.ppf(0.975, n - 1) * gain.std(ddof=1) / n**0.5
        verdict = "level" if abs(gain.mean()) <= margin else "won" if gain.mean() > 0 else "lost"
        return cls(better, worse, verdict)

    def __str__(self) -> str:
        return f"{self.verdict} ({self.better}:{self.worse})"


def accuracies_of(column: list[NeighbourScores]) -> list[float]:
    return [s.test for s in column]


COLUMNS = ("data", "method", "kernel", "accuracy", "deviation", "left-out", "chosen", "raw", "kernel PCA")


def table_rows(data: str, found: Found) -> Iterator[tuple[Any, ...]]:
    """One row for each method and kernel, and one for each method with the kernel that leave-one-out chooses.

    The last two columns compare with nearest neighbours on the raw features and on kernel PCA, the latter with the
    same kernel, or with the one chosen for it.
    """
    raw = accuracies_of(found[RAW, ""])
    for method in dict.fromkeys(method for method, _ in found):
        choice = chosen(found, method)
        kinds = [kind for name, kind in found if name == method]
        columns = {kind: found[method, kind] for kind in kinds}
        if len(kinds) > 1:
            columns[CHOSEN] = [s for _, s in choice]
        for kind, column in columns.items():
            values = np.array(accuracies_of(column))
            values = values[np.isfinite(values)]
            theirs = [s for _, s in chosen(found, PCA)] if kind == CHOSEN else found.get((PCA, kind))
            yield (
                data,
                method,
                kind,
                *(_mean_and_deviation(values)),
                float(np.nanmean([s.left_out for s in column])) if len(values) else None,
                sum(name == kind for name, _ in choice) if len(kinds) > 1 and kind != CHOSEN else None,
                str(PairedComparison.of(accuracies_of(column), raw)) if method != RAW else None,
                str(PairedComparison.of(accuracies_of(column), accuracies_of(theirs)))
                if theirs is not None and method not in (RAW, PCA)
                else None,
            )


def _mean_and_deviation(values: np.ndarray) -> tuple[float | None, float | None]:
    if not len(values):
        return None, None
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0


STYLES = {
    "Gaussian": ("o", "#1f5fa8"),
    "Laplacian": ("s", "#3f9fb8"),
    "linear": ("^", "#7a6fb0"),
    "ReLU": ("v", "#4a8a4a"),
    "network": ("P", "#d07020"),
    "network, fresh triplets": ("X", "#b03a2e"),
    CHOSEN: ("D", "black"),
}


def figure_of(table: list[tuple[Any, ...]]) -> Figure:
    """A panel for each data set: test accuracy of every method and kernel, and of what leave-one-out chooses."""
    from matplotlib.figure import Figure

    by_data: dict[str, list[tuple[str, str, float, float]]] = {}
    for data, method, kind, mean, deviation, *_ in table:
        if mean is not None:
            by_data.setdefault(data, []).append((method, kind, 100 * mean, 100 * deviation))
    n_columns = 2 if len(by_data) in (2, 4) else min(3, len(by_data))
    n_rows = -(-len(by_data) // n_columns)
    figure = Figure(figsize=(5.2 * n_columns, 3.6 * n_rows + 0.5), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, squeeze=False).flat
    handles: dict[str, Any] = {}
    for panel, (data, points) in zip(panels, by_data.items()):
        handles |= _draw_panel(panel, points)
        panel.set_title(data, fontsize=11)
    figure.supylabel("test accuracy in %", fontsize=10)
    order = [name for name in (RAW, *STYLES) if name in handles]
    columns = 4 if len(order) > 6 else len(order)
    figure.legend(
        [handles[name] for name in order],
        order,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
    )
    return figure


def _draw_panel(panel: Axes, points: list[tuple[str, str, float, float]]) -> dict[str, Any]:
    """The points of one data set, side by side within each method; what the legend shows."""
    handles: dict[str, Any] = {}
    methods = [method for method in dict.fromkeys(point[0] for point in points) if method != RAW]
    kinds = [kind for kind in STYLES if any(point[1] == kind for point in points)]
    for method, kind, mean, deviation in points:
        if method == RAW:
            handles[RAW] = panel.axhline(mean, color="0.35", linestyle="--", linewidth=1)
            panel.axhspan(mean - deviation, mean + deviation, color="0.93", zorder=0)
            continue
        marker, color = STYLES[kind]
        handles[kind] = panel.errorbar(
            methods.index(method) + 0.11 * (kinds.index(kind) - (len(kinds) - 1) / 2),
            mean,
            yerr=deviation,
            marker=marker,
            color=color,
            markersize=5.5,
            linewidth=1,
            linestyle="none",
        )
    for place in range(1, len(methods)):
        panel.axvline(place - 0.5, color="0.85", linewidth=0.6)
    panel.set_xticks(range(len(methods)), [method.replace(" ", "\n", 1) for method in methods])
    panel.tick_params(axis="x", length=0)
    panel.set_xlim(-0.5, len(methods) - 0.5)
    panel.spines[["top", "right"]].set_visible(False)
    return handles
