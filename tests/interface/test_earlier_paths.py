"""Module paths of earlier versions still import, with a warning that names the new path."""

from __future__ import annotations

import ast
import importlib
import pickle
import sys
from pathlib import Path

import pytest

import krepes.alignment
import krepes.evaluation
import krepes.sources
from krepes.base.earlier_paths import EarlierModule

EARLIER = sorted(path for path, module in sys.modules.items() if isinstance(module, EarlierModule))


def test_there_are_earlier_paths():
    assert len(EARLIER) > 40


@pytest.mark.parametrize("path", EARLIER)
def test_everything_in_a_moved_module_is_found_by_its_earlier_path(path):
    earlier = importlib.import_module(path)
    now = importlib.import_module(earlier.now)
    defined = [
        node.name
        for node in ast.parse(Path(now.__file__).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
    assert defined
    for name in defined:
        with pytest.warns(FutureWarning, match=earlier.now):
            assert getattr(earlier, name) is getattr(now, name)
    with pytest.raises(AttributeError):
        _ = earlier.never_there


def test_the_warning_points_to_the_import():
    with pytest.warns(FutureWarning, match=r"krepes\.alignment\.similarity\.cka") as caught:
        from krepes.alignment.cka import centred  # noqa: F401
    assert caught[0].filename == __file__


def test_functions_keep_the_names_of_earlier_modules():
    """`cka` the function and `cka` the earlier module have one name: the package holds the function."""
    importlib.import_module("krepes.alignment.cka")
    importlib.import_module("krepes.evaluation.search")
    assert callable(krepes.alignment.cka)
    assert callable(krepes.alignment.transferability)
    assert callable(krepes.evaluation.search)
    with pytest.warns(FutureWarning):
        assert krepes.alignment.sketch.SketchedCKA is krepes.alignment.SketchedCKA


def test_pickles_of_moved_classes_load():
    model = krepes.alignment.StreamedCKA()
    content = pickle.dumps(model, protocol=0)
    earlier = content.replace(b"krepes.alignment.similarity.streamed_cka", b"krepes.alignment.streamed")
    assert earlier != content
    with pytest.warns(FutureWarning):
        assert isinstance(pickle.loads(earlier), krepes.alignment.StreamedCKA)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("krepes.alignment.layers", ["iter_layers", "layer_names", "sketch_layers"]),
        ("krepes.alignment.pruning", ["prune_ensemble"]),
    ],
)
def test_modules_that_became_packages_have_the_public_names(path, names):
    package = importlib.import_module(path)
    for name in names:
        assert getattr(package, name) is getattr(krepes.alignment, name)
