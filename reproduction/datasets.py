"""The data of the ablations, from a folder that the user names.

adult        adult.parquet              columns, `income`, `split` (train or test)
covertype    covtype.npz                X (n, 54), y; a tenth of the rows, drawn once, is for testing
higgs        higgs*.npz                 X (n, 28), y; likewise
cifar10      cifar10_train*.npz, cifar10_test*.npz      X (n, 32, 32, 3) uint8, y
mnist        mnist.npz                  X (n, 28, 28) uint8, y, n_train
scenes       intel_scenes*.npz          X (n, 32, 32, 3) uint8, y, is_test; its test part, half of it for training
ionosphere   ionosphere.npz             X (n, 34), y; one table, `ionosphere`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.published_tables import Size

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class DataSplit:
    """Rows for training, for a probe and for testing, in a form that KernelEmbedding takes."""

    train: Any
    labelled: Any
    y_labelled: np.ndarray
    test: Any
    y_test: np.ndarray


def load_split(dataset: str, folder: Path, size: Size, seed: int = 0) -> DataSplit:
    """At most `size.rows` training rows, `size.labels` labelled ones and `size.test_rows` for testing.

    Labelled rows come from the training part, from the rows that are trained on first.
    """
    (X, y), (X_test, y_test) = LOADERS[dataset](folder)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(y))
    trained = np.sort(order[: size.rows])
    tested = np.sort(generator.permutation(len(y_test))[: size.test_rows])
    n_labels = max(20, len(trained) // 10) if size.labels is None else size.labels
    shuffled = trained[np.random.default_rng(seed).permutation(len(trained))]
    labelled = np.concatenate([shuffled, order[size.rows :]])[:n_labels]
    return DataSplit(
        rows_of(X, trained), rows_of(X, labelled), y[labelled], rows_of(X_test, tested), y_test[tested]
    )


def rows_of(X: Any, rows: np.ndarray) -> pd.DataFrame | np.ndarray:
    """Rows of a frame or an array."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


Parts = tuple[tuple[Any, np.ndarray], tuple[Any, np.ndarray]]


def _adult(folder: Path) -> Parts:
    import pyarrow.parquet as pq

    frame = pq.read_table(_found(folder, "adult.parquet")).to_pandas()
    test = (frame["split"] == "test").to_numpy()
    y = frame["income"].to_numpy()
    X = frame.drop(columns=["income", "split"])
    return (X[~test], y[~test]), (X[test], y[test])


def _covertype(folder: Path) -> Parts:
    return _parts_of_table(_found(folder, "covtype.npz"))


def _higgs(folder: Path) -> Parts:
    return _parts_of_table(_found(folder, "higgs*.npz"))


def _parts_of_table(path: Path) -> Parts:
    """A tenth of the rows, drawn once, for testing."""
    import pandas as pd

    X, y = _arrays(path, "X", "y")
    test = np.random.default_rng(0).random(len(y)) < 0.1
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    return (frame[~test], y[~test]), (frame[test], y[test])


def _cifar10(folder: Path) -> Parts:
    train, test = (_arrays(_found(folder, f"cifar10_{part}*.npz"), "X", "y") for part in ("train", "test"))
    return (train[0], train[1]), (test[0], test[1])


def _mnist(folder: Path) -> Parts:
    X, y, n = _arrays(_found(folder, "mnist.npz"), "X", "y", "n_train")
    return (X[: int(n)], y[: int(n)]), (X[int(n) :], y[int(n) :])


def _scenes(folder: Path) -> Parts:
    """The part in which all classes are, cut in two halves, drawn once."""
    X, y, whole = _arrays(_found(folder, "intel_scenes*.npz"), "X", "y", "is_test")
    X, y = X[whole], y[whole]
    test = np.random.default_rng(0).permutation(len(y)) < len(y) // 2
    return (X[~test], y[~test]), (X[test], y[test])


def ionosphere(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """All rows and their classes: this table has no parts of its own."""
    X, y = _arrays(_found(folder, "ionosphere.npz"), "X", "y")
    return X.astype(float), y


LOADERS: dict[str, Callable[[Path], Parts]] = {
    "adult": _adult,
    "covertype": _covertype,
    "higgs": _higgs,
    "cifar10": _cifar10,
    "mnist": _mnist,
    "scenes": _scenes,
}


def _found(folder: Path, pattern: str) -> Path:
    matches = sorted(folder.glob(pattern))
    if not matches:
        raise FileNotFoundError(
            f"There is no {pattern} in {folder}. docs/reproduction.md lists the files that it must contain."
        )
    return matches[0]


def _arrays(path: Path, *names: str) -> list[np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        missing = [name for name in names if name not in file]
        if missing:
            raise ValueError(f"{path} has no array {', '.join(missing)}; it has {', '.join(file.files)}.")
        return [file[name] for name in names]
