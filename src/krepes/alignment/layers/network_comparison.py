"""Two networks compared layer by layer: CKA of every layer of one with every layer of the other.

Rows go through each network once; what is kept is a sketch of every layer, M x d numbers (`SketchedCKA`). Layers of
networks with another architecture, width or training can be compared, because CKA does not see rotations and scales.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from krepes.alignment.layers.layer_outputs import block_names
from krepes.alignment.layers.recording import NetworkRows, sketch_layers
from krepes.alignment.similarity.heat_map import plot_alignment
from krepes.alignment.similarity.sketched_cka import SketchedCKA
from krepes.base.display import text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST, SECOND = "first ", "second "  # before names of layers: names never start with a space


@dataclass(frozen=True, eq=False)
class NetworkComparison:
    """The alignment of every layer of one network with every layer of another.

    Attributes
    ----------
    first_layers, second_layers : lists of str
    values : array of shape (layers of the first, layers of the second)
        CKA; NaN for layers that are the same for all rows.
    n_rows : int
    """

    first_layers: list[str]
    second_layers: list[str]
    values: np.ndarray
    n_rows: int

    def closest(self) -> dict[str, str]:
        """{layer of the first network: the layer of the second that is most like it}; constant layers are left out."""
        known = ~np.isnan(self.values).all(axis=1)
        best = np.nan_to_num(self.values, nan=-2.0).argmax(axis=1)
        return {self.first_layers[i]: self.second_layers[best[i]] for i in np.flatnonzero(known)}

    def plot(self) -> Figure:
        """The map as a figure: layers of the first network below one another, of the second side by side."""
        figure = plot_alignment(self.values, self.first_layers, self.second_layers)
        figure.axes[0].set_ylabel("layers of the first network")
        figure.axes[0].set_xlabel("layers of the second network")
        return figure

    def __str__(self) -> str:
        at = {name: j for j, name in enumerate(self.second_layers)}
        lines = [
            [name, other, f"{self.values[i, at[other]]:.3f}"]
            for i, name in enumerate(self.first_layers)
            for other in [self.closest().get(name)]
            if other is not None
        ]
        return text_table([["layer", "most like", "CKA"], *lines])


def compare_networks(
    first: nn.Module,
    second: nn.Module,
    X: Any,
    *,
    first_layers: Iterable[str] | None = None,
    second_layers: Iterable[str] | None = None,
    n_buckets: int = 256,
    batch_rows: int = 256,
    pool: bool = True,
    seed: int = 0,
) -> NetworkComparison:
    """Compare the layers of two networks on the same rows.

    Parameters
    ----------
    first, second : torch.nn.Module
    X : array or tensor (n, ...), a loader that does not shuffle, `krepes.sources.Batches`, or {argument: array}
    first_layers, second_layers : names as in `module.named_modules()`, optional
        By default the parts that a network is a sequence of: residual blocks, and layers outside of them.
    n_buckets, seed : see `SketchedCKA`
    batch_rows, pool : see `iter_layers`

    Examples
    --------
    >>> import torch
    >>> X = torch.randn(2000, 3, generator=torch.Generator().manual_seed(0))
    >>> one = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> turned = nn.Sequential(nn.Linear(3, 8), nn.ReLU())
    >>> _ = turned.load_state_dict(one[:2].state_dict())
    >>> found = compare_networks(one, turned, X)
    >>> found.values.shape, found.closest()["0"], found.closest()["1"]
    ((3, 2), '0', '1')
    """
    rows, sketch = NetworkRows(X), SketchedCKA(n_buckets, seed=seed)
    names: list[list[str]] = []
    for module, layers, prefix in ((first, first_layers, FIRST), (second, second_layers, SECOND)):
        names.append(block_names(module) if layers is None else list(layers))
        sketch_layers(
            module, rows, layers=names[-1], sketch=sketch, batch_rows=batch_rows, pool=pool, prefix=prefix
        )
    a, b = names
    _, values = sketch.table([*(FIRST + name for name in a), *(SECOND + name for name in b)])
    return NetworkComparison(a, b, values[: len(a), len(a) :], rows.n_rows)
