"""Faults of a cluster: killed workers, a scheduler that goes away, bad partitions of a fit, too little memory."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest

from hostile.cluster_kills import campaign, worker_pids
from krepes import KernelEmbedding
from krepes.engines import Dask, Local
from krepes.engines.pass_cost import check_worker_memory
from krepes.kernels import Gaussian
from krepes.machines import Cells, KernelRidgeRegressor
from krepes.sources import open_source
from refusals import refuses

pytest.importorskip("distributed", reason='needs pip install "krepes[scale]"')

X = np.random.default_rng(0).normal(size=(600, 3))
OPTIONS = {"n_landmarks": 20, "n_components": 3, "random_state": 0, "dtype": "float64"}


@pytest.mark.full
def test_workers_killed_at_random_moments():
    """Twenty fits and twenty writes: nothing is lost, and nothing is counted or written twice."""
    for work, count in campaign(20).items():
        assert count.right == count.runs == 20, (work, count.faults)
        assert count.killed >= 10, work  # or the test tests nothing


@pytest.mark.full
def test_a_scheduler_that_goes_away_while_workers_write(tmp_path):
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        engine = Dask(n_workers=1)
        model = KernelEmbedding(**OPTIONS, kernel=Gaussian(2.0)).fit(X)
        model.engine = engine
        cluster = engine.client.cluster
        threading.Timer(0.5, cluster.close).start()
        start = time.monotonic()
        with refuses(ConnectionError, "connection", "scheduler"):
            model.write(np.tile(X, (400, 1)), tmp_path / "out", rows_per_file=100)
        assert time.monotonic() - start < 60
        engine.close()
        done = len(list((tmp_path / "out").glob("part-*")))
        model.engine = None
        again = model.write(np.tile(X, (400, 1)), tmp_path / "out", rows_per_file=100)
        assert again.n_resumed >= done
        assert len(pd.read_parquet(tmp_path / "out")) == 400 * len(X)


@pytest.mark.parametrize("fault", ["unreadable", "schema", "nan"])
def test_a_bad_partition_of_a_fit_is_named_and_finished_work_is_kept(fault, tmp_path, monkeypatch, caplog):
    """The last file is bad when its turn comes; mended, the same call goes on from its checkpoint."""
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    for i in range(6):
        np.save(tmp_path / f"{i}.npy", X[100 * i : 100 * (i + 1)])
    bad = tmp_path / "5.npy"
    whole, stamp = bad.read_bytes(), bad.stat()
    model = KernelEmbedding(**OPTIONS, kernel=Gaussian(2.0), engine=Local(16))
    space = model.prepare(str(tmp_path))
    source = open_source(tmp_path)
    broken = X[500:600].copy()
    broken[3, 1] = np.nan
    contents = {"unreadable": None, "schema": X[500:600, :2], "nan": broken}[fault]
    if contents is None:
        bad.write_bytes(b"not an array")
    else:
        np.save(bad, contents)
    checkpoint = tmp_path / "state"

    with refuses(ValueError, "5.npy"):
        model.fit(source, space=space, checkpoint=checkpoint)
    assert checkpoint.exists()
    bad.write_bytes(whole)
    os.utime(bad, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    if fault == "nan":  # other values are other data: the state of the fit before is refused
        with refuses(ValueError, "another fit", "data"):
            model.fit(open_source(tmp_path), space=space, checkpoint=checkpoint)


def test_another_schema_is_refused_when_a_folder_is_opened(tmp_path):
    pd.DataFrame(X, columns=list("abc")).to_csv(tmp_path / "0.csv", index=False)
    pd.DataFrame(X, columns=list("abd")).to_csv(tmp_path / "1.csv", index=False)
    with refuses(ValueError, "1.csv", "'c'", "'d'"):
        open_source(tmp_path)
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "0.npy", X)
    np.save(tmp_path / "arrays" / "1.npy", X[:, :2])
    with refuses(ValueError, "1.npy", "(2,)"):
        open_source(tmp_path / "arrays")
    np.save(tmp_path / "2.npy", X)
    with refuses(ValueError, "files", "formats"):
        open_source(tmp_path)


def test_text_in_one_file_makes_the_column_text(tmp_path):
    pd.DataFrame({"a": [1, 2]}).to_csv(tmp_path / "0.csv", index=False)
    pd.DataFrame({"a": ["x", "3"]}).to_csv(tmp_path / "1.csv", index=False)
    assert open_source(tmp_path / "*.csv").take(np.arange(4)).to_pydict() == {"a": ["1", "2", "x", "3"]}


def test_a_partition_of_a_dask_frame_that_fails_is_named():
    dd = pytest.importorskip("dask.dataframe", reason='needs pip install "krepes[scale]"')

    def fails(part):
        if len(part) and part["a"].iloc[0] > 4:
            raise OSError("The disk does not answer.")
        return part

    frame = dd.from_pandas(pd.DataFrame({"a": np.arange(9.0), "b": np.arange(9.0)}), npartitions=3)
    made = frame.map_partitions(fails, meta=frame._meta)
    with refuses((OSError, ValueError), "does not answer"):
        open_source(made)


def test_sums_that_no_worker_can_hold_are_refused():
    model = KernelEmbedding(**OPTIONS)
    space = model.prepare(X)
    accumulator = model._accumulator(space)
    assert accumulator.bytes_of_sums >= 2 * 8 * space.rank**2
    check_worker_memory(None, accumulator)
    check_worker_memory(10**9, accumulator)
    with refuses(MemoryError, "10 kB"):
        check_worker_memory(10_000, accumulator)


@pytest.mark.parametrize("fault", ["no workers", "worker stopped", "scheduler stopped"])
def test_silence_is_told_and_ends(fault, caplog):
    """R19: a pass that nobody works on warns after some seconds, and ends with an error instead of waiting for ever."""
    from distributed import Client
    from distributed.deploy.subprocess import SubprocessCluster

    workers = 0 if fault == "no workers" else 1
    options = {"dashboard": False, "dashboard_address": None}
    with SubprocessCluster(n_workers=workers, threads_per_worker=1, scheduler_kwargs=options) as cluster:
        client = Client(cluster, set_as_default=False)
        engine = Dask(client, patience=4)
        # A scheduler reads the tasks itself, and answers nobody while it imports krepes.
        client.run_on_scheduler(importlib.import_module, "krepes.embedding")
        if fault == "worker stopped":
            process = client.submit(os.getpid).result()
        if fault == "scheduler stopped":
            process = cluster.scheduler.process.pid
        start = time.monotonic()
        try:
            if workers:
                os.kill(process, signal.SIGSTOP)
            with refuses(ConnectionError, "Dask", "answer" if workers else "no workers"):
                list(engine.each(abs, [-1, 2]))
        finally:
            if workers:
                os.kill(process, signal.SIGCONT)
        assert time.monotonic() - start < 40
        assert workers or "no workers" in caplog.text
        client.close()


class KillsOne(Dask):
    """Kills a worker of its own cluster as soon as the first cell is solved."""

    killed = 0

    def each(self, function, items):
        for number, result in enumerate(super().each(function, items)):
            if number == 0:
                os.kill(worker_pids(self)[0], signal.SIGKILL)
                self.killed += 1
            yield result


def test_a_worker_killed_among_cells_changes_nothing():
    """Its cells are solved by the other one: the same bits, and the same errors of rows left out."""
    options = {
        "kernel": Gaussian(1.0),
        "lengthscale": 1.0,
        "penalty": 0.1,
        "dtype": "float64",
        "random_state": 0,
    }
    options |= {"input_metric": None, "local": Cells(size=30)}
    y = np.sin(X[:, 0])
    expected = KernelRidgeRegressor(**options).fit(X, y)
    engine = KillsOne(n_workers=2)
    try:
        machine = KernelRidgeRegressor(**options, engine=engine).fit(X, y)
    finally:
        engine.close()
    assert engine.killed == 2  # one for each partition
    assert np.array_equal(machine.predict(X), expected.predict(X))
    assert np.array_equal(machine.held_out_predictions_, expected.held_out_predictions_)
