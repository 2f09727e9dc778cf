"""Model files made by an enemy, or damaged: loading touches nothing else, and refuses what krepes does not write."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import _SIZE, save_file
from sklearn.datasets import load_iris

from krepes import KernelAutoencoder, KernelEmbedding, load
from krepes.base.components import Component, subclasses
from krepes.base.storage import model_file
from krepes.base.storage.codec import StateReader
from krepes.base.storage.packing import attributes
from krepes.engines import Local
from krepes.kernels import EmpiricalNTK
from krepes.machines import (
    Cells,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.networks import MLP
from krepes.saved_models import SAVED
from refusals import refuses

X, LABELS = load_iris(return_X_y=True)
ODD_DTYPES = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.complex64, torch.uint16, torch.uint64)
ODD_DTYPES = [dtype for dtype in ODD_DTYPES if dtype in _SIZE]  # safetensors 0.4.5 writes three of them
SMALL = {"n_components": 2, "n_landmarks": 12, "random_state": 0}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.krepes"
    KernelEmbedding(**SMALL).fit(X).save(path)
    return path


def contents(path) -> tuple[dict, dict]:
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()[model_file.KEY])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return header, tensors


def forged(path, header: dict, tensors: dict, checksum: bool = True):
    """A file whose checksum is right, as an enemy's would be."""
    header.pop("checksum", None)
    if checksum:
        header["checksum"] = model_file._checksum(header, tensors)
    save_file(tensors, path, metadata={model_file.KEY: json.dumps(header)})
    return path


def entry(header: dict, *names: str) -> dict:
    """The dictionary of encoded entries at a place of the state."""
    found = header["state"]
    for name in names:
        found = found["~dict"][name]
        found = found["state"] if "~component" in found else found
    return found["~dict"]


