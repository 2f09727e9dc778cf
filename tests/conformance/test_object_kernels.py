"""Every kernel on objects, found by discovery: a kernel, a good component, and at home in every estimator."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

import krepes.kernels.kernel
from krepes import KernelEmbedding, load
from krepes.base.components import named
from krepes.base.storage.packing import digest, pack
from krepes.kernels import Custom, Gaussian, Kernel, ObjectKernel
from krepes.kernels.objects import object_kernel
from krepes.landmarks import KMeansPlusPlus
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from labels import label
from sample_objects import CASES, maker
from tolerances import assert_same

OBJECT_KERNELS = {name: cls for name, cls in named(Kernel).items() if issubclass(cls, ObjectKernel)}
every_kernel = pytest.mark.parametrize(("kernel", "make"), CASES, ids=label)


def test_every_named_kernel_is_tested_here():
    assert set(OBJECT_KERNELS.values()) <= {type(kernel) for kernel, _ in CASES}
    assert all(cls.takes_objects and cls.only_objects for cls in OBJECT_KERNELS.values())
    assert not Custom.only_objects
    assert (2.0 * CASES[0][0]).only_objects
    assert not (Gaussian() + Gaussian()).only_objects


@every_kernel
@pytest.mark.parametrize("seed", range(5))
def test_symmetric_and_positive_semidefinite(kernel, make, seed):
    X = make(40, seed)
    K = kernel.fitted(X)(X)
    assert K.dtype == torch.float64
    assert torch.isfinite(K).all()
    assert_same(K, K.T)
    values = torch.linalg.eigvalsh(K)
    assert kernel.positive_semidefinite
    assert values[0] >= -1e-10 * values[-1]


@every_kernel
def test_diagonal_is_that_of_the_matrix(kernel, make):
    X = make(40)
    kernel = kernel.fitted(X)
    assert_same(kernel.diag(X), kernel(X).diagonal())


@every_kernel
def test_blocks_equal_the_whole(kernel, make, monkeypatch):
    X, Y = make(50, 1), make(20)
    kernel = kernel.fitted(Y)
    whole, block = kernel(X, Y), kernel.against(Y)
    assert_same(torch.cat([block(X[i : i + 7]) for i in range(0, len(X), 7)]), whole)
    monkeypatch.setattr(krepes.kernels.kernel, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(object_kernel, "ROWS", 3)
    monkeypatch.setattr("krepes.kernels.objects.mean_embedding.ROWS", 3)
    monkeypatch.setattr("krepes.kernels.objects.mean_embedding.POINTS", 5)
    monkeypatch.setattr("krepes.kernels.objects.mismatch.ENTRIES", 50)
    assert_same(kernel(X, Y), whole)
    assert_same(kernel.diag(Y), kernel(Y).diagonal())


@every_kernel
def test_results_are_the_callers_to_change_and_arguments_are_not_changed(kernel, make):
    X = make(20)
    before = digest(X)
    kernel = kernel.fitted(X)
    block = kernel.against(X)
    first = block(X).clone()
    block(X).zero_()
    kernel.diag(X).zero_()
    assert torch.equal(block(X), first)
    assert digest(X) == before


@every_kernel
def test_parameters_make_the_round_trip(kernel, make):
    X = make(20)
    copy = clone(kernel)
    assert repr(copy) == repr(kernel)
    copy.set_params(**kernel.get_params())
    assert_same(copy.fitted(X)(X), kernel.fitted(X)(X))
    fitted = kernel.fitted(X, torch.Generator().manual_seed(0))
    assert repr(fitted.fitted(make(9, 3))) == repr(fitted)
    assert_same(pickle.loads(pickle.dumps(fitted))(X), fitted(X))
    json.dumps(pack(fitted, "", {}))


@every_kernel
def test_storable_objects_are_the_same_objects(kernel, make):
    X = make(20)
    fitted, stored = kernel.fitted(X), kernel.storable(X)
    json.dumps(pack(stored, "", {}))
    assert torch.equal(fitted(stored), fitted(X))
    assert digest(kernel.storable(stored)) == digest(stored)


@pytest.mark.parametrize("name", OBJECT_KERNELS)
def test_no_objects_and_empty_ones_have_a_right_answer(name):
    kernel = OBJECT_KERNELS[name]()
    X = maker(type(kernel))(10)
    kernel = kernel.fitted(X)
    assert kernel(X, X[:0]).shape == (10, 0)
    assert kernel(X[:0], X).shape == (0, 10)
    assert kernel.diag(X[:0]).shape == (0,)
    empty = {"edges": []} if "dictionary" in str(_refusal(kernel)) else "" if _takes(kernel, "") else []
    assert kernel([empty], X).abs().max() == 0
    assert kernel.diag([empty]).item() == 0


def _takes(kernel: Kernel, x: object) -> bool:
    return _refusal(kernel, x) is None


def _refusal(kernel: Kernel, x: object = None) -> Exception | None:
    try:
        kernel.storable([x])
    except (TypeError, ValueError) as error:
        return error
    return None


ESTIMATED = [(kernel, make) for kernel, make in CASES if kernel.get_params().get("normalize", True)]
every_estimated = pytest.mark.parametrize(("kernel", "make"), ESTIMATED, ids=label)


@every_estimated
@pytest.mark.parametrize(
    ("rule", "dtype"),
    [
        ("uniform", "float32"),
        ("pivoted_cholesky", "float64"),
        pytest.param("uniform", "float64", marks=pytest.mark.full),
        pytest.param("pivoted_cholesky", "float32", marks=pytest.mark.full),
        pytest.param("leverage", "float32", marks=pytest.mark.full),
        pytest.param("leverage", "float64", marks=pytest.mark.full),
        pytest.param(KMeansPlusPlus(space="kernel"), "float32", marks=pytest.mark.full),
        pytest.param(KMeansPlusPlus(space="kernel"), "float64", marks=pytest.mark.full),
    ],
)
@pytest.mark.filterwarnings("ignore:n_components")
def test_an_embedding_is_fitted_saved_continued_and_merged(kernel, make, rule, dtype, tmp_path):
    X, more = make(60), make(30, 1)
    new = KernelEmbedding(
        3, kernel=kernel, loss="kernel_pca", landmarks=rule, n_landmarks=25, dtype=dtype, random_state=0
    )
    model = clone(new).fit(X)
    Z = model.transform(more)
    assert Z.shape[0] == 30
    assert np.isfinite(Z).all()
    coverage = model.coverage(X)
    assert ((coverage >= 0) & (coverage <= 1)).all()
    model.save(tmp_path / "m.krepes")
    same = load(tmp_path / "m.krepes")
    assert np.array_equal(same.transform(more), Z)
    assert repr(same.kernel_) == repr(model.kernel_)

    first = clone(new).partial_fit(X)
    other = first.empty_copy().partial_fit(more)
    both = clone(new).partial_fit(X).partial_fit(more).transform(X)
    merged = first.merge(other).transform(X)
    np.testing.assert_allclose(merged @ merged.T, both @ both.T, atol=1e-3 if dtype == "float32" else 1e-8)


@every_estimated
def test_kernel_ridge_is_fitted_and_saved(kernel, make, tmp_path):
    X, y = make(60), np.arange(60) % 2
    classifier = KernelRidgeClassifier(kernel=kernel, n_landmarks=25, random_state=0).fit(X, y)
    classifier.save(tmp_path / "c.krepes")
    again = load(tmp_path / "c.krepes")
    assert np.array_equal(again.predict_proba(X), classifier.predict_proba(X))
    again.partial_fit(make(10, 1), y[:10])
    for solver in ("direct", "conjugate_gradients"):
        machine = KernelRidgeRegressor(kernel=kernel, n_landmarks=25, solver=solver, random_state=0)
        assert np.isfinite(machine.fit(X, y.astype(float)).predict(make(5, 2))).all()


@pytest.mark.parametrize("name", OBJECT_KERNELS)
def test_a_kernel_is_given_by_name(name):
    X = maker(OBJECT_KERNELS[name])(40)
    Z = KernelEmbedding(2, kernel=name, loss="kernel_pca", n_landmarks=20, random_state=0).fit_transform(X)
    assert Z.shape[0] == 40


PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from sample_objects import CASES
for kernel, make in CASES:
    X = make(20)
    print(kernel.fitted(X)(X).mul(1e10).round().long().tolist())
"""


def test_values_are_the_same_in_every_process():
    """Python's own hash() of strings differs from process to process: nothing may depend on it."""
    tests = str(Path(__file__).parents[1])
    found = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(tests=tests)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
