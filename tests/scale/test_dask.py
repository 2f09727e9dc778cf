"""A pass on a Dask cluster: the same sums as in this process, whatever happens to workers."""

from __future__ import annotations

import os
import pickle
import signal
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import krepes
from krepes import KernelAutoencoder, KernelEmbedding
from krepes.engines import Dask, as_engine
from krepes.kernels import Custom, Gaussian
from krepes.machines import (
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from refusals import refuses

distributed = pytest.importorskip("distributed", reason='needs pip install "krepes[scale]"')

_draws = np.random.default_rng(0)
X = _draws.normal(size=(900, 4))
y = np.sin(X[:, 0]) + X[:, 1]
COMMON = {"n_landmarks": 40, "random_state": 0, "dtype": "float64"}
FEW = {**COMMON, "n_components": 4}
FIXED = {**COMMON, "kernel": Gaussian(2.0), "input_metric": None, "preprocess": None}


MODELS = {
    "embedding": (KernelEmbedding(**FEW), ()),
    "folds": (KernelEmbedding(**FEW, n_folds=3), ()),
    "barlow_twins": (KernelEmbedding(**FEW, loss="barlow_twins"), ()),
    "autoencoder": (KernelAutoencoder(n_landmarks=40, n_components=2, random_state=0), ()),
    "ridge": (KernelRidgeRegressor(**FIXED), (y,)),
    "classifier": (KernelRidgeClassifier(**FIXED), (y > 0,)),
    "process": (GaussianProcessRegressor(**FIXED), (y,)),
    "novelty": (NoveltyDetector(**COMMON), ()),
}
QUICK = {"embedding", "folds", "ridge"}  # rows in memory; test_engine_equality.py has the others, from files


def outputs(model) -> np.ndarray:
    for name in ("transform", "decision_function", "predict"):
        if hasattr(model, name):
            found = getattr(model, name)(X)
            return found @ found.T if name == "transform" else found
    raise AssertionError


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in MODELS]
)
def test_a_cluster_gives_what_this_process_gives(name, cluster):
    model, targets = MODELS[name]
    here = clone(model).fit(X, *targets)
    there = clone(model).set_params(engine=cluster).fit(X, *targets)
    expected, found = outputs(here), outputs(there)
    assert np.abs(found - expected).max() <= 1e-7 * np.abs(expected).max()


@pytest.mark.parametrize("rows_per_part", [pytest.param(7, marks=pytest.mark.full), 100, 899, 10**6])
def test_how_rows_are_divided_does_not_matter(rows_per_part, cluster):
    expected = KernelEmbedding(**FEW).fit(X).moments_
    divided = Dask(cluster.client, rows_per_part=rows_per_part)
    found = KernelEmbedding(**FEW, engine=divided).fit(X).moments_
    assert found.n == expected.n
    scale = expected.S.abs().max().item()
    assert (found.S - expected.S).abs().max().item() <= 1e-12 * scale


def test_files_frames_and_objects(cluster, tmp_path):
    """Each is read where it is: files by their path, rows in memory by themselves."""
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(y > 0, "p", "q"))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=130)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    np.save(tmp_path / "rows.npy", X)
    words = [f"w{i % 17}{'ab' * (i % 5)}" for i in range(300)]
    cases = [
        frame,
        str(tmp_path / "rows.parquet"),
        str(tmp_path / "rows.csv"),
        str(tmp_path / "rows.npy"),
        words,
    ]
    for data in cases:
        options = {**COMMON, "n_landmarks": 15, "n_components": 3}
        if data is words:
            options |= {"kernel": "spectrum", "loss": "kernel_pca"}
        expected = KernelEmbedding(**options).fit(data).transform(data)
        model = KernelEmbedding(**options, engine=cluster).fit(data)
        np.testing.assert_allclose(np.abs(model.transform(data)), np.abs(expected), rtol=1e-6, atol=1e-8)


def test_results_come_in_the_batches_that_were_asked_for(cluster):
    model = KernelEmbedding(**FEW, engine=cluster).fit(X)
    batches = list(model.iter_transform(X, batch_rows=128))
    assert [len(batch) for batch in batches] == [128] * 7 + [4]
    np.testing.assert_allclose(np.concatenate(batches), model.set_params(engine=None).transform(X), rtol=1e-9)


def slow_kernel():
    def kernel(A, B):
        import time

        time.sleep(0.05)
        return np.asarray(A) @ np.asarray(B).T

    return Custom(kernel)


