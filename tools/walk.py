"""The walk of one row, printed as JSON: which files of krepes a fit enters, and how often it crosses between them.

    PYTHONPATH=src python tools/walk.py embedding|ridge

`embedding` fits KernelEmbedding to a Parquet table, `ridge` KernelRidgeClassifier to a frame. A crossing is a call from
one file of krepes into another; it is `between` rooms if their folders differ. A warm-up fit imports everything first.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import krepes
from krepes import KernelEmbedding
from krepes.machines import KernelRidgeClassifier

ROOT = str(Path(krepes.__file__).parent) + "/"
KERNEL_VALUES = ("__call__", "checked", "against_rows")  # methods of a kernel that compute
ROWS = 4000


class Walk:
    """Counts of one call, to its end and to the first kernel value."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.edges: set[tuple[str, str]] = set()
        self.crossings = self.between = self.opened = self.resolved = 0
        self.first_value: dict[str, int] | None = None

    def counts(self) -> dict[str, int]:
        numbers = {"files": len(self.files), "crossings": self.crossings, "distinct": len(self.edges)}
        return numbers | {"between": self.between}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        here, name = file_of(frame), frame.f_code.co_name
        if here is None or name.startswith("<"):
            return
        self.opened += name == "_open_path"
        self.resolved += name == "as_loss"
        if here not in self.files:
            self.files.append(here)
        there = caller_of(frame)
        if there is not None and there != here:
            self.crossings += 1
            self.edges.add((there, here))
            self.between += room(there) != room(here)
        if self.first_value is None and here.startswith("kernels") and name in KERNEL_VALUES:
            self.first_value = self.counts()


def file_of(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    return name[len(ROOT) :] if name.startswith(ROOT) else None


def caller_of(frame: FrameType) -> str | None:
    """The nearest file of krepes that called."""
    back = frame.f_back
    while back is not None and file_of(back) is None:
        back = back.f_back
    return None if back is None else file_of(back)


def room(file: str) -> str:
    return file.split("/")[0]


def table() -> pa.Table:
    """A table like those that people have: numbers and categories."""
    rng = np.random.default_rng(0)
    numbers = {f"number {i}": rng.normal(size=ROWS) for i in range(6)}
    words = {f"category {i}": rng.choice(list("abcdef"), ROWS) for i in range(8)}
    return pa.table(numbers | words | {"label": rng.choice(["no", "yes"], ROWS)})


def set_from_elsewhere(cls: type) -> set[str]:
    """Names of attributes that code of krepes outside the class's own files sets on a model; filled while it runs."""
    own = {
        Path(sys.modules[c.__module__].__file__ or "").as_posix()
        for c in cls.__mro__
        if "krepes" in c.__module__
    }
    found: set[str] = set()

    def noted(self: object, name: str, value: object) -> None:
        caller = sys._getframe(1).f_code.co_filename
        if caller.startswith(ROOT) and caller not in own:
            found.add(name)
        object.__setattr__(self, name, value)

    cls.__setattr__ = noted  # type: ignore[assignment,method-assign]
    return found


def walked(fit: Any, cls: type) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    fit()
    walk, outside = Walk(), set_from_elsewhere(cls)
    sys.setprofile(walk)
    fit()
    sys.setprofile(None)
    counts = walk.counts() | {"opened": walk.opened, "resolved": walk.resolved, "outside": sorted(outside)}
    return counts | {"first_value": walk.first_value, "names": walk.files}


def main() -> None:
    if sys.argv[1] == "embedding":
        path = Path(tempfile.mkdtemp()) / "table.parquet"
        pq.write_table(table(), path)
        model = KernelEmbedding(8, n_landmarks=300, random_state=0)
        print(json.dumps(walked(lambda: model.fit(path), KernelEmbedding)))
    else:
        frame = table()
        machine = KernelRidgeClassifier(n_landmarks=300, random_state=0)
        print(json.dumps(walked(lambda: machine.fit(frame, "label"), KernelRidgeClassifier)))


if __name__ == "__main__":
    main()
