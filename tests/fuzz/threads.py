"""Many threads that use one model at once: every estimator, every kernel, loaded models too.

A call is right if it gives the bits that the same call gave alone.
"""

from __future__ import annotations

import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import sample_objects
import structured_kernels
from fuzz.cases import Failure, Report
from fuzz.outcome import Outcome
from krepes import KernelAutoencoder, KernelEmbedding, load
from krepes.base.components import named
from krepes.explain import attribution, explain
from krepes.kernels import EmpiricalNTK, Kernel, Patches
from krepes.machines import (
    Cells,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.networks import MLP

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(40, 6))
LABELS = np.arange(40) % 2
FEW = {"n_landmarks": 12, "random_state": 0}
THREADS = 8
METHODS = ("transform", "predict", "predict_proba", "predict_set", "score_samples", "p_values", "coverage")


@dataclass(frozen=True)
class Case:
    """A model, rows, and calls that may be made at once."""

    name: str
    model: Any
    X: Any

    def calls(self) -> dict[str, Callable[[], Any]]:
        found = {m: partial(getattr(self.model, m), self.X) for m in METHODS if hasattr(self.model, m)}
        if isinstance(self.model, KernelEmbedding):
            found["explain"] = partial(explain, self.model, self.X)
            found["attribution"] = partial(attribution, self.model, self.X, 0)
        return found


class Remembering(nn.Module):
    """A network that keeps what it computes on itself, as many do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        self.hidden = torch.tanh(self.first(X))
        self.hidden = self.hidden * 2
        return self.last(self.hidden)


def seeded(module: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return module().eval()


def tangent_kernels() -> dict[str, Kernel]:
    deep = seeded(lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 4)))
    networks = {"deep": deep, "remembering": seeded(Remembering), "MLP": MLP(widths=(8,))}
    methods = ("factored", "sketch", "full")
    return {
        f"tangent {name} {method}": EmpiricalNTK(network, method=method, sketch_size=64, seed=0)
        for name, network in networks.items()
        for method in methods
    }


PICTURES = np.random.default_rng(1).random((40, 8, 8))


def kernels() -> Iterator[tuple[str, Kernel, Any]]:
    """Every named kernel on vectors, and the samples of structured ones and of objects."""
    for name, cls in named(Kernel).items():
        if not cls.only_objects and cls is not EmpiricalNTK:
            yield (name, Patches(6), PICTURES) if cls is Patches else (name, cls(), VECTORS)
    for name, kernel in tangent_kernels().items():
        yield name, kernel, VECTORS
    for i, (kernel, rows) in enumerate(structured_kernels.CASES):
        yield f"{type(kernel).__name__} {i}", kernel, rows
    for i, (kernel, make) in enumerate(sample_objects.CASES):
        yield f"{type(kernel).__name__} {i}", kernel, make(40)


@cache
def estimators() -> dict[str, Any]:
    return {
        "embedding": KernelEmbedding(3, **FEW).fit(VECTORS),
        "trained": KernelEmbedding(3, loss="byol", **FEW).fit(VECTORS),
        "autoencoder": KernelAutoencoder(3, **FEW).fit(VECTORS),
        "ridge classifier": KernelRidgeClassifier(**FEW).fit(VECTORS, LABELS),
        "ridge regressor": KernelRidgeRegressor(**FEW).fit(VECTORS, VECTORS[:, 0]),
        "ridge regressor in cells": KernelRidgeRegressor(local=Cells(size=10), random_state=0).fit(
            VECTORS, VECTORS[:, 0]
        ),
        "process classifier": GaussianProcessClassifier(**FEW).fit(VECTORS, LABELS),
        "process regressor": GaussianProcessRegressor(**FEW).fit(VECTORS, VECTORS[:, 0]),
        "detector": NoveltyDetector(false_alarm_rate=0.2, **FEW).fit(VECTORS),
    }


def with_kernel(name: str, kernel: Kernel, X: Any) -> Case:
    return Case(name, KernelEmbedding(3, loss="kernel_pca", kernel=kernel, **FEW).fit(X), X)


def cases() -> Iterator[Case]:
    """All of them, one after another."""
    yield from (Case(name, model, VECTORS) for name, model in estimators().items())
    yield from (with_kernel(*found) for found in kernels())


def run_threads(calls: int) -> Report:
    """Every case and its loaded twin, with this number of calls in each of the threads."""
    report, start = Report(), time.perf_counter()
    warnings.simplefilter("ignore")
    for case in cases():
        for case_or_loaded, twin in ((case, None), loaded_again(case)):
            wrong = disagreements(case_or_loaded, calls, twin)
            report.counts["result"] += THREADS * calls - len(wrong)
            report.counts["changed"] += len(wrong)
            if wrong:
                outcome = Outcome("changed", wrong[0], case_or_loaded.name)
                failure = Failure("threads", outcome, "\n".join(sorted(set(wrong))[:5]), len(wrong))
                report.failures[case_or_loaded.name] = failure
    report.seconds = time.perf_counter() - start
    return report


def loaded_again(case: Case) -> tuple[Case, Case]:
    """The case twice with its model as a file has it: what is made at the first use is not made yet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.krepes"
        case.model.save(path)
        kernel = _given_again(case.model.kernel)
        one, other = (Case(f"{case.name}, loaded", load(path, kernel=kernel), case.X) for _ in range(2))
    return one, other


def _given_again(kernel: object) -> object:
    """What a file cannot hold of a kernel: a module or a function."""
    if isinstance(kernel, EmpiricalNTK) and isinstance(kernel.network, nn.Module):
        return kernel
    return structured_kernels.letters_in_common if "letters_in_common" in repr(kernel) else None


def disagreements(case: Case, calls: int, twin: Case | None = None) -> list[str]:
    """What went wrong when THREADS threads made a number of calls each, all at once; `twin` says what is right."""
    alone = {name: call() for name, call in (twin or case).calls().items()}
    made, found = case.calls(), []
    start = threading.Barrier(THREADS)

    def work(shift: int) -> None:
        start.wait()
        names = list(made)
        for i in range(calls):
            name = names[(i + shift) % len(names)]
            try:
                wrong = "" if same(made[name](), alone[name]) else "other numbers"
            except Exception as error:
                wrong = repr(error)
            if wrong:
                found.append(f"{case.name}: {name}: {wrong}")

    workers = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def same(given: Any, expected: Any) -> bool:
    """Whether two results are alike in every number."""
    if isinstance(expected, np.ndarray | torch.Tensor):
        left, right = np.asarray(given), np.asarray(expected)
        return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if hasattr(expected, "__dataclass_fields__"):
        return all(same(getattr(given, n), getattr(expected, n)) for n in expected.__dataclass_fields__)
    if isinstance(expected, list | tuple):
        return len(given) == len(expected) and all(map(same, given, expected))
    return bool(given == expected)
