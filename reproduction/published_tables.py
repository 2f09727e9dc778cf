"""A published table: its cells, each with the settings that stand for it and the number that was printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from krepes.base.components import resolve
from krepes.embedding import KernelEmbedding
from krepes.features.choices import views_of
from krepes.losses import Loss
from krepes.solvers import SGD, choose_solver
from krepes.views import Image
from reproduction.neural_embedding import NeuralEmbedding


@dataclass(frozen=True)
class Size:
    """How much of the data and of the model a run uses.

    Attributes
    ----------
    rows, test_rows : int
        At most; smaller data are used whole.
    labels : int or None
        Labelled rows, which need not be among `rows`; None: a tenth of them.
    landmarks, components, epochs : int
    """

    rows: int = 10_000
    test_rows: int = 5_000
    labels: int | None = None
    landmarks: int = 500
    components: int = 64
    epochs: int = 20


@dataclass(frozen=True)
class Run:
    """What all cells of one run share.

    Attributes
    ----------
    size : Size
    seed : int
    network : str or None
        For images: the network whose tangent kernel is used instead of the Gaussian kernel on pixels.
    weights : Path or None
        Its weights.
    cache : Path or None
        A folder in which tangent features are kept.
    """

    size: Size
    seed: int = 0
    network: str | None = None
    weights: Path | None = None
    cache: Path | None = None

    def embedding(self, dataset: str, *, loss: str, **parameters: Any) -> KernelEmbedding:
        """An unfitted model of the size of this run, with the loss's own output and the views of `Image()`.

        On tables a little feature noise keeps Gauss-Newton steps stable.
        """
        images = dataset in ("mnist", "cifar10")
        published: dict[str, Any] = {
            "kernel": "gaussian",
            "scale": "loss",
            "feature_noise": 0.0 if images else 1e-4,
        }
        if images and resolve(Loss, loss).views_needed > 1:
            published["views"] = Image(n_views=views_of(self.size.rows))
        size = {"n_components": self.size.components, "n_landmarks": self.size.landmarks}
        common = {"loss": loss, "random_state": self.seed}
        return KernelEmbedding(**(published | size | common | parameters))


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Attributes
    ----------
    row, column : str
        As printed in the paper.
    dataset : "adult", "covertype", "higgs", "cifar10" or "mnist"
    model : callable(Run) -> estimator
        Unfitted, with `fit` and `transform`.
    published : float or None
        Accuracy in percent; None for what the paper does not have.
    """

    row: str
    column: str
    dataset: str
    model: Callable[[Run], KernelEmbedding | NeuralEmbedding | Pipeline]
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
        How ours differs, in sentences.
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


def solver_of(loss: str, run: Run) -> SGD | str:
    """The moment solver where the loss has one, else Adam for the epochs of the run."""
    samples = choose_solver(resolve(Loss, loss)).data == "samples"
    return SGD(max_epochs=run.size.epochs) if samples else "auto"


KERNEL_NOTE = (
    "The paper's kernels are tangent kernels of networks (for CIFAR-10 of one that was trained on ImageNet's labels); "
    "ours is the Gaussian kernel on columns and pixels. Compare differences along a row, not levels."
)
SIZE_NOTE = "The paper trains on all rows with 2000 landmarks and up to 80 epochs; sizes here are those printed above."
