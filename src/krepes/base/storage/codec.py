"""Values in files: a dataclass is written as its fields, and read back against its annotations.

    @dataclass
    class Sums:
        n: Annotated[float, Bounds(least=0)]
        mean: Annotated[Tensor, Shape("r")]
        outer: Annotated[Tensor, Shape("r", "r")]

`encode` makes plain dictionaries of it. `decode` refuses entries that are missing or unknown, values of another type,
arrays of another dtype or shape, numbers that are not finite or out of bounds; then it calls `check_restored` of the
value, if it has one. An entry may be missing if its field has a default, so that later versions can add fields.

A class that is stored in a form of its own has `state()` and `from_state(state)`; a generic class of values of one
kind, `from_state(state, read)`, with a function that reads such a value. Where an annotation names an
abstract class, the entry "class" says which of its dataclasses in krepes it is.
"""

from __future__ import annotations

import collections.abc
import inspect
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

from krepes.base.components import Component, External, subclasses
from krepes.base.validation import bound_words, is_integer, is_number

V = TypeVar("V")
State = dict[str, Any]  # JSON values, arrays, sparse rows, Components, and lists and dictionaries of them

CPU = torch.device("cpu")
FLOATS = ("float32", "float64")
EXTERNAL = (collections.abc.Callable, typing.Callable, torch.nn.Module, os.PathLike[str])
SEQUENCES = (collections.abc.Sequence, collections.abc.Iterable, list, tuple)


class Shape:
    """The axes and dtype of an array.

    Parameters
    ----------
    axes : int, str, None or ...
        A size; the name of a size, which is the same wherever the name occurs in one value; None for any; `...` for
        any further axes.
    dtype : str or tuple of str, default="float64"
    """

    def __init__(self, *axes: object, dtype: str | tuple[str, ...] = "float64"):
        self.axes, self.dtypes = axes, (dtype,) if isinstance(dtype, str) else dtype

    def check(self, value: Any, where: str, sizes: dict[str, int]) -> None:
        """Refuse another shape or dtype; `sizes` learns the names of axes."""
        if isinstance(value, Tensor | np.ndarray):
            dtype = str(value.dtype).removeprefix("torch.")
            if dtype not in self.dtypes:
                raise damaged(where, f"holds {dtype}", " or ".join(self.dtypes))
        shape = (len(value),) if isinstance(value, list) else tuple(value.shape)
        fixed = self.axes[:-1] if ... in self.axes else self.axes
        open_ended = len(fixed) < len(self.axes) or isinstance(value, list)
        expected = [
            sizes.setdefault(axis, n) if isinstance(axis, str) else axis for axis, n in zip(fixed, shape)
        ]
        same = all(axis in (None, n) for axis, n in zip(expected, shape))
        if not same or len(shape) < len(expected) or (len(shape) != len(fixed) and not open_ended):
            words = ", ".join("any" if n is None else str(sizes.get(str(n), n)) for n in fixed)
            raise damaged(where, f"has shape {shape}", f"({words})")


class Bounds:
    """What a number may be, or all numbers of an array: bounds of `is_number`."""

    def __init__(self, **bounds: float):
        self.bounds = bounds

    def check(self, value: Any, where: str, sizes: dict[str, int]) -> None:
        """Refuse numbers out of bounds."""
        if isinstance(value, Tensor | np.ndarray):
            empty = 0 in value.shape
            numbers = [] if empty else [value.min().item(), value.max().item()]
        else:
            numbers = [value]
        for number in numbers:
            if not is_number(number, **self.bounds):
                raise damaged(where, f"is {number!r:.60}", bound_words(self.bounds))


class SameAs:
    """The name of an earlier field: if both are one object, only that one is written."""

    def __init__(self, name: str):
        self.name = name


Count = Annotated[int, Bounds(least=0)]


def damaged(where: str, found: str, expected: str) -> ValueError:
    """What is wrong with an entry of a file."""
    return ValueError(f"The file is damaged: {where} {found}; expected {expected}.")


