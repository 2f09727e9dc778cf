"""How a machine is built: on landmarks, in cells, or on both. Fixed before the pass over all rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from torch import Tensor

from krepes.base.storage.codec import Bounds
from krepes.kernels import Kernel, Reweighted
from krepes.machines.cells.partition import DIRECTIONS, Partition

KINDS = ("landmarks", "cells", "landmarks and cells", "mean of both")


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """What is fixed before the pass over all rows.

    Attributes
    ----------
    kind : "landmarks", "cells", "landmarks and cells" or "mean of both"
    kernel : Kernel
        Of the cells, with its metric; where landmarks were chosen, of the cells that they were compared with.
    metric : str
    penalty : float
    size : int
        Rows of a cell, at most about.
    directions : str
    partitions : list of Partition
    errors : dict of str -> float
        Mean squared errors of rows left out, of every kind of machine that was compared.
    n_compared : int
        Rows that these errors are of.
    share : float
        Of cells in the mean of both.
    centres : int or None
        Rows that the function of a cell is made of; None is all.
    """

    kind: str
    kernel: Kernel
    metric: str
    penalty: Annotated[float, Bounds(above=0)]
    size: Annotated[int, Bounds(least=2)]
    directions: str
    partitions: list[Partition]
    errors: dict[str, float] = field(default_factory=dict)
    n_compared: int = 0
    share: Annotated[float, Bounds(above=0, most=1)] = 1.0
    centres: Annotated[int | None, Bounds(least=1)] = None

    def check_restored(self) -> None:
        known = self.kind in KINDS and self.directions in DIRECTIONS
        if not known or self.in_cells != bool(self.partitions):
            raise ValueError("The file is damaged: its cells are not of a kind that this version knows.")

    @property
    def in_cells(self) -> bool:
        return self.kind != "landmarks"

    @property
    def uses_landmarks(self) -> bool:
        return self.kind != "cells"

    @property
    def on_residuals(self) -> bool:
        """Whether cells learn what landmarks leave over."""
        return self.kind == "landmarks and cells"

    def __str__(self) -> str:
        if not self.errors:
            return f"{self.kind}, as asked for"
        lines = [f"Squared errors of {self.n_compared:,} rows left out:"]
        for kind, error in self.errors.items():
            chosen = "  <- chosen" if kind == self.kind else ""
            share = f", {self.share:.2f} of cells" if chosen and self.share < 1 else ""
            lines.append(f"  {kind:<20} {error:.4f}{chosen}{share}")
        return "\n".join(lines)


def metric_root(kernel: Kernel) -> Tensor | None:
    """M^(1/2) of a kernel with a metric, (d,) or (d, d)."""
    return kernel._root() if isinstance(kernel, Reweighted) else None