def test_loading_makes_no_folder_and_opens_no_other_file(tmp_path, monkeypatch):
    """R1: neither the cache nor the weight file that a model was made with is looked at."""
    weights = tmp_path / "weights.safetensors"
    save_file(dict(MLP(widths=(5,)).build((4,)).state_dict()), weights)
    kernel = EmpiricalNTK(
        MLP(widths=(5,), weights=str(weights)), method="sketch", sketch_size=64, cache=str(tmp_path / "cache")
    )
    model = KernelEmbedding(**SMALL, kernel=kernel, loss="kernel_pca").fit(X)
    expected = model.transform(X)
    path = tmp_path / "model.krepes"
    model.save(path)
    assert "weights.safetensors" in str(contents(path)[0])
    assert str(tmp_path) not in json.dumps(contents(path)[0])
    weights.unlink()
    for file in sorted((tmp_path / "cache").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (tmp_path / "cache").rmdir()
    before = sorted(tmp_path.rglob("*"))
    again = load(path)
    np.testing.assert_allclose(again.transform(X), expected, atol=1e-5)
    assert sorted(tmp_path.rglob("*")) == before
    with refuses(ValueError, "'weights.safetensors'"):
        again.fit(X)


def test_a_forged_path_is_not_followed(tmp_path):
    """R1."""
    kernel = EmpiricalNTK(MLP(widths=(5,)), method="sketch", sketch_size=64)
    KernelEmbedding(**SMALL, kernel=kernel, loss="kernel_pca").fit(X).save(tmp_path / "model.krepes")
    header, tensors = contents(tmp_path / "model.krepes")
    entry(header, "kernel")["cache"] = str(tmp_path / "evil")
    entry(header, "kernel", "network")["weights"] = str(tmp_path / "evil.pth")
    load(forged(tmp_path / "forged.krepes", header, tensors)).transform(X)
    assert not (tmp_path / "evil").exists()


SAVED_MODELS = {
    "embedding": lambda: KernelEmbedding(**SMALL).fit(X),
    "autoencoder": lambda: KernelAutoencoder(2, n_landmarks=12, random_state=0).fit(X),
    "classifier": lambda: KernelRidgeClassifier(n_landmarks=12, random_state=0).fit(X, LABELS),
    "regressor": lambda: KernelRidgeRegressor(n_landmarks=12, random_state=0).fit(X, X[:, 0]),
    "process": lambda: GaussianProcessRegressor(n_landmarks=12, random_state=0).fit(X, X[:, 0]),
    "process of classes": lambda: GaussianProcessClassifier(n_landmarks=12, random_state=0).fit(X, LABELS),
    "detector": lambda: NoveltyDetector(n_landmarks=12, random_state=0).fit(X),
}


@pytest.mark.parametrize("name", SAVED_MODELS)
def test_a_file_that_names_an_engine_is_refused(tmp_path, name):
    """R9: an address in a file would send rows to its author, and run what the author answers."""
    assert len(SAVED_MODELS) == len(set(SAVED) - {"SubspaceClustering"})  # which has no engine
    SAVED_MODELS[name]().save(tmp_path / "model.krepes")
    header, tensors = contents(tmp_path / "model.krepes")
    entry(header, "parameters")["engine"] = "tcp://127.0.0.1:18786"
    with refuses(ValueError, "engine"):
        load(forged(tmp_path / "forged.krepes", header, tensors))


def test_no_file_names_an_engine(tmp_path):
    """R9: the engine that fitted a model stays behind."""
    KernelEmbedding(**SMALL, engine=Local()).fit(X).save(tmp_path / "model.krepes")
    assert "engine" not in json.dumps(contents(tmp_path / "model.krepes")[0])
    assert load(tmp_path / "model.krepes").engine is None


def test_a_file_without_its_checksum_is_refused(saved, tmp_path):
    header, tensors = contents(saved)
    with refuses(ValueError, "checksum"):
        load(forged(tmp_path / "a", header, tensors, checksum=False))


@pytest.mark.parametrize("version", [1, 2, -5])
def test_a_file_of_a_format_before_the_first_release_is_refused(saved, tmp_path, version):
    header, tensors = contents(saved)
    header["format"] = version
    with refuses(ValueError, "3", "format", "save"):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize(
    "name", [".solution.A", ".solution.gamma", ".landmarks", ".F", ".moments.sum_11", ".kernel_probe"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(saved, tmp_path, name, value):
    header, tensors = contents(saved)
    tensors[name].view(-1)[0] = value
    with refuses(ValueError, "NaN"):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize(
    "name", [".solution.A", ".solution.gamma", ".landmarks", ".F", ".kernel_probe", ".rows_seen"]
)
@pytest.mark.parametrize("dtype", ODD_DTYPES)
def test_numbers_of_a_dtype_that_is_not_written_are_refused(saved, tmp_path, name, dtype):
    """R1: torch's own errors came from wherever such a tensor was used first."""
    header, tensors = contents(saved)
    tensors[name] = torch.ones(tensors[name].shape).to(dtype)
    with pytest.raises(ValueError, match="does not write"):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize("dtype", ["C64", "U16", "U64", "X9"])
def test_numbers_of_a_dtype_that_safetensors_may_not_know_are_refused(saved, tmp_path, dtype):
    raw = saved.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    description, numbers = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    end = len(numbers) + {"U16": 2}.get(dtype, 8)
    description["forged"] = {"dtype": dtype, "shape": [1], "data_offsets": [len(numbers), end]}
    text = json.dumps(description).encode()
    path = tmp_path / "a"
    path.write_bytes(struct.pack("<Q", len(text)) + text + numbers + bytes(end - len(numbers)))
    with refuses(ValueError, str(path)):
        load(path)


def test_an_entry_that_names_a_tensor_with_missing_values_is_refused(tmp_path):
    """R2, R15: only the levels of columns may hold NaN, wherever their tensor is named."""
    rows = np.c_[X[:, :2], X[:, 2] > 3]
    KernelEmbedding(**SMALL, views="tabular", kernel="gaussian").fit(rows).save(tmp_path / "model")
    header, tensors = contents(tmp_path / "model")
    name = entry(header, "views")["levels_"]["~tensor"]
    assert tensors[name].isnan().any()
    load(tmp_path / "model")
    entry(header, "solution")["A"] = {"~tensor": name}
    with pytest.raises(ValueError, match="NaN or infinite"):
        load(forged(tmp_path / "forged", header, tensors))


@pytest.mark.parametrize("digits", ["9" * 5000, "-" + "9" * 30])
def test_integers_beyond_any_count_are_refused(saved, tmp_path, digits):
    """R1: 5,000 digits, and less than -2^63."""
    header, tensors = contents(saved)
    header["checksum"] = 0
    entry(header)["seed"] = "digits"
    text = json.dumps(header).replace('"digits"', digits)
    if len(digits) < 100:
        header = json.loads(text)
        path = forged(tmp_path / "a", header, tensors)
    else:
        path = tmp_path / "a"
        save_file(tensors, path, metadata={model_file.KEY: text})
    with pytest.raises(ValueError, match=r"damaged|seed"):
        load(path)


WRONG = [
    ("n_samples_seen", "many"),
    ("seed", -3),
    ("seed", True),
    ("rank", 0),
    ("rank", 10**9),
    ("views_per_landmark", 5),
    ("exact_views", 1),
    ("landmark_indices", None.__class__.__name__),
    ("feature_names_in", [1, 2]),
    ("solution", [1, True]),
    ("solution", "found"),
    ("solution", None),
    ("loss", "spectral"),
    ("parameters", []),
    ("n_features_in", 2.5),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_entries_of_another_type_are_refused(saved, tmp_path, name, value):
    header, tensors = contents(saved)
    entry(header)[name] = value if not isinstance(value, dict) else {"~dict": value}
    with refuses(ValueError):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("history", [{"~dict": {"total": "low"}}]),
        ("history", []),
        ("converged", 1),
        ("n_iter", "few"),
        ("spread", None),
        ("more", 1),
    ],
)
def test_entries_of_a_solution_of_another_type_are_refused(saved, tmp_path, name, value):
    header, tensors = contents(saved)
    entry(header, "solution")[name] = value
    with refuses(ValueError, "damaged"):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (".solution.A", (3, 2)),
        (".solution.A", (12,)),
        (".solution.gamma", (5,)),
        (".F", (12, 1)),
        (".eigenvalues", (1,)),
        (".moments.sum_1", (2,)),
        (".moments.sum_11", (2, 2)),
        (".kernel_probe", (1, 1)),
        (".landmark_indices", (3,)),
        (".landmarks", (0, 4)),
    ],
)
def test_tensors_of_another_shape_are_refused(saved, tmp_path, name, shape):
    header, tensors = contents(saved)
    tensors[name] = torch.ones(shape, dtype=tensors[name].dtype)
    with refuses(ValueError, "damaged"):
        load(forged(tmp_path / "a", header, tensors))


