"""Pruned ensembles beside the whole: test error of every method, relative to the error of all members.

    python benchmarks/pruning.py --tables ../data/tables --seeds 3

Regression is measured by squared error, classes by the share of errors (and at least one error in the test rows). Each
ensemble has 100 members and is pruned with out-of-bag rows where it has them, else with a quarter of the training rows.
The second figure is the mean number of members kept. `half` fixes n_members=50.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_friedman1,
    make_friedman2,
    make_friedman3,
)
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from krepes.alignment import prune_ensemble

SYNTHETIC = {"friedman1": make_friedman1, "friedman2": make_friedman2, "friedman3": make_friedman3}
LOADED = {"diabetes": load_diabetes, "cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}
TABLES = ("phoneme", "vowel", "segment", "saheart", "contraceptive", "heart", "german")
RUNS = {
    "shrunk": {},
    "shrunk, half": {"n_members": 50},
    "forward, half": {"method": "forward", "n_members": 50},
    "best, half": {"method": "best", "n_members": 50},
    "first, half": {"method": "first", "n_members": 50},
    "alignment": {"method": "alignment"},
    "stacking": {"method": "stacking"},
}


def data(name: str, folder: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Rows, targets, and whether these are numbers."""
    if name in SYNTHETIC:
        X, y = SYNTHETIC[name](1500, noise=1.0, random_state=seed)
        return X, y, True
    if name in LOADED:
        X, y = LOADED[name](return_X_y=True)
        return X, y, name == "diabetes"
    frame = pd.read_parquet(folder / f"{name}.parquet")
    label = frame.columns[-1] if "target" not in frame else "target"
    X = pd.get_dummies(frame.drop(columns=label)).fillna(0).to_numpy(dtype=float)
    return X, frame[label].astype("category").cat.codes.to_numpy(), False


def ensembles(numbers: bool, seed: int) -> dict:
    if numbers:
        return {
            "forest": RandomForestRegressor(100, random_state=seed),
            "extra trees": ExtraTreesRegressor(100, bootstrap=True, random_state=seed),
            "adaboost": AdaBoostRegressor(n_estimators=100, random_state=seed),
            "shallow": BaggingRegressor(DecisionTreeRegressor(max_depth=4), 100, random_state=seed),
        }
    return {
        "forest": RandomForestClassifier(100, random_state=seed),
        "extra trees": ExtraTreesClassifier(100, bootstrap=True, random_state=seed),
        "adaboost": AdaBoostClassifier(
            DecisionTreeClassifier(max_depth=2), n_estimators=100, random_state=seed
        ),
        "shallow": BaggingClassifier(DecisionTreeClassifier(max_depth=4), 100, random_state=seed),
    }


def error(model, X: np.ndarray, y: np.ndarray, numbers: bool) -> float:
    predicted = model.predict(X)
    return (
        float(np.mean((predicted - y) ** 2)) if numbers else max(float(np.mean(predicted != y)), 1 / len(y))
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tables", type=Path, help="a folder of Parquet tables; without it, seven sets are used"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--kinds", nargs="*", help="ensembles to prune: forest, extra trees, adaboost, shallow"
    )
    given = parser.parse_args()
    names = [*SYNTHETIC, *LOADED, *(TABLES if given.tables else ())]
    found: dict[tuple[str, str], list[tuple[float, int, float]]] = {}
    for name in names:
        for seed in range(given.seeds):
            X, y, numbers = data(name, given.tables, seed)
            keep = np.random.default_rng(seed).permutation(len(y))[:2500]
            stratify = None if numbers else y[keep]
            X, X_test, y, y_test = train_test_split(
                X[keep], y[keep], test_size=0.4, random_state=seed, stratify=stratify
            )
            for kind, model in ensembles(numbers, seed).items():
                if given.kinds and kind not in given.kinds:
                    continue
                rows = (X, y)
                train = rows
                if kind == "adaboost":
                    A, B, a, b = train_test_split(X, y, test_size=0.25, random_state=seed)
                    train, rows = (A, a), (B, b)
                model.fit(*train)
                whole = error(model, X_test, y_test, numbers)
                for run, settings in RUNS.items():
                    start = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        pruned = prune_ensemble(model, *rows, **settings)
                    seconds = time.perf_counter() - start
                    ratio = error(pruned, X_test, y_test, numbers) / whole
                    found.setdefault((kind, run), []).append((ratio, pruned.size_, seconds))
        print(name, flush=True)
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    print(
        f"{'error relative to all members, and members kept':32s}" + "".join(f"{kind:>22s}" for kind in kinds)
    )
    for run in RUNS:
        cells = [np.array(found[kind, run]) for kind in kinds]
        shown = [
            f"{np.exp(logs.mean()):.3f} ± {logs.std() / np.sqrt(len(c)):.3f}  {c[:, 1].mean():3.0f}"
            for c in cells
            for logs in [np.log(c[:, 0])]
        ]
        print(
            f"{run:32s}"
            + "".join(f"{cell:>22s}" for cell in shown)
            + f"   {np.mean([c[:, 2].mean() for c in cells]):.2f} s"
        )


if __name__ == "__main__":
    main()
