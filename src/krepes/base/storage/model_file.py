"""Model files: one safetensors file with a JSON description, never pickle.

    header      "krepes": JSON with a format version, the class, its nested state and a checksum
    tensors     every array of that state, under the path that leads to it ("kernel_.lengthscale")

`packing`, beside this module, turns a state into the two; `codec` checks what is read against what classes declare.
Reading a model file touches that file and nothing else.

A model file holds its landmarks: real rows of the training data.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from krepes._version import __version__
from krepes.base.storage.files import atomic_path
from krepes.base.storage.packing import content, pack, unpack

FORMAT = 3  # the first of a released version; 1 and 2 were not
FIRST_FORMAT = 3  # the oldest that is read
HEADER_BYTES = 100_000_000  # more than any description that krepes writes
KEY = "krepes"


def write(path: str | os.PathLike[str], kind: str, state: dict[str, Any], overwrite: bool = False) -> None:
    """Write a state atomically."""
    tensors: dict[str, Tensor] = {}
    header = {"format": FORMAT, "version": __version__, "class": kind, "state": pack(state, "", tensors)}
    header["checksum"] = _checksum(header, tensors)
    with atomic_path(path, overwrite, private=True) as temporary:
        # one block of bytes, so that a full disk is an error of the operating system and not of safetensors
        temporary.write_bytes(save(tensors, metadata={KEY: json.dumps(header, allow_nan=False)}))


def read(path: str | os.PathLike[str], kind: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header (without its state) and the state of a model file."""
    header, tensors = _open(Path(path))
    if kind is not None and header.get("class") != kind:
        raise ValueError(f"{path} holds a {header.get('class')}, not a {kind}.")
    try:
        state = unpack(header.pop("state"), tensors)
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError, ValueError) as error:
        raise ValueError(f"{path} is damaged: its description does not fit its tensors ({error}).") from error
    if not isinstance(state, dict):
        raise ValueError(f"{path} is damaged: its description is not one that krepes writes.")
    return header, state


def kind_of(path: str | os.PathLike[str]) -> str:
    """The class of what a file holds, from its header alone."""
    with _opened(Path(path)) as (header, _):
        return str(header.get("class"))


def sizes(path: str | os.PathLike[str]) -> dict[str, int]:
    """Bytes by tensor name."""
    _, tensors = _open(Path(path))
    return {name: tensor.numel() * tensor.element_size() for name, tensor in tensors.items()}


def _open(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with _opened(path) as (header, content):
        # safetensors checks every offset against the number of bytes before it allocates. Copies, because products of
        # tensors that are not aligned in memory have other last bits.
        try:
            tensors = {name: tensor.clone() for name, tensor in load(content()).items()}
        except KeyError as error:  # dtypes that an older safetensors does not know
            raise ValueError(f"{path} is damaged: it holds {error}, which krepes does not write.") from error
    _check_bytes(path, header, tensors)
    return header, tensors


def _check_bytes(path: Path, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Refuse a file whose checksum is missing or another."""
    written = header.pop("checksum", None)
    if written is None:
        raise ValueError(f"{path} is damaged: it has no checksum. Save or copy it again.")
    if written != _checksum(header, tensors):
        raise ValueError(
            f"{path} is damaged: its bytes are not those that were written. Save or copy it again."
        )


@contextmanager
def _opened(path: Path) -> Iterator[tuple[dict[str, Any], Callable[[], bytes]]]:
    """The header of a file and what reads all of its bytes; whatever is wrong with it is an error that names it.

    The file is read, not mapped: a mapped file that another process cuts short ends this process.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a model file.")
    if not path.is_file():  # reading a pipe would wait for ever
        raise ValueError(f"{path} is a device or a pipe, not a model file.")
    try:
        with open(path, "rb") as stream:
            start = stream.read(8)
            size = int.from_bytes(start, "little")
            if size > min(HEADER_BYTES, path.stat().st_size):
                raise ValueError(
                    f"{path} is not a krepes model, or it was cut short: it ends before its header does. If it holds "
                    "data, give the model before them; else save or copy it again."
                )
            start += stream.read(size)
            header = _header(json.loads(start[8:]), path)
            yield header, lambda: start + stream.read()
    except (SafetensorError, OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"{path} is not a krepes model, or it was cut short ({error}). Save or copy it again."
        ) from error


def _header(description: object, path: Path) -> dict[str, Any]:
    """krepes's own header in the header of a safetensors file."""
    metadata = description.get("__metadata__") if isinstance(description, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get(KEY), str):
        raise ValueError(f"{path} is not a krepes model, though it may be a safetensors file.")
    try:
        header = json.loads(metadata[KEY])
    except ValueError as error:
        raise ValueError(f"{path} is damaged: its description cannot be read ({error}).") from error
    _check_header(header, path)
    return header


def _checksum(header: dict[str, Any], tensors: dict[str, Tensor]) -> int:
    """CRC-32 of a description and its tensors: against damaged disks and copies, not against intent."""
    value = 0
    for piece in content(header, tensors):
        value = zlib.crc32(piece, value)
    return value


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
