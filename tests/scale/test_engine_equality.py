"""In process, and on a cluster of any size with any division of the rows: the same model.

Moments agree to 1e-6 relative; embeddings (by Z Z^T) and other outputs to 1e-5 where features are double precision. In
single precision, sums in another order differ by 1e-7, as with other blocks in one process, and the closed form, which
divides by the roots of small eigenvalues, makes that about 1e-5 of Z Z^T: 1e-4 is asked for. A descent ends where its
steps are small, at one of many points that are as good: losses without a closed form agree to 1e-5 in value. Two
workers are quick; one and four run with the long checks.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from krepes import KernelAutoencoder, KernelEmbedding
from krepes.alignment import SketchedCKA, transferability
from krepes.engines import Dask
from krepes.kernels import Gaussian
from krepes.machines import (
    Cells,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.solvers import MomentDescent

pytest.importorskip("distributed", reason='needs pip install "krepes[scale]"')

N = 700
_draws = np.random.default_rng(0)
X = _draws.normal(size=(N, 4))
KIND = np.where(X[:, 0] + 0.3 * _draws.normal(size=N) > 0, "p", "q")
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(
    kind=KIND, price=[f"{v:.2f}".replace(".", ",") for v in _draws.normal(size=N)]
)
y = np.sin(X[:, 0]) + X[:, 1]
SEEDED = {"n_landmarks": 30, "random_state": 0}
FIXED = {**SEEDED, "kernel": Gaussian(2.0), "input_metric": None}
MODELS = {
    "embedding": (KernelEmbedding(n_components=4, **SEEDED), None),
    "embedding float64": (KernelEmbedding(n_components=4, dtype="float64", **SEEDED), None),
    "barlow twins float64": (
        KernelEmbedding(n_components=4, loss="barlow_twins", dtype="float64", **SEEDED),
        None,
    ),
    "vicreg float64": (KernelEmbedding(n_components=4, loss="vicreg", dtype="float64", **SEEDED), None),
    "vicreg": (KernelEmbedding(n_components=4, loss="vicreg", **SEEDED), None),
    "kernel PCA": (KernelEmbedding(n_components=4, loss="kernel_pca", **SEEDED), None),
    "automatic width": (KernelEmbedding(n_components="auto", **SEEDED), None),
    "autoencoder": (KernelAutoencoder(n_components=2, **SEEDED), None),
    "ridge": (KernelRidgeRegressor(**FIXED), y),
    "ridge chosen": (KernelRidgeRegressor(**SEEDED), y),
    "ridge in cells": (KernelRidgeRegressor(**FIXED, local=Cells(size=100), dtype="float64"), y),
    "ridge in cells, chosen": (KernelRidgeRegressor(**SEEDED, local=Cells(size=100, landmarks=True)), y),
    "classifier": (KernelRidgeClassifier(**FIXED), KIND),
    "balanced classifier": (KernelRidgeClassifier(class_weight="balanced", **FIXED), KIND),
    "process": (GaussianProcessRegressor(**SEEDED, kernel=Gaussian(2.0)), y),
    "process of classes": (GaussianProcessClassifier(**SEEDED, kernel=Gaussian(2.0)), KIND),
    "novelty": (NoveltyDetector(**SEEDED), None),
}
QUICK = (  # one setting of every estimator
    "embedding float64",
    "automatic width",
    "vicreg",
    "autoencoder",
    "ridge chosen",
    "ridge in cells",
    "balanced classifier",
    "process",
    "process of classes",
    "novelty",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The rows in five Parquet files, one of them empty."""
    folder = tmp_path_factory.mktemp("rows")
    for i, (start, stop) in enumerate([(0, 90), (90, 91), (91, 400), (400, 400), (400, N)]):
        FRAME[start:stop].to_parquet(folder / f"{i}.parquet")
    return str(folder)


def output(model, data) -> np.ndarray:
    for name in ("transform", "predict_proba", "decision_function", "predict"):
        if hasattr(model, name):
            found = np.asarray(getattr(model, name)(data), dtype=np.float64)
            return found @ found.T if name == "transform" else found
    raise AssertionError


def check_equal(name: str, engine: Dask, data, rows_per_part: int) -> None:
    model, targets = MODELS[name]
    given = () if targets is None else (targets,)
    here = clone(model).fit(data, *given)
    divided = Dask(engine.client, rows_per_part=rows_per_part)
    there = clone(model).set_params(engine=divided).fit(data, *given)
    assert there.n_samples_seen_ == here.n_samples_seen_
    if here.landmark_indices_ is not None:
        assert np.array_equal(there.landmark_indices_, here.landmark_indices_)
    if isinstance(here, KernelEmbedding):
        mine, theirs = here.moments_.S, there.moments_.S
        assert (mine - theirs).abs().max() <= 1e-6 * mine.abs().max()
    if isinstance(here, KernelEmbedding) and isinstance(here.solver_, MomentDescent):
        values = [each.history_[-1]["total"] for each in (here, there)]
        assert abs(values[0] - values[1]) <= 1e-5 * abs(values[0])
        return
    expected, found = output(here, data), output(there, data)
    tolerance = 1e-4 if str(here.space_.dtype) == "torch.float32" else 1e-5
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in MODELS]
)
def test_two_workers_give_what_this_process_gives(name, cluster, folder):
    check_equal(name, cluster, folder, rows_per_part=110)


