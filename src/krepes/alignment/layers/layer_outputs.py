"""The outputs of layers for some rows, whether a torch network computes them or they are given as matrices.

They are read block by block, so that the outputs of a network for all rows are never in memory together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from torch import Tensor, nn

from krepes.alignment.layers.recording import (
    NetworkRows,
    iter_layers,
    layer_names,
    takes_names,
    takes_tokens,
)
from krepes.base.blocks import row_blocks
from krepes.base.validation import as_flat_matrix, check_same_rows, check_squares

MATRIX = "X"  # the layer's name where the columns of one matrix are all there is
GIVEN_BLOCK = 4096  # rows at once of layers that are in memory anyway


def block_names(module: nn.Module) -> list[str]:
    """The parts that a network is a sequence of: residual blocks, and layers outside of them.

    Lists and sequences are taken apart, everything else is one part.

    >>> block_names(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Bilinear(2, 2, 1))))
    ['0', '1.0', '1.1']
    """

    def parts(part: nn.Module, name: str) -> Iterator[str]:
        for key, child in part.named_children():
            path = f"{name}.{key}" if name else key
            if isinstance(child, nn.Sequential | nn.ModuleList | nn.ModuleDict):
                yield from parts(child, path)
            else:
                yield path

    # A module that stands in several places is recorded under its first name.
    known = {name for name, _ in module.named_modules()}
    return [name for name in parts(module, "") if name in known] or layer_names(module)


def are_layers(X: Any) -> bool:
    """Whether X is {layer: features}; a sparse matrix may be a mapping too."""
    return isinstance(X, Mapping) and not scipy.sparse.issparse(X)


class LayerOutputs:
    """Layers of n rows, by blocks.

    Parameters
    ----------
    X : array or tensor of shape (n, ...), a loader or `krepes.sources.Batches`, or {layer: array of shape (n, d)}
        Without a module, X holds the layers themselves.
    module : torch.nn.Module or None, default=None
    batch_rows, pool : see `iter_layers`
    divisor : float, default=1
        Integers in X are divided by it before they go into the module.

    Attributes
    ----------
    names : list of str
        Names of the given layers; empty if a module computes them.
    columns : {layer: names of its columns}
        Known for layers given as frames.
    """

    def __init__(
        self,
        X: Any,
        module: nn.Module | None = None,
        batch_rows: int = 64,
        pool: bool = True,
        divisor: float = 1.0,
    ):
        self.module, self.batch_rows, self.pool, self.divisor = module, batch_rows, pool, divisor
        self.names: list[str] = []
        self.columns: dict[str, list[str]] = {}
        if module is not None:
            if are_layers(X) and not takes_names(module, X):
                raise TypeError("X is {layer: features}, but the network takes rows: give network=None.")
            self.rows = NetworkRows(X)
            if self.rows.first.ndim < 2:
                raise ValueError(
                    f"X has shape {(self.rows.n_rows,)}; expected rows for the network, (n, ...)."
                )
            self.n_rows = self.rows.n_rows
            return
        given = X if are_layers(X) else {MATRIX: X}
        if not given:
            raise ValueError("X has no layers: expected {layer: features (n, d)}.")
        self.given = {str(name): as_flat_matrix(Z, f"layer {name!r}") for name, Z in given.items()}
        self.names = list(self.given)
        self.columns = {str(name): list(Z.columns) for name, Z in given.items() if hasattr(Z, "columns")}
        self.n_rows = len(self.given[self.names[0]])
        for name, Z in self.given.items():
            check_same_rows(len(Z), self.n_rows, f"Layer {name!r}", f"layer {self.names[0]!r}")
            check_squares(Z, f"Layer {name!r}")

    def recordable(self) -> list[str]:
        """The layers that can be recorded. In a module, these are blocks that give one tensor of numbers per row.

        Blocks that repeat the output of another, as dropout does outside of training, are left out.
        """
        if self.module is None:
            return list(self.given)
        names = block_names(self.module)
        outputs = self._probe(names)
        if not outputs:  # because some parts are not called, or give pairs of numbers and states
            outputs = {name: Z for one in names for name, Z in self._probe([one]).items()}
        found: list[str] = []
        for name, Z in outputs.items():
            if not any(np.array_equal(Z, outputs[other]) for other in found):
                found.append(name)
        if not found:
            raise ValueError(
                "No part of the network gives a tensor with one row per sample; name some as layers=."
            )
        return found

    def _probe(self, names: list[str]) -> dict[str, np.ndarray]:
        """Outputs for the first rows; none if a part gives no rows."""
        try:
            return next(self.blocks(np.arange(min(2, self.n_rows)), names))[1]
        except ValueError:
            return {}

    def require(self, known: list[str], needed: list[str], columns: dict[str, list[str]]) -> None:
        """Raise an error if a layer is unknown or missing, or if its columns differ from `fit`."""
        unknown = [name for name in self.names if name not in known]
        missing = [name for name in needed if name not in self.names]
        if unknown or missing:
            problem = "lacks the layers" if missing else "has new layers,"
            found = ", ".join(missing or unknown)
            raise ValueError(f"X {problem} {found}. The layers in fit were {', '.join(known)}.")
        for name, given in self.columns.items():
            if given != columns.get(name, given):
                raise ValueError(
                    f"Layer {name!r} has the columns {given[:10]}; expected {columns[name][:10]}, as in fit."
                )

    def blocks(
        self, rows: np.ndarray, layers: Iterable[str]
    ) -> Iterator[tuple[slice, dict[str, np.ndarray]]]:
        """Yield (positions in `rows`, {layer: outputs (b, d)}) for block after block."""
        layers = list(layers)
        if self.module is None:
            for block in row_blocks(len(rows), GIVEN_BLOCK):
                yield block, {name: self.given[name][rows[block]] for name in layers}
            return
        for block, X in self.rows.chosen(rows, self.batch_rows):
            if isinstance(X, Tensor) and not (X.is_floating_point() or takes_tokens(self.module, X)):
                X = X.float() / self.divisor
            size, pool = len(X), self.pool
            for _, found in iter_layers(self.module, X, layers, batch_rows=size, pool=pool, rows=rows[block]):
                yield block, found


class Pool(NamedTuple):
    """Some rows of a source of layers."""

    outputs: LayerOutputs
    rows: np.ndarray


def recorded(pools: list[Pool], names: list[str]) -> dict[str, np.ndarray]:
    """{layer: outputs of the rows of all pools, one after the other}."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for pool in pools:
        for _, layers in pool.outputs.blocks(pool.rows, names):
            for name, Z in layers.items():
                if parts[name] and parts[name][0].shape[1] != Z.shape[1]:
                    raise ValueError(
                        f"Layer {name!r} has {Z.shape[1]} features here and {parts[name][0].shape[1]} in other rows."
                    )
                parts[name].append(Z)
    return {name: np.concatenate(found) for name, found in parts.items()}
