"""Weight files: a network's numbers by name, checked before they are read, and never unpickled.

    .npz            arrays under the names of the state_dict
    .safetensors    the same
    .pt, .pth       a state_dict saved by torch; read with `weights_only=True`, which runs no code of the file

Names and shapes come from the headers and are compared with the network first, so a file that does not fit, or
declares arrays of absurd size, is refused before anything is allocated. Counters of BatchNorm
(`num_batches_tracked`) have no effect and are ignored. A file is identified by the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor, nn

PREFIX = "module."  # what torch.nn.DataParallel puts before every name
SHOWN = 5  # names in a message


@dataclass(frozen=True)
class WeightsFile:
    """The arrays of a file: their shapes, and a function that reads some of them."""

    path: Path
    shapes: dict[str, tuple[int, ...]]
    read: Callable[[Iterable[str]], dict[str, Tensor]]


def file_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with _existing(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def open_weights(path: str | os.PathLike[str]) -> WeightsFile:
    """The arrays of a weight file, by the file's ending; none is read yet."""
    file = _existing(path)
    if file.suffix.lower() not in _OPENERS:
        raise ValueError(
            f"{file} ends in {file.suffix!r}: expected a weight file ending in {', '.join(_OPENERS)}. "
            "Save a network's numbers with safetensors.torch.save_file(network.state_dict(), path)."
        )
    try:
        return _OPENERS[file.suffix.lower()](file)
    except pickle.UnpicklingError as error:  # torch's own message advises to trust the file
        raise ValueError(
            f"{file} is damaged, or holds more than tensors: save torch.save(network.state_dict(), path)."
        ) from error
    except Exception as error:  # whatever a reader of damaged files raises
        raise ValueError(f"{file} cannot be read as weights: {error or type(error).__name__}") from error


def load_weights(
    module: nn.Module, path: str | os.PathLike[str], dropped: tuple[str, ...] = (), digest: str | None = None
) -> None:
    """Fill a module's parameters and buffers from a file.

    Names that begin with one of `dropped` (a classifier) are left out. Where `digest` is given, the file must be
    that one.
    """
    if digest is not None and (found := file_digest(path)) != digest:
        raise ValueError(
            f"{path} is not the file of this network: its SHA-256 begins with {found[:12]}, not {digest[:12]}. "
            "Give the original file, or weights_digest=None to take this one."
        )
    file = open_weights(path)
    state = {name: value for name, value in module.state_dict().items() if not _is_counter(name)}
    stored = _stored_names(file)
    _check_fit(file, state, stored, dropped)
    try:
        values = file.read([stored[name] for name in state])
    except Exception as error:
        raise ValueError(f"{file.path} is damaged: {error or type(error).__name__}") from error
    tensors = {name: values[stored[name]] for name in state}
    _check_numbers(file.path, tensors)
    module.load_state_dict(tensors, strict=False)


def _existing(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"weights={path!r:.60}: expected the path of a file, or None for random start values."
        )
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(
            f"There is no weight file {file}. Give its path, or weights=None for random start values."
        )
    return file


def _stored_names(file: WeightsFile) -> dict[str, str]:
    """{name in the network: name in the file}."""
    prefix = PREFIX if all(name.startswith(PREFIX) for name in file.shapes) else ""
    return {name.removeprefix(prefix): name for name in file.shapes if not _is_counter(name)}


def _is_counter(name: str) -> bool:
    return name.endswith("num_batches_tracked")


def _check_fit(
    file: WeightsFile, state: dict[str, Tensor], stored: dict[str, str], dropped: tuple[str, ...]
) -> None:
    missing = [name for name in state if name not in stored]
    unexpected = [name for name in stored if name not in state and not name.startswith(dropped)]
    shapes = {name: file.shapes[stored[name]] for name in state if name in stored}
    misshaped = [
        f"{name} {shape} instead of {tuple(state[name].shape)}"
        for name, shape in shapes.items()
        if shape != tuple(state[name].shape)
    ]
    found = {"missing": missing, "unexpected": unexpected, "of another shape": misshaped}
    if any(found.values()):
        problems = "; ".join(
            f"{len(names)} {what} ({_some(names)})" for what, names in found.items() if names
        )
        raise ValueError(
            f"{file.path} does not fit the network of {len(state)} arrays: {problems}. Give weights of "
            "the same architecture, under the names of its state_dict."
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _check_numbers(path: Path, tensors: dict[str, Tensor]) -> None:
    not_real = [name for name, value in tensors.items() if not value.is_floating_point()]
    if not_real:
        raise ValueError(
            f"{path}: {_some(not_real)} is of {tensors[not_real[0]].dtype}; convert quantised weights to floats."
        )
    broken = [name for name, value in tensors.items() if not torch.isfinite(value).all()]
    if broken:
        raise ValueError(f"{path} holds NaN or infinite numbers in {_some(broken)}. Save or copy it again.")


def _open_npz(path: Path) -> WeightsFile:
    with zipfile.ZipFile(path) as archive:
        shapes = {name.removesuffix(".npy"): _npy_shape(archive, name) for name in archive.namelist()}

    def read(wanted: Iterable[str]) -> dict[str, Tensor]:
        with np.load(path, allow_pickle=False) as archive:
            return {name: torch.from_numpy(np.ascontiguousarray(archive[name])) for name in wanted}

    return WeightsFile(path, shapes, read)


def _npy_shape(archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    """The shape that the header of an array declares."""
    with archive.open(name) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"{name} has the .npy format version {version[0]}.{version[1]}")
        return _HEADERS[version](stream)[0]


def _open_safetensors(path: Path) -> WeightsFile:
    with safe_open(path, framework="pt") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118

    def read(wanted: Iterable[str]) -> dict[str, Tensor]:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in wanted}

    return WeightsFile(path, shapes, read)


def _open_torch(path: Path) -> WeightsFile:
    # Mapped where the format allows it: numbers that are not wanted are never read.
    found = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]  # a checkpoint that holds more than weights
    if not isinstance(found, dict):
        raise ValueError(f"it holds a {type(found).__name__}, not a state_dict of tensors by name")
    others = [
        str(name)
        for name, value in found.items()
        if not (isinstance(name, str) and isinstance(value, Tensor))
    ]
    if others:
        raise ValueError(f"it is not a state_dict: {_some(others)} are not tensors")

    def read(wanted: Iterable[str]) -> dict[str, Tensor]:
        return {name: found[name].detach() for name in wanted}

    return WeightsFile(path, {name: tuple(value.shape) for name, value in found.items()}, read)


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_OPENERS = {".npz": _open_npz, ".safetensors": _open_safetensors, ".pth": _open_torch, ".pt": _open_torch}
