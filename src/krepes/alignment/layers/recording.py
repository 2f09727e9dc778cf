"""The layers of a torch network, recorded by hooks while data stream through it.

Nothing of the network is changed: mode, device and gradients are restored, hooks are removed, also after an error.
Outputs are flattened, or their positions averaged (`pool=True`), and given on batch by batch, so that memory is
one batch and one sketch per layer.

Rows for a network are an array or tensor in memory, a dictionary of arrays that it takes by name (tokens and their
mask), or the batches of a loader, in the dtype that they have. A loader
is read from its first batch to its last; some of its rows, in ascending order, are found on the way. It must give the
same rows in every pass (`krepes.sources.Batches`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from krepes.alignment.inputs import target_matrix
from krepes.alignment.similarity.sketched_cka import SketchedCKA
from krepes.base.blocks import row_blocks
from krepes.base.validation import as_array, as_numbers, check_count, check_dense, check_same_rows, writable
from krepes.networks.tokens import embeds_tokens
from krepes.sources import Batches
from krepes.sources.loaders import is_loader

MASK = "attention_mask"  # 1 for tokens, 0 for padding


class NamedRows:
    """Rows of several arrays, which a network takes by name: `input_ids`, `attention_mask`, ...

    >>> mask = torch.tensor([[1, 1], [1, 0]])
    >>> rows = NamedRows({"input_ids": torch.tensor([[1, 2], [3, 0]]), "attention_mask": mask})
    >>> len(rows), rows[1:].parts["input_ids"].tolist()
    (2, [[3, 0]])
    """

    def __init__(self, parts: Mapping[str, Any]):
        self.parts = {str(name): as_tensor(part) for name, part in parts.items()}
        if not self.parts:
            raise ValueError("X is an empty dictionary; expected arrays by the names that the network takes.")
        name, first = next(iter(self.parts.items()))
        for other, part in self.parts.items():
            check_same_rows(len(part), len(first), f"X[{other!r}]", f"X[{name!r}]")
        self.shape, self.ndim, self.dtype = first.shape, first.ndim, first.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NamedRows:
        return NamedRows({name: part[rows] for name, part in self.parts.items()})


Inputs = Tensor | NamedRows


class NetworkRows:
    """Rows (n, ...) that go through a network.

    >>> rows = NetworkRows(Batches([np.zeros((3, 2)), np.ones((2, 2))]))
    >>> rows.n_rows, [(block, X.tolist()) for block, X in rows.chosen(np.array([1, 4]), 8)]
    (5, [(slice(0, 1, None), [[0.0, 0.0]]), (slice(1, 2, None), [[1.0, 1.0]])])
    """

    def __init__(self, X: Any):
        self.given: Batches | Inputs
        if isinstance(X, Mapping):
            X = NamedRows(X)
        if is_loader(X):
            self.given = Batches(X)
        else:
            self.given = X if isinstance(X, Batches | NamedRows) else as_tensor(X)
        self._n_rows: int | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows; of a loader that does not know it, they are counted once."""
        if self._n_rows is None:
            known = self.given.known_rows() if isinstance(self.given, Batches) else len(self.given)
            self._n_rows = sum(map(len, self.batches(1))) if known is None else known
        return self._n_rows

    @property
    def in_memory(self) -> bool:
        return not isinstance(self.given, Batches)

    @property
    def first(self) -> Inputs:
        """The first rows: one, or a batch of a loader."""
        return next(self.batches(1))

    def batches(self, batch_rows: int) -> Iterator[Inputs]:
        """Block after block; the batches of a loader as they come, in the layout that it gives them."""
        if isinstance(self.given, Batches):
            yield from map(as_tensor, self.given)
        else:
            for block in row_blocks(len(self.given), batch_rows):
                yield self.given[block]

    def chosen(self, rows: np.ndarray, batch_rows: int) -> Iterator[tuple[slice, Inputs]]:
        """(positions in `rows`, these rows) for block after block; the rows of a loader must ascend."""
        if not isinstance(self.given, Batches):
            for block in row_blocks(len(rows), batch_rows):
                yield block, self.given[torch.as_tensor(rows[block])]
            return
        start = 0
        for batch in self.batches(batch_rows):
            low, high = np.searchsorted(rows, (start, start + len(batch)))
            wanted = batch[torch.as_tensor(rows[low:high] - start)]
            for block in row_blocks(len(wanted), batch_rows):
                yield slice(int(low) + block.start, int(low) + block.stop), wanted[block]
            start += len(batch)
            if high == len(rows):
                return
        raise ValueError(
            f"The loader ended after {start:,} rows, before row {rows[-1]:,}: every pass must give the same rows."
        )


