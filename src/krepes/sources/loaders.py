"""Batches of a loader or a generator as a source.

A model reads its data more than once: a sample of rows first, then all of them. The batches must therefore come again,
the same ones in the same order, from a torch DataLoader, from a function that starts a new pass, or from a temporary
file (`spooling`). Every batch is known by a hash (`identity_of_rows`), and a pass that gives other rows than the first
one is an error. Memory is one batch of the loader and one of the reader.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pyarrow as pa

from krepes.base.rows import Rows, concat_rows, count_rows, is_tensor, rebatch, slice_rows, take_rows
from krepes.base.storage.files import readable_bytes
from krepes.base.validation import check_count
from krepes.sources.arrays.in_memory import array_kind, check_array, ready
from krepes.sources.identity_of_rows import content_hash
from krepes.sources.objects import numeric_list
from krepes.sources.row_subset import subset
from krepes.sources.sample_entries import Key, SampleReading, entry_at, interleaving, read_entries
from krepes.sources.source import Source, TableSource, conform, plain_schema
from krepes.sources.spooling import Spool
from krepes.sources.tables.frames import arrow_table

if TYPE_CHECKING:
    import torch.utils.data

ONCE = (
    "can be read only once, and a model reads its data more than once. Give the function that makes it, "
    "krepes.sources.Batches(make_batches), or let the rows be kept in a temporary file as they pass, "
    "krepes.sources.Batches(it, spool=True)."
)


class Batches:
    """Batches that can be read again and again, to be given as data in the place of an array.

    Parameters
    ----------
    batches : callable or iterable
        A function without arguments that returns a new iterator over all batches, or an object that can be iterated
        more than once: a torch DataLoader that does not shuffle, a list of batches. A batch is an array or a tensor
        (b, ...), a frame or Arrow table, a list of objects, or a tuple or dictionary that holds one of these.
    key : str, int or a tuple of these, default=None
        The entry of a dictionary or tuple that holds the rows; two of them: rows and their second views; three:
        negatives too. None is the first entry of a tuple, and a second one of the same shape and dtype holds second
        views.
    n_rows : int, default=None
        The number of rows in all batches. None counts them, which takes a pass where a loader does not know it.
    spool : bool or path, default=False
        True keeps the rows in a temporary file while they are read the first time, and reads them from there
        afterwards. Then `batches` may also be a generator, a loader that shuffles, or one that changes its rows at
        random: what the first pass gives counts. The file is as large as the rows, has no name, and goes with the
        source; a path is the folder that it is in.

    Examples
    --------
    >>> from krepes.sources import open_source
    >>> def squares():
    ...     for i in range(3):
    ...         yield {"x": np.array([[i, i * i]]), "y": np.array([i])}
    >>> source = open_source(Batches(squares, key="x"))
    >>> source.describe(), next(source.batches(2))[1].tolist()
    ('batches of 3 rows × 2, int64', [[0, 0], [1, 1]])
    """

    def __init__(
        self,
        batches: Callable[[], Iterable[Any]] | Iterable[Any],
        *,
        key: Key = None,
        n_rows: int | None = None,
        spool: bool | str | os.PathLike = False,
    ):
        given = type(batches).__name__
        if hasattr(batches, "__next__") and spool is False:
            raise TypeError(f"A {given} {ONCE}")
        if not callable(batches) and not hasattr(batches, "__iter__"):
            raise TypeError(f"Expected a function that returns an iterator, or a DataLoader; got {given}.")
        if n_rows is not None:
            check_count("n_rows", n_rows)
        if not isinstance(spool, bool | str | os.PathLike):
            raise TypeError(f"spool={spool!r}: expected True, False or the path of a folder.")
        if is_loader(batches) and spool is False:
            _check_order(batches)
        self.batches, self.key, self.n_rows, self.spool = batches, key, n_rows, spool
        self.reading = SampleReading(((),))  # of the first batch, when it has passed
        self.spool_file = None
        if spool is not False:
            self.spool_file = Spool(self._passed(), None if spool is True else spool, self.known_rows())

    def __iter__(self) -> Iterator[Any]:
        """A new pass: what every batch has under the key."""
        return self._passed() if self.spool_file is None else iter(self.spool_file)

    def _passed(self) -> Iterator[Any]:
        given: Any = self.batches() if callable(self.batches) else self.batches
        if not hasattr(given, "__iter__"):
            raise TypeError(f"The function returned a {type(given).__name__}; expected an iterator.")
        fields = is_loader(self.batches) and _collates(self.batches)
        entries: type | tuple[type, ...] = (tuple, list) if fields else tuple
        for number, batch in enumerate(_batches_of(given) if is_loader(self.batches) else given):
            reading = read_entries(batch, self.key, isinstance(batch, entries), True)
            if number == 0:
                self.reading = reading
            elif len(reading.places) != len(self.reading.places):
                raise ValueError(
                    f"Batch {number} has {len(reading.places)} view(s) of every row, where batch 0 has "
                    f"{len(self.reading.places)}. All batches must have the same entries."
                )
            yield _together([entry_at(batch, place) for place in reading.places])

    def known_rows(self) -> int | None:
        """The number of rows, each view counted, where it was declared or a loader knows it."""
        n = _loader_rows(self.batches) if self.n_rows is None and is_loader(self.batches) else self.n_rows
        return None if n is None else n * len(self.reading.places)


class BatchSource(Source):
    """The rows of some batches, numbered in the order in which they come."""

    def __init__(self, given: Batches):
        self.given = given
        self._hashes: list[str] = []  # of the batches that were read at least once
        self._shape: tuple[int, ...] | None = None
        self._dtype: Any = None
        first = next(self._parts(), None)
        if first is None:
            raise ValueError("Found batches with 0 sample(s) while a minimum of 1 is required.")
        self.scan_rows = count_rows(first)
        known = given.known_rows()
        self.n_rows = sum(map(count_rows, self._parts())) if known is None else known

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        if start < self.n_rows:
            yield from rebatch(self._from(start), batch_rows, start)

    def identity(self) -> dict[str, object]:
        for _ in self._parts():  # until every batch has a hash, and to see that it is still the same
            pass
        return {"rows": self.n_rows, "batches": content_hash([self._hashes])}

    def describe(self) -> str:
        if self._shape is None:
            return f"batches of {self.n_rows:,} objects{self._kept()}"
        shape = " × ".join(f"{side:,}" for side in self._shape)
        dtype = str(self._dtype).removeprefix("torch.")
        return f"batches of {self.n_rows:,} rows × {shape}, {dtype}{self._kept()}"

    def _kept(self) -> str:
        spool = self.given.spool_file
        return "" if spool is None else f" ({readable_bytes(spool.n_bytes)} in a temporary file)"

    def _from(self, start: int) -> Iterator[Rows]:
        """The parts of a whole pass from a row on; the number of rows must be the one that is known."""
        n = 0
        for part in self._parts():
            size = count_rows(part)
            if start < n + size <= self.n_rows:
                yield slice_rows(part, max(start - n, 0), size)
            n += size
            if n > self.n_rows:
                break
        if n != self.n_rows:
            many = "more rows than" if n > self.n_rows else f"{n:,} rows instead of"
            raise ValueError(
                f"A pass gave {many} the {self.n_rows:,} that were declared or found before. It must have the same "
                "rows every time: a function must return a new iterator at each call."
            )

    def _parts(self) -> Iterator[Rows]:
        """A pass: batch after batch, checked against the first batch and against earlier passes."""
        number = -1
        for number, batch in enumerate(self.given):
            rows = self._rows(batch, number)
            known = content_hash([rows])
            if number == len(self._hashes):
                self._hashes.append(known)
            elif known != self._hashes[number]:
                raise ValueError(
                    f"Batch {number} has other rows than when it was read before. The batches must be the same in "
                    "every pass: do not shuffle, and leave random changes of rows to the views; or keep what the first "
                    "pass gives, with krepes.sources.Batches(loader, spool=True)."
                )
            if count_rows(rows):
                yield rows

    def _rows(self, data: Any, number: int) -> Rows:
        """A batch as rows of the kind that the first batch has."""
        batch: Any = _listed(data) if isinstance(data, list | tuple) else data
        if isinstance(batch, list):
            shape, dtype = None, None
        elif is_tensor(batch) or hasattr(batch, "__array__"):
            batch = batch.detach() if is_tensor(batch) else np.asarray(batch)
            shape, dtype = tuple(batch.shape[1:]), batch.dtype
        else:
            raise TypeError(
                f"Batch {number} is a {type(batch).__name__}; expected an array or tensor (b, ...), a frame, a "
                "list of objects, or a tuple or dictionary with one of these."
            )
        if number == 0 and not self._hashes:
            if shape is not None:
                check_array((max(len(batch), 1), *shape) if batch.ndim else (), dtype, "Batch 0: ")
            self.kind = "objects" if shape is None else array_kind(tuple(batch.shape))
            self._shape, self._dtype = shape, dtype
        if (shape, dtype) != (self._shape, self._dtype):
            here, first = _in_words(shape, dtype), _in_words(self._shape, self._dtype)
            remedy = "All must have the same; give rows that differ in length as a list."
            raise ValueError(f"Batch {number} has {here}, where batch 0 has {first}. {remedy}")
        return batch if shape is None else ready(batch)


class BatchTableSource(BatchSource, TableSource):
    """Batches that are frames or Arrow tables with the same columns."""

    kind = "table"

    def __init__(self, given: Batches):
        self.schema = pa.schema([])
        self._whole: pa.Schema | None = None
        super().__init__(given)

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        for first, table in super().batches(batch_rows, start):
            yield first, conform(table, self.schema)

    def identity(self) -> dict[str, object]:
        return super().identity() | {"columns": [str(field) for field in self.schema]}

    def describe(self) -> str:
        return f"batches of {self.n_rows:,} rows × {len(self.schema):,} columns{self._kept()}"

    def _rows(self, data: Any, number: int) -> pa.Table:
        table = arrow_table(data)
        if table is None:
            raise ValueError(f"Batch {number} is a {type(data).__name__}, where batch 0 is a table.")
        if self._whole is None:
            self._whole = self.schema = plain_schema(table.schema)
        try:
            return conform(table, self._whole)
        except (pa.ArrowException, KeyError) as error:
            raise ValueError(f"Batch {number} has other columns or types than batch 0: {error}.") from error


def open_batches(given: Batches) -> Source:
    """The source of some batches: a table where the first of them is one; with second views, the rows alone."""
    first = next(iter(given), None)
    source: Source = (BatchSource if arrow_table(first) is None else BatchTableSource)(given)
    if (views := len(given.reading.places)) > 1:
        source, *source.companions = (
            subset(source, np.arange(i, source.n_rows, views)) for i in range(views)
        )
    source.reading = given.reading.said
    return source


def _together(views: list[Any]) -> object:
    """The views of every row one after another."""
    if len(views) == 1:
        return views[0]
    tables = [arrow_table(view) for view in views]
    rows = [view if table is None else table for view, table in zip(views, tables)]
    if any(getattr(each, "ndim", 1) == 0 for each in rows):
        raise ValueError("The views of a batch must have rows; got a single number.")
    sizes = [len(each) if hasattr(each, "__len__") else 0 for each in rows]
    if len(set(sizes)) > 1 or len({_in_words(*_form(each)) for each in rows}) > 1:
        forms = ", ".join(f"{n} {_in_words(*_form(each))}" for n, each in zip(sizes, rows))
        raise ValueError(f"The views of a batch must have the same rows and shapes; got {forms}.")
    order = interleaving(sizes[0], len(views))
    return take_rows(concat_rows([list(each) if isinstance(each, tuple) else each for each in rows]), order)


def _form(rows: Any) -> tuple[tuple[int, ...] | None, Any]:
    """Shape of a row and dtype; None for tables and objects."""
    shape = getattr(rows, "shape", None)
    return (None, None) if shape is None or isinstance(rows, pa.Table) else (tuple(shape[1:]), rows.dtype)


def _batches_of(loader: Iterable[Any]) -> Iterator[Any]:
    """What a loader yields; samples that it cannot bring together are named as such."""
    batches = iter(loader)
    for number in itertools.count():
        try:
            batch = next(batches)
        except StopIteration:
            return
        except (RuntimeError, TypeError, AttributeError) as error:
            raise ValueError(
                f"The loader could not make batch {number} ({type(error).__name__}: {error}). The samples of a batch "
                "must have one type and shape; give the loader a collate_fn for others."
            ) from error
        yield batch


def is_loader(data: object) -> TypeGuard[torch.utils.data.DataLoader]:
    """Whether data is a torch DataLoader, without importing torch to find out."""
    loading = sys.modules.get("torch.utils.data")
    return loading is not None and isinstance(data, loading.DataLoader)


def _check_order(loader: torch.utils.data.DataLoader) -> None:
    """Refuse a loader that shuffles: its order changes with every pass."""
    loading = sys.modules["torch.utils.data"]
    shuffling = (loading.RandomSampler, loading.SubsetRandomSampler, loading.WeightedRandomSampler)
    samplers = (getattr(loader, "sampler", None), getattr(loader.batch_sampler, "sampler", None))
    found = next((sampler for sampler in samplers if isinstance(sampler, shuffling)), None)
    if found is not None:
        raise ValueError(
            f"This DataLoader shuffles ({type(found).__name__}), but rows are read more than once and must keep their "
            "order. Make one with shuffle=False, or give its dataset; a model does not depend on the order of rows. Or "
            "keep what the first pass gives: krepes.sources.Batches(loader, spool=True)."
        )


def _collates(loader: torch.utils.data.DataLoader) -> bool:
    """Whether a list from a loader has the entries of samples (x, y, ...), stacked, and not the samples."""
    return loader.collate_fn is sys.modules["torch.utils.data"].default_collate


def _loader_rows(loader: torch.utils.data.DataLoader) -> int | None:
    """The number of rows of a loader, where its sampler tells; None for streams and batches of its own making."""
    loading = sys.modules["torch.utils.data"]
    if type(loader.batch_sampler) is not loading.BatchSampler or not isinstance(loader.sampler, Sized):
        return None
    if not _collates(loader) or isinstance(loader.dataset, loading.IterableDataset):
        return None
    n = len(loader.sampler)
    return n - n % (loader.batch_size or 1) if loader.drop_last else n


def _listed(batch: Sequence[Any]) -> Rows:
    """Lists of plain numbers as an array; a list of anything else as objects."""
    plain = bool(batch) and isinstance(batch[0], list | tuple | int | float)
    numbers = numeric_list(batch) if plain else None
    return list(batch) if numbers is None else numbers


def _in_words(shape: tuple[int, ...] | None, dtype: object) -> str:
    return "objects" if shape is None else f"rows of shape {shape}, dtype {dtype}"
