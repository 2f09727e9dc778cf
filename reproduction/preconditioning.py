"""Table 2: no preconditioner, the general one, and generalised Gauss-Newton  [krepes, Table 2]."""

from __future__ import annotations

from typing import Any

from krepes.embedding import KernelEmbedding
from krepes.solvers import SGD
from reproduction.published_tables import KERNEL_NOTE, SIZE_NOTE, Cell, Run, Table

PUBLISHED = {
    ("adult", "barlow_twins"): (83.58, 83.55, 83.78),
    ("adult", "simclr"): (80.59, 82.10, 83.67),
    ("covertype", "barlow_twins"): (68.83, 71.32, 70.93),
    ("covertype", "simclr"): (52.67, 62.12, 75.17),
    ("cifar10", "barlow_twins"): (89.11, 88.56, 90.31),
    ("cifar10", "simclr"): (89.17, 89.48, 89.54),
}
# Adam on A after each of the first two, as published; Gauss-Newton steps need no Adam.
SOLVERS: dict[str, dict[str, Any]] = {
    "none": {"coordinates": "landmarks"},
    "general": {"coordinates": "landmarks", "preconditioner": "kernel"},
    "GGN": {"preconditioner": "gauss_newton", "warmup_epochs": 0.0},
    "ours: Adam on W": {},
}


def _cell(dataset: str, loss: str, column: str, published: float | None) -> Cell:
    def model(run: Run) -> KernelEmbedding:
        return run.embedding(dataset, loss=loss, solver=SGD(max_epochs=run.size.epochs, **SOLVERS[column]))

    return Cell(f"{dataset}, {loss}", column, dataset, model, published)


PRECONDITIONING = Table(
    "table2",
    "Table 2: test accuracy by preconditioner",
    tuple(
        _cell(dataset, loss, column, published)
        for (dataset, loss), row in PUBLISHED.items()
        for column, published in zip(SOLVERS, (*row, None))
    ),
    (
        KERNEL_NOTE,
        SIZE_NOTE,
        "Gauss-Newton works in whitened coordinates and adapts its steps itself; in the paper its direction goes to "
        "Adam on A. The last column is this library's own parametrisation with Adam.",
    ),
)