MACHINES = {
    "regressor": KernelRidgeRegressor(n_landmarks=12, random_state=0),
    "classifier": KernelRidgeClassifier(n_landmarks=12, random_state=0, kernel="gaussian"),
}


@pytest.fixture(scope="module", params=MACHINES)
def saved_machine(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("machines") / "model.krepes"
    MACHINES[request.param].fit(X, load_iris().target).save(path)
    return path


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (".solution.A", (3, 1)),
        (".solution.A", (12,)),
        (".solution.b", (2,)),
        (".solution.fold_A", (2, 12, 1)),
        (".solution.fold_b", (1, 1)),
        (".solution.held_out.folds", (150, 1)),
        (".solution.held_out.predictions", (150,)),
        (".solution.held_out.y", (149,)),
        (".solution.held_out.y", (150, 7)),
        (".solution.held_out.rows", (7,)),
        (".solution.held_out.weight", (7,)),
        (".solution.errors.errors", (1,)),
        (".solution.errors.penalties", (0,)),
        (".sums.kept.inputs", (150, 3)),
        (".sums.kept.inputs", (7, 4)),
        (".sums.kept.y", (150, 2)),
        (".sums.kept.y", (3,)),
        (".sums.kept.weight", (7,)),
        (".sums.kept.rows", (7,)),
        (".sums.equations.parts.0.outer", (3, 3)),
        (".sums.equations.parts.0.cross", (12,)),
    ],
)
def test_tensors_of_a_machine_of_another_shape_are_refused(saved_machine, tmp_path, name, shape):
    header, tensors = contents(saved_machine)
    tensors[name] = torch.ones(shape, dtype=tensors[name].dtype)
    with refuses(ValueError, "damaged"):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        ((), "label", 3),
        ((), "targets", {"~dict": {}}),
        ((), "solution", None),
        ((), "sums", [1]),
        ((), "sums", {"~dict": {}}),
        (("parameters",), "penalty", -1.0),
        (("parameters",), "n_folds", "many"),
        (("parameters",), "surprise", 1),
        (("targets",), "class", "Path"),
        (("targets",), "scale", [1.0, 1.0]),
        (("targets",), "shift", ["a"]),
        (("targets",), "flat", 7),
        (("targets",), "values", []),
        (("targets",), "values", [2, 1, 0]),
        (("targets",), "values", [0, 0, 1]),
        (("targets",), "values", [[0], [1], [2]]),
        (("targets",), "values", [0, "a", None]),
        (("solution",), "penalty", "small"),
        (("solution",), "penalty", -1.0),
        (("solution", "errors"), "by", 1),
        (("solution",), "folds", [1]),
        (("solution",), "folds", [0, 0, 1, 1, 2]),
        (("sums", "kept"), "seen", 3),
        (("sums", "kept"), "seen", "all"),
        (("sums", "equations"), "keys", [0, 0, 1, 2, 3]),
        (("sums", "equations"), "keys", ["a", "b", "c", "d", "e"]),
        (("sums", "equations"), "keys", [7, 8, 9, 10, 11]),
        (("sums",), "kept", {"~dict": {}}),
    ],
)
def test_entries_of_a_machine_of_another_kind_are_refused(saved_machine, tmp_path, place, name, value):
    header, tensors = contents(saved_machine)
    of_classes = "Classifier" in header["class"]
    if place == ("targets",) and name != "class" and (name == "values") != of_classes:
        pytest.skip("of the other machine")
    entry(header, *place)[name] = value
    with refuses(ValueError):
        load(forged(tmp_path / "a", header, tensors))


