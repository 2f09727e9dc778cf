"""Clustering on many sets with one default, beside each candidate alone and peers; Hopkins 155; counts; large n.

    python benchmarks/clustering_family.py table [--sets NAME ...] [--methods NAME ...] [--seconds 600]
    python benchmarks/clustering_family.py candidates | hopkins | counts | large [--seconds 600]

Sets have at most 1200 rows, drawn with seed 0; columns of tables are standardised, pictures are not. Cells are kept in
results/clustering_family_cells.json as they are computed, so that a run may be stopped and goes on; recorded are means
over the cells that are there. NMI, ARI, error of the best matching of clusters and classes, seconds.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from recording import HERE, data_file, record
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler

from krepes.clustering import SubspaceClustering, clustering_error
from krepes.clustering.affinity import assign
from krepes.clustering.family import Candidate, recipes, recipes_of_pictures
from krepes.clustering.metric import Iterate, settings_for
from krepes.clustering.search import Pictures, picture_shape

CELLS = HERE / "results" / "clustering_family_cells.json"
Data = tuple[np.ndarray, np.ndarray]


def some(X: np.ndarray, y: np.ndarray, rows: int = 1000, seed: int = 0) -> Data:
    chosen = np.sort(np.random.default_rng(seed).permutation(len(X))[:rows])
    return X[chosen].astype(float), np.unique(y[chosen], return_inverse=True)[1]


def table(name: str) -> Data:
    frame = pd.read_parquet(data_file(f"tables/{name}.parquet"))
    y = frame.pop("target").astype(str).to_numpy()
    X, y = some(pd.get_dummies(frame).to_numpy(float), y)
    return StandardScaler().fit_transform(X), y


def of_sklearn(load: Callable[[], Any]) -> Data:
    bunch = load()
    X, y = some(bunch.data, bunch.target)
    return StandardScaler().fit_transform(X), y


def pictures(file: str, seed: int = 0, test: bool = False) -> Data:
    data = np.load(data_file(file))
    X, y = data["X"], data["y"]
    return some(X[data["is_test"]], y[data["is_test"]]) if test else some(X, y, seed=seed)


def yale(k: int, start: int = 0) -> Data:
    """All lights of few subjects, 1200 pictures of many."""
    data = np.load(data_file("yaleb_48x42.npz"))
    block = (data["y"] >= start) & (data["y"] < start + k)
    return some(data["X"][block], data["y"][block], rows=1200)


def coil() -> Data:
    data = np.load(data_file("coil20_32x32.npz"))
    return some(data["X"], data["y"], rows=1200)


SETS: dict[str, Callable[[], Data]] = {
    "digits": lambda: some(load_digits().images, load_digits().target),
    "optdigits": lambda: table("optdigits"),
    "MNIST": lambda: pictures("mnist.npz"),
    "MNIST, other rows": lambda: pictures("mnist.npz", seed=1),
    "COIL-20": coil,
    "Yale B, 10": lambda: yale(10),
    "Yale B, 20": lambda: yale(20, 8),
    "Yale B, 30": lambda: yale(30, 4),
    "Yale B, 38": lambda: yale(38),
    "satimage": lambda: table("satimage"),
    "segment": lambda: table("segment"),
    "wine": lambda: of_sklearn(load_wine),
    "wdbc": lambda: of_sklearn(load_breast_cancer),
    "vowel": lambda: table("vowel"),
    "iris": lambda: of_sklearn(load_iris),
    "letter": lambda: table("letter"),
    "scenes": lambda: pictures("intel_scenes_32x32.npz", test=True),
    "CIFAR-10": lambda: pictures("cifar10_test10k.npz"),
}


def flat(X: np.ndarray) -> np.ndarray:
    return X.reshape(len(X), -1)


def unit(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def spectral(X: np.ndarray, k: int, neighbours: int) -> np.ndarray:
    model = SpectralClustering(k, affinity="nearest_neighbors", n_neighbors=neighbours, random_state=0)
    return model.fit_predict(X)


METHODS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "default": lambda X, k: SubspaceClustering(k, random_state=0).fit_predict(X),
    "k-means": lambda X, k: KMeans(k, n_init=10, random_state=0).fit(flat(X)).labels_,
    "spectral, 10 nearest": lambda X, k: spectral(flat(X), k, 10),
    "spectral, 5 nearest of unit rows": lambda X, k: spectral(unit(flat(X)), k, 5),
    "no projection": lambda X, k: SubspaceClustering(
        k, coding="ridge", projection=None, random_state=0
    ).fit_predict(X),
    "LSR": lambda X, k: SubspaceClustering(
        k, coding="least_squares", projection=None, random_state=0
    ).fit_predict(X),
    "Algorithm 1 alone": lambda X, k: SubspaceClustering(k, coding="ridge", random_state=0).fit_predict(X),
}


def judged(y: np.ndarray, labels: np.ndarray, start: float, started: float) -> dict[str, Any]:
    return {
        "nmi": round(float(normalized_mutual_info_score(y, labels)), 4),
        "ari": round(float(adjusted_rand_score(y, labels)), 4),
        "error": round(clustering_error(y, labels), 4),
        "seconds": round(time.perf_counter() - start, 1),
        "processor seconds": round(time.process_time() - started, 1),
    }


class Cells:
    """Results that are there, and the time that is left."""

    def __init__(self, seconds: float):
        self.end = time.perf_counter() + seconds

    def read(self) -> dict[str, Any]:
        return json.loads(CELLS.read_text()) if CELLS.exists() else {}

    def __call__(self, key: str, compute: Callable[..., dict[str, Any]], *of: Any) -> None:
        if key in self.read() or time.perf_counter() > self.end:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = compute(*of)
        cells = self.read() | {key: found}
        CELLS.write_text(json.dumps(cells, indent=1) + "\n")
        print(key, found, flush=True)


def compare(cells: Cells, sets: list[str], methods: list[str]) -> None:
    for name in sets:
        X, y = SETS[name]()
        for method in methods:
            cells(f"{name} | {method}", fit, METHODS[method], X, y)
    found = cells.read()
    figures = {}
    for method in METHODS:
        own = [found[key] for name in SETS if (key := f"{name} | {method}") in found]
        if own:
            means = {
                part: round(float(np.mean([cell[part] for cell in own])), 3)
                for part in ("nmi", "ari", "error")
            }
            figures[method] = means | {"sets": len(own)}
    record("clustering_family", figures)


def fit(method: Callable[[np.ndarray, int], np.ndarray], X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    start, started = time.perf_counter(), time.process_time()
    return judged(y, method(X, int(y.max()) + 1), start, started)


def candidates(cells: Cells, sets: list[str]) -> None:
    """Every candidate without projection alone, on all rows of a set."""
    for name in sets:
        X, y = SETS[name]()
        k = int(y.max()) + 1
        rows = torch.from_numpy(flat(X))
        shape = picture_shape(X)
        sources = {"rows": rows, "pictures": Pictures(rows, shape, 0) if shape else rows}
        for recipe in [*recipes(len(X), k), *(recipes_of_pictures() if shape else ())]:
            key = f"{name} | candidate: {recipe.name}"
            cells(key, alone, recipe, sources[recipe.source], y, k)


def alone(recipe: Any, rows: Any, y: np.ndarray, k: int) -> dict[str, Any]:
    start, started = time.perf_counter(), time.process_time()
    rows = rows if isinstance(rows, torch.Tensor) else rows(np.arange(len(y)))
    settings = recipe.settings(settings_for(SubspaceClustering(k), *([len(y)] * 2), rows.shape[1]), len(y))
    candidate = Candidate(recipe, Iterate(rows, None, 0, settings, 0), 0)
    labels = assign(candidate.eigenpairs[1][:, :k], k, 10, np.random.default_rng(0))
    return judged(y, labels, start, started) | {"ratio": round(candidate.ratio(k), 4)}


def sequences() -> Any:
    data = np.load(data_file("hopkins155.npz"))
    P, F = data["n_points"].astype(int), data["n_frames"].astype(int)
    ends, owned = np.cumsum(2 * P * F), np.cumsum(P)
    traj, labels = data["traj"], data["labels"]
    for i, name in enumerate(data["names"]):
        X = traj[ends[i] - 2 * P[i] * F[i] : ends[i]].reshape(P[i], -1).astype(float)
        yield i, str(name), X, labels[owned[i] - P[i] : owned[i]].astype(int) - 1


def hopkins(cells: Cells, step: int) -> None:
    """Error in % and the number of clusters found, on every `step`-th sequence first, then on the others."""
    for i, name, X, y in sorted(sequences(), key=lambda each: (each[0] % step != 0, each[0])):
        cells(f"Hopkins {i} {name} | default", fit, METHODS["default"], X, y)
        cells(f"Hopkins {i} {name} | count", count, X, y)
    found = {key: cell for key, cell in cells.read().items() if key.startswith("Hopkins")}
    errors = [100 * cell["error"] for key, cell in found.items() if key.endswith("default")]
    record(
        "clustering_family_hopkins",
        {
            "sequences": len(errors),
            "error, mean": round(float(np.mean(errors)), 2),
            "error, median": round(float(np.median(errors)), 2),
        }
        | shares([cell for key, cell in found.items() if key.endswith("count")]),
    )


def count(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    start = time.process_time()
    model = SubspaceClustering(random_state=0).fit(X)
    return {
        "true": int(y.max()) + 1,
        "found": int(model.n_clusters_),
        "sure": bool(model.count_.sure),
        "scores": {str(k): v for k, v in model.count_.scores.items()},
        "processor seconds": round(time.process_time() - start, 1),
    }


def shares(counts: list[dict[str, Any]]) -> dict[str, Any]:
    away = np.array([abs(cell["found"] - cell["true"]) for cell in counts])
    exact, near = (round(float((away <= most).mean()), 3) for most in (0, 1))
    return {"counted": len(away), "exact": exact, "within one": near}


def counts(cells: Cells, sets: list[str]) -> None:
    for name in sets:
        X, y = SETS[name]()
        cells(f"{name} | count", count, X, y)
    found = cells.read()
    record(
        "clustering_family_counts",
        shares([found[key] for name in SETS if (key := f"{name} | count") in found]),
    )


def large(cells: Cells) -> None:
    """What landmarks lose: rows of 20 clouds and of 20 subspaces, in full and by landmarks; then 10^5 of them."""
    for kind in ("clouds", "subspaces"):
        for n in (4000, 5000, 100_000):
            rng = np.random.default_rng(0)
            y = np.sort(rng.integers(0, 20, n))
            if kind == "clouds":
                X = 1.1 * rng.normal(size=(20, 20))[y] + rng.normal(size=(n, 20)) * 0.8
            else:
                X = np.einsum("na,nad->nd", rng.normal(size=(n, 4)), rng.normal(size=(20, 4, 30))[y])
                X += 0.1 * rng.normal(size=X.shape)
            cells(f"{kind}, {n} rows | large", fit, METHODS["default"], X, y)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["table", "candidates", "hopkins", "counts", "large"])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no cell after this long")
    parser.add_argument("--step", type=int, default=1)
    given = parser.parse_args()
    cells = Cells(given.seconds)
    if given.what == "table":
        compare(cells, given.sets, given.methods)
    elif given.what == "hopkins":
        hopkins(cells, given.step)
    elif given.what == "large":
        large(cells)
    else:
        {"candidates": candidates, "counts": counts}[given.what](cells, given.sets)


if __name__ == "__main__":
    main()
