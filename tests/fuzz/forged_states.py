"""What an enemy may write into a model file: any entry and any tensor changed, and the checksum made to fit.

A forgery changes a `Content` in place and says in words what it did.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from krepes.base.components import Component, subclasses
from krepes.base.storage import model_file

Key = str | int

VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        3,
        10**9,
        2**70,
        0.5,
        -2.5,
        1e-300,
        1e300,
        "",
        "word",
        "float64",
        "../evil",
        "/evil",
    ),
    *([], [[]], [1, 2], ["a"], {}, {"a": 1}, {"~dict": {}}, {"~tuple": []}, {"~tuple": [1, "a"]}),
    *({"~float": "nan"}, {"~float": "inf"}, {"~float": "word"}, {"~tensor": "nothing"}, {"~array": 3}),
    *({"~external": "the file 'evil'"}, {"~external": 7}, {"~unknown": 1}, {"~component": "Gaussian"}),
    {"~component": "Gaussian", "state": {"~dict": {"lengthscale": 1.0}}},
    {"~component": "Path", "state": {"~dict": {}}},
    {"~component": "Linear", "state": {"~dict": {}}},
    {"~component": "Component", "state": {"~dict": {}}},
    {"~component": "Gaussian", "state": {"~dict": {"lengthscale": {"~float": "nan"}}}},
    {"~dict": {"__class__": "os"}},
]
NUMBERS: list[Callable[[Any], Any]] = [
    lambda x: -x,
    lambda x: x + 1,
    lambda x: x - 1,
    lambda x: x * 1000,
    lambda x: x * 1e30,
    lambda x: x * 1e-30,
    lambda x: 0,
    lambda x: float(x),
    lambda x: str(x),
]


class Content:
    """A model file in its parts: the description and the tensors."""

    def __init__(self, header: dict[str, Any], tensors: dict[str, Tensor]):
        self.header, self.tensors = header, tensors
        self.checksum = True

    @classmethod
    def read(cls, data: bytes) -> Content:
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_bytes(data)
            with safe_open(file.name, framework="pt") as opened:
                header = json.loads(opened.metadata()[model_file.KEY])
                return cls(header, {name: opened.get_tensor(name) for name in opened.keys()})  # noqa: SIM118

    def written(self) -> bytes:
        """The file, with the checksum that it should have."""
        header = {key: value for key, value in self.header.items() if key != "checksum"}
        tensors = {name: tensor.contiguous().clone() for name, tensor in self.tensors.items()}
        if self.checksum:
            header["checksum"] = model_file._checksum(header, tensors)
        return save(tensors, metadata={model_file.KEY: json.dumps(header)})

    def places(self) -> list[tuple[Key, ...]]:
        """Where entries are, however deep."""
        return list(_places(self.header["state"], ("state",))) or [("state",)]

    def at(self, place: tuple[Key, ...]) -> Any:
        found: Any = self.header
        for key in place:
            found = found[key]
        return found

    def put(self, place: tuple[Key, ...], value: Any) -> None:
        self.at(place[:-1])[place[-1]] = value


def _places(value: Any, place: tuple[Key, ...]) -> Iterator[tuple[Key, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from _places(item, (*place, key))


def _one(rng: np.random.Generator, choices: list[Any]) -> Any:
    return choices[int(rng.integers(max(1, len(choices))))]


def forge(content: Content, rng: np.random.Generator) -> str:
    """Change something; an earlier change may have left nothing of what was to be changed."""
    forgery = _one(rng, FORGERIES)
    try:
        return forgery(content, rng)
    except LookupError:
        return f"{forgery.__name__} found nothing"


def _words(place: tuple[Key, ...]) -> str:
    return "/".join(str(key) for key in place if key not in ("state", "~dict"))


def remove_entry(content: Content, rng: np.random.Generator) -> str:
    place = _one(rng, content.places())
    del content.at(place[:-1])[place[-1]]
    return f"removed {_words(place)}"


def replace_entry(content: Content, rng: np.random.Generator) -> str:
    place, value = _one(rng, content.places()), _one(rng, VALUES)
    content.put(place, copy.deepcopy(value))
    return f"{_words(place)} = {value!r}"


def rename_entry(content: Content, rng: np.random.Generator) -> str:
    named = [place for place in content.places() if isinstance(place[-1], str)]
    place = _one(rng, named)
    name = _one(rng, ["other", "", "__class__", "fit", "_cache", "name", *[other[-1] for other in named]])
    holder = content.at(place[:-1])
    holder[name] = holder.pop(place[-1])
    return f"{_words(place)} renamed to {name!r}"


def swap_entries(content: Content, rng: np.random.Generator) -> str:
    places = content.places()
    first, second = _one(rng, places), _one(rng, places)
    one, two = copy.deepcopy(content.at(first)), copy.deepcopy(content.at(second))
    content.put(first, two)
    if second[: len(first)] != first:  # not inside what has just been replaced
        content.put(second, one)
    return f"{_words(first)} and {_words(second)} swapped"


def insert_entry(content: Content, rng: np.random.Generator) -> str:
    holders = [place for place in content.places() if isinstance(content.at(place), dict)] or [("state",)]
    place, value = _one(rng, holders), _one(rng, VALUES)
    name = _one(rng, ["cache", "weights", "extra", "__init__", "~dict", "function", "shape", "name"])
    content.at(place)[name] = copy.deepcopy(value)
    return f"{_words(place)}/{name} = {value!r} inserted"


def change_number(content: Content, rng: np.random.Generator) -> str:
    numbers = [
        p for p in content.places() if isinstance(content.at(p), int | float) and content.at(p) is not True
    ]
    if not numbers:
        return remove_entry(content, rng)
    place, before = _one(rng, numbers), None
    before = content.at(place)
    content.put(place, _one(rng, NUMBERS)(before))
    return f"{_words(place)}: {before!r} became {content.at(place)!r}"


def change_class(content: Content, rng: np.random.Generator) -> str:
    parts = [p for p in content.places() if p[-1] == "~component"]
    place = _one(rng, parts)
    known = sorted({cls.__name__ for cls in subclasses(Component)})
    names = [*known, "os", "Path", "KernelEmbedding", "", "Module"]
    name = _one(rng, names)
    content.put(place, name)
    return f"{_words(place)} = {name!r}"


def change_heading(content: Content, rng: np.random.Generator) -> str:
    key = _one(rng, ["class", "format", "version", "state", "checksum", "more"])
    value = _one(rng, [*VALUES, "Checkpoint", "KernelEmbedding", "TableEncoder", 1, 2, 3, 4, 3.0])
    content.header[key] = copy.deepcopy(value)
    if key == "state" and not isinstance(value, dict):
        content.header[key] = {"~dict": {}}
    content.checksum = not (content.header.get("format") != model_file.FORMAT and rng.random() < 0.5)
    return f"header {key} = {value!r}, {'with' if content.checksum else 'without'} a checksum"


def change_tensor(content: Content, rng: np.random.Generator) -> str:
    """Another shape, type or content."""
    name = _one(rng, sorted(content.tensors))
    tensor = content.tensors[name]
    ways: dict[str, Callable[[], Tensor]] = {
        "flattened": lambda: tensor.flatten(),
        "transposed": lambda: tensor.mT if tensor.ndim > 1 else tensor[None],
        "one row less": lambda: tensor[:-1] if tensor.ndim else tensor[None],
        "one row more": lambda: torch.cat([tensor, tensor[:1]]) if tensor.ndim else tensor[None],
        "one column less": lambda: tensor[..., :-1] if tensor.ndim else tensor[None],
        "empty": lambda: tensor.flatten()[:0],
        "a number": lambda: tensor.flatten()[:1].reshape(()) if tensor.numel() else tensor,
        "zeros": lambda: torch.zeros_like(tensor),
        "negative": lambda: -tensor if tensor.dtype != torch.bool else ~tensor,
        "reversed": lambda: tensor.flip(0) if tensor.ndim else tensor,
        "as float32": lambda: tensor.float(),
        "as float64": lambda: tensor.double(),
        "as bfloat16": lambda: tensor.bfloat16(),
        "as int64": lambda: tensor.long(),
        "as bool": lambda: tensor.bool(),
        "times 1e30": lambda: tensor * 1e30,
        "times 1e-30": lambda: tensor * 1e-30,
        "largest": lambda: torch.full_like(
            tensor, torch.finfo(tensor.dtype).max if tensor.is_floating_point() else 1
        ),
        "times 1e5": lambda: tensor * 100_000,
        "minus one": lambda: torch.full_like(tensor, -1) if tensor.dtype != torch.bool else ~tensor,
    }
    way = _one(rng, sorted(ways))
    content.tensors[name] = ways[way]()
    return f"tensor {name}: {way}"


def change_one_value(content: Content, rng: np.random.Generator) -> str:
    name = _one(rng, sorted(n for n, t in content.tensors.items() if t.numel()))
    tensor = content.tensors[name].clone()
    values = (
        [float("nan"), float("inf"), 0.0, -1.0, 1e30, 1e-40]
        if tensor.is_floating_point()
        else [-1, 0, 1, 100]
    )
    value = _one(rng, values)
    tensor.view(-1)[int(rng.integers(tensor.numel()))] = value
    content.tensors[name] = tensor
    return f"tensor {name}: one value is {value}"


def remove_tensor(content: Content, rng: np.random.Generator) -> str:
    name = _one(rng, sorted(content.tensors))
    del content.tensors[name]
    return f"tensor {name} removed"


def swap_tensors(content: Content, rng: np.random.Generator) -> str:
    first, second = _one(rng, sorted(content.tensors)), _one(rng, sorted(content.tensors))
    content.tensors[first], content.tensors[second] = content.tensors[second], content.tensors[first]
    return f"tensors {first} and {second} swapped"


def rename_tensor(content: Content, rng: np.random.Generator) -> str:
    name, new = _one(rng, sorted(content.tensors)), _one(rng, ["other", "", "..", ".A.B"])
    content.tensors[new] = content.tensors.pop(name)
    return f"tensor {name} renamed to {new!r}"


Forgery = Callable[[Content, np.random.Generator], str]

FORGERIES: list[Forgery] = [
    *(remove_entry, replace_entry, replace_entry, replace_entry, rename_entry, swap_entries, insert_entry),
    *(
        change_number,
        change_number,
        change_class,
        change_heading,
        change_tensor,
        change_tensor,
        change_tensor,
    ),
    *(change_one_value, remove_tensor, swap_tensors, rename_tensor),
]
