"""Model files: one safetensors file with a JSON description, never pickle.

    header      "krepes": JSON with a format version, the class, its nested state and a checksum
    tensors     every array of that state, under the path that leads to it ("kernel_.lengthscale")

A state is made of JSON values, arrays, tensors, sparse rows and Components. Classes are found by name among the
Components that krepes itself defines; nothing in a file can name anything else. What cannot be stored (a
user's function) leaves a note and has to be given again at load, as has the path of a file or folder: reading a
model file touches that file and nothing else. Attributes are checked against what their class declares
(`krepes.base.schema`), and numbers have to be finite.

A model file holds its landmarks: real rows of the training data.
"""

from __future__ import annotations

import errno
import hashlib
import inspect
import json
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from krepes._version import __version__
from krepes.base.components import Component, subclasses
from krepes.base.external import External
from krepes.base.files import atomic_path
from krepes.base.schema import check_state
from krepes.base.sparse_rows import SparseRows

FORMAT = 3  # the first of a released version; 1 and 2 were not
FIRST_FORMAT = 3  # the oldest that is read
HEADER_BYTES = 100_000_000  # more than any description that krepes writes
KEY = "krepes"

Json = None | bool | int | float | str | list[Any] | dict[str, Any]
State = dict[
    str, Any
]  # JSON values, arrays, tensors, sparse rows, Components, and lists and dictionaries of them


def write(path: str | os.PathLike, kind: str, state: dict[str, Any], overwrite: bool = False) -> None:
    """Write a state atomically."""
    tensors: dict[str, Tensor] = {}
    header = {"format": FORMAT, "version": __version__, "class": kind, "state": encode(state, "", tensors)}
    header["checksum"] = _checksum(header, tensors)
    with atomic_path(path, overwrite, private=True) as temporary:
        try:
            save_file(tensors, temporary, metadata={KEY: json.dumps(header, allow_nan=False)})
        except SafetensorError as error:  # it hides the number that tells a full disk
            full = errno.ENOSPC if "code: 28" in str(error) else errno.EIO
            raise OSError(full, f"{path} could not be written: {error}") from error


