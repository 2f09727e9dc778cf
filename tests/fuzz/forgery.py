"""Model files, damaged by chance or forged with a right checksum, and what loading them may do.

    damaged     bytes flipped, cut, moved, mixed with another file     refused, or the model that was saved
    forged      entries and tensors changed, the checksum made anew    refused, or a model with finite numbers

"Refused" is a clear ValueError. In no case may a file or folder appear. File number i of a seed is always the same.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.cases import Failure, Report
from fuzz.forged_states import Content, forge
from fuzz.outcome import ChangedError, LostError, Outcome, check_same, judged
from fuzz.sample_models import Saved, outputs, saved_models
from krepes import KernelEmbedding, load
from krepes.machines.novelty.calibration import NoveltySolution


def flip(data: bytearray, rng: np.random.Generator, other: bytes) -> None:
    """One bit."""
    data[_place(data, rng)] ^= 1 << int(rng.integers(8))


def overwrite(data: bytearray, rng: np.random.Generator, other: bytes) -> None:
    """A few bytes by others."""
    place = _place(data, rng)
    data[place : place + 4] = rng.bytes(len(data[place : place + 4]))


def zero(data: bytearray, rng: np.random.Generator, other: bytes) -> None:
    """A stretch by zeros, as after a crash of a file system."""
    place = _place(data, rng)
    data[place : place + 512] = bytes(len(data[place : place + 512]))


def cut(data: bytearray, rng: np.random.Generator, other: bytes) -> None:
    """The end is missing."""
    del data[_place(data, rng) :]


def remove(data: bytearray, rng: np.random.Generator, other: bytes) -> None:
    """A stretch is missing."""
    place = _place(data, rng)
    del data[place : place + int(rng.integers(1, 64))]


def repeat(data: bytearray, rng: np.random.Generator, other: bytes) -> None:
    """A stretch is there twice."""
    place = _place(data, rng)
    data[place:place] = data[place : place + int(rng.integers(1, 64))]


def append(data: bytearray, rng: np.random.Generator, other: bytes) -> None:
    """More bytes than there should be."""
    data += rng.bytes(int(rng.integers(1, 64)))


def swap(data: bytearray, rng: np.random.Generator, other: bytes) -> None:
    """Two stretches change places."""
    a, b = (_place(data, rng) for _ in range(2))
    data[a : a + 16], data[b : b + 16] = data[b : b + 16], data[a : a + 16]


def splice(data: bytearray, rng: np.random.Generator, other: bytes) -> None:
    """It begins as one file and ends as another."""
    place = int(rng.integers(1, min(len(data), len(other))))
    data[place:] = other[place:]


def lie(data: bytearray, rng: np.random.Generator, other: bytes) -> None:
    """The header says that it is longer or shorter than it is."""
    size = int.from_bytes(data[:8], "little")
    lengths = [0, size - 1, size + 1, size + 8, 2 * size, 2**31, 2**63, 2**64 - 1]
    data[:8] = (lengths[int(rng.integers(len(lengths)))] % 2**64).to_bytes(8, "little")


DAMAGES = (flip, overwrite, zero, cut, remove, repeat, append, swap, splice, lie)


def _place(data: bytearray, rng: np.random.Generator) -> int:
    """A position, half of the time in the header, where most of the meaning is."""
    if not data:
        return 0
    header = min(len(data), 8 + int.from_bytes(data[:8], "little"))
    return int(rng.integers(header if rng.random() < 0.5 else len(data)))


class Sample:
    """File number `index` of a seed: its bytes, and how it was made."""

    def __init__(self, seed: int, index: int):
        rng = np.random.default_rng([seed, index])
        models = saved_models()
        self.model: Saved = models[int(rng.integers(len(models)))]
        self.damaged = bool(rng.random() < 0.4)
        self.steps: list[str] = []
        self.loaded = False  # whether `load` took it
        if self.damaged:
            data = bytearray(self.model.data)
            other = models[int(rng.integers(len(models)))].data
            for _ in range(1 if rng.random() < 0.8 else 2):
                change = DAMAGES[int(rng.integers(len(DAMAGES)))]
                self.steps.append(change.__name__)
                if data:
                    change(data, rng, other)
            self.data = bytes(data)
        else:
            content = Content.read(self.model.data)
            for _ in range(1 if rng.random() < 0.75 else 2):
                self.steps.append(forge(content, rng))
            self.data = content.written()

    def __str__(self) -> str:
        kind = "damaged" if self.damaged else "forged"
        return f"{self.model.name}, {kind}: {'; '.join(self.steps)}"


def opened(sample: Sample, path: Path) -> Any:
    """Load a file and use the model in every way that reads its numbers."""
    path.write_bytes(sample.data)
    before = sorted(os.listdir(path.parent))
    try:
        model = load(path, kernel=sample.model.kernel)
        sample.loaded = True
        Z = outputs(model, sample.model.X)
        if sample.damaged:
            check_same(Z, sample.model.Z, "a damaged file that loads")
        elif Z.ndim > 2 or len(Z) != len(sample.model.Z):
            raise ChangedError(f"the forged model gives an array of shape {Z.shape}")
        if not isinstance(model, KernelEmbedding):
            solved = None if model.total_ is None else model._solve(model.total_)
            detects = isinstance(solved, NoveltySolution)
            found = list(vars(solved.score).values()) if detects else getattr(solved, "A", None)
            return Z, found, repr(model)
        narrow = model.refit(n_components=1).coefficients_ if model.total_ is not None else None
        return Z, model.coverage(sample.model.X), narrow, repr(model)
    finally:
        after = sorted(os.listdir(path.parent))
        if after != before:
            raise LostError(f"loading has changed the folder: {set(after) ^ set(before)}")


def judged_file(seed: int, index: int, folder: Path) -> tuple[Outcome, Sample]:
    """How loading and using file number `index` ends; `load` itself may raise a ValueError and nothing else."""
    sample = Sample(seed, index)
    outcome = judged(lambda: opened(sample, folder / "model.krepes"))
    if outcome.verdict == "clear" and not sample.loaded and not outcome.text.startswith("ValueError"):
        outcome = Outcome("unclear", f"expected a ValueError; got {outcome.text}", outcome.place)
    return outcome, sample


@contextmanager
def own_folder() -> Iterator[Path]:
    """An empty folder to work in, so that files with relative names would show."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        yield Path(name)


def run_files(seed: int, indices: range) -> Report:
    """Load many files."""
    report, start = Report(), time.perf_counter()
    with own_folder() as folder:
        for index in indices:
            outcome, sample = judged_file(seed, index, folder)
            report.counts[outcome.verdict] += 1
            if outcome.verdict == "clear":
                report.messages[f"file: {outcome.text[:200]}"] += 1
            if outcome.failed:
                _add_failure(report, outcome, f"    file {index} of seed {seed}: {sample}")
    report.seconds = time.perf_counter() - start
    return report


def _add_failure(report: Report, outcome: Outcome, example: str) -> None:
    """Count a failure; of those alike, the example is the one that was made in fewest steps."""
    known = report.failures.setdefault(outcome.place, Failure("files", outcome, example, 0))
    known.count += 1
    if example.count(";") < known.example.count(";"):
        known.outcome, known.example = outcome, example
