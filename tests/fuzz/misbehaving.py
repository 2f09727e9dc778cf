"""Loaders, datasets and views that misbehave: shapes that change, views that write, generators that run away.

A case is data of one form, with one fault or none, and views of one kind. It may end with finite numbers or with a
clear error; the caller's rows stay as they were, and a fit that is repeated gives the same numbers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from fuzz.cases import Failure, Report
from fuzz.outcome import ChangedError, check_same, judged
from krepes import KernelEmbedding
from krepes.sources import Batches, open_source
from krepes.views import Chain, Colour, Image, PerRow, Tabular, Views

N, BATCH = 24, 7
VECTORS = np.random.default_rng(0).random((N, 12))
IMAGES = VECTORS.reshape(N, 2, 2, 3)
GLOBAL = np.random  # the generator that transforms draw from

Fault = Callable[[Any, int, int], Any]  # a value, its position and the number of the pass

FAULTS: dict[str, Fault] = {
    "none": lambda x, i, turn: x,
    "other shape": lambda x, i, turn: x[..., :1] if i == 2 else x,
    "other dtype": lambda x, i, turn: x.int() if i == 2 else x,
    "other type": lambda x, i, turn: "text" if i == 2 else x,
    "nothing": lambda x, i, turn: None if i == 1 else x,
    "NaN": lambda x, i, turn: x * float("nan") if i == 1 else x,
    "infinite": lambda x, i, turn: x / 0,
    "huge": lambda x, i, turn: x * 1e300,
    "empty": lambda x, i, turn: x[:0],
    "scalar": lambda x, i, turn: x.sum(),
    "random": lambda x, i, turn: x + torch.rand(1),
    "other pass": lambda x, i, turn: x + (turn > 0),
    "with gradients": lambda x, i, turn: x.clone().requires_grad_(),
    "error": lambda x, i, turn: _fail() if i == 2 else x,
    "complex": lambda x, i, turn: x + 1j,
    "in place": lambda x, i, turn: x.mul_(0.5),
}
FORMS: dict[str, Callable[[Any, Any, int], Any]] = {
    "x": lambda x, other, i: x,
    "(x,)": lambda x, other, i: (x,),
    "(x, y)": lambda x, other, i: (x, i % 2),
    "(x1, x2)": lambda x, other, i: (x, other),
    "(x1, x2, y)": lambda x, other, i: (x, other, i % 2),
    "((x1, x2), y)": lambda x, other, i: ((x, other), i % 2),
    "([x1, x2, x3], y, name)": lambda x, other, i: ([x, other, x], i, f"{i}.png"),
    "dictionary": lambda x, other, i: {"x": x, "y": i % 2},
    "dictionary of two": lambda x, other, i: {"a": x, "b": other, "y": i},
    "dictionary of a list": lambda x, other, i: {"views": [x, other]},
    "(y, x)": lambda x, other, i: (i % 2, x),
    "()": lambda x, other, i: (),
}
KEYS = (None, None, None, 0, 1, "x", (0, 1), ("a", "b"), (0, 7), "z", (0, 1, 0))


def _fail() -> Any:
    raise ValueError("This item of the dataset cannot be read at all.")


class Faulty(Dataset):
    """Samples of one form with one fault; how often an item was read is its pass."""

    def __init__(self, X: np.ndarray, form: str, fault: str):
        self.X, self.form, self.fault, self.reads = X, FORMS[form], FAULTS[fault], [0] * N

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> Any:
        self.reads[i] += 1
        x = self.fault(torch.from_numpy(self.X[i].copy()), i, self.reads[i] - 1)
        return self.form(x, torch.from_numpy(self.X[i] * 0.9), i)


def _made(dataset: Faulty, way: str, key: Any) -> Any:
    """A dataset as people give it."""
    if way == "dataset":
        return dataset if key is None else open_source(dataset, key=key)
    if way == "tensors":
        return TensorDataset(torch.from_numpy(dataset.X), torch.from_numpy(dataset.X * 0.9))
    if way == "function":
        return Batches(lambda: _batches(dataset), key=key)
    collate = (lambda samples: samples) if way == "own collate" else None
    loader = DataLoader(
        dataset, BATCH, shuffle=way == "shuffled", drop_last=way == "drop", collate_fn=collate
    )
    if way in ("spooled", "shuffled and spooled"):
        loader = DataLoader(dataset, BATCH, shuffle=way != "spooled")
        return Batches(loader, key=key, spool=True)
    return loader if key is None else open_source(loader, key=key)


WAYS = ("dataset", "loader", "loader", "shuffled", "drop", "own collate", "spooled", "shuffled and spooled")
WAYS += ("function", "tensors")


def _batches(dataset: Faulty) -> Iterator[Any]:
    for start in range(0, N, BATCH):
        x = dataset.fault(torch.from_numpy(dataset.X[start : start + BATCH].copy()), start // BATCH, 0)
        yield dataset.form(x, torch.from_numpy(dataset.X[start : start + BATCH] * 0.9), 0)


class FaultyViews(Views):
    """Views of a block with one fault."""

    def __init__(self, fault: str = "none", n_views: int = 2):
        self.fault = fault
        self.n_views = n_views

    def view(self, X: Any, rows: torch.Tensor, seed: int, index: int) -> Any:
        return FAULTS[self.fault](X, 2, 0)


def _drawing(x: Any) -> Any:
    """Draws from all the global generators."""
    return x * (0.5 + random.random() / 2) + torch.rand(1) + GLOBAL.rand()


VIEWS: dict[str, Callable[[str], Any]] = {
    "automatic": lambda fault: "auto",
    "block": FaultyViews,
    "row": lambda fault: lambda x: FAULTS[fault](x, 2, 0),
    "list": lambda fault: lambda x: [FAULTS[fault](x, 2, 0), x],
    "picture": lambda fault: PerRow(lambda picture: FAULTS["none"](picture, 0, 0), form="pil"),
    "drawing": lambda fault: _drawing,
    "chain": lambda fault: [Tabular(), _drawing, FaultyViews(fault)],
    "photograph": lambda fault: Chain([Image(flip=0.5), Colour()], n_views=3),
    "nothing": lambda fault: [],
    "number": lambda fault: 3,
}
REPEATED = ("automatic", "drawing", "photograph")


def run_misbehaving(n: int, seed: int) -> Report:
    """A number of cases, each drawn from its number and the seed."""
    report, start = Report(), time.perf_counter()
    for number in range(n):
        name, call = _case(np.random.default_rng([seed, number]))
        outcome = judged(call)
        report.counts[outcome.verdict] += 1
        if outcome.verdict == "clear":
            report.messages[outcome.text] += 1
        if outcome.failed and outcome.place in report.failures:
            report.failures[outcome.place].count += 1
        elif outcome.failed:
            report.failures[outcome.place] = Failure("loaders", outcome, name, 1)
    report.seconds = time.perf_counter() - start
    return report


def _case(rng: np.random.Generator) -> tuple[str, Callable[[], Any]]:
    def one_of(choices: Any) -> Any:
        choices = list(choices)
        return choices[rng.integers(len(choices))]

    X = IMAGES if rng.random() < 0.5 else VECTORS
    faulty_views = rng.random() < 0.5
    kind = one_of(VIEWS) if faulty_views else "automatic"
    form = "x" if faulty_views and rng.random() < 0.7 else one_of(FORMS)
    way, key = one_of(WAYS), None if faulty_views else one_of(KEYS)
    fault, loss = one_of(FAULTS), one_of(("spectral_contrastive", "barlow_twins", "byol", "kernel_pca"))
    at_fault = ("none", fault) if faulty_views else (fault, "none")
    views = VIEWS[kind](at_fault[1])

    def fitted() -> np.ndarray:
        settings: dict[str, Any] = {"n_landmarks": 6, "random_state": 0, "views": views, "loss": loss}
        data = _made(Faulty(X, form, at_fault[0]), way, key)
        return KernelEmbedding(2, **settings).fit(data).transform(X)

    def call() -> np.ndarray:
        before, state = X.copy(), torch.get_rng_state()
        try:
            first = fitted()
            if kind in REPEATED and at_fault[0] in ("none", "NaN") and "shuffled" not in way:
                torch.manual_seed(int(rng.integers(1000)))
                check_same(fitted(), first, "the same fit again")
        finally:
            torch.set_rng_state(state)
            if not np.array_equal(X, before):
                X[:] = before
                raise ChangedError(f"the rows of the caller were changed by views {kind!r}")
        return first

    return f"{form} {way} key={key!r} fault={at_fault} views={kind} loss={loss} {X.shape}", call
