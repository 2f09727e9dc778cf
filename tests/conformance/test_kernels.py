"""Every kernel, found by discovery: symmetric, positive, consistent with itself, and a good component."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone

import krepes.kernels
import structured_kernels
from krepes.base.components import Component, named
from krepes.kernels import (
    CoordinateProduct,
    CountKernel,
    Custom,
    EmpiricalNTK,
    Gaussian,
    Kernel,
    KernelCheck,
    Laplacian,
    Linear,
    Matern,
    ObjectKernel,
    Precomputed,
    Product,
    Reweighted,
    Scaled,
    Sum,
)
from krepes.kernels.arc_cosine import ArcCosine
from krepes.kernels.distances import by_rows
from krepes.kernels.dot_product import Polynomial
from krepes.networks import MLP
from labels import label
from sample_objects import CASES
from tolerances import TOLERANCE, assert_same


def shared_words(X, Y):
    """A kernel function on vectors that a user might write: polynomial of degree 2."""
    return (np.asarray(X) @ np.asarray(Y).T) ** 2


VARIANTS = [
    Gaussian(0.7),
    Gaussian(np.array([0.5, 1.0, 2.0])),
    Laplacian(0.7, norm=1),
    Laplacian(np.array([0.5, 1.0, 2.0]), norm=1),
    Matern(0.7, nu=0.5),
    Matern(nu=2.5),
    Polynomial(degree=2, offset=0.0),
    ArcCosine(degree=0),
    ArcCosine(degree=0, depth=2),
    ArcCosine(depth=3),
    Sum(Gaussian(), Laplacian(norm=1)),
    Product(Gaussian(2.0), Linear()),
    Scaled(Matern(), 3.0),
    2.0 * (Gaussian(1.0) + Linear()) * Polynomial(2),
    Reweighted(Gaussian(), [0.5, 2.0, 0.0]),
    Reweighted(Laplacian(0.7, norm=1), np.array([0.5, 1.0, 2.0])),
    Reweighted(Matern(1.0) + Linear(), np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])),
    Custom(shared_words),
]
SMALL = {EmpiricalNTK: EmpiricalNTK(MLP(widths=(8,)), seed=0)}  # instead of the default, which is large
VARIANTS += [
    EmpiricalNTK(MLP(widths=(8,)), method="full", normalize=False, seed=1),
    EmpiricalNTK(MLP(widths=(8,)), method="sketch", sketch_size=64, seed=2),
]
# Kernels on objects are in test_object_kernels.py, on pictures in test_structured_kernels.py.
ON_VECTORS = {
    name: cls
    for name, cls in named(Kernel).items()
    if not cls.only_objects and cls is not krepes.kernels.Patches
}
KERNELS = [SMALL.get(cls) or cls() for cls in ON_VECTORS.values()] + VARIANTS

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=label)


def data(n: int = 40, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Random rows, some of them twice, and a zero row."""
    X = torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.cat([X, X[:5], torch.zeros(1, 3, dtype=torch.float64)]).to(dtype)


def test_every_exported_kernel_is_tested_here():
    exported = {getattr(krepes.kernels, name) for name in krepes.kernels.__all__ if name[0].isupper()}
    on_objects = {kind for kind in exported if getattr(kind, "only_objects", False) is True}
    elsewhere = {type(kernel) for kernel, _ in structured_kernels.CASES} | {Precomputed}
    assert exported - on_objects - {Kernel, CoordinateProduct, KernelCheck} - elsewhere <= {
        type(kernel) for kernel in KERNELS
    }
    assert on_objects - {ObjectKernel, CountKernel} <= {type(kernel) for kernel, _ in CASES}


@every_kernel
def test_symmetric_and_positive_semidefinite(kernel):
    K = kernel.fitted(data())(data())
    assert_same(K, K.T)
    if kernel.positive_semidefinite:
        values = torch.linalg.eigvalsh(K)
        assert values[0] >= -1e-10 * values[-1]


def test_sigmoid_says_that_it_is_not_positive():
    kernel = krepes.kernels.Sigmoid(scale=1.0, offset=-1.0)
    assert not kernel.positive_semidefinite
    assert not (kernel + Gaussian()).positive_semidefinite
    assert not (2.0 * kernel).positive_semidefinite
    assert torch.linalg.eigvalsh(kernel(data()))[0] < -0.1


@every_kernel
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_diagonal_is_that_of_the_matrix(kernel, dtype):
    kernel, X = kernel.fitted(data()), data(dtype=dtype)
    diagonal = kernel.diag(X)
    assert diagonal.dtype == dtype
    assert_same(diagonal, kernel(X).diagonal())


@every_kernel
def test_blocks_equal_the_whole(kernel, monkeypatch):
    kernel, X, Y = kernel.fitted(data()), data(150), data(20)
    whole, block = kernel(X, Y), kernel.against(Y)
    parts = [block(X[i : i + 7]) for i in range(0, len(X), 7)]
    sketched = isinstance(kernel, EmpiricalNTK) and kernel.method == "sketch"
    dtype = torch.float32 if sketched else None  # features are in the precision of the network
    assert_same(torch.cat(parts), whole, dtype)
    monkeypatch.setattr(krepes.kernels.kernel, "BLOCK_BYTES", 1000)
    assert_same(kernel(X, Y), whole, dtype)