@pytest.fixture(scope="module")
def saved_detector(tmp_path_factory):
    path = tmp_path_factory.mktemp("detectors") / "model.krepes"
    NoveltyDetector(random_state=0, landmarks=X[:12]).fit(X).save(path)
    return path


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (".solution.score.R", (3, 3)),
        (".solution.score.R", (12,)),
        (".solution.calibration.scores", (3, 2)),
        (".sums.equations.outer", (3, 3)),
        (".sums.equations.sum_phi", (3,)),
        (".sums.kept.inputs", (60, 3)),
        (".sums.kept.rows", (7,)),
    ],
)
def test_tensors_of_a_detector_of_another_shape_are_refused(saved_detector, tmp_path, name, shape):
    header, tensors = contents(saved_detector)
    tensors[name] = torch.ones(shape, dtype=tensors[name].dtype)
    with refuses(ValueError, "damaged"):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        ((), "penalty", -1.0),
        ((), "penalty", "small"),
        ((), "solution", None),
        ((), "sums", {"~dict": {}}),
        (("parameters",), "false_alarm_rate", 7),
        (("parameters",), "measure", "density"),
        (("parameters",), "calibration_share", 0.05),
        (("solution", "score"), "class", "Density"),
        (("solution", "score"), "class", "Distance"),
        (("sums", "equations"), "n", -1.0),
        (("sums", "kept"), "seen", 3),
    ],
)
def test_entries_of_a_detector_of_another_kind_are_refused(saved_detector, tmp_path, place, name, value):
    header, tensors = contents(saved_detector)
    entry(header, *place)[name] = value
    with refuses(ValueError):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize(
    ("name", "value"),
    [(".sums.kept.rows", 100_003), (".solution.calibration.scores", 5.0)],
)
def test_numbers_of_a_detector_out_of_range_are_refused(saved_detector, tmp_path, name, value):
    header, tensors = contents(saved_detector)
    tensors[name].view(-1)[0] = value
    with refuses(ValueError):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (".solution.held_out.folds", 99),
        (".solution.held_out.folds", -1),
        (".solution.held_out.weight", -1.0),
        (".sums.kept.weight", -1.0),
        (".solution.A", float("nan")),
        (".sums.equations.parts.0.outer", float("inf")),
    ],
)
def test_numbers_of_a_machine_out_of_range_are_refused(saved_machine, tmp_path, name, value):
    header, tensors = contents(saved_machine)
    tensors[name].view(-1)[0] = value
    with refuses(ValueError):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize("name", [".solution.held_out.y", ".sums.kept.y"])
@pytest.mark.parametrize("code", [7, -1])
def test_codes_of_classes_that_there_are_not_are_refused(tmp_path, name, code):
    KernelRidgeClassifier(**FEW_LANDMARKS).fit(X, load_iris().target).save(tmp_path / "model")
    header, tensors = contents(tmp_path / "model")
    tensors[name][0] = code
    with refuses(ValueError, "damaged"):
        load(forged(tmp_path / "a", header, tensors))


