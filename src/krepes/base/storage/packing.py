"""States as JSON and tensors: what model files, checkpoints and hashes are made of.

A state holds JSON values, arrays, tensors, sparse rows, dataclasses and Components, and lists and dictionaries of them.
Classes are found by name among the Components that krepes defines; nothing in a file can name anything else. What
cannot be stored (a user's function) leaves a note and has to be given again at load, as has the path of a file.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from typing import Any, ClassVar, get_origin

import numpy as np
import torch
from torch import Tensor

from krepes.base.components import Component, External, subclasses
from krepes.base.rows import SparseRows
from krepes.base.storage.codec import State, StateReader, encode
from krepes.base.validation import writable

Json = None | bool | int | float | str | list[Any] | dict[str, Any]
DTYPES = (
    torch.float32,
    torch.float64,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
)


def pack(value: object, path: str, tensors: dict[str, Tensor]) -> Json:
    """A value as JSON; arrays go into `tensors` under their path."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"~float": repr(float(value))}
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, Tensor):
        return {"~tensor": _kept(value.detach().cpu().contiguous().clone(), path, tensors)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        copy = torch.from_numpy(writable(np.array(value, order="C", copy=True)))
        return {"~array": _kept(copy, path, tensors)}
    if isinstance(value, SparseRows):
        parts = {"values": value.values, "columns": value.columns, "edges": value.edges}
        return {"~sparse": value.shape[1]} | {
            name: pack(part, f"{path}.{name}", tensors) for name, part in parts.items()
        }
    if isinstance(value, tuple | list | np.ndarray):
        items = [pack(item, f"{path}.{i}", tensors) for i, item in enumerate(value)]
        return {"~tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, slice):
        return {"~slice": [value.start, value.stop, value.step]}
    if isinstance(value, dict):
        if any(not isinstance(key, str) for key in value):
            raise TypeError(f"Cannot store {path}: its keys must be strings.")
        return {"~dict": {key: pack(item, f"{path}.{key}", tensors) for key, item in value.items()}}
    if isinstance(value, Component):
        kept = value if _registry().get(type(value).__name__) is type(value) else value.stand_in()
        state = {name: part for name, part in vars(kept).items() if not name.startswith("_")}
        state |= {name: _noted(state[name]) for name in kept.paths if state.get(name) is not None}
        return {"~component": type(kept).__name__, "state": pack(state, path, tensors)}
    if is_dataclass(value) and not isinstance(value, type):
        return pack(encode(value), path, tensors)
    if isinstance(value, External):
        return {"~external": value.description}
    if callable(value):
        kind = "module" if isinstance(value, torch.nn.Module) else "function"
        return {"~external": f"the {kind} {getattr(value, '__qualname__', type(value).__name__)!r}"}
    raise TypeError(
        f"Cannot store {path} of type {type(value).__name__} in a model file: a file holds numbers, text, "
        "arrays and krepes components. Landmarks that are objects must be JSON (strings, numbers, lists, dicts)."
    )


def _kept(tensor: Tensor, path: str, tensors: dict[str, Tensor]) -> str:
    """The name under which a tensor is kept: its path, unless a key with a dot in it has taken that."""
    while path in tensors:
        path += "'"
    tensors[path] = tensor if tensor.dtype in DTYPES else tensor.to(_exact(tensor))
    return path


def _exact(tensor: Tensor) -> torch.dtype:
    """A dtype of files that holds the numbers of a tensor."""
    if tensor.is_complex():
        raise TypeError(f"Cannot store {tensor.dtype} in a model file: expected real numbers.")
    return torch.float32 if tensor.is_floating_point() else torch.int64


def unpack(value: Json, tensors: dict[str, Tensor], finite: bool = True) -> Any:
    """The inverse of `pack`; `finite` refuses arrays with NaN or infinite numbers."""
    if isinstance(value, list):
        return [unpack(item, tensors, finite) for item in value]
    if not isinstance(value, dict):
        return value
    if not value:
        raise ValueError("The model file has an empty entry.")
    (tag, content), *rest = value.items()
    if tag == "~float":
        return float(content)
    if tag == "~tensor":
        return _checked(content, tensors, finite)
    if tag == "~array":
        return _checked(content, tensors, finite).numpy()
    if tag == "~tuple":
        return tuple(unpack(item, tensors, finite) for item in content)
    if tag == "~slice":
        return slice(*content)
    if tag == "~dict":
        return {key: unpack(item, tensors, finite) for key, item in content.items()}
    if tag == "~external":
        return External(content)
    if tag == "~sparse" and rest:
        values, columns, edges = (unpack(value[name], tensors) for name in ("values", "columns", "edges"))
        return SparseRows.of_parts(values, columns, edges, content)
    if tag == "~component" and rest:
        return _component(content, value["state"], tensors)
    raise ValueError(f"The model file has an unknown entry {tag!r}.")


def _checked(name: str, tensors: dict[str, Tensor], finite: bool) -> Tensor:
    """A tensor where it is used: an entry may name any tensor of the file."""
    tensor = tensors[name]
    if tensor.dtype not in DTYPES:
        raise ValueError(f"{name} holds {tensor.dtype}, which krepes does not write")
    if finite and tensor.is_floating_point() and not _is_finite(tensor):
        raise ValueError(f"{name} holds NaN or infinite numbers")
    return tensor


def _is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite; one pass over memory in the usual case."""
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def _component(name: str, packed: Any, tensors: dict[str, Tensor]) -> Component:
    cls = _registry().get(name)
    if cls is None:
        raise ValueError(f"The model file needs a class {name!r} that this version of krepes does not have.")
    entries = packed["~dict"].items()
    state = {key: unpack(item, tensors, key not in cls.not_finite) for key, item in entries}
    state = {k: _noted(v) if k in cls.paths and v is not None else v for k, v in state.items()}
    later = {
        name: p.default for name, p in inspect.signature(cls).parameters.items() if p.default is not p.empty
    }
    component = cls.__new__(cls)
    found = later | _read_attributes(cls, state)  # because a file may be older than a parameter
    for attribute, value in found.items():
        setattr(component, attribute, value)
    component.check_restored()
    return component


@cache
def attributes(cls: type) -> dict[str, Any]:
    """Annotations of a Component by attribute: of its constructor's parameters, and of what it learns."""
    declared = {
        name: hint
        for name, hint in typing.get_type_hints(cls, include_extras=True).items()
        if get_origin(hint) is not ClassVar
    }
    parameters = typing.get_type_hints(cls.__init__, include_extras=True)  # type: ignore[misc]
    return declared | {name: hint for name, hint in parameters.items() if name != "return"}


def _read_attributes(cls: type[Component], state: State) -> State:
    """What a file says of a Component, against what the class declares."""
    known, reader = attributes(cls), StateReader()  # type: ignore[arg-type]  # its metaclass can be hashed
    unknown = [name for name in state if name not in known]
    if unknown:
        raise ValueError(f"{cls.__name__} has no attribute {unknown[0]!r}.")
    return {name: reader.read(value, known[name], f"{cls.__name__}.{name}") for name, value in state.items()}


def _noted(path: object) -> External:
    """What a file keeps of the name of another file or folder."""
    return path if isinstance(path, External) else External(f"the file {os.path.basename(str(path))!r}")


def _registry() -> dict[str, type[Component]]:
    """The Components that krepes defines, by class name."""
    return {cls.__name__: cls for cls in subclasses(Component) if cls.__module__.startswith("krepes.")}


def content(description: object, tensors: dict[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The bytes of a packed state, in a fixed order."""
    yield json.dumps(description, sort_keys=True).encode()
    for name in sorted(tensors):
        tensor = tensors[name]
        yield f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode()
        flat = tensor.contiguous().as_strided((tensor.numel(),), (1,))  # a single number may have any stride
        yield flat.view(torch.uint8).numpy().data


def digest(value: object) -> str:
    """A short hash of a state, equal for equal states."""
    tensors: dict[str, Tensor] = {}
    h = hashlib.sha256()
    for piece in content(pack(value, "", tensors), tensors):
        h.update(piece)
    return h.hexdigest()[:16]
