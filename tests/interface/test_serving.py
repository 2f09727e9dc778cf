"""`krepes serve`: answers, limits, and errors that name the row and the column."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from scipy.sparse import csr_matrix

from command_line import run
from krepes import KernelEmbedding
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor, NoveltyDetector

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
from fastapi.testclient import TestClient

from krepes.serving.server import ANSWERS, Limits, application

RNG = np.random.default_rng(0)
FAST = {"kernel": "gaussian", "lengthscale": "median", "input_metric": None, "random_state": 0}


def people(n=80):
    return pd.DataFrame(
        {
            "age": RNG.normal(40, 10, n).round(1),
            "job": RNG.choice(["cook", "smith"], n),
            "member": RNG.choice(["yes", "no"], n),
            "when": pd.Timestamp("2021-01-01") + pd.to_timedelta(RNG.uniform(0, 900, n), unit="D"),
        }
    )


FRAME = people()


@pytest.fixture(scope="module")
def model():
    return KernelRidgeClassifier(**FAST).fit(FRAME, np.where(FRAME.age > 40, "old", "young"))


def rows_of(frame):
    return json.loads(frame.assign(when=frame.when.map(pd.Timestamp.isoformat)).to_json(orient="records"))


def test_predictions_and_explanations_are_those_of_the_model(model):
    client = TestClient(application(model))
    found = client.post("/predict", json={"rows": rows_of(FRAME[:9])}).json()
    assert found["label"] == model.predict(FRAME[:9]).tolist()
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(FRAME[:9]), rtol=1e-6)
    told = client.post("/explain", json={"rows": rows_of(FRAME[:3])}).json()
    assert told["of"] == found["label"][:3]
    assert [len(each) for each in told["rows"]] == [5, 5, 5]
    assert told["rows"][0][0].keys() == {"row", "target", "adds", "effect"}
    assert client.post("/transform", json={"rows": []}).status_code == 404
    assert client.get("/health").json() == {"status": "ok"}
    schema = client.get("/schema").json()
    assert schema["sha256"] == model.identity()["model"]
    assert list(schema["request"]["properties"]["rows"]["items"]["properties"]) == list(FRAME)
    assert client.get("/openapi.json").status_code == 200


def test_other_kinds_of_models_and_rows():
    X = RNG.normal(size=(70, 3))
    novelty = NoveltyDetector(kernel="gaussian", lengthscale="median", random_state=0).fit(X)
    found = TestClient(application(novelty)).post("/predict", json={"rows": X[:4].tolist()}).json()
    np.testing.assert_allclose(found["p_value"], novelty.p_values(X[:4]))
    waves = RNG.normal(size=(40, 6, 2)).cumsum(1)
    series = KernelEmbedding(2, preprocess="series", loss="kernel_pca", n_landmarks=8, random_state=0).fit(
        waves
    )
    found = TestClient(application(series)).post("/transform", json={"rows": waves[:4].tolist()}).json()
    np.testing.assert_allclose(found["embedding"], series.transform(waves[:4]), rtol=1e-5, atol=1e-7)
    images = RNG.integers(0, 256, (40, 3, 3), dtype=np.uint8)
    embedding = KernelEmbedding(2, loss="kernel_pca", n_landmarks=8, random_state=0).fit(images)
    client = TestClient(application(embedding))
    found = client.post("/transform", json={"rows": images[:4].tolist()}).json()
    np.testing.assert_allclose(found["embedding"], embedding.transform(images[:4]), rtol=1e-5)
    for pixel, status in ((7.0, 200), (7.5, 422), (300, 422), (True, 422)):
        answer = client.post("/transform", json={"rows": [[[0, 0, 0], [0, pixel, 0], [0, 0, 0]]]})
        assert answer.status_code == status
        if status == 422:
            told = answer.json()["error"]
            assert told.startswith("row 0, column 1, column 1: expected a whole number")


def test_rows_that_json_does_not_hold_are_refused_when_the_server_starts():
    common = {"loss": "kernel_pca", "n_landmarks": 8, "random_state": 0}
    sparse = KernelEmbedding(2, **common).fit(csr_matrix(RNG.random((30, 5))))
    several = [RNG.normal(size=(n, 2)) for n in RNG.integers(3, 9, 20)]
    lengths = KernelEmbedding(2, preprocess="series", **common).fit(several)
    for model, taken in ((sparse, "takes sparse"), (lengths, "series of any length")):
        with pytest.raises(ValueError, match=taken):
            application(model)


BROKEN = [
    (b"{", 400, "not JSON"),
    (b"[" * 100_000, 400, "not JSON"),
    (b'{"rows": [{"age": NaN}]}', 400, "NaN is not a number of JSON"),
    (b"[]", 422, "Expected an object"),
    (b'{"rows": {}}', 422, "expected a list"),
    (b'{"rows": [5]}', 422, "row 0: expected an object of columns, got 5"),
    (b'{"rows": [{"age": 5}]}', 422, "row 0: column 'job' is not there"),
    (b'{"rows": [{"age": "x", "job": "cook", "member": "yes", "when": null}]}', 422, "row 0, column 'age'"),
    (b'{"rows": [{"age": 1e99, "job": "cook", "member": "yes", "when": null}]}', 422, "beyond"),
    (b'{"rows": [{"age": 5, "job": 7, "member": "yes", "when": null}]}', 422, "row 0, column 'job'"),
    (b'{"rows": [{"age": 5, "job": "cook", "member": "yes", "when": "soon"}]}', 422, "row 0, column 'when'"),
]


@pytest.mark.parametrize(("body", "status", "words"), BROKEN)
def test_bad_rows_are_refused_by_name(model, body, status, words):
    answer = TestClient(application(model)).post("/predict", content=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]


def test_limits_and_token(model):
    client = TestClient(application(model, Limits(body_bytes=1000, rows=2), "secret"))
    row = rows_of(FRAME[:1])
    assert client.post("/predict", json={"rows": row}).status_code == 401
    client.headers["authorization"] = "Bearer secret"
    assert client.post("/predict", json={"rows": row}).status_code == 200
    assert client.post("/predict", json={"rows": row * 3}).status_code == 422
    assert client.post("/predict", content=b" " * 2000).status_code == 413
    slow = TestClient(application(model, Limits(seconds=1e-9)))
    assert slow.post("/predict", json={"rows": row}).status_code == 408
    full = TestClient(application(model, Limits(waiting=0)))
    assert full.post("/predict", json={"rows": row}).status_code == 429


def test_rows_that_took_too_long_keep_their_place_until_they_are_done(model, monkeypatch):
    """Otherwise any number of slow requests, one after the other, would be at work together."""
    at_work, most, lock = [], [], threading.Lock()

    def slow(*_):
        """Rows that take their time."""
        with lock:
            at_work.append(1)
            most.append(len(at_work))
        time.sleep(0.5)
        with lock:
            at_work.pop()
        return {}

    monkeypatch.setitem(ANSWERS, "predict", slow)
    with TestClient(application(model, Limits(seconds=0.1, at_once=2))) as client:
        row = rows_of(FRAME[:1])
        found = [client.post("/predict", json={"rows": row}).status_code for _ in range(8)]
    assert set(found) == {408}
    assert max(most) == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [("--port", -5), ("--port", 99999), ("--most-rows", 0), ("--most-bytes", -1), ("--seconds", 0)],
)
def test_limits_that_let_nothing_in_are_refused(option, value, tmp_path):
    """A port that is none was an error of asyncio, and the other servers answered nobody."""
    (tmp_path / "m.krepes").touch()
    said = run("serve", tmp_path / "m.krepes", option, value, code=1)
    assert f"{option}={value}" in said


def test_another_host_needs_a_token(model, tmp_path):
    model.save(tmp_path / "m.krepes")
    command = [sys.executable, "-m", "krepes", "serve", str(tmp_path / "m.krepes"), "--host", "0.0.0.0"]
    told = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "KREPES_TOKEN": ""})
    assert told.returncode == 1
    assert "KREPES_TOKEN" in told.stderr


class Server:
    """`krepes serve` in a process of its own."""

    def __init__(self, path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.path, self.process = path, None

    def start(self):
        command = [sys.executable, "-m", "krepes", "serve", str(self.path), "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, "--most-bytes", "100000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(1200):
            try:
                if self.ask("GET", "/health")[0] == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("The server did not start.")

    def ask(self, method, path, body=None):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def memory(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096


@pytest.mark.full
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
def test_a_thousand_requests_of_sixteen_clients(model, tmp_path):
    model.save(tmp_path / "m.krepes")
    server = Server(tmp_path / "m.krepes")
    server.start()
    try:
        good = json.dumps({"rows": rows_of(FRAME[:20])}).encode()
        bodies = [
            (good, 200),
            (b"{", 400),
            (good, 200),
            (b'{"rows": [7]}', 422),
            (good, 200),
            (b" " * 200_000, 413),
        ]
        expected = json.loads(server.ask("POST", "/predict", good)[1])["label"]
        lock, seen = threading.Lock(), []

        def one(i):
            body, status = bodies[i % len(bodies)]
            try:
                found, text = server.ask("POST", "/predict", body)
            except (BrokenPipeError, ConnectionResetError):
                found, text = status if status == 413 else 0, b"{}"  # sent away before it had sent all
            with lock:
                seen.append((found, status, status != 200 or json.loads(text)["label"] == expected))

        with ThreadPoolExecutor(16) as clients:
            list(clients.map(one, range(200)))
            before, start = server.memory(), time.perf_counter()
            list(clients.map(one, range(1000)))
        seconds, grown = time.perf_counter() - start, server.memory() - before
        sys.stderr.write(f"1000 requests in {seconds:.1f} s, memory grown by {grown / 1e6:.1f} MB\n")
        assert len(seen) == 1200
        assert {(found, status) for found, status, _ in seen} <= {(s, s) for s in (200, 400, 413, 422)}
        assert all(right for _, _, right in seen)
        assert grown < 30e6
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        server.start()
        assert json.loads(server.ask("POST", "/predict", good)[1])["label"] == expected
    finally:
        server.process.kill()
        server.process.wait()


@pytest.mark.parametrize("kind", ["table", "pictures"])
def test_schemathesis_finds_nothing(kind, model):
    """Requests made from the server's own schema, to the application itself: no port is opened."""
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    if kind == "pictures":
        pictures = RNG.integers(0, 256, (40, 3, 3), dtype=np.uint8)
        model = KernelEmbedding(2, loss="kernel_pca", n_landmarks=8, random_state=0).fit(pictures)
    schema = schemathesis.openapi.from_asgi("/openapi.json", application(model))
    for operation in schema.get_all_operations():

        @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
        @given(operation.ok().as_strategy())
        def check(case):
            case.call_and_validate()

        check()


def test_regression_answers_numbers():
    X = RNG.normal(size=(60, 2))
    machine = KernelRidgeRegressor(**FAST).fit(X, X[:, 0])
    found = TestClient(application(machine)).post("/predict", json={"rows": X[:3].tolist()}).json()
    np.testing.assert_allclose(found["prediction"], machine.predict(X[:3]))
