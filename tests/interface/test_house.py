"""What the house promises its readers: typed models, no import cycles, one name for one thing, fits that open once."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import house  # noqa: E402


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    return house.trees(ROOT / "src")


def test_models_are_typed(modules):
    counts, models = house.bare_any(modules)
    assert models == 0
    # ONNX, MLflow and FastAPI are untyped or optional: the rooms that speak to them are counted apart.
    border = {
        name: n
        for name, n in counts.items()
        if name.split(".")[1:2] in (["export"], ["integrations"], ["serving"])
    }
    assert sum(counts.values()) - sum(border.values()) < 50, counts.most_common(10)
    assert sum(border.values()) < 50


def test_mypy_refuses_untyped_bases_and_functions():
    """scikit-learn is untyped: without the stub in typings/, classes that derive from it would not be checked."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert settings["disallow_subclassing_any"]
    assert settings["disallow_untyped_defs"]
    assert (ROOT / "typings/sklearn/base.pyi").exists()


def test_no_module_imports_itself_by_way_of_others(modules):
    assert house.cycles(modules) == []


def test_few_classes_stand_above_an_estimator():
    above = house.classes_above(ROOT / "src")
    assert "KernelRidgeClassifier" in above
    assert {name: classes for name, classes in above.items() if len(classes) > 4} == {}


@pytest.mark.parametrize(
    "room", ["kernels", "landmarks", "losses", "moments", "networks", "solvers", "views"]
)
def test_mathematics_does_not_load_readers_of_data(room):
    code = f"import sys, krepes.{room}; print(*(name for name in sys.modules if name.startswith('krepes.')))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    rows = ("krepes.sources", "krepes.preprocessing", "krepes.engines", "krepes.features")
    assert f"krepes.{room}" in loaded
    assert [name for name in loaded if name.startswith(rows)] == []


def test_no_class_name_has_two_meanings(modules):
    places = defaultdict(set)
    for module, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


# Functions whose name says the same in every module; a name that is not here may be defined once.
SHARED = {
    "draw": "draws; a figure or rows",
    "directions": "of a kernel's series, of losses",
    "explain": "of rows, and the command",
    "column_values": "of an Arrow column, and what columns add to a prediction",
    "load_model": "of a file, and of MLflow's store",
    "normal": "normal draws, of streams and of weights",
    "one_minus_cosine": "of rows, and the formula of it",
    "relu_layer": "of arc-cosine kernels, and the formula of it",
}


def test_no_public_function_name_has_two_meanings(modules):
    places = defaultdict(set)
    for module, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                places[node.name].add(module)
    twice = {name: found for name, found in places.items() if len(found) > 1 and name not in SHARED}
    assert twice == {}


def test_the_counting_counts():
    """Each measure sees what it is there for."""
    typed = ast.parse("from typing import Any\nRows = Any\ndef f(model: Any, X: Any, way: Rows) -> Any: ...")
    counts, models = house.bare_any({"m": typed})
    assert (sum(counts.values()), models) == (3, 1)  # model, way and the result
    inside = {"a": ast.parse("def f():\n    import b"), "b": ast.parse("import a")}
    assert house.cycles(inside) == [["a", "b"]]


def test_a_fit_opens_its_data_once_and_sets_its_own_attributes():
    path = house.walk(ROOT / "src")
    assert path["opened"] == 1
    assert path["resolved"] == 1
    assert path["outside"] == []