def encode(value: object) -> Any:
    """A value with every dataclass in it as a dictionary.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Pair:
    ...     first: int
    ...     second: Annotated[float, Bounds(least=0)] = 0.0
    >>> encode([Pair(1, 2.0)]), decode(Pair, {"first": 1})
    ([{'first': 1, 'second': 2.0}], Pair(first=1, second=0.0))
    """
    if isinstance(value, dict):
        return {name: encode(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(encode(part) for part in value)
    if isinstance(value, Component):
        return value  # packing writes it
    if hasattr(type(value), "state"):
        return value.state()  # type: ignore[attr-defined]
    if not is_dataclass(value):
        return value
    cls: Any = type(value)
    state = {"class": cls.__name__} if _is_of_family(cls) else {}
    for name, hint in stored_fields(cls).items():
        part, same = getattr(value, name), _same_as(hint)
        if same is None or part is not getattr(value, same):
            state[name] = encode(part)
    return state


def decode(cls: type[V], state: object, device: torch.device = CPU, **sizes: int) -> V:
    """The inverse of `encode`: a value of a class.

    Parameters
    ----------
    device : where its tensors go, except for classes that say `stays_on_cpu`
    sizes : of named axes, in this value and in all values within it
    """
    return StateReader(device, sizes).read(state, cls, cls.__name__)


def decode_part(cls: type[V], state: State, device: torch.device = CPU, **sizes: int) -> V:
    """A value whose fields are some of the entries of a larger state."""
    names: Any = stored_fields(cls)  # type: ignore[arg-type]
    return decode(cls, {name: state[name] for name in names if name in state}, device, **sizes)


def decode_entry(state: State, name: str, hint: object) -> Any:
    """One entry of a state, of the type that a hint says."""
    if name not in state:
        raise damaged("The model", f"has no entry {name!r}", "one")
    return StateReader().read(state[name], hint, f"The entry {name!r}")


class StateReader:
    """Reads what annotations say, of one value.

    Parameters
    ----------
    device : torch.device
    given : dict of int
        Sizes of axes that are known beforehand.
    """

    def __init__(self, device: torch.device = CPU, given: Mapping[str, int] = types.MappingProxyType({})):
        self.device, self.given, self.sizes = device, given, dict(given)

    def read(self, value: Any, hint: Any, where: str) -> Any:
        """The value of an entry, or an error that says where it is and what was expected."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint is Any or isinstance(hint, TypeVar):
            return value
        if origin is Annotated:
            return self._annotated(value, hint, where)
        if isinstance(value, External):  # stands for a function, a module or a path, which no file holds
            if any(part in EXTERNAL or get_origin(part) in EXTERNAL for part in (hint, *arguments)):
                return value
            raise _wrong(value, hint, where)
        if origin in (typing.Union, types.UnionType):
            return self._one_of(value, hint, where)
        if origin is Literal and value not in arguments:
            raise _wrong(value, hint, where)
        if isinstance(hint, type) and not issubclass(hint, Component):
            if inspect.isabstract(hint) and isinstance(value, dict):
                return self._of_family(value, hint, where)
            if is_dataclass(hint):
                return self._dataclass(value, hint, where)
        if hasattr(origin, "from_state"):  # of values of one kind
            return origin.from_state(value, lambda part: self.read(part, arguments[0], where))
        if origin in (dict, Mapping) and isinstance(value, dict):
            return {
                self.read(name, arguments[0], where): self.read(part, arguments[1], f"{where}[{name!r:.60}]")
                for name, part in value.items()
            }
        if (origin in SEQUENCES or hint in SEQUENCES) and isinstance(value, list | tuple):
            return self._sequence(value, arguments, where)
        if not _is_instance(value, hint, origin):
            raise _wrong(value, hint, where)
        return value.to(self.device) if isinstance(value, Tensor) else value

    def _annotated(self, value: Any, hint: Any, where: str) -> Any:
        kind, *marks = get_args(hint)
        found = self.read(value, kind, where)
        for mark in marks:
            if isinstance(mark, Shape | Bounds) and found is not None:
                mark.check(found, where, self.sizes)
        return found

    def _one_of(self, value: Any, hint: Any, where: str) -> Any:
        if value is None and type(None) in get_args(hint):
            return None
        kinds = [kind for kind in get_args(hint) if kind is not type(None)]
        if len(kinds) == 1:
            return self.read(value, kinds[0], where)
        for kind in kinds:
            try:
                return self.read(value, kind, where)
            except ValueError:
                continue
        raise _wrong(value, hint, where)

    def _sequence(
        self, value: list[Any] | tuple[Any, ...], kinds: tuple[Any, ...], where: str
    ) -> list[Any] | tuple[Any, ...]:
        kinds = tuple(kind for kind in kinds if kind is not ...)
        if isinstance(value, tuple) and len(kinds) > 1:
            if len(value) != len(kinds):
                raise damaged(where, f"has {len(value)} values", str(len(kinds)))
        else:
            kinds = (kinds[0] if kinds else Any,) * len(value)
        return type(value)(
            self.read(part, kind, f"{where}[{i}]") for i, (part, kind) in enumerate(zip(value, kinds))
        )

    def _dataclass(self, state: Any, cls: type, where: str) -> object:
        if hasattr(cls, "from_state"):
            return cls.from_state(state)
        if not isinstance(state, dict):
            raise _wrong(state, cls, where)
        hints = stored_fields(cls)
        unknown = [name for name in state if name not in hints]
        if unknown:
            raise damaged(where, f"has an entry {unknown[0]!r:.60}", f"only {', '.join(hints)}")
        device = CPU if getattr(cls, "stays_on_cpu", False) else self.device
        inner, values = StateReader(device, self.given), {}
        for field in fields(cls):
            name = field.name
            if name not in hints:
                continue
            same = _same_as(hints[name])
            if name in state:
                values[name] = inner.read(state[name], hints[name], f"{cls.__name__}.{name}")
            elif same is not None:
                values[name] = values[same]
            elif not _has_default(field):
                raise damaged(where, f"has no entry {name!r}", ", ".join(hints))
        found = cls(**values)
        if hasattr(found, "check_restored"):
            found.check_restored()
        return found

    def _of_family(self, state: State, family: type[object], where: str) -> object:
        known = {each.__name__: each for each in subclasses(family) if _is_stored(each)}
        cls = known.get(str(state.get("class")))
        if cls is None:
            raise damaged(where, f"is of the class {state.get('class')!r:.60}", " or ".join(known))
        return self._dataclass({name: part for name, part in state.items() if name != "class"}, cls, where)


@cache
def stored_fields(cls: type) -> dict[str, Any]:
    """Annotations of the fields of a dataclass, by name."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in fields(cls) if field.init}


def _is_instance(value: Any, hint: Any, origin: Any) -> bool:
    if hint is None or hint is type(None):
        return value is None
    if origin is collections.abc.Callable or hint in (collections.abc.Callable, typing.Callable):
        return callable(value)
    if typing.is_typeddict(hint):
        return isinstance(value, dict)
    kind = origin or hint
    if kind in SEQUENCES:
        return isinstance(value, np.ndarray) and kind not in (list, tuple)
    if kind is Mapping:
        return isinstance(value, dict)
    if isinstance(value, bool):
        return kind in (bool, object)
    if kind is float:
        return is_number(value)
    if kind is int:
        return is_integer(value, -(2**63)) and value < 2**64
    return isinstance(value, kind) if isinstance(kind, type) else True


def _is_stored(cls: type) -> bool:
    return is_dataclass(cls) and not inspect.isabstract(cls) and cls.__module__.startswith("krepes.")


@cache
def _is_of_family(cls: type) -> bool:
    bases = [base for base in cls.__mro__[1:] if base.__module__ not in ("collections.abc", "typing")]
    return any(inspect.isabstract(base) for base in bases)


def _same_as(hint: Any) -> str | None:
    return next((mark.name for mark in get_args(hint)[1:] if isinstance(mark, SameAs)), None)


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _wrong(value: object, hint: Any, where: str) -> ValueError:
    words = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    return damaged(where, f"is {type(value).__name__} {value!r:.60}", words)
