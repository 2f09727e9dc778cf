"""What a dataset or a loader yields: which entry of a sample, or of a batch, holds the rows.

x                       the rows
(x, y, ...)             x; the others are not used, and a fit says so
(x1, x2), (x1, x2, y)   two views of every row, if x1 and x2 have one shape and dtype
((x1, x2), y, ...)      likewise, as lightly has it; {"x1": ..., "x2": ..., "y": ...} too
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Key: TypeAlias = str | int | Sequence[str | int] | None
Place: TypeAlias = tuple[str | int, ...]  # from the outermost entry to the innermost


class SampleReading(NamedTuple):
    """Where rows are, then their second views and negatives; and what to say of it where nobody chose."""

    places: tuple[Place, ...]
    said: str = ""


def read_entries(data: Any, key: Key, entries: bool, batch: bool) -> SampleReading:
    """How a sample, or a batch of samples, is read; `entries`: it is (x, y, ...) and not a list of samples.

    >>> X = np.zeros((4, 2))
    >>> read_entries((X, X), None, True, True).places, read_entries(([X, X], X[:, 0]), None, True, True).places
    (((0,), (1,)), ((0, 0), (0, 1)))
    """
    if key is not None:
        return SampleReading(
            tuple(_place(each, data) for each in ([key] if isinstance(key, str | int) else key))
        )
    mapping = isinstance(data, Mapping)
    if not mapping and not (entries and len(data)):
        return SampleReading(((),))
    found = dict(data if mapping else enumerate(data))
    leaves = _leaves(found, batch)
    if len(leaves) == 1:
        return SampleReading((leaves[0][0],))
    kinds = {place: _kind(value, 2 if batch else 1) for place, value in leaves}
    first = next((place for place, kind in kinds.items() if kind), None)
    alike = [place for place, kind in kinds.items() if first and kind == kinds[first]][:2]
    if mapping and len(alike) < 2:
        raise ValueError(
            f"Samples are dictionaries with {_keys(data)}: say which of them holds the rows, as in "
            f"krepes.sources.open_source(data, key={next(iter(data), 'x')!r})."
        )
    if not mapping and (first is None or first[0] != 0):
        alike = [(0,)]  # objects, such as text: the first entry holds the rows
    rest = [_named(place) for place in kinds if place not in alike]
    use = f"Entry {_named(alike[0])} holds the rows"
    if len(alike) > 1:
        use = f"Entries {_named(alike[0])} and {_named(alike[1])} are taken as two views of every row"
    unused = f"; {', '.join(rest[:8])} {'is' if len(rest) == 1 else 'are'} not used" if rest else ""
    listing = ", ".join(f"{_named(place)} {_words(value)}" for place, value in leaves[:8])
    return SampleReading(
        tuple(alike),
        f"Samples have the entries {listing}. {use}{unused}. To choose, give krepes.sources.open_source(data, "
        f"key=...), with one entry, such as {_text(alike[0])}, or a tuple of rows and second views.",
    )


def _place(key: str | int, data: Any) -> Place:
    """Where an entry is that is named as messages name it: "0[1]" is the second entry of the first.

    >>> _place("0[1]", ()), _place("x", ()), _place(2, ())
    ((0, 1), ('x',), (2,))
    """
    if not isinstance(key, str) or not key.endswith("]") or (isinstance(data, Mapping) and key in data):
        return (key,)
    parts = [part.strip("'\"") for part in key[:-1].replace("]", "").split("[")]
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def entry_at(data: Any, place: Place) -> object:
    """What a sample, or a batch, has at a place."""
    for key in place:
        if not isinstance(data, Mapping | tuple | list):
            kind = type(data).__name__
            raise ValueError(f"key={key!r} is for samples that are dictionaries or tuples; these are {kind}.")
        try:
            data = data[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            have = _keys(data) if isinstance(data, Mapping) else f"{len(data)} entries, by number"
            raise ValueError(f"key={key!r} is not in the samples, which have {have}.") from None
    return data


def _leaves(found: Mapping[Any, Any], batch: bool) -> list[tuple[Place, Any]]:
    """The entries; lists and tuples of views opened."""
    leaves: list[tuple[Place, Any]] = []
    for key, value in found.items():
        others = [
            len(other)
            for other in found.values()
            if other is not value and hasattr(other, "shape") and other.shape
        ]
        views = isinstance(value, tuple | list) and len(value) > 1 and all(_kind(part, 1) for part in value)
        if views and batch:  # and not a list of the samples of a batch
            views = len({len(part) for part in value}) == 1 and others in ([], [len(value[0])] * len(others))
        leaves += [((key, i), part) for i, part in enumerate(value)] if views else [((key,), value)]
    return leaves


def _kind(value: Any, least_axes: int) -> tuple[str, ...] | None:
    """Shape and dtype of an array of numbers, size and mode of a picture; None for labels and anything else."""
    if type(value).__module__.startswith("PIL."):
        return str(value.size), str(value.mode)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if dtype is None or not isinstance(shape, tuple) or len(shape) < least_axes:
        return None
    return str(tuple(shape)), str(dtype).removeprefix("torch.")


def _words(value: Any) -> str:
    kind = _kind(value, 0)
    return f"({type(value).__name__})" if kind is None else f"({kind[1]} {kind[0]})"


def _named(place: Place) -> str:
    return repr(place[0]) + "".join(f"[{inner!r}]" for inner in place[1:])


def _text(place: Place) -> str:
    """A place as it is given by key=."""
    return repr(place[0]) if len(place) == 1 else repr(_named(place))


def _keys(data: Mapping[Any, Any]) -> str:
    return "the keys " + ", ".join(map(repr, list(data)[:20]))


def interleaving(n: int, views: int) -> np.ndarray:
    """The order that brings the views of a row together: rows of view 0, then of view 1, ... become x_1, x_1', ...

    >>> interleaving(2, 2).tolist()
    [0, 2, 1, 3]
    """
    return np.arange(n * views).reshape(views, n).T.reshape(-1)
