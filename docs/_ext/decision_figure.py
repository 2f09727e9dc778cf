"""which-model.svg: from what you have to the class to take, every box a link."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from public_reference import put

# A question, and its answers: (answer, class, page).
QUESTIONS = [
    (
        "There is a column to predict",
        [
            ("a class or a number", "KernelRidgeClassifier, KernelRidgeRegressor", "kernel-ridge.html"),
            ("many thousand rows", 'the same, local="auto"', "large-tables.html"),
            ("and how sure it is", "GaussianProcessRegressor", "gaussian-process.html"),
        ],
    ),
    (
        "There are few labels, or none",
        [
            ("features for another model", "KernelEmbedding", "evaluation.html"),
            ("groups that nobody has named", "SubspaceClustering", "clustering.html"),
            ("a short code, and the way back", "KernelAutoencoder", "autoencoder.html"),
        ],
    ),
    (
        "Rows keep coming",
        [
            ("which of them are unusual?", "NoveltyDetector", "novelty.html"),
            ("has the stream changed?", "DriftMonitor, partial_fit", "streams.html"),
        ],
    ),
    (
        "There are models already",
        [
            ("which network to start from?", "transferability", "alignment.html"),
            ("which layers?", "LayerTransferClassifier", "alignment.html"),
            ("which trees of a forest?", "prune_ensemble", "alignment.html"),
        ],
    ),
]
COLOURS = ["#0072b2", "#009e73", "#d55e00", "#8a5fbf"]
ROW, GAP, LEFT, MIDDLE, RIGHT, WIDTH = 40, 18, 10, 290, 560, 960


def box(
    x: float, y: float, width: float, text: str, colour: str, filled: bool, link: str | None = None
) -> str:
    fill, ink = (colour, "white") if filled else ("none", "currentColor")
    drawn = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{ROW - 10}" rx="6" fill="{fill}" stroke="{colour}" '
        f'stroke-width="1.6"/><text x="{x + 12}" y="{y + 20}" fill="{ink}">{escape(text)}</text>'
    )
    return f'<a href="{link}">{drawn}</a>' if link else drawn


def line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    middle = (x1 + x2) / 2
    return (
        f'<path d="M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}" fill="none" stroke="{colour}" '
        'stroke-width="1.6"/>'
    )


def figure() -> str:
    parts, y = [], 8
    for (question, answers), colour in zip(QUESTIONS, COLOURS, strict=True):
        centre = y + ROW * (len(answers) - 1) / 2
        parts.append(box(LEFT, centre, 225, question, colour, True))
        for answer, name, page in answers:
            parts.append(line(LEFT + 225, centre + 15, MIDDLE, y + 15, colour))
            parts.append(box(MIDDLE, y, 230, answer, colour, False))
            parts.append(line(MIDDLE + 230, y + 15, RIGHT, y + 15, colour))
            parts.append(box(RIGHT, y, 390, name, colour, False, page))
            y += ROW
        y += GAP
    return (
        f'<figure class="decision"><svg viewBox="0 0 {WIDTH} {y}" role="img" aria-label="Which model for which task" '
        'font-family="sans-serif" font-size="14">' + "".join(parts) + "</svg></figure>\n"
    )


def write(app: Any, config: Any) -> None:
    put(Path(app.srcdir) / "which-model.svg", figure())


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", write)  # before Sphinx looks for pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