FEW_LANDMARKS = {"n_landmarks": 12, "random_state": 0, "kernel": "gaussian", "input_metric": None}


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (("kernel",), "lengthscale", {"~dict": {}}),
        (("kernel",), "lengthscale", None),
        (("kernel",), "__class__", "str"),
        (("kernel",), "against", 3),
        (("views",), "n_views", "two"),
        (("views",), "noise", [1]),
        (("input_space",), "kind", 7),
        (("input_space",), "shape", "square"),
    ],
)
def test_attributes_of_another_type_are_refused(saved, tmp_path, place, name, value):
    header, tensors = contents(saved)
    entry(header, *place)[name] = value
    with refuses(ValueError, "damaged"):
        load(forged(tmp_path / "a", header, tensors))


@pytest.mark.parametrize("name", ["os", "Path", "KernelEmbedding", "Component", "Kernel", "", "External"])
def test_other_classes_are_not_made(saved, tmp_path, name):
    header, tensors = contents(saved)
    header["state"]["~dict"]["kernel"]["~component"] = name
    with refuses(ValueError, "damaged"):
        load(forged(tmp_path / "a", header, tensors))


def test_deeply_nested_and_huge_headers_are_refused(saved, tmp_path):
    """R11: before they cost memory, and without a RecursionError."""
    path = tmp_path / "deep"
    header, tensors = contents(saved)
    text = json.dumps(header | {"checksum": 0}).replace(
        '"seed"', '"deep": ' + "[" * 100_000 + "]" * 100_000 + ', "seed"'
    )
    save_file(tensors, path, metadata={model_file.KEY: text})
    with refuses(ValueError, "deep"):
        load(path)
    (tmp_path / "huge").write_bytes(struct.pack("<Q", 2**40) + b"{}" * 50)
    with refuses(ValueError, "header"):
        load(tmp_path / "huge")
    nested: list = []
    for _ in range(500):
        nested = [nested]
    header["state"]["~dict"]["deep"] = nested
    with refuses(ValueError):
        load(forged(tmp_path / "nested", header, tensors))


@pytest.mark.parametrize(
    "cls", [c for c in subclasses(Component) if c.__module__.startswith("krepes.")], ids=lambda c: c.__name__
)
def test_every_component_has_a_attributes(cls):
    """Its annotations can be resolved, and its own default arguments are what they say."""
    hints = attributes(cls)
    try:
        made = cls()
    except TypeError:  # abstract
        return
    for name, value in made.get_params(deep=False).items():
        assert name in hints, name
        StateReader().read(value, hints[name], name)


