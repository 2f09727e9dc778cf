"""A hash of what a user's function does, as far as it can be known: an interrupted fit must not continue with another.

Hashed are bytecode, constants, names, defaults, closures, the arguments of `functools.partial`, the attributes of
objects and the weights of torch modules; not what a function calls by a global name. Equal code gives equal hashes
within one version of Python.
"""

from __future__ import annotations

import functools
import hashlib
import types
from typing import Any

import numpy as np
import torch

DEPTH = 8  # of functions within functions
ABOUT = ("__module__", "__doc__", "__firstlineno__", "__qualname__")  # of a class, but not what it does


def code_identity(value: object) -> str:
    """A short hash of a function, a class, an object or a torch module.

    >>> code_identity(lambda x: x + 1) == code_identity(lambda x: x + 2)
    False
    """
    h = hashlib.sha256()
    _feed(h, value, DEPTH)
    return h.hexdigest()[:16]


def _feed(h: hashlib._Hash, value: object, depth: int) -> None:
    h.update(type(value).__name__.encode())
    if depth == 0:
        return
    for part in _parts(value):
        if isinstance(part, bytes):
            h.update(part)
        else:
            _feed(h, part, depth - 1)


def _parts(value: object) -> list[Any]:
    """What a value is made of: bytes, and values that are taken apart in turn."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return [repr(value).encode()]
    if isinstance(value, torch.Tensor):
        return [str(value.dtype).encode(), *_parts(value.detach().cpu().float().numpy())]
    if isinstance(value, np.ndarray):
        return [repr((value.dtype, value.shape)).encode(), value.tobytes()]
    if isinstance(value, dict):
        return [part for key in value for part in (repr(key).encode(), value[key])]
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, types.CodeType):
        return [value.co_code, repr(value.co_names).encode(), *value.co_consts]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [value.__code__, value.__defaults__, value.__kwdefaults__, *cells]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, type):
        return [value.__qualname__.encode(), *_defined(value)]
    if isinstance(value, torch.nn.Module):
        return [type(value), dict(value.state_dict())]
    if hasattr(value, "__dict__"):
        return [type(value), dict(vars(value))]
    return []


def _defined(cls: type) -> list[Any]:
    """What a class and the user's classes above it define, in the order of its names."""
    known = ("krepes.", "sklearn.", "torch.", "builtins")
    bases = [base for base in cls.__mro__ if not base.__module__.startswith(known)]
    members = [(name, part) for base in bases for name, part in vars(base).items()]
    kinds = (types.FunctionType, property, int, float, str, tuple)
    return [
        [name, part]
        for name, part in sorted(members, key=lambda member: member[0])
        if isinstance(part, kinds) and name not in ABOUT
    ]
