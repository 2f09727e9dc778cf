"""Model files: one safetensors file with a JSON description, never pickle.

    header      "krepes": JSON with a format version, the class, its nested state and a checksum
    tensors     every array of that state, under the path that leads to it ("kernel_.lengthscale")

A state is made of JSON values, arrays, tensors and Components. Classes are found by name among the
Components that krepes itself defines; nothing in a file can name anything else. What cannot be stored (a
user's function) leaves a note and is asked for at load.

A model file holds its landmarks: real rows of the training data.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from krepes._version import __version__
from krepes.base.components import Component, subclasses
from krepes.base.files import atomic_path

FORMAT = 1
KEY = "krepes"

Json = None | bool | int | float | str | list[Any] | dict[str, Any]
State = dict[str, Any]  # JSON values, arrays, tensors, Components, and lists and dictionaries of them


class External:
    """The place of something that a file cannot hold: a user's function."""

    def __init__(self, description: str):
        self.description = description

    def __call__(self, *_: object) -> NoReturn:
        raise ValueError(
            f"This model needs {self.description}, which its file cannot hold. Give a kernel to krepes.load(path, "
            "kernel=...), a loss to model.set_params(loss=...)."
        )

    def __repr__(self) -> str:
        return f"<{self.description}, not in the file>"


def write(path: str | os.PathLike, kind: str, state: dict[str, Any], overwrite: bool = False) -> None:
    """Write a state atomically."""
    tensors: dict[str, Tensor] = {}
    header = {"format": FORMAT, "version": __version__, "class": kind, "state": encode(state, "", tensors)}
    header["checksum"] = _checksum(header, tensors)
    with atomic_path(path, overwrite) as temporary:
        save_file(tensors, temporary, metadata={KEY: json.dumps(header, allow_nan=False)})


def read(path: str | os.PathLike, kind: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header (without its state) and the state of a model file."""
    header, tensors = _open(Path(path))
    if kind is not None and header.get("class") != kind:
        raise ValueError(f"{path} holds a {header.get('class')}, not a {kind}.")
    try:
        state = decode(header.pop("state"), tensors)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: its description does not fit its tensors ({error}).") from error
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
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    written = header.pop("checksum", None)  # files of earlier versions have none
    if written is not None and written != _checksum(header, tensors):
        raise ValueError(
            f"{path} is damaged: its bytes are not those that were written. Save or copy it again."
        )
    return header, tensors


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
    try:
        # safetensors checks the header's length and every offset against the file's size before it allocates.
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
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
    """All that an encoded state consists of, in an order of its own."""
    yield json.dumps(description, sort_keys=True).encode()
    for name in sorted(tensors):
        tensor = tensors[name]
        yield f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode()
        flat = tensor.contiguous().as_strided((tensor.numel(),), (1,))  # a single number may have any stride
        yield flat.view(torch.uint8).numpy().data


def _check_header(header: object, path: Path) -> None:
    if not isinstance(header, dict) or not isinstance(header.get("format"), int) or "state" not in header:
        raise ValueError(f"{path} is damaged: its description is not one that krepes writes.")
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
    if isinstance(value, tuple | list | np.ndarray):
        items = [encode(item, f"{path}.{i}", tensors) for i, item in enumerate(value)]
        return {"~tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, dict):
        if any(not isinstance(key, str) for key in value):
            raise TypeError(f"Cannot store {path}: its keys must be strings.")
        return {"~dict": {key: encode(item, f"{path}.{key}", tensors) for key, item in value.items()}}
    if isinstance(value, Component):
        kept = value if _registry().get(type(value).__name__) is type(value) else value.stand_in()
        return {"~component": type(kept).__name__, "state": encode(component_state(kept), path, tensors)}
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
    (tag, content), *rest = value.items()
    if tag == "~float":
        return float(content)
    if tag == "~tensor":
        return tensors[content]
    if tag == "~array":
        return tensors[content].numpy()
    if tag == "~tuple":
        return tuple(decode(item, tensors) for item in content)
    if tag == "~dict":
        return {key: decode(item, tensors) for key, item in content.items()}
    if tag == "~external":
        return External(content)
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
    component = cls.__new__(cls)
    later = {
        name: p.default for name, p in inspect.signature(cls).parameters.items() if p.default is not p.empty
    }
    for attribute, value in (later | state).items():  # parameters that the version that wrote it did not have
        setattr(component, attribute, value)
    return component


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