def test_a_file_that_is_cut_short_while_it_is_read_is_refused(saved, tmp_path, monkeypatch):
    """R17: a mapped file ended the process."""
    path = tmp_path / "model.krepes"
    path.write_bytes(saved.read_bytes())
    whole = model_file._header

    def cut_short(description, file):
        os.truncate(path, path.stat().st_size // 2)
        return whole(description, file)

    monkeypatch.setattr(model_file, "_header", cut_short)
    with refuses(ValueError, "model.krepes", "cut short"):
        load(path)


@pytest.fixture(scope="module")
def in_cells(tmp_path_factory):
    path = tmp_path_factory.mktemp("cells") / "model.krepes"
    machine = KernelRidgeRegressor(local=Cells(size=30), penalty=0.1, random_state=0, dtype="float64")
    machine.fit(X, X[:, 0]).save(path)
    return path


def of_cells(tensors: dict, *ends: str) -> list[str]:
    """Tensors of solved cells, or of the plan, by how their names end."""
    found = [name for name in tensors if name.endswith(ends)]
    assert found
    return found


def _swapped_children(tensors: dict) -> None:
    for name in of_cells(tensors, ".children"):
        tensors[name][0, 0] = 0  # the root is its own child


def _cell_twice(tensors: dict) -> None:
    for name in of_cells(tensors, ".children"):
        cells = (tensors[name] < 0).nonzero()
        tensors[name][tuple(cells[0])] = tensors[name][tuple(cells[1])]


def _row_twice(tensors: dict) -> None:
    for name in of_cells(tensors, ".order"):
        tensors[name][0] = tensors[name][1]


def _starts_beyond(tensors: dict) -> None:
    for name in of_cells(tensors, ".starts"):
        tensors[name][-1] += 1


def _fewer_rows(tensors: dict) -> None:
    """Solved cells that are whole in themselves, of fewer rows than the file has."""
    for order in of_cells(tensors, ".order"):
        stem = order.removesuffix(".order")
        last = int(tensors[f"{stem}.order"].argmax())
        keep = torch.arange(len(tensors[order])) != last
        tensors[order] = tensors[order][keep].contiguous()
        tensors[f"{stem}.A"] = tensors[f"{stem}.A"][keep].contiguous()
        tensors[f"{stem}.starts"] -= (tensors[f"{stem}.starts"] > last).long()


def _left_rows_backwards(tensors: dict) -> None:
    """Errors of rows left out are looked up by row, which needs their order."""
    for order in of_cells(tensors, ".order"):
        rows = torch.arange(4).flip(0)
        errors = torch.zeros(4, tensors[order.removesuffix(".order") + ".A"].shape[1], dtype=torch.float64)
        tensors[order.removesuffix(".order") + ".left_rows"] = rows.contiguous()
        tensors[order.removesuffix(".order") + ".left_errors"] = errors


def _narrow(tensors: dict) -> None:
    for name in of_cells(tensors, ".directions"):
        tensors[name] = tensors[name][:, :2].contiguous()


def _no_splits_left(tensors: dict) -> None:
    for name in of_cells(tensors, ".thresholds"):
        tensors[name][0] = torch.nan


FORGED_CELLS = {
    "a split below itself": _swapped_children,
    "a cell twice": _cell_twice,
    "a row twice": _row_twice,
    "cells beyond the rows": _starts_beyond,
    "cells of fewer rows": _fewer_rows,
    "coefficients that are no numbers": lambda tensors: _put_nan(tensors, ".A"),
    "intercepts that are no numbers": lambda tensors: _put_nan(tensors, ".b"),
    "splits that are no numbers": _no_splits_left,
    "splits of other columns": _narrow,
    "left-out rows that are not in order": _left_rows_backwards,
}


def _put_nan(tensors: dict, end: str) -> None:
    for order in of_cells(tensors, ".order"):
        tensors[order.removesuffix(".order") + end].view(-1)[0] = torch.nan


@pytest.mark.parametrize("what", FORGED_CELLS)
def test_forged_cells_are_refused(in_cells, tmp_path, what):
    header, tensors = contents(in_cells)
    FORGED_CELLS[what](tensors)
    with refuses(ValueError, "damaged"):
        load(forged(tmp_path / "a", header, tensors))


def test_a_plan_without_its_rows_is_refused(in_cells, tmp_path):
    other = tmp_path / "landmarks.krepes"
    KernelRidgeRegressor(local=False, penalty=0.1, random_state=0, n_landmarks=12).fit(X, X[:, 0]).save(other)
    for mine, theirs in ((in_cells, other), (other, in_cells)):
        header, tensors = contents(mine)
        plan, more = contents(theirs)
        entry(header)["local_plan"] = entry(plan)["local_plan"]
        added = {name: value for name, value in more.items() if "local_plan" in name}
        with refuses(ValueError, "damaged"):
            load(forged(tmp_path / "a", header, tensors | added))


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        (".solution.A", "predict"),
        (".solution.b", "predict"),
        (".targets.scale", "predict"),
        (".targets.scale", "predict_interval"),
        (".solution.fold_b", "predict_interval"),
        (".solution.held_out.y", "predict_interval"),
    ],
)
def test_numbers_whose_products_overflow_are_refused(tmp_path, name, verb):
    """Each is finite; predictions and intervals would not be."""
    path = tmp_path / "model.krepes"
    KernelRidgeRegressor(kernel="gaussian", n_landmarks=12, random_state=0).fit(X[:, :3], 1e3 * X[:, 3]).save(
        path
    )
    header, tensors = contents(path)
    tensors[name] = torch.full_like(tensors[name], 1.7e308)
    forged(path, header, tensors)
    with refuses(ValueError, "overflow"):
        getattr(load(path), verb)(X[:, :3])


@pytest.mark.parametrize("value", [1.7e308, -1.7e308])
def test_scores_of_classes_that_overflow_are_refused(tmp_path, value):
    path = tmp_path / "model.krepes"
    KernelRidgeClassifier(n_landmarks=12, random_state=0).fit(X, LABELS).save(path)
    header, tensors = contents(path)
    tensors[".solution.b"][0] = value
    forged(path, header, tensors)
    model = load(path)
    with refuses(ValueError, "overflow"):
        model.predict_proba(X)
