"""What a stored value must be: the type that its annotation says, checked before anything is built from a file.

A Component declares its parameters in its constructor and its fitted attributes in its class body; both annotations
together are its schema. A file that holds another attribute, or a value of another type, is damaged or forged.
"""

from __future__ import annotations

import collections.abc
import os
import types
import typing
from functools import cache
from typing import Any, ClassVar, Literal, get_args, get_origin

import numpy as np
import torch

from krepes.base.external import External

if typing.TYPE_CHECKING:
    from krepes.base.components import Component

EXTERNAL = (collections.abc.Callable, typing.Callable, torch.nn.Module, os.PathLike)
SEQUENCES = (collections.abc.Sequence, collections.abc.Iterable, list, tuple)


def matches(value: object, hint: Any) -> bool:
    """Whether a value is of the type that an annotation says.

    >>> matches(3, float), matches(True, int), matches([1, "a"], list[int]), matches(None, str | None)
    (True, False, False, True)
    """
    if hint is Any or isinstance(hint, typing.TypeVar):
        return True
    if isinstance(value, External):  # stands for a function, a module or a path, which no file holds
        parts = (hint, *get_args(hint))
        return any(part in EXTERNAL or get_origin(part) in EXTERNAL for part in parts)
    if hint is None or hint is type(None):
        return value is None
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(matches(value, argument) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if origin is collections.abc.Callable or hint in (collections.abc.Callable, typing.Callable):
        return callable(value)
    if typing.is_typeddict(hint):
        return isinstance(value, dict)
    if origin in (dict, collections.abc.Mapping):
        return isinstance(value, dict) and all(
            matches(k, arguments[0]) and matches(v, arguments[1]) for k, v in value.items()
        )
    if origin in SEQUENCES or hint in SEQUENCES:
        element = next((argument for argument in arguments if argument is not ...), Any)
        if isinstance(value, np.ndarray):
            return origin not in (list, tuple)
        return isinstance(value, list | tuple) and all(matches(item, element) for item in value)
    return _is_instance(value, origin or hint)


def _is_instance(value: object, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind in (bool, object)
    if kind is float:
        return isinstance(value, int | float | np.integer | np.floating)
    return isinstance(value, kind) if isinstance(kind, type) else True


@cache
def schema(cls: type) -> dict[str, Any]:
    """Annotations by attribute: those of the constructor's parameters and of what a fitted object also keeps."""
    declared = {
        name: hint for name, hint in typing.get_type_hints(cls).items() if get_origin(hint) is not ClassVar
    }
    parameters = typing.get_type_hints(cls.__init__)  # type: ignore[misc]
    return declared | {name: hint for name, hint in parameters.items() if name != "return"}


def check_state(cls: type[Component], state: dict[str, Any]) -> None:
    """Refuse attributes that a class does not have, and values of another type than it declares."""
    known = schema(cls)  # type: ignore[arg-type]  # classes of scikit-learn's metaclass can be hashed
    for name, value in state.items():
        if name not in known:
            raise ValueError(f"{cls.__name__} has no attribute {name!r}.")
        if not matches(value, known[name]):
            raise ValueError(f"{cls.__name__}.{name} is {_shown(value)}; expected {_words(known[name])}.")


def check_entries(what: str, state: dict[str, Any], hints: dict[str, Any], optional: set[str]) -> None:
    """Refuse a dictionary that lacks an entry, or whose entries are of another type than declared."""
    missing = [name for name in hints if name not in state and name not in optional]
    if missing:
        raise ValueError(f"{what} lacks {', '.join(missing)}.")
    for name, hint in hints.items():
        if name in state and not matches(state[name], hint):
            raise ValueError(f"{what} has {name} = {_shown(state[name])}; expected {_words(hint)}.")


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value!r:.60}"


def _words(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
