"""A published table: its cells, each with the settings that stand for it and the number that was printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Size:
    """How much of the data and of the model a run uses."""

    rows: int = 10_000
    test_rows: int = 5_000
    landmarks: int = 500
    components: int = 64
    epochs: int = 20


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Attributes
    ----------
    row, column : str
        As printed.
    dataset : "adult", "covertype", "cifar10" or "mnist"
    parameters : callable(Size) -> dict
        Of KernelEmbedding, besides size and seed.
    published : float or None
        Accuracy in percent; None for what the paper does not have.
    """

    row: str
    column: str
    dataset: str
    parameters: Callable[[Size], dict[str, Any]]
    published: float | None


@dataclass(frozen=True)
class Table:
    """A table of the paper.

    Attributes
    ----------
    name : str
        On the command line.
    title : str
    cells : tuple of Cells
    notes : tuple of str
        In what ours differs, for people.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(cell.column for cell in self.cells))

    def cell(self, row: str, column: str) -> Cell | None:
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)


KERNEL_NOTE = (
    "The paper's kernels are tangent kernels of networks (for CIFAR-10 of one that was trained on ImageNet's labels); "
    "ours is the Gaussian kernel on columns and pixels. Compare differences along a row, not levels."
)
SIZE_NOTE = "The paper trains on all rows with 2000 landmarks and up to 80 epochs; sizes here are those printed above."
