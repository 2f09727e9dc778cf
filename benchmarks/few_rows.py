"""Whether figures that machines report from a few dozen rows are true.

    python benchmarks/few_rows.py [held_out sets intervals drift] [--rows 40] [--draws 20] [--tables FOLDER]

held_out     the accuracy that the ridge classifier reports, against its accuracy on rows kept apart; `excess` in points
sets         coverage of `predict_set(0.9)` on rows kept apart
intervals    coverage of `predict_interval(0.9)` of ridge machine and Gaussian process on a function of three columns
drift        false alarms of `DriftMonitor` at a nominal 5 %; the reference: the model's own rows, or new ones

Data: breast cancer and wine of scikit-learn, noise (labels drawn at random, or half of each class), and every .parquet
file in FOLDER, whose last column is the class. Of noise, no folds can know that its larger class is larger by chance: a
constant, the larger class, has the same excess (5.4 points with 40 rows). "beyond a constant's" is what is left of it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine

from krepes import KernelEmbedding
from krepes.machines import GaussianProcessRegressor, KernelRidgeClassifier, KernelRidgeRegressor
from krepes.streams import DriftMonitor

TESTED = 1000
Split = tuple[object, np.ndarray, object, np.ndarray]


def splits(name: str, X: pd.DataFrame, y: np.ndarray, n: int, draws: int) -> Iterator[Split]:
    """Rows to learn from and rows kept apart."""
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(y))
        first, rest = order[:n], order[n : n + TESTED]
        if len(np.unique(y[first])) > 1:
            known = np.isin(y[rest], y[first])
            yield X.iloc[first], y[first], X.iloc[rest[known]], y[rest[known]]


def noises(n: int, draws: int, balanced: bool) -> Iterator[Split]:
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X, labels = rng.normal(size=(n + TESTED, 10)), rng.integers(0, 2, n + TESTED)
        if balanced:
            labels[:n] = np.arange(n) % 2
        yield X[:n], labels[:n], X[n:], labels[n:]


def problems(n: int, draws: int, folder: Path | None) -> Iterator[tuple[str, Iterator[Split]]]:
    for name, load in (("breast cancer", load_breast_cancer), ("wine", load_wine)):
        X, y = load(return_X_y=True, as_frame=True)
        yield name, splits(name, X, y.to_numpy(), n, draws)
    for path in sorted(folder.glob("*.parquet")) if folder else ():
        table = pd.read_parquet(path)
        codes = pd.factorize(table.iloc[:, -1])[0]
        yield path.stem, splits(path.stem, table.iloc[:, :-1], codes, n, draws)
    yield "noise", noises(n, draws, False)
    yield "noise, balanced", noises(n, draws, True)


def show(name: str, figures: dict[str, list[float]]) -> None:
    """Means over draws, with their standard errors."""
    cells = [
        f"{label} {np.mean(values):.3f} ± {np.std(values) / max(len(values) - 1, 1) ** 0.5:.3f}"
        for label, values in figures.items()
    ]
    print(f"{name:<24} {len(next(iter(figures.values()))):>4} draws   {'   '.join(cells)}", flush=True)


def held_out(n: int, draws: int, folder: Path | None) -> None:
    for name, parts in problems(n, draws, folder):
        labels = "reported", "tested", "excess", "beyond a constant's", "by leave-one-out", "largest class"
        found: dict[str, list[float]] = {label: [] for label in labels}
        for X, y, new, truth in parts:
            machine = KernelRidgeClassifier(random_state=0).fit(X, y)
            score, tested = machine.held_out_score_, machine.score(new, truth)
            single = np.mean(machine.held_out_predictions_ == y[machine.held_out_rows_])
            names, counts = np.unique(y, return_counts=True)
            excess, constant = score.value - tested, score.floor - np.mean(truth == names[counts.argmax()])
            values = score.value, tested, 100 * excess, 100 * (excess - constant), single, score.floor
            for label, value in zip(found, values):
                found[label].append(float(value))
        show(name, found)


def sets(n: int, draws: int, folder: Path | None) -> None:
    for name, parts in problems(n, draws, folder):
        found: dict[str, list[float]] = {"coverage": [], "classes in a set": []}
        for X, y, new, truth in parts:
            machine = KernelRidgeClassifier(random_state=0).fit(X, y)
            chosen = machine.predict_set(new)
            places = np.searchsorted(machine.classes_, truth)
            found["coverage"].append(float(chosen[np.arange(len(truth)), places].mean()))
            found["classes in a set"].append(float(chosen.sum(1).mean()))
        show(name, found)


def intervals(n: int, draws: int, folder: Path | None) -> None:
    found: dict[str, list[float]] = {"ridge": [], "Gaussian process": []}
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + TESTED, 3))
        y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=len(X))
        for label, machine in zip(found, (KernelRidgeRegressor, GaussianProcessRegressor)):
            ends = machine(random_state=0).fit(X[:n], y[:n]).predict_interval(X[n:])
            found[label].append(float(((ends[:, 0] <= y[n:]) & (y[n:] <= ends[:, 1])).mean()))
    show(f"function, {n} rows", found)


def drift(n: int, draws: int, folder: Path | None) -> None:
    for rows in (1000, 3000):
        found: dict[str, list[float]] = {"own rows": [], "own, first_row=0": [], "fresh rows": []}
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            X, fresh, stream = (rng.normal(size=(rows, 5)) for _ in range(3))
            model = KernelEmbedding(4, n_landmarks=300, random_state=0).fit(X)
            for label, reference, first in zip(found, (X, X, fresh), (None, 0, None)):
                monitor = DriftMonitor(model, window=200, block_rows=20, average_run_length=400)
                try:
                    monitor.fit(reference, first_row=first)
                except ValueError:
                    continue
                found[label] += [float(each.alarm) for each in monitor.add(stream[:200])]
        show(f"drift, {rows:,} rows", {label: values for label, values in found.items() if values})


STUDIES = {study.__name__: study for study in (held_out, sets, intervals, drift)}


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("what", nargs="*", choices=[*STUDIES, []], default=[])
    options.add_argument("--rows", type=int, default=40)
    options.add_argument("--draws", type=int, default=20)
    options.add_argument("--tables", type=Path)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    for name in given.what or STUDIES:
        print(f"{name}, {given.rows} rows")
        STUDIES[name](given.rows, given.draws, given.tables)


if __name__ == "__main__":
    main()