@pytest.mark.full
@pytest.mark.parametrize("n_workers", [1, 4])
def test_one_and_four_workers_too(n_workers, folder):
    with Dask(n_workers=n_workers) as engine:
        for rows_per_part in (37, 300, 10**6):
            for name in MODELS:
                check_equal(name, engine, folder, rows_per_part)


@pytest.mark.parametrize("rows_per_part", [17, 256, 10**6])
def test_sketches_and_transfer_statistics(rows_per_part, cluster, tmp_path):
    engine = Dask(cluster.client, rows_per_part=rows_per_part)
    Y = X @ _draws.normal(size=(4, 3)) + 5.0
    np.save(tmp_path / "y.npy", Y)
    features = {"x": X, "y": str(tmp_path / "y.npy")}
    here, there = SketchedCKA(64).read(features), SketchedCKA(64).read(features, engine=engine)
    assert there.n_rows == {"x": N, "y": N}
    np.testing.assert_allclose(there.table()[1], here.table()[1], rtol=1e-9)
    np.testing.assert_allclose(
        there.table()[1], SketchedCKA(64).update({"x": X, "y": Y}).table()[1], rtol=1e-9
    )
    for method in ("exact", "sketch"):
        expected = transferability({"x": X, "y": Y}, KIND, method=method)
        found = transferability(features, KIND, method=method, engine=engine)
        for score, values in expected.scores.items():
            np.testing.assert_allclose(found.scores[score], values, rtol=1e-6)


def test_sites_that_are_merged_equal_one_model(cluster, folder):
    """Three sites add their rows on a cluster, from one base; their sum is the model of all rows."""
    base = KernelEmbedding(n_components=4, dtype="float64", **SEEDED).fit(folder)
    sites = []
    for first, stop in ((0, 200), (200, 210), (210, N)):
        site = base.empty_copy().set_params(engine=Dask(cluster.client, rows_per_part=60))
        sites.append(site.partial_fit(FRAME[first:stop], first_row=first))
    merged = base.empty_copy()
    for site in sites:
        merged.merge(site)
    assert merged.moments_.n == base.moments_.n
    assert (merged.moments_.S - base.moments_.S).abs().max() <= 1e-12 * base.moments_.S.abs().max()
    expected = output(base, FRAME)
    assert np.abs(output(merged, FRAME) - expected).max() <= 1e-8 * np.abs(expected).max()


def test_every_source_is_read_by_the_workers(cluster, tmp_path):
    """Sets of files, Zarr and Dask collections give the model of the frame or array."""
    import dask.array as da
    import dask.dataframe as dd

    zarr = pytest.importorskip("zarr", reason='needs pip install "krepes[scale]"')
    for kind in ("csv", "npy"):
        (tmp_path / kind).mkdir()
    for i, (start, stop) in enumerate([(0, 250), (250, 250), (250, N)]):
        FRAME[start:stop].to_csv(tmp_path / "csv" / f"{i}.csv", index=False)
        np.save(tmp_path / "npy" / f"{i}.npy", X[start:stop])
    zarr.open_array(tmp_path / "x.zarr", mode="w", shape=X.shape, chunks=(64, 4), dtype="f8")[:] = X
    FRAME.to_csv(tmp_path / "all.csv", index=False)
    model = KernelEmbedding(n_components=4, dtype="float64", **SEEDED)
    arrays = {
        "npy folder": str(tmp_path / "npy"),
        "zarr": str(tmp_path / "x.zarr"),
        "dask array": da.from_array(X, chunks=(130, 2)).map_blocks(np.copy),
    }
    tables = {
        "csv folder": str(tmp_path / "csv"),
        "csv pattern": str(tmp_path / "csv" / "*.csv"),
        "dask frame": dd.read_csv(str(tmp_path / "all.csv"), blocksize=None),
    }
    for expected, cases in ((X, arrays), (str(tmp_path / "all.csv"), tables)):
        here = clone(model).fit(expected)
        for name, data in cases.items():
            there = clone(model).set_params(engine=cluster).fit(data)
            assert np.array_equal(there.landmark_indices_, here.landmark_indices_), name
            S = here.moments_.S
            assert (there.moments_.S - S).abs().max() <= 1e-10 * S.abs().max(), name
