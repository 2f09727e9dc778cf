"""Memory that runs out in the middle of a block: no row is counted twice, none is lost, whichever call fails.

Every accumulator that krepes defines is found by discovery. A MemoryError is raised at every line that runs inside a
block, and at every call of torch, one after the other (at every fifth, unless the checks are the long ones); the engine
halves the block and goes on; the result must be that of a pass in which nothing failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

import krepes
import krepes.alignment
from krepes.alignment import SketchedCKA
from krepes.alignment.similarity.cka import StreamedCKA
from krepes.alignment.transfer.one_pass_statistics import TransferStatistics
from krepes.autoencoder.decoder import DecoderSums, Encoder
from krepes.base.accumulator import Accumulator, SumOfValues
from krepes.base.blocks import Block
from krepes.base.components import subclasses
from krepes.base.split import ByFold, Split, by_target
from krepes.base.storage.codec import encode
from krepes.engines.engine import add_halving
from krepes.features import FeatureSpace, MomentPass, PatchMoments
from krepes.kernels import Gaussian, Patches
from krepes.landmarks.nystrom import NystromMap
from krepes.machines.cells.all_rows import KeepAllRows
from krepes.machines.cells.choosing import KeepCells
from krepes.machines.cells.partition import Partition, grown, through_two_rows
from krepes.machines.gaussian_process.laplace import LikelihoodPass
from krepes.machines.gaussian_process.regressor import ProcessPass
from krepes.machines.kept_rows import KeepRows, SumsAndRowsPass
from krepes.machines.kernel_ridge.conjugate_solver import KernelProducts
from krepes.machines.kernel_ridge.solution import RidgePass
from krepes.machines.normal_equations import NormalEquations
from krepes.machines.novelty.calibration import NoveltyPass
from krepes.machines.targets import Classes, Quantities
from krepes.preprocessing.column_scan import TableScan
from krepes.sources.row_sampling import PickedRows
from krepes.views import Paired, Tabular
from refusals import refuses

N = 64
_draws = np.random.default_rng(0)
X, Y, Q = (_draws.normal(size=(N, 3)) for _ in range(3))
LABELS = np.arange(N) % 2
SOURCES = str(Path(krepes.__file__).parent)


def space(views=None, exact: bool = False) -> FeatureSpace:
    found = FeatureSpace.on(Gaussian(2.0), torch.from_numpy(X[:9]))
    if views is None:
        return found
    return replace(found, views=views.fitted(torch.from_numpy(X)), exact_views=exact)


def tensors(*arrays: np.ndarray) -> tuple[torch.Tensor, ...]:
    return tuple(map(torch.from_numpy, arrays))


def decoder_sums() -> DecoderSums:
    """Of rows that are encoded as points of a circle."""
    encoder = Encoder(space(), torch.from_numpy(X[:9, :2]))
    return DecoderSums(encoder, NystromMap(Gaussian(1.0), encoder(torch.from_numpy(X[:9])), torch.float64))


def halves() -> Partition:
    return grown(torch.from_numpy(X), N // 2, through_two_rows, torch.Generator().manual_seed(0))


WEIGHT = np.linspace(0.5, 2.0, N)
PICTURES = torch.rand(N, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
CLASSES = Classes(np.array([0, 1]))
CASES: dict[str, tuple[Callable[[], Accumulator], Block]] = {
    "moments of rows": (lambda: MomentPass(space()), Block(torch.arange(N), tensors(X))),
    "weighted": (lambda: MomentPass(space()), Block(torch.arange(N), tensors(X), weight=WEIGHT)),
    "views": (lambda: MomentPass(space(Tabular(n_views=3))), Block(torch.arange(N), tensors(X))),
    "exact views": (lambda: MomentPass(space(Tabular(noise=0.2), True)), Block(torch.arange(N), tensors(X))),
    "pairs": (lambda: MomentPass(space(Paired())), Block(torch.arange(N), tensors(X, Y))),
    "triplets": (lambda: MomentPass(space(Paired())), Block(torch.arange(N), tensors(X, Y, Q))),
    "patches": (
        lambda: PatchMoments(Patches(4, precision="double").fitted(PICTURES)),
        Block(torch.arange(N), (PICTURES,)),
    ),
    "split": (
        lambda: Split(MomentPass(space()), by=by_target),
        Block(torch.arange(N), tensors(X), y=LABELS, weight=WEIGHT),
    ),
    "normal equations": (
        lambda: NormalEquations(space(), CLASSES),
        Block(torch.arange(N), tensors(X), y=LABELS, weight=WEIGHT),
    ),
    "kept rows": (lambda: KeepRows(10, 0), Block(torch.arange(N), tensors(X), y=LABELS, weight=WEIGHT % 1.5)),
    "ridge": (
        lambda: RidgePass(space(), CLASSES, n_folds=1, n_kept=10),
        Block(torch.arange(N), tensors(X), y=LABELS),
    ),
    "process": (
        lambda: ProcessPass(space(), Quantities.of(X[:, 0])),
        Block(torch.arange(N), tensors(X), y=X[:, :1]),
    ),
    "all rows": (lambda: KeepAllRows(), Block(torch.arange(N), tensors(X), y=LABELS, weight=WEIGHT % 1.5)),
    "rows of cells": (
        lambda: KeepCells(halves(), torch.tensor([1])),
        Block(torch.arange(N), tensors(X), y=LABELS),
    ),
    "novelty": (
        lambda: NoveltyPass(space(), share=0.4, n_kept=10),
        Block(torch.arange(N), tensors(X), weight=WEIGHT),
    ),
    "kernel products": (
        lambda: KernelProducts(space(), CLASSES, ByFold(3), [0, 1, 2]),
        Block(torch.arange(N), tensors(X), y=LABELS, weight=WEIGHT),
    ),
    "likelihood": (
        lambda: LikelihoodPass(space(), CLASSES, torch.ones(9, 1, dtype=torch.float64)),
        Block(torch.arange(N), tensors(X), y=LABELS, weight=WEIGHT),
    ),
    "decoder": (decoder_sums, Block(torch.arange(N), tensors(X))),
    "decoder of targets": (decoder_sums, Block(torch.arange(N), tensors(X, Y))),
    "streamed CKA": (lambda: StreamedCKA(), Block(torch.arange(N), (X, Y))),
    "sketched CKA": (lambda: SketchedCKA(16, 2), Block(torch.arange(N), (X,))),
    "transfer statistics": (lambda: TransferStatistics(LABELS), Block(torch.arange(N), (X,))),
    "sketched transfer statistics": (
        lambda: TransferStatistics(LABELS, method="sketch", n_buckets=16, n_permutations=3),
        Block(torch.arange(N), (X,)),
    ),
}


def test_every_accumulator_has_a_case():
    abstract = {
        SumOfValues,
        SumsAndRowsPass,
        PickedRows,
        TableScan,
    }  # scans: tests/identities/test_table_scan.py
    known = {type(make()) for make, _ in CASES.values()}
    found = {cls for cls in subclasses(Accumulator) if cls.__module__.startswith("krepes.")} - abstract
    assert found == known


class Fault:
    """Counts events, and raises a MemoryError at one of them, once."""

    def __init__(self, at: int | None):
        self.at, self.count = at, 0

    def event(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise MemoryError("injected")


@contextmanager
def at_lines(fault: Fault) -> Iterator[None]:
    """Events are the lines of krepes that run inside `Accumulator.add`."""

    def local(frame, event, argument):
        if event == "line":
            fault.event()
        return local

    def trace(frame, event, argument):
        inside = frame.f_code.co_filename.startswith(SOURCES) and _within_add(frame)
        return local if inside else None

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def _within_add(frame) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "add" and frame.f_code.co_filename.endswith("accumulator.py"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def at_torch_calls(fault: Fault) -> Iterator[None]:
    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if _within_add(sys._getframe()):
                fault.event()
            return function(*args, **(kwargs or {}))

    with Mode():
        yield


def result_of(case: str, inject, at: int | None) -> tuple[Accumulator, int]:
    """The accumulator after two blocks, the second with a fault, and how many events that had."""
    make, block = CASES[case]
    accumulator, fault = make(), Fault(at)
    add_halving(accumulator, block[:24])
    with inject(fault):
        add_halving(accumulator, block[24:])
    return accumulator, fault.count


def numbers(value) -> Iterator[np.ndarray]:
    """All numbers in a value."""
    value = encode(value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part)
    elif value is not None and not isinstance(value, str):
        yield np.asarray(value, dtype=np.float64)


@pytest.mark.parametrize("inject", [at_lines, at_torch_calls], ids=["lines", "calls of torch"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.full)])
def test_no_row_is_counted_twice(case, inject, every):
    whole, events = result_of(case, inject, None)
    expected = list(numbers(whole.result()))
    if inject is at_lines:
        assert events > 5
    for at in range(1, events + 1, every):
        found, _ = result_of(case, inject, at)
        state = list(numbers(found.result()))
        assert found.result().n == whole.result().n
        for mine, theirs in zip(state, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9, err_msg=f"fault at event {at}")


@pytest.mark.parametrize("case", CASES)
def test_a_block_that_fails_for_good_adds_nothing(case):
    """After an error that halving does not cure, the sums are those before the block."""
    make, block = CASES[case]
    accumulator = make()
    accumulator.add(block[:24])
    before = list(numbers(accumulator.result()))
    original = accumulator.plus
    accumulator.plus = lambda sums, block: (original(sums, block), 1 / 0)[0]
    with pytest.raises(ZeroDivisionError):
        accumulator.add(block[24:])
    assert all(np.array_equal(a, b) for a, b in zip(numbers(accumulator.result()), before))


@pytest.mark.parametrize("case", CASES)
def test_parts_merge_and_states_restore(case):
    """Two halves merged, and a state restored in the middle, equal one pass."""
    make, block = CASES[case]
    whole, first, second = make(), make(), make()
    for part in block.blocks(16):
        whole.add(part)
    first.add(block[:32])
    second.restore(first.state())
    for accumulator in (first, second):
        other = accumulator.empty()
        other.add(block[32:])
        accumulator.merge(other)
        for mine, theirs in zip(numbers(accumulator.result()), numbers(whole.result())):
            if mine.shape == theirs.shape and case not in ("streamed CKA", "transfer statistics"):
                np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)
        assert accumulator.result().n == whole.result().n
        if hasattr(accumulator, "score") and case != "sketched CKA":
            mine, theirs = accumulator.score(), whole.score()
            assert getattr(mine, "cka", mine) == pytest.approx(getattr(theirs, "cka", theirs), rel=1e-9)


class InPlace(MomentPass):
    """An accumulator as it must not be: part of a block is added before all of it is computed."""

    def plus(self, sums, block):
        sums.sum_1.add_(self.features(block.inputs[0]).sum(0))
        return super().plus(sums, block)


def test_the_injection_finds_an_accumulator_that_adds_in_place(monkeypatch):
    monkeypatch.setitem(CASES, "in place", (lambda: InPlace(space()), CASES["moments of rows"][1]))
    with refuses(AssertionError, "fault", "event"):
        test_no_row_is_counted_twice("in place", at_lines, every=1)
