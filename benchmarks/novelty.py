"""Novelty detection beside other detectors, and whether false alarms are as rare as promised.

    python benchmarks/novelty.py [--splits 10] [--data digits mnist ...] [--summary]

Every class of a data set in turn is normal: 60 % of its rows, at most 400, are learned from; up to 1000 others and up
to 500 rows of the other classes are for testing. All detectors have their defaults. Those of scikit-learn and PyOD get
all training rows, with columns of tables encoded and standardised as NoveltyDetector's are; NoveltyDetector holds out
its calibration rows of the same ones. AUC is that of telling the other classes from the normal one.

False alarms are compared with the attainable level k / (n + 1), k = floor(rate (n + 1)), of n calibration rows, and the
number of them in a single case with its Beta-binomial 99 % band.

Cases that are in results/novelty_runs.csv are not run again. PyOD: pip install pyod; without it ECOD is left out.
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from recording import HERE, data_file, record
from scipy.stats import betabinom
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

from krepes.machines import NoveltyDetector
from krepes.preprocessing import TableEncoder

try:
    from pyod.models.ecod import ECOD
except ImportError:
    ECOD = None
    print("PyOD is not installed, so that ECOD is left out: pip install pyod.")

TABLES = (
    "australian", "contraceptive", "german", "magic", "mammographic",
    "optdigits", "phoneme", "satimage", "segment", "vowel",
)  # fmt: skip
DATA = ("digits", *TABLES, "mnist")
SCORES = ("variance", "regression", "distance")
RATES = (0.01, 0.05, 0.1)
MOST_TRAIN, MOST_NORMAL, MOST_NOVEL, LEAST_ROWS = 400, 1000, 500, 60
RUNS = HERE / "results" / "novelty_runs.csv"


def load(name: str) -> tuple[pd.DataFrame | np.ndarray, np.ndarray]:
    if name == "digits":
        return load_digits(return_X_y=True)
    if name == "mnist":
        file = np.load(data_file("mnist.npz"))
        return file["X"][:20_000].reshape(20_000, -1) / 255.0, file["y"][:20_000]
    frame = pd.read_parquet(data_file(f"tables/{name}.parquet"))
    return frame, frame.pop("target").to_numpy().astype(str)


def case(X: pd.DataFrame | np.ndarray, y: np.ndarray, normal: object, split: int) -> dict[str, float]:
    """AUC of all detectors, and alarms of ours."""
    rng = np.random.default_rng(split)
    inside, outside = (rng.permutation(np.flatnonzero(part)) for part in (y == normal, y != normal))
    n = min(int(0.6 * len(inside)), MOST_TRAIN)
    take = X.iloc.__getitem__ if isinstance(X, pd.DataFrame) else X.__getitem__
    train, test, novel = take(inside[:n]), take(inside[n : n + MOST_NORMAL]), take(outside[:MOST_NOVEL])
    truth = np.r_[np.zeros(len(test)), np.ones(len(novel))]
    found: dict[str, float] = {"rows": n, "normal": len(test)}
    for score in SCORES:
        model = NoveltyDetector(measure=score, random_state=split).fit(train)
        found[f"{score}: AUC"] = roc_auc_score(
            truth, -np.r_[model.score_samples(test), model.score_samples(novel)]
        )
        p, p_novel = model.p_values(test), model.p_values(novel)
        found["calibration"] = model.n_calibration_
        for rate in RATES:
            found[f"{score}: alarms at {rate}"] = int((p <= rate).sum())
            found[f"{score}: detected at {rate}"] = (p_novel <= rate).mean()
    if isinstance(X, pd.DataFrame):
        encoder = TableEncoder(dtype="float64").fit(train)
        train, test, novel = (encoder.transform(part) for part in (train, test, novel))
    for name, model in peers(split).items():
        model.fit(train)
        both = np.concatenate([test, novel])  # at once, because ECOD ranks rows among those it is given
        scores = model.decision_function(both) if name == "ECOD" else -model.score_samples(both)
        found[f"{name}: AUC"] = roc_auc_score(truth, scores)
    return found


def peers(seed: int) -> dict:
    found = {
        "OneClassSVM": OneClassSVM(),
        "IsolationForest": IsolationForest(random_state=seed),
        "LocalOutlierFactor": LocalOutlierFactor(novelty=True),
    }
    return found if ECOD is None else found | {"ECOD": ECOD()}


def run(names: list[str], n_splits: int) -> None:
    for name in names:
        X, y = load(name)
        classes, counts = np.unique(y, return_counts=True)
        for split in range(n_splits):
            for normal in classes[counts >= LEAST_ROWS]:
                done = pd.read_csv(RUNS, dtype={"class": str}) if RUNS.exists() else None
                key = (name, str(normal), split)
                if (
                    done is not None
                    and (
                        (done["data"] == key[0]) & (done["class"] == key[1]) & (done["split"] == split)
                    ).any()
                ):
                    continue
                row = {"data": name, "class": str(normal), "split": split} | case(X, y, normal, split)
                pd.DataFrame([row]).to_csv(RUNS, mode="a", header=not RUNS.exists(), index=False)
            print(f"{name}: split {split + 1} of {n_splits}", flush=True)


def summary() -> dict:
    """Means by data set, and what was promised of false alarms."""
    runs = pd.read_csv(RUNS, dtype={"class": str})
    runs = runs.drop_duplicates(["data", "class", "split"]).reset_index(drop=True)  # of runs side by side
    aucs = [column for column in runs if column.endswith(": AUC")]
    by_data = runs.groupby("data")[aucs].mean()
    figures: dict = {f"AUC, {name}": by_data.loc[name].round(4).to_dict() for name in by_data.index}
    figures["AUC, mean over data sets"] = by_data.mean().round(4).to_dict()
    figures["cases"] = len(runs)
    n, m = runs["calibration"], runs["normal"]
    for score in SCORES:
        for rate in RATES:
            k = np.floor(np.round(rate * (n + 1), 9))
            alarms, level = runs[f"{score}: alarms at {rate}"], k / (n + 1)
            excess = pd.DataFrame({"split": runs["split"], "excess": alarms / m - level})
            by_split = excess.groupby("split")["excess"].mean()
            possible = k > 0
            low, high = (
                betabinom.ppf(q, m[possible], k[possible], n[possible] + 1 - k[possible])
                for q in (0.005, 0.995)
            )
            inside = (alarms[possible] >= low) & (alarms[possible] <= high)
            figures[f"false alarms, {score}, {rate}"] = {
                "rate": round(float((alarms / m).mean()), 5),
                "attainable": round(float(level.mean()), 5),
                "difference": round(float(excess["excess"].mean()), 5),
                "standard error": round(float(by_split.std() / np.sqrt(len(by_split))), 5),
                "inside the 99 % band": round(float(inside.mean()), 4),
                "above the band": round(float((alarms[possible] > high).mean()), 4),
                "by data set": (excess.groupby(runs["data"])["excess"].mean()).round(4).to_dict(),
                "detected": round(float(runs[f"{score}: detected at {rate}"].mean()), 4),
            }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--summary", action="store_true", help="only from the cases that were run")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if not given.summary:
        run(given.data, given.splits)
    record("novelty", summary())


if __name__ == "__main__":
    main()