def read(path: str | os.PathLike, kind: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header (without its state) and the state of a model file."""
    header, tensors = _open(Path(path))
    if kind is not None and header.get("class") != kind:
        raise ValueError(f"{path} holds a {header.get('class')}, not a {kind}.")
    try:
        state = decode(header.pop("state"), tensors)
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError, ValueError) as error:
        raise ValueError(f"{path} is damaged: its description does not fit its tensors ({error}).") from error
    if not isinstance(state, dict):
        raise ValueError(f"{path} is damaged: its description is not one that krepes writes.")
    return header, state


def kind_of(path: str | os.PathLike) -> str:
    """The class of what a file holds, from its header alone."""
    return str(_opened_header(Path(path)).get("class"))


def sizes(path: str | os.PathLike) -> dict[str, int]:
    """Bytes by tensor name."""
    _, tensors = _open(Path(path))
    return {name: tensor.numel() * tensor.element_size() for name, tensor in tensors.items()}


def _open(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with _opened(path) as file:
        header = _header(file, path)
        # Copies, because products of tensors that are not aligned in memory, as in a file, have other last bits.
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    _check_bytes(path, header, tensors)
    return header, tensors


def _check_bytes(path: Path, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """The checksum, and finite numbers."""
    written = header.pop("checksum", None)
    if written is None:
        raise ValueError(f"{path} is damaged: it has no checksum. Save or copy it again.")
    if written != _checksum(header, tensors):
        raise ValueError(
            f"{path} is damaged: its bytes are not those that were written. Save or copy it again."
        )
    allowed = {name for cls in _registry().values() for name in cls.not_finite}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and name.rpartition(".")[2] not in allowed and not _is_finite(tensor):
            raise ValueError(
                f"{path} is damaged: {name} holds NaN or infinite numbers. Save or copy it again."
            )


def _is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite; one pass over memory in the usual case."""
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def _opened_header(path: Path) -> dict[str, Any]:
    with _opened(path) as file:
        return _header(file, path)


@contextmanager
def _opened(path: Path) -> Iterator[safe_open]:
    """A safetensors file; whatever is wrong with it is an error that names it."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a model file.")
    with open(path, "rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
    if size > min(HEADER_BYTES, path.stat().st_size):
        raise ValueError(
            f"{path} is not a krepes model, or it was cut short: it ends before its header does. If it holds data, "
            "give the model before them; else save or copy it again."
        )
    try:
        # safetensors checks the header's length and every offset against the file's size before it allocates.
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"{path} is not a krepes model, or it was cut short ({error}). Save or copy it again."
        ) from error


def _header(file: safe_open, path: Path) -> dict[str, Any]:
    metadata = file.metadata() or {}
    if KEY not in metadata:
        raise ValueError(f"{path} is a safetensors file, but not a krepes model.")
    header = json.loads(metadata[KEY])
    _check_header(header, path)
    return header


def _checksum(header: dict[str, Any], tensors: dict[str, Tensor]) -> int:
    """CRC-32 of a description and its tensors: against damaged disks and copies, not against intent."""
    value = 0
    for piece in _content(header, tensors):
        value = zlib.crc32(piece, value)
    return value


def _content(description: object, tensors: dict[str, Tensor]) -> Iterator[bytes | memoryview]:
    """All that an encoded state consists of, in a fixed order."""
    yield json.dumps(description, sort_keys=True).encode()
    for name in sorted(tensors):
        tensor = tensors[name]
        yield f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode()
        flat = tensor.contiguous().as_strided((tensor.numel(),), (1,))  # a single number may have any stride
        yield flat.view(torch.uint8).numpy().data


def _check_header(header: object, path: Path) -> None:
    if not isinstance(header, dict) or not isinstance(header.get("format"), int) or "state" not in header:
        raise ValueError(f"{path} is damaged: its description is not one that krepes writes.")
    if header["format"] < FIRST_FORMAT:
        raise ValueError(
            f"{path} was written before format {FIRST_FORMAT}, by an unreleased krepes: fit and save again."
        )
    if header["format"] > FORMAT:
        raise ValueError(
            f"{path} was written by krepes {header.get('version')} in format {header['format']}; this krepes "
            f"({__version__}) reads formats up to {FORMAT}. Update krepes."
        )


def encode(value: object, path: str, tensors: dict[str, Tensor]) -> Json:
    """A value as JSON; arrays go into `tensors` under their path."""
    if path in tensors:
        raise ValueError(f"Two arrays of a state have the same path {path!r}: rename one of the keys.")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"~float": repr(float(value))}
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, Tensor):
        tensors[path] = value.detach().cpu().contiguous().clone()
        return {"~tensor": path}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tensors[path] = torch.from_numpy(np.array(value, order="C", copy=True))
        return {"~array": path}
    if isinstance(value, SparseRows):
        parts = {"values": value.values, "columns": value.columns, "edges": value.edges}
        return {"~sparse": value.shape[1]} | {
            name: encode(part, f"{path}.{name}", tensors) for name, part in parts.items()
        }
    if isinstance(value, tuple | list | np.ndarray):
        items = [encode(item, f"{path}.{i}", tensors) for i, item in enumerate(value)]
        return {"~tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, slice):
        return {"~slice": [value.start, value.stop, value.step]}
    if isinstance(value, dict):
        if any(not isinstance(key, str) for key in value):
            raise TypeError(f"Cannot store {path}: its keys must be strings.")
        return {"~dict": {key: encode(item, f"{path}.{key}", tensors) for key, item in value.items()}}
    if isinstance(value, Component):
        kept = value if _registry().get(type(value).__name__) is type(value) else value.stand_in()
        state = component_state(kept)
        state |= {name: _noted(state[name]) for name in kept.paths if state.get(name) is not None}
        return {"~component": type(kept).__name__, "state": encode(state, path, tensors)}
    if isinstance(value, External):
        return {"~external": value.description}
    if callable(value):
        kind = "module" if isinstance(value, torch.nn.Module) else "function"
        return {"~external": f"the {kind} {getattr(value, '__qualname__', type(value).__name__)!r}"}
    raise TypeError(
        f"Cannot store {path} of type {type(value).__name__} in a model file: a file holds numbers, text, "
        "arrays and krepes components. Landmarks that are objects must be JSON (strings, numbers, lists, dicts)."
    )


def decode(value: Json, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `encode`."""
    if isinstance(value, list):
        return [decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if not value:
        raise ValueError("The model file has an empty entry.")
    (tag, content), *rest = value.items()
    if tag == "~float":
        return float(content)
    if tag == "~tensor":
        return tensors[content]
    if tag == "~array":
        return tensors[content].numpy()
    if tag == "~tuple":
        return tuple(decode(item, tensors) for item in content)
    if tag == "~slice":
        return slice(*content)
    if tag == "~dict":
        return {key: decode(item, tensors) for key, item in content.items()}
    if tag == "~external":
        return External(content)
    if tag == "~sparse" and rest:
        values, columns, edges = (decode(value[name], tensors) for name in ("values", "columns", "edges"))
        return SparseRows.of_parts(values, columns, edges, content)
    if tag == "~component" and rest:
        return _component(content, decode(value["state"], tensors))
    raise ValueError(f"The model file has an unknown entry {tag!r}.")


def component_state(component: Component) -> dict[str, Any]:
    """What a file keeps of a component: its attributes without an underscore in front."""
    return {name: value for name, value in vars(component).items() if not name.startswith("_")}


def _component(name: str, state: dict[str, Any]) -> Component:
    cls = _registry().get(name)
    if cls is None:
        raise ValueError(f"The model file needs a class {name!r} that this version of krepes does not have.")
    state = {k: _noted(v) if k in cls.paths and v is not None else v for k, v in state.items()}
    check_state(cls, state)
    component = cls.__new__(cls)
    later = {
        name: p.default for name, p in inspect.signature(cls).parameters.items() if p.default is not p.empty
    }
    for attribute, value in (later | state).items():  # parameters that the version that wrote it did not have
        setattr(component, attribute, value)
    component.check_restored()
    return component


def _noted(path: object) -> External:
    """What a file keeps of the name of another file or folder."""
    return path if isinstance(path, External) else External(f"the file {os.path.basename(str(path))!r}")


def _registry() -> dict[str, type[Component]]:
    """The Components that krepes defines, by class name."""
    return {cls.__name__: cls for cls in subclasses(Component) if cls.__module__.startswith("krepes.")}


def digest(value: object) -> str:
    """A short hash of a state, equal for equal states."""
    tensors: dict[str, Tensor] = {}
    h = hashlib.sha256()
    for piece in _content(encode(value, "", tensors), tensors):
        h.update(piece)
    return h.hexdigest()[:16]
