"""Table 4: random and principal component start values  [krepes, Table 4]."""

from __future__ import annotations

from krepes.embedding import KernelEmbedding
from krepes.solvers import SGD
from reproduction.published_tables import KERNEL_NOTE, SIZE_NOTE, Cell, Run, Table

PUBLISHED = {
    ("adult", "barlow_twins"): (83.49, 83.78),
    ("adult", "simclr"): (83.68, 83.67),
    ("adult", "byol"): (83.34, 83.76),
    ("covertype", "barlow_twins"): (68.98, 71.32),
    ("covertype", "simclr"): (53.00, 75.17),
    ("covertype", "byol"): (67.94, 70.31),
    ("cifar10", "barlow_twins"): (89.00, 90.31),
    ("cifar10", "simclr"): (89.22, 89.54),
    ("cifar10", "byol"): (87.81, 88.76),
}
STARTS = {"Kaiming": "kaiming", "PCI": "principal"}


def _cell(dataset: str, loss: str, column: str, published: float) -> Cell:
    def model(run: Run) -> KernelEmbedding:
        solver = SGD(max_epochs=run.size.epochs, coordinates="landmarks", initialization=STARTS[column])
        return run.embedding(dataset, loss=loss, solver=solver)

    return Cell(f"{dataset}, {loss}", column, dataset, model, published)


INITIALIZATION = Table(
    "table4",
    "Table 4: test accuracy by initialisation",
    tuple(
        _cell(dataset, loss, column, published)
        for (dataset, loss), row in PUBLISHED.items()
        for column, published in zip(STARTS, row)
    ),
    (
        KERNEL_NOTE,
        SIZE_NOTE,
        "Adam trains A from both starts, without a preconditioner; the paper's principal component numbers are those "
        "of its best preconditioner.",
    ),
)