def as_tensor(X: Any) -> Tensor:
    """Rows for a network, (n, ...): a tensor as it is, anything else in the dtype that it has."""
    if not isinstance(X, Tensor):
        X = as_array(X)
        X = X if X.dtype.kind in "iub" else as_numbers(X, finite=False)
        X = torch.as_tensor(writable(X.astype(X.dtype.newbyteorder("="), copy=False)))
    check_dense(X)
    if X.ndim == 0 or 0 in X.shape or X.is_complex():
        raise ValueError(
            f"X has shape {tuple(X.shape)} and holds {X.dtype}; expected rows of numbers for the network, (n, ...)."
        )
    return X


def layer_names(module: nn.Module) -> list[str]:
    """The names of a network's innermost modules, in the order of definition. These are recorded by default.

    >>> layer_names(nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU())))
    ['0', '1.0']
    """
    _check_module(module)
    return [name for name, part in module.named_modules() if name and not any(True for _ in part.children())]


def iter_layers(
    module: nn.Module,
    X: Any,
    layers: Iterable[str] | None = None,
    *,
    batch_rows: int = 256,
    pool: bool = True,
    rows: np.ndarray | None = None,
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Yield (index of the first row, {layer: outputs (b, d)}) for batch after batch.

    Parameters
    ----------
    module : torch.nn.Module
    X : tensor or array of shape (n, ...), as the module takes it; or a torch DataLoader or `krepes.sources.Batches`
        A dictionary of arrays goes to the module by name, `module(input_ids=..., attention_mask=...)`.
        Integers of 32 and 64 bits stay integers where the module has an embedding of tokens (`nn.Embedding`); other
        integers become floating-point numbers. The batches of a loader are passed on as they are.
    layers : names as in `module.named_modules()`; by default all innermost modules
        A layer that is called several times in a pass gives its last output.
    batch_rows : int, default=256
    pool : bool, default=True
        Average outputs (b, c, h, w) over their positions, and outputs (b, t, d) for t tokens over the tokens, but not
        over those that `attention_mask` hides; False keeps all numbers.
    rows : integers of shape (n,), optional
        What errors call the rows; by default 0, 1, ...
    """
    _check_module(module)
    check_count("batch_rows", batch_rows)
    names = layer_names(module) if layers is None else list(layers)
    parts = dict(module.named_modules())
    unknown = [name for name in names if name not in parts]
    if unknown or not names:
        raise ValueError(
            f"layers={names}: {unknown or 'none'} is not a part of the module; parts: {layer_names(module)[:30]}."
        )
    place, first = next(module.parameters(), torch.empty(0)), 0
    given = X if isinstance(X, NetworkRows) else NetworkRows(X)
    for batch in given.batches(batch_rows):
        asked = {name: parts[name] for name in names}
        with _recorded(asked) as outputs, _evaluating(module), torch.no_grad():
            _pass(module, batch, place)
        missing = [name for name in names if name not in outputs]
        if missing:
            raise ValueError(
                f"The layers {', '.join(missing)} gave no tensor in a pass; leave them out of layers=."
            )
        last = first + len(batch)
        numbers = np.arange(first, last) if rows is None else rows[first:last]
        found = {
            name: pooled(outputs[name], token_mask(module, batch)) if pool else outputs[name]
            for name in names
        }
        yield first, {name: _rows(Z, numbers, name) for name, Z in found.items()}
        first = last


def takes_tokens(module: nn.Module, X: Inputs) -> bool:
    """Whether rows are numbers of tokens: integers for a network that embeds such numbers."""
    return embeds_tokens(module) and X.dtype in (torch.int32, torch.int64)


def sketch_layers(
    module: nn.Module,
    X: Any,
    y: Any = None,
    layers: Iterable[str] | None = None,
    *,
    sketch: SketchedCKA | None = None,
    batch_rows: int = 256,
    pool: bool = True,
    prefix: str = "",
    first_row: int = 0,
) -> SketchedCKA:
    """Sketch every layer of a network in one pass. `table()` of the result compares all layers, and the target.

    For the parameters see `iter_layers`; y, the labels, is the representation "target". Give the sketch of one
    network as `sketch` for the next, with a `prefix` for its layers, to compare networks.

    Examples
    --------
    >>> X = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> found = sketch_layers(nn.Sequential(nn.Linear(3, 8), nn.ReLU()), X, y=(X[:, 0] > 0).long())
    >>> found.names
    ['0', '1', 'target']
    """
    sketch = SketchedCKA() if sketch is None else sketch
    target, n_rows = None if y is None else target_matrix(y), 0
    rows = X if isinstance(X, NetworkRows) else NetworkRows(X)
    if target is not None and rows.in_memory:
        check_same_rows(len(target), rows.n_rows, "y")
    for first, outputs in iter_layers(module, rows, layers, batch_rows=batch_rows, pool=pool):
        n_rows = first + len(next(iter(outputs.values())))
        sketch.update({prefix + name: Z for name, Z in outputs.items()}, first_row=first_row + first)
    if target is not None:
        check_same_rows(len(target), n_rows, "y")
    # If another network was sketched on the same rows, their target is in the sketch already.
    if target is not None and sketch.next_row.get("target", 0) <= first_row:
        sketch.update({"target": target}, first_row=first_row)
    return sketch


def _check_module(module: nn.Module) -> None:
    if not isinstance(module, nn.Module):
        raise TypeError(f"module is a {type(module).__name__}; expected a torch.nn.Module.")


def takes_names(module: nn.Module, names: Iterable[str]) -> bool:
    """Whether a module's forward takes arguments of these names.

    >>> takes_names(nn.Linear(1, 1), ["input"]), takes_names(nn.Linear(1, 1), ["input_ids"])
    (True, False)
    """
    parameters = inspect.signature(module.forward).parameters.values()
    any_name = any(each.kind is each.VAR_KEYWORD for each in parameters)
    return any_name or set(names) <= {each.name for each in parameters}


def token_mask(module: nn.Module, X: Inputs) -> Tensor | None:
    """1 for the tokens of every row, 0 for padding, (b, t); None for rows that are no tokens."""
    if isinstance(X, NamedRows) and MASK in X.parts:
        return X.parts[MASK]
    return torch.ones(X.shape[:2]) if takes_tokens(module, X) and X.ndim == 2 else None


def pooled(output: Tensor, mask: Tensor | None) -> Tensor:
    """Means over positions: of (b, c, ...) over all after the channels, of (b, t, d) over tokens that are not hidden.

    >>> Z = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    >>> pooled(Z, None).tolist(), pooled(Z, torch.tensor([[1, 0]])).tolist()
    ([[1.5, 3.5]], [[1.0, 2.0]])
    """
    if mask is not None and output.ndim == 3 and output.shape[:2] == mask.shape:
        weight = mask.to(output)[:, :, None]
        return (output * weight).sum(1) / weight.sum(1).clamp(min=1)
    return output.flatten(2).mean(2) if output.ndim > 2 else output


def _pass(module: nn.Module, X: Inputs, place: Tensor) -> None:
    """Rows through the module, on its device and in its dtype; integers by name stay integers."""
    try:
        if isinstance(X, NamedRows):
            given = {
                name: part.to(place) if part.is_floating_point() else part.to(place.device)
                for name, part in X.parts.items()
            }
            module(**given)
        else:
            module(X.to(device=place.device, dtype=X.dtype if takes_tokens(module, X) else place.dtype))
    except (RuntimeError, TypeError, IndexError) as error:
        raise ValueError(f"The network does not take rows of shape {tuple(X.shape[1:])}: {error}") from error


@contextmanager
def _recorded(parts: dict[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[object, ...], object], None]:
        def hook(_module: nn.Module, _inputs: tuple[object, ...], output: object) -> None:
            if isinstance(output, tuple | list) and output:
                output = output[0]
            if isinstance(output, Tensor):
                outputs[name] = output.detach().clone()  # because later layers may work in place

        return hook

    hooks = [part.register_forward_hook(keep(name)) for name, part in parts.items()]
    try:
        yield outputs
    finally:
        for handle in hooks:
            handle.remove()


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode, and restore the mode of every part afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _rows(output: Tensor, rows: np.ndarray, name: str) -> np.ndarray:
    """An output as a matrix of finite numbers, (b, d)."""
    size = len(rows)
    if output.ndim == 0 or len(output) != size:
        raise ValueError(
            f"Layer {name!r} gives shape {tuple(output.shape)} for {size} rows; expected one per row. Leave it out."
        )
    Z = output.reshape(size, -1).float().cpu().numpy()
    bad = rows[~np.isfinite(Z).all(axis=1)]
    if len(bad):
        raise ValueError(
            f"Layer {name!r} has NaN or infinite values, first in row {bad[0]:,}. Check that row and its scale."
        )
    return Z
