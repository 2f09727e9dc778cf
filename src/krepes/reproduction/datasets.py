"""The data of the ablations, from a folder that the user names.

adult        adult.parquet              columns, `income`, `split` (train or test)
covertype    covtype.npz                X (n, 54), y; a tenth of the rows, drawn once, is for testing
cifar10      cifar10_train*.npz, cifar10_test*.npz      X (n, 32, 32, 3) uint8, y
mnist        mnist.npz                  X (n, 28, 28) uint8, y, n_train
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from krepes.reproduction.cells import Size


@dataclass
class Split:
    """Rows for training and testing, in a form that KernelEmbedding takes, with their labels."""

    train: Any
    y_train: np.ndarray
    test: Any
    y_test: np.ndarray


def load_split(dataset: str, folder: Path, size: Size, seed: int = 0) -> Split:
    """At most `size.rows` training and `size.test_rows` test rows, drawn with a fixed seed."""
    parts = LOADERS[dataset](folder)
    generator = np.random.default_rng(seed)
    kept = []
    for (X, y), limit in zip(parts, (size.rows, size.test_rows)):
        rows = np.sort(generator.permutation(len(y))[:limit])
        kept += [X.iloc[rows] if hasattr(X, "iloc") else X[rows], y[rows]]
    return Split(*kept)


Parts = tuple[tuple[Any, np.ndarray], tuple[Any, np.ndarray]]


def _adult(folder: Path) -> Parts:
    import pyarrow.parquet as pq

    frame = pq.read_table(_found(folder, "adult.parquet")).to_pandas()
    test = (frame["split"] == "test").to_numpy()
    y = frame["income"].to_numpy()
    X = frame.drop(columns=["income", "split"])
    return (X[~test], y[~test]), (X[test], y[test])


def _covertype(folder: Path) -> Parts:
    import pandas as pd

    X, y = _arrays(_found(folder, "covtype.npz"), "X", "y")
    test = np.random.default_rng(0).random(len(y)) < 0.1
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    return (frame[~test], y[~test]), (frame[test], y[test])


def _cifar10(folder: Path) -> Parts:
    train, test = (_arrays(_found(folder, f"cifar10_{part}*.npz"), "X", "y") for part in ("train", "test"))
    return (train[0], train[1]), (test[0], test[1])


def _mnist(folder: Path) -> Parts:
    X, y, n = _arrays(_found(folder, "mnist.npz"), "X", "y", "n_train")
    return (X[: int(n)], y[: int(n)]), (X[int(n) :], y[int(n) :])


LOADERS: dict[str, Callable[[Path], Parts]] = {
    "adult": _adult,
    "covertype": _covertype,
    "cifar10": _cifar10,
    "mnist": _mnist,
}


def _found(folder: Path, pattern: str) -> Path:
    matches = sorted(folder.glob(pattern))
    if not matches:
        raise FileNotFoundError(
            f"There is no {pattern} in {folder}. docs/reproduction.md says what it has to hold."
        )
    return matches[0]


def _arrays(path: Path, *names: str) -> list[np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        missing = [name for name in names if name not in file]
        if missing:
            raise ValueError(f"{path} has no array {', '.join(missing)}; it has {', '.join(file.files)}.")
        return [file[name] for name in names]
