"""Kernels of rows that are not plain vectors: symmetric, positive, consistent with themselves, good components."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import krepes.kernels.kernel
from krepes.base.storage.packing import digest, pack, unpack
from krepes.kernels import Custom
from krepes.kernels.kernel import Kernel
from labels import label
from structured_kernels import CASES
from tolerances import assert_same

every_kernel = pytest.mark.parametrize(("kernel", "rows"), CASES, ids=lambda value: label(value)[:60])


@every_kernel
def test_symmetric_and_positive_semidefinite(kernel: Kernel, rows: Any):
    K = kernel.fitted(rows)(rows)
    assert K.dtype == torch.float64
    assert_same(K, K.T)
    values = torch.linalg.eigvalsh(K)
    assert kernel.positive_semidefinite
    assert values[0] >= -1e-10 * values[-1]


@every_kernel
def test_diagonal_is_that_of_the_matrix(kernel: Kernel, rows: Any):
    kernel = kernel.fitted(rows)
    assert_same(kernel.diag(rows), kernel(rows).diagonal())


@every_kernel
def test_blocks_equal_the_whole(kernel: Kernel, rows: Any, monkeypatch):
    kernel = kernel.fitted(rows)
    whole, block = kernel(rows, rows[:9]), kernel.against(rows[:9])
    parts = [block(rows[i : i + 7]) for i in range(0, len(rows), 7)]
    assert_same(torch.cat(parts), whole)
    monkeypatch.setattr(krepes.kernels.kernel, "BLOCK_BYTES", 1000)
    assert_same(kernel(rows, rows[:9]), whole)


@every_kernel
def test_arguments_are_not_changed_and_results_are(kernel: Kernel, rows: Any):
    kept = copy.deepcopy(rows)
    kernel = kernel.fitted(rows)
    block = kernel.against(rows[:9])
    before = block(rows).clone()
    block(rows).zero_(), kernel.diag(rows).zero_()
    assert torch.equal(block(rows), before)
    assert str(kept) == str(rows)


@every_kernel
def test_float32_agrees_with_float64(kernel: Kernel, rows: Any):
    if not isinstance(rows, torch.Tensor):
        pytest.skip("lists are computed in double precision")
    kernel, single = kernel.fitted(rows), rows.float()
    K = kernel(single, single[:9])
    assert K.dtype == kernel.diag(single).dtype == torch.float32
    assert_same(K, kernel(single.double(), single[:9].double()))


@every_kernel
def test_parameters_make_the_round_trip(kernel: Kernel, rows: Any):
    again = clone(kernel)
    assert again is not kernel
    assert label(again) == label(kernel)
    again.set_params(**kernel.get_params())
    assert_same(again.fitted(rows)(rows), kernel.fitted(rows)(rows))


@every_kernel
def test_fitted_is_a_copy_with_numbers(kernel: Kernel, rows: Any):
    before, state = label(kernel), torch.get_rng_state()
    fitted = kernel.fitted(rows, torch.Generator().manual_seed(1))
    assert label(kernel) == before
    assert label(fitted.fitted(rows[:9])) == label(fitted)
    assert label(kernel.fitted(rows, torch.Generator().manual_seed(1))) == label(fitted)
    kernel.fitted(rows)
    assert torch.equal(torch.get_rng_state(), state)


@every_kernel
def test_state_makes_the_round_trip_through_a_file(kernel: Kernel, rows: Any):
    if any(isinstance(part, Custom) for part in kernel.get_params().values()):
        pytest.skip("a function is asked for again when a model is loaded")
    fitted, tensors = kernel.fitted(rows), {}
    restored = unpack(json.loads(json.dumps(pack(fitted, "kernel", tensors))), tensors)
    assert digest(restored) == digest(fitted)
    assert_same(restored(rows), fitted(rows))


@every_kernel
def test_threads_change_nothing(kernel: Kernel, rows: Any):
    fitted, before = kernel.fitted(rows), torch.get_num_threads()
    one = fitted(rows)
    try:
        torch.set_num_threads(3)
        assert_same(fitted(rows), one)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_numpy_rows_are_taken_too():
    for kernel, rows in CASES:
        if isinstance(rows, torch.Tensor):
            fitted = kernel.fitted(rows)
            assert_same(fitted(np.asarray(rows)), fitted(rows))
