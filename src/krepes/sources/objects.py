"""Objects in memory as sources: lists of anything, and torch datasets."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.rows import Rows, is_tensor
from krepes.sources.arrays.in_memory import ArraySource, array_kind, channels_last, check_array
from krepes.sources.identity_of_rows import content_hash
from krepes.sources.sample_entries import Key, Place, entry_at, read_entries
from krepes.sources.source import IndexedSource, Source

if TYPE_CHECKING:
    import torch.utils.data

_MOST_AXES = 32  # of an array
IDENTITY_ITEMS = 256  # of a dataset, by which a checkpoint knows it: each may be costly to make


class ObjectSource(IndexedSource):
    """A list of objects: strings, graphs, whatever the user's kernel understands.

    >>> source = ObjectSource(["ab", "c", "def"])
    >>> source.describe(), list(source.batches(2))
    ('list of 3 objects (str)', [(0, ['ab', 'c']), (2, ['def'])])
    """

    kind = "objects"

    def __init__(self, objects: Sequence[Any]):
        super().__init__()
        self.objects = objects
        self.n_rows = len(objects)

    def _rows(self, which: slice | np.ndarray) -> Rows:
        if isinstance(which, slice):
            return list(self.objects[which])
        return [self.objects[i] for i in which]

    def describe(self) -> str:
        return f"list of {self.n_rows:,} objects ({type(self.objects[0]).__name__})"


class DatasetSource(IndexedSource):
    """A map-style dataset; of its items, what they have at one place (`sample_entries`).

    Rows are what `dataset[i]` returns, so the dataset must return the same for the same i: leave random
    augmentations to the views. Items that are read again are compared by a hash, for 256 of them. Images that are
    tensors (c, h, w) become (h, w, c).
    """

    def __init__(self, dataset: torch.utils.data.Dataset | Sequence[Any], place: Place = ()):
        super().__init__()
        self.dataset, self.place, self.n_rows = dataset, place, len(dataset)  # type: ignore[arg-type]
        self._known: dict[int, str] = {}  # hashes of items that were read
        sample = self._item(0)
        if is_tensor(sample) or isinstance(sample, np.ndarray):
            self._shape: tuple[int, ...] | None = tuple(sample.shape)
            check_array((self.n_rows, *self._shape), sample.dtype, "torch dataset: ")
            self.kind = array_kind((self.n_rows, *self._shape))
        else:
            self._shape, self.kind = None, "objects"

    def _rows(self, which: slice | np.ndarray) -> Rows:
        return self._stack(range(which.start, which.stop) if isinstance(which, slice) else which.tolist())

    def identity(self) -> dict[str, object]:
        chosen = np.unique(np.linspace(0, self.n_rows - 1, IDENTITY_ITEMS).astype(np.int64))
        kind = f"{type(self.dataset).__module__}.{type(self.dataset).__qualname__}"
        found = {"rows": self.n_rows, "dataset": kind, "sample": content_hash([self.take(chosen)])}
        return found | {"key": list(self.place)} if self.place else found

    def describe(self) -> str:
        shape = "" if self._shape is None else f" of shape {self._shape}"
        return f"torch dataset {type(self.dataset).__name__}, {self.n_rows:,} samples{shape}"

    def _item(self, i: int) -> Any:
        item: Any = entry_at(self.dataset[i], self.place)
        item = np.asarray(item) if type(item).__module__.startswith("PIL.") else item
        item = item.detach() if is_tensor(item) else item
        if i % -(-self.n_rows // IDENTITY_ITEMS) == 0:
            known = content_hash([[item]])
            if self._known.setdefault(i, known) != known:
                raise ValueError(
                    f"Item {i} of the dataset is another one than when it was read before. A model reads its rows more "
                    "than once: leave random changes to the views (views=transform), or keep the first pass with "
                    "krepes.sources.Batches(DataLoader(dataset, batch_size=256), spool=True)."
                )
        return item

    def _stack(self, indices: Sequence[int]) -> Rows:
        items = [self._item(i) for i in (indices or [0])]
        if self._shape is None:
            return items[: len(indices)]
        for i, item in zip(indices, items):
            if tuple(np.shape(item)) != self._shape:
                raise ValueError(
                    f"Item {i} of the dataset has shape {tuple(np.shape(item))} where item 0 has {self._shape}. "
                    "All samples must have one shape; resize them in the dataset."
                )
        stack = sys.modules["torch"].stack if is_tensor(items[0]) else np.stack
        return channels_last(stack(items))[: len(indices)]


def open_dataset(dataset: Any, key: Key = None) -> Source:
    """The source of a dataset, with its second views as companions."""
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise ValueError(
            f"{type(dataset).__name__} cannot be read by index. Give a map-style dataset, with __len__ and "
            "__getitem__; or, of a stream that can be read again, DataLoader(dataset, batch_size=256)."
        )
    if len(dataset) == 0:
        raise ValueError("Found a dataset with 0 sample(s) while a minimum of 1 is required.")
    tensors = None if key is not None else getattr(dataset, "tensors", None)  # TensorDataset
    item = tensors or dataset[0]
    entries = isinstance(item, (tuple, list)) and item and not isinstance(item[0], numbers.Number)
    reading = read_entries(item, key, bool(entries), bool(tensors))
    opened: list[Source] = [
        ArraySource(entry_at(tensors, place)) if tensors else DatasetSource(dataset, place)
        for place in reading.places
    ]
    first, *companions = opened
    first.companions, first.reading = companions, reading.said
    return first


def numeric_list(data: Sequence[Any]) -> Any | None:
    """A list of equally long sequences of numbers as an array (tensors as a tensor); None if it is not that.

    >>> numeric_list([[1, 2], [3, 4]]).shape, numeric_list([[1, 2], [3]]), numeric_list(["12", "34"])
    ((2, 2), None, None)
    """
    first = data[0]
    if is_tensor(first):
        same = first.ndim and all(is_tensor(row) and row.shape == first.shape for row in data)
        return sys.modules["torch"].stack([row.detach() for row in data]) if same else None
    for _ in range(_MOST_AXES):  # and no further, because a list may hold itself
        if isinstance(first, (list, tuple)) and first:
            first = first[0]
    if not isinstance(first, (numbers.Number, np.ndarray)):
        return None
    if isinstance(data[0], np.ndarray) and not all(isinstance(row, np.ndarray) for row in data):
        return None
    try:
        X = np.array(data)
    except (ValueError, RuntimeError, TypeError):  # rows of different lengths, or with tensors in them
        return None
    return X if X.dtype.kind in "biufc" else None
