"""The figure of docs/valid-kernels.md: what a kernel may not do.

python tools/valid_kernels_figure.py            # writes docs/valid_kernels.png
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

BLUE, GREY, RED = "#1f6fb2", "#555555", "#c8332b"


def logistic(u: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-u))


def gaussian(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return np.exp(-((X[:, None] - Y) ** 2).sum(2) / 2)


def draw_length(axis: Axes) -> None:
    """The squared length of phi(1) - t phi(3) for three functions."""
    x, t = np.array([[1.0], [3.0]]), np.linspace(0, 1.6, 200)
    matrices = {
        "Gaussian": (gaussian(x, x), BLUE),
        "linear, xy / 9": (x @ x.T / 9, GREY),
        "sigmoid, 1 / (1 + e$^{-xy}$)": (logistic(x @ x.T), RED),
    }
    for name, (K, colour) in matrices.items():
        value = K[0, 0] - 2 * t * K[0, 1] + t**2 * K[1, 1]
        axis.plot(t, value, color=colour, label=name, linewidth=2)
        axis.fill_between(t, value, 0, where=value < 0, color=RED, alpha=0.25, linewidth=0)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.annotate(
        "a negative\nsquared length",
        (0.95, -0.15),
        (1.0, -0.5),
        color=RED,
        arrowprops={"arrowstyle": "-", "color": RED},
    )
    axis.set(xlabel="t", ylim=(-0.6, 2.4), xlim=(0, 1.6), xticks=(0, 0.5, 1, 1.5), yticks=(0, 1, 2))
    axis.set_title("Two points, 1 and 3: aᵀKa for a = (1, −t)", fontsize=10.5)
    axis.legend(frameon=False, loc="upper left", fontsize=9)


def draw_three_points(axis: Axes) -> None:
    """Similarity 1 means equal features, so it would have to carry over."""
    places = np.array([0.0, 0.9, 1.8])
    for left, right, height in ((0, 1, 0.35), (1, 2, 0.35), (0, 2, 1.0)):
        far = right - left == 2
        a, b = places[left], places[right]
        u = np.linspace(0, np.pi, 60)
        colour = RED if far else BLUE
        axis.plot(
            (a + b) / 2 - (b - a) / 2 * np.cos(u),
            height * np.sin(u) + 0.07,
            color=colour,
            linestyle="--" if far else "-",
            linewidth=2,
        )
        axis.text(
            (a + b) / 2, height + 0.14, f"k = {0 if far else 1}", color=colour, ha="center", fontsize=11
        )
    axis.axhline(0, color="black", linewidth=0.8, zorder=0)
    axis.scatter(places, np.zeros(3), s=60, color="black", zorder=3)
    for place, weight in zip(places, ("0.7", "−1", "0.7")):
        axis.text(place, -0.2, f"x = {place:g}\na = {weight}", ha="center", va="top", fontsize=10)
    axis.text(
        0.9,
        -0.88,
        "the first two have equal features, the last two as well,\n"
        "yet the outer two have nothing in common: aᵀKa = −0.82",
        ha="center",
        va="center",
        fontsize=9,
        color=RED,
    )
    axis.set(xlim=(-0.5, 2.3), ylim=(-1.1, 1.4))
    axis.set_title('Three points: k = 1 "nearer than 1", else 0', fontsize=10.5)
    axis.axis("off")


def draw_eigenvalues(axis: Axes) -> None:
    """Of four functions on the same rows, largest first."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    distance = np.sqrt(((X[:, None] - X) ** 2).sum(2))
    matrices = {
        "Gaussian": (gaussian(X, X), BLUE, "-"),
        "linear, rank 2": (X @ X.T, GREY, "-"),
        "sigmoid": (logistic(X @ X.T), RED, "-"),
        "nearer than 1": ((distance < 1) * 1.0, RED, "--"),
    }
    for name, (K, colour, style) in matrices.items():
        values = np.linalg.eigvalsh(K)[::-1]
        values = np.where(np.abs(values) < 1e-10 * values[0], 0, values)
        axis.plot(np.arange(1, 201), values, color=colour, linestyle=style, label=name, linewidth=1.8)
    axis.axhspan(-100, 0, color=RED, alpha=0.08, linewidth=0)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_yscale("symlog", linthresh=0.01)
    axis.set(xlabel="number of the eigenvalue", ylim=(-60, 300), xlim=(1, 200))
    axis.set_yticks([-10, -0.1, 0, 0.1, 10], ["−10", "−0.1", "0", "0.1", "10"])
    axis.text(8, -17, "no kernel has eigenvalues here", color=RED, va="center", fontsize=9)
    axis.set_title("Eigenvalues of K for 200 rows", fontsize=10.5)
    axis.legend(frameon=False, loc="upper right", fontsize=9)


def main() -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), width_ratios=(1, 1.05, 1.1))
    for axis, draw in zip(axes, (draw_length, draw_three_points, draw_eigenvalues)):
        draw(axis)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(w_pad=2)
    path = Path(__file__).parents[1] / "docs" / "valid_kernels.png"
    figure.savefig(path, dpi=110)
    print("wrote", path)


if __name__ == "__main__":
    main()