@pytest.mark.parametrize("seconds", [0.2, pytest.param(0.8, marks=pytest.mark.full)])
def test_a_worker_that_dies_loses_nothing(seconds, cluster):
    """Killed by its process id in the middle of a fit: its parts are done again, and counted once."""
    options = {**FEW, "kernel": slow_kernel(), "loss": "kernel_pca", "landmarks": X[:20]}
    expected = KernelEmbedding(**options).fit(X).moments_
    workers = cluster.client.run(os.getpid)
    killer = threading.Timer(seconds, os.kill, (next(iter(workers.values())), signal.SIGKILL))
    killer.start()
    found = KernelEmbedding(**options, engine=Dask(cluster.client, rows_per_part=30)).fit(X).moments_
    killer.join()
    assert found.n == expected.n == len(X)
    assert (found.S - expected.S).abs().max().item() <= 1e-12 * expected.S.abs().max().item()
    cluster.client.wait_for_workers(2, timeout=120)
    assert cluster.client.run(os.getpid) != workers


def test_errors_of_workers_are_those_of_the_rows(cluster, tmp_path):
    path = tmp_path / "rows.npy"
    broken = X.copy()
    broken[555, 2] = np.nan
    np.save(path, broken)
    with refuses(ValueError, "NaN", "columns 2") as here:
        KernelEmbedding(**FEW).fit(str(path))
    with refuses(ValueError, "NaN", "columns 2") as there:
        KernelEmbedding(**FEW, engine=cluster).fit(str(path))
    assert str(there.value) == str(here.value)


def failing_kernel(value: float, repaired):
    def kernel(A, B):
        import numpy as np

        if (np.asarray(A)[:, 0] == value).any() and not repaired.exists():
            raise OSError("The disk of row 610 does not answer.")
        return np.asarray(A) @ np.asarray(B).T

    return Custom(kernel)


def test_an_interrupted_pass_goes_on(cluster, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    repaired, path = tmp_path / "repaired", tmp_path / "pass"
    options = {
        **COMMON,
        "kernel": failing_kernel(X[610, 0], repaired),
        "loss": "kernel_pca",
        "landmarks": X[:20],
    }
    model = KernelEmbedding(**options, preprocess=None, engine=Dask(cluster.client, rows_per_part=20))
    with refuses(OSError, "row 610"):
        model.fit(X, checkpoint=path)
    assert path.exists()
    repaired.touch()
    found = model.fit(X, checkpoint=path).moments_
    assert "Resuming" in caplog.text
    assert not path.exists()
    expected = clone(model).set_params(engine=None).fit(X).moments_
    assert found.n == expected.n
    assert (found.S - expected.S).abs().max().item() <= 1e-12 * expected.S.abs().max().item()


def test_training_on_samples_is_refused(cluster):
    with refuses(ValueError, "engine=None"):
        KernelEmbedding(loss="simclr", engine=cluster).fit(X)


# Names, copies and files


def test_an_engine_is_shared_and_never_stored(cluster, tmp_path):
    model = KernelEmbedding(**FEW, engine=cluster).fit(X)
    assert clone(model).engine is cluster
    again = pickle.loads(pickle.dumps(Dask(cluster.client)))
    assert again.cluster == cluster.client.scheduler.address
    model.save(tmp_path / "m.krepes")
    assert krepes.load(tmp_path / "m.krepes").engine is None
    assert as_engine("dask") is as_engine("dask")
    assert repr(Dask("tcp://10.0.0.1:8786")) == "Dask('tcp://10.0.0.1:8786')"


def test_what_is_not_an_engine(cluster):
    with refuses(TypeError, "'dask'"):
        as_engine("spark")
    with refuses(TypeError, "krepes.engines.Dask(client)"):
        as_engine(cluster.client)
    with refuses(ValueError, "n_workers"):
        Dask("tcp://10.0.0.1:8786", n_workers=2)
    with refuses(TypeError, "Dask(3)", "address", "scheduler"):
        Dask(3)


def test_a_scheduler_that_is_not_there():
    import dask

    impatient = dask.config.set({"distributed.comm.timeouts.connect": "2s"})
    with impatient, refuses(ConnectionError, "'tcp://127.0.0.1:9'", "engine='dask'", "scheduler", "answers"):
        KernelEmbedding(engine="tcp://127.0.0.1:9").fit(X)


def test_a_scheduler_that_goes_away():
    """The pass ends with an error that says so, in bounded time."""
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        engine = Dask(n_workers=1, rows_per_part=10)
        scheduler = engine.client.cluster
        threading.Timer(0.5, scheduler.close).start()
        options = {**FEW, "kernel": slow_kernel(), "loss": "kernel_pca", "landmarks": X[:20]}
        with refuses(ConnectionError, "connection", "scheduler"):
            KernelEmbedding(**options, engine=engine).fit(X)
        engine.close()
