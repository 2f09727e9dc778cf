"""Models in use by many threads, by forks and by joblib's workers at once give the numbers that one caller gets."""

from __future__ import annotations

import os
import subprocess
import sys

import joblib
import numpy as np
import pytest

from fuzz.threads import VECTORS, Case, disagreements, estimators, kernels, loaded_again, with_kernel
from krepes.saved_models import SAVED

CALLS = 4  # of every thread; `make fuzz` makes 100
KERNELS = {name: (kernel, X) for name, kernel, X in kernels()}
FIRST = {type(kernel): name for name, (kernel, _) in reversed(KERNELS.items())}.values()  # of every class
QUICK = [name for name in KERNELS if name in FIRST or name.startswith("tangent")]
LATER = [pytest.param(name, marks=pytest.mark.full) for name in KERNELS if name not in QUICK]
MODELS = [
    "embedding",
    "trained",
    "autoencoder",
    "ridge classifier",
    "ridge regressor",
    "ridge regressor in cells",
    "process classifier",
    "process regressor",
    "detector",
]


def test_every_estimator_is_tested_here():
    assert {type(model).__name__ for model in estimators().values()} == set(SAVED) - {"SubspaceClustering"}
    assert list(estimators()) == MODELS


def check(case: Case) -> None:
    wrong = disagreements(case, CALLS)
    one, twin = loaded_again(case)
    wrong += disagreements(one, CALLS, twin)
    assert not wrong, f"{len(wrong)} calls: {wrong[:5]}"


@pytest.mark.parametrize("name", MODELS)
def test_estimators_may_be_used_by_many_threads(name):
    """U1."""
    check(Case(name, estimators()[name], VECTORS))


@pytest.mark.parametrize("name", QUICK + LATER)
def test_kernels_may_be_used_by_many_threads(name):
    """U1: with tangent kernels, 14 of 320 calls failed."""
    check(with_kernel(name, *KERNELS[name]))


@pytest.mark.parametrize("name", ["embedding", "ridge classifier"])
def test_joblib_workers_get_the_same_numbers(name):
    calls = Case(name, estimators()[name], VECTORS).calls()
    call = calls.get("transform") or calls["predict"]
    for found in joblib.Parallel(n_jobs=2)(joblib.delayed(call)() for _ in range(2)):
        np.testing.assert_array_equal(found, call())


FORKED = """
import multiprocessing, warnings
import numpy as np
from krepes import KernelEmbedding

warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(2000, 40))
model = KernelEmbedding(4, n_landmarks=300, kernel={kernel!r}, loss="kernel_pca", random_state=0).fit(X)
expected = model.transform(X)


def transformed(_):
    return model.transform(X)


with multiprocessing.get_context("fork").Pool(2) as pool:
    for found in pool.map_async(transformed, range(3)).get(timeout=60):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_forks_of_a_process_with_threads_do_not_hang(kernel):
    """OpenMP, which torch uses, hangs in such a fork unless it has one thread there."""
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    program = [sys.executable, "-c", FORKED.format(kernel=kernel)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr[-2000:]