@every_kernel
def test_float32_agrees_with_float64(kernel):
    kernel, X = kernel.fitted(data()), data(dtype=torch.float32)
    K = kernel(X, X[:9])
    assert K.dtype == torch.float32
    assert_same(K, kernel(X.double(), X[:9].double()))


@every_kernel
def test_arguments_are_not_changed(kernel):
    X, Y = data(), data(10)
    kept_X, kept_Y, array = X.clone(), Y.clone(), X.numpy().copy()
    fitted = kernel.fitted(X)
    fitted(X, Y), fitted.diag(X), fitted.against(Y)(X), fitted(array), fitted.diag(array)
    assert torch.equal(X, kept_X)
    assert torch.equal(Y, kept_Y)
    assert np.array_equal(array, kept_X.numpy())


@every_kernel
def test_results_are_the_callers_to_change(kernel):
    """A block may be worked on in place without changing the next one."""
    kernel = kernel.fitted(data())
    block = kernel.against(data(10))
    before = block(data()).clone()
    block(data()).zero_()
    assert torch.equal(block(data()), before)


@every_kernel
def test_arrays_images_and_tensors_are_the_same_rows(kernel):
    kernel, X = kernel.fitted(data()), data()
    if not isinstance(kernel, Custom):  # a user's function gets what was given
        assert_same(kernel(X.reshape(-1, 1, 3)), kernel(X))
    assert_same(kernel(X.numpy()), kernel(X))


@every_kernel
def test_parameters_make_the_round_trip(kernel):
    copy = clone(kernel)
    assert copy is not kernel
    assert repr(copy) == repr(kernel)
    copy.set_params(**kernel.get_params())
    assert_same(copy.fitted(data())(data()), kernel.fitted(data())(data()))


@every_kernel
def test_fitted_is_a_copy_with_numbers(kernel):
    before = repr(kernel)
    fitted = kernel.fitted(data(), torch.Generator().manual_seed(1))
    assert repr(kernel) == before
    assert repr(fitted.fitted(5 * data())) == repr(fitted)
    assert_same(fitted(data()), kernel.fitted(data(), torch.Generator().manual_seed(1))(data()))


def is_storable(value) -> bool:
    if isinstance(value, Component):
        return all(is_storable(v) for k, v in vars(value).items() if not k.startswith("_"))
    if isinstance(value, np.ndarray | torch.Tensor):
        return True
    if isinstance(value, dict):
        return all(isinstance(k, str) and is_storable(v) for k, v in value.items())
    json.dumps(value)
    return True


@every_kernel
def test_state_is_storable(kernel):
    if isinstance(kernel, Custom):
        pytest.skip("a function is asked for again when a model is loaded")
    assert is_storable(kernel.fitted(data()))


@pytest.mark.parametrize("cls", named(Kernel).values(), ids=lambda cls: cls.name)
def test_constructible_without_arguments(cls):
    assert isinstance(cls(), Kernel)
    assert all(getattr(cls(), k) is v or getattr(cls(), k) == v for k, v in cls().get_params().items())


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@every_kernel
def test_the_number_of_threads_is_left_alone(kernel, three_threads):
    kernel.fitted(data())(data(200))
    assert torch.get_num_threads() == 3


def test_manhattan_distances_do_not_depend_on_threads():
    loop = pytest.importorskip("krepes.kernels.loops").manhattan
    X, Y = np.random.default_rng(0).normal(size=(2, 700, 9))
    expected = torch.cdist(torch.from_numpy(X), torch.from_numpy(Y), p=1)
    assert_same(torch.from_numpy(by_rows(loop, X, Y, n_threads=1)), expected)
    assert np.array_equal(by_rows(loop, X, Y, n_threads=5), by_rows(loop, X, Y, n_threads=1))


@every_kernel
def test_rows_of_two_precisions_have_values(kernel):
    """U13: rows are compared in the precision of the landmarks."""
    X, Y = data().double(), data(7).float()
    kernel = kernel.fitted(X)
    assert_same(kernel(X, Y).float(), kernel(X.float(), Y))
    assert_same(kernel(Y, X), kernel(Y.double(), X))


NO_PLACE_FOR_MACHINE_CODE = """
from numba.core import caching

caching.CacheImpl._locator_classes = []  # what numba finds in a read-only installation without a home
import numpy as np
from krepes.kernels import Laplacian
from krepes.kernels.loops import manhattan

assert Laplacian(1.0, norm=1)(np.eye(300)).shape == (300, 300)
assert manhattan.signatures
"""


def test_compiled_loops_need_no_folder_to_write_to():
    """R13."""
    pytest.importorskip("numba", reason='needs pip install "krepes[fast]"')
    program = [sys.executable, "-c", NO_PLACE_FOR_MACHINE_CODE]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
