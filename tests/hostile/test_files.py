"""Files are whole or absent, and never overwritten by accident."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from krepes.base.storage import model_file, packing
from krepes.base.storage.files import atomic_path, check_writable
from krepes.kernels import Gaussian, Sum
from krepes.solvers import SGD
from krepes.solvers.sgd import GaussNewton
from refusals import refuses


def test_an_exception_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), atomic_path(tmp_path / "a") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_kept(tmp_path):
    target = tmp_path / "a"
    target.write_text("old")
    with refuses(FileExistsError, "overwrite=True"), atomic_path(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "old"
    with atomic_path(target, overwrite=True) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"


def test_a_file_made_meanwhile_is_kept(tmp_path):
    target = tmp_path / "a"
    with refuses(FileExistsError, "meanwhile"), atomic_path(target) as temporary:
        temporary.write_text("mine")
        target.write_text("theirs")
    assert target.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["a"]


def test_impossible_targets_are_refused_early(tmp_path):
    with pytest.raises(IsADirectoryError):
        check_writable(tmp_path)
    with refuses(FileNotFoundError, str(tmp_path / "no")):
        check_writable(tmp_path / "no" / "file")
    with refuses(OSError, "free", "disk"):
        check_writable(tmp_path / "a", needed_bytes=10**18)


STATE = {
    "numbers": [1, 2.5, float("nan"), float("inf"), True, None],
    "pair": (1, "two"),
    "array": np.arange(6, dtype=np.int32).reshape(2, 3),
    "tensor": torch.eye(2, dtype=torch.float64),
    "kernel": Sum(Gaussian(2.0), Gaussian(np.array([1.0, 2.0]))),
    "names": {"a": "ä", "~float": "not a tag"},
}


def test_states_survive_a_file(tmp_path):
    model_file.write(tmp_path / "a.krepes", "Thing", STATE)
    header, state = model_file.read(tmp_path / "a.krepes", "Thing")
    assert header["format"] == model_file.FORMAT
    assert repr(state) == repr(STATE)
    assert packing.digest(state) == packing.digest(STATE)


def test_digest_sees_every_change():
    base = packing.digest(STATE)
    for change in ({"pair": (1, "three")}, {"array": STATE["array"] + 1}, {"kernel": Gaussian(2.0)}):
        assert packing.digest(STATE | change) != base


@pytest.mark.parametrize("cut", [0, 4, 100, -10])
def test_truncated_files_are_refused(tmp_path, cut):
    path = tmp_path / "a.krepes"
    model_file.write(path, "Thing", STATE)
    path.write_bytes(path.read_bytes()[:cut])
    with refuses(ValueError, "a.krepes", "not a krepes model"):
        model_file.read(path)


@pytest.mark.parametrize("content", [b"", b"hello world, this is text", b"\xff" * 64, b"\x80\x04K\x01."])
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "a.krepes"
    path.write_bytes(content)
    with refuses(ValueError, "a.krepes", "not a krepes model"):
        model_file.read(path)


def test_a_header_that_lies_about_its_size_is_refused(tmp_path):
    path = tmp_path / "a.krepes"
    path.write_bytes((2**60).to_bytes(8, "little") + b"{}")
    with refuses(ValueError, "a.krepes", "not a krepes model"):
        model_file.read(path)


def test_other_safetensors_newer_formats_and_other_classes_are_named(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"x": torch.ones(1)}, path)
    with refuses(ValueError, "a.safetensors", "not a krepes model"):
        model_file.read(path)
    newer = {"format": model_file.FORMAT + 1, "version": "99", "class": "Thing", "state": {"~dict": {}}}
    save_file({"x": torch.ones(1)}, path, metadata={"krepes": json.dumps(newer)})
    with refuses(ValueError, "Update krepes", "99"):
        model_file.read(path)
    model_file.write(tmp_path / "b", "Thing", {})
    with refuses(ValueError, "Thing", "Other"):
        model_file.read(tmp_path / "b", "Other")


@pytest.mark.parametrize(
    "state", [{"~component": "Popen", "state": {"~dict": {}}}, {"~call": "os.system"}, {"~tensor": "absent"}]
)
def test_a_file_cannot_name_anything_but_components(tmp_path, state):
    path = tmp_path / "a.krepes"
    header = {"format": model_file.FORMAT, "version": "0", "class": "Thing", "state": {"~dict": {"a": state}}}
    tensors = {"x": torch.ones(1)}
    header["checksum"] = model_file._checksum(header, tensors)
    save_file(tensors, path, metadata={"krepes": json.dumps(header)})
    with refuses(ValueError):
        model_file.read(path)


def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path):
    """In the tensors, the description or safetensors' own header; at worst it is in what nothing depends on."""
    path, found = tmp_path / "state", 0
    model_file.write(path, "Test", STATE)
    whole, expected = path.read_bytes(), packing.digest(model_file.read(path)[1])
    for place in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        try:
            state = model_file.read(path)[1]
        except (ValueError, MemoryError):
            found += 1
        else:
            assert packing.digest(state) == expected
    assert found > len(whole) / 5 - 5
    path.write_bytes(whole[:-1] + b"\x01")
    with refuses(ValueError, "damaged"):
        model_file.read(path)


def test_parameters_that_an_older_file_does_not_have_take_their_defaults(tmp_path):
    path, solver = tmp_path / "state", SGD(max_epochs=3, preconditioner=GaussNewton(damping=2.0))
    del solver.replays, solver.preconditioner.floor
    model_file.write(path, "Test", {"solver": solver})
    found = model_file.read(path)[1]["solver"]
    assert repr(found) == "SGD(max_epochs=3, preconditioner=GaussNewton(damping=2.0))"
    assert found.replays == 1


def test_two_arrays_whose_keys_have_dots_are_kept_apart(tmp_path):
    state = {"a": {"b": np.ones(2)}, "a.b": np.zeros(3)}
    model_file.write(tmp_path / "a", "Test", state)
    assert repr(model_file.read(tmp_path / "a")[1]) == repr(state)


def test_what_cannot_be_stored_is_named():
    class Mine(Gaussian):
        pass

    with refuses(TypeError, "class", "krepes"):
        packing.pack({"kernel": Mine()}, "", {})
    with refuses(TypeError, ".thing", "object"):
        packing.pack({"thing": object()}, "", {})


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs the names of open files")
def test_a_file_and_its_name_outlast_a_loss_of_power(tmp_path, monkeypatch):
    """R22: the numbers are synchronised before the file has its name, and the folder after."""
    synchronised, real = [], os.fsync

    def fsync(opened):
        synchronised.append((os.path.realpath(f"/proc/self/fd/{opened}"), (tmp_path / "a").exists()))
        real(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    with atomic_path(tmp_path / "a") as temporary:
        temporary.write_text("whole")
    assert synchronised == [(str(temporary), False), (str(tmp_path), True)]
