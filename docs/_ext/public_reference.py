"""The reference of everything public: one page a task, one entry a name, from the `__all__` of the packages."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

# Title, what the reader finds there, packages, and names of `krepes` itself that belong there.
GROUPS = [
    ("Models", "Learn a representation, compress rows, read a table, load a file.", ["krepes", "krepes.autoencoder"]),
    ("Machines", "Predict a column, say how sure, find rows unlike all others.", ["krepes.machines"]),
    ("Kernels", "What counts as similar.", ["krepes.kernels"]),
    ("Views and losses", "What a representation is trained for.", ["krepes.views", "krepes.losses"]),
    ("Landmarks", "Which rows all others are compared with.", ["krepes.landmarks"]),
    ("Solvers", "How a loss is minimised.", ["krepes.solvers", "krepes.moments"]),
    ("Explanations", "Why a row lies where it lies.", ["krepes.explain", "krepes.preimages", "krepes.report"]),
    ("Evaluation", "How good it is, and a fair comparison.", ["krepes.evaluation"]),
    ("Clustering", "Groups of rows on subspaces and manifolds.", ["krepes.clustering"]),
    ("Alignment", "Compare networks and layers, choose a model, prune an ensemble.", ["krepes.alignment"]),
    ("Streams", "Rows that keep coming, and whether they have changed.", ["krepes.streams"]),
    ("Networks", "Architectures for tangent kernels.", ["krepes.networks"]),
    ("Data", "Open tables, images and files; turn columns into numbers.", ["krepes.sources", "krepes.preprocessing"]),
    ("Your own model", "What a new one-pass model stands on.", ["krepes.features", "krepes.tally", "krepes.engines"]),
]  # fmt: skip


def entries(package: str, seen: set[int]) -> list[str]:
    """Names of a package that are described here: classes and functions, each once."""
    module = importlib.import_module(package)
    found = []
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if (inspect.isclass(value) or callable(value)) and id(value) not in seen:
            seen.add(id(value))
            found.append(f"{package}.{name}")
    return found


def write(app: Any, config: Any) -> None:
    """api/index.rst and a page for every group; autosummary writes the entries."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    seen: set[int] = set()
    pages = []
    for title, words, packages in GROUPS:
        page = title.lower().replace(" ", "-")
        pages.append(page)
        lines = [title, "=" * len(title), "", words, ""]
        for package in packages:
            names = entries(package, seen)
            if not names:
                continue
            if len(packages) > 1:
                lines += [package, "-" * len(package), ""]
            lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
            lines += [f"   {name}" for name in names] + [""]
        put(folder / f"{page}.rst", "\n".join(lines))
    index = [
        "API reference",
        "=============",
        "",
        "Every public name, by task. Each entry has its parameters,",
    ]
    index += ["what it returns, the formula behind it, and an example that runs.", ""]
    index += [".. list-table::", "   :widths: 25 75", ""]
    for page, (_, words, _packages) in zip(pages, GROUPS, strict=True):
        index += [f"   * - :doc:`{page}`", f"     - {words}"]
    index += ["", ".. toctree::", "   :hidden:", ""] + [f"   {page}" for page in pages]
    put(folder / "index.rst", "\n".join(index) + "\n")


def put(path: Path, text: str) -> None:
    """Write what has changed, so that a second build is quick."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", write)  # before Sphinx looks for pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
