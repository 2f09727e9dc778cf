"""One classifier served in five ways, beside scikit-learn's pipeline and LightGBM: bytes, and time of 1 and 1000 rows.

    python benchmarks/serving_ways.py [FOLDER]       FOLDER gets screenshots of the page, and the pages

The table is german (1000 rows, 20 columns), a ridge machine with 300 landmarks; one thread. The page also scores 50
rows with missing values and 20 digits, whose largest difference to krepes is shown. LightGBM is left out if it
is absent.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
import sys
import tempfile
import threading
import time
import urllib.request
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import torch
import uvicorn
from recording import data_file, record
from serving import feeds_of, messy, milliseconds
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import krepes
from krepes.machines import KernelRidgeClassifier
from krepes.report.scoring_page import write_scoring_page
from krepes.serving.server import application

PORT = 18_473
FAST = {"random_state": 0, "lengthscale": "median", "input_metric": None, "n_landmarks": 300}


def plain(frame):
    """Rows as JSON has them."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{key: v.item() if isinstance(v, np.generic) else v for key, v in row.items()} for row in rows]


def post(rows):
    body = json.dumps({"rows": rows}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/predict", body) as answer:
        return json.load(answer)


def main(folder):
    frame = pd.read_parquet(data_file("tables/german.parquet"))
    y, X = frame["target"].astype(str).to_numpy(), frame.drop(columns="target")
    model = KernelRidgeClassifier(**FAST).fit(X[:500], y[:500])
    rows = pd.concat([X[500:], X[500:]]).reset_index(drop=True)
    lines = {}

    def line(name, size, call_of):
        one, many = milliseconds(call_of(rows[:1])), milliseconds(call_of(rows))
        lines[name] = {"bytes": size, "one_row_ms": round(one, 3), "thousand_rows_ms": round(many, 2)}
        print(f"{name:<28} {size / 1e6:8.2f} MB {one:9.3f} ms {many:10.2f} ms", flush=True)

    own = folder / "model.krepes"
    model.save(own, sums=False, overwrite=True)
    loaded = krepes.load(own)
    line("krepes.load", own.stat().st_size, lambda A: lambda: loaded.predict_proba(A))
    target = folder / "model.onnx"
    model.to_onnx(target, data=X, overwrite=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(target), options, providers=["CPUExecutionProvider"])

    def by_onnx(A):
        feeds = feeds_of(model, A)
        return lambda: session.run(["probabilities"], feeds)

    line("ONNX", target.stat().st_size, by_onnx)
    module = model.as_module()

    def by_module(A):
        encoded = torch.from_numpy(model.input_space_.encoder.transform(A)).to(next(module.buffers()).dtype)
        return lambda: module(encoded)

    size = sum(buffer.nbytes for buffer in module.buffers())
    line("torch module, encoded rows", size, by_module)
    server = uvicorn.Server(uvicorn.Config(application(loaded), port=PORT, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)

    def by_server(A):
        given = plain(A)
        return lambda: post(given)

    line("krepes serve", own.stat().st_size, by_server)
    figures = {"differences": in_browser(model, X, rows, folder, line)}
    text = make_column_selector(dtype_exclude=np.number)
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), text), remainder=StandardScaler(), sparse_threshold=0
    )
    pipeline = make_pipeline(encoder, LogisticRegression(max_iter=1000)).fit(X[:500], y[:500])
    line("scikit-learn, logistic", len(pickle.dumps(pipeline)), lambda A: lambda: pipeline.predict_proba(A))
    if importlib.util.find_spec("lightgbm"):
        from lightgbm import LGBMClassifier

        forest = make_pipeline(encoder, LGBMClassifier(n_jobs=1, verbose=-1)).fit(X[:500], y[:500])
        line("LightGBM, same encoder", len(pickle.dumps(forest)), lambda A: lambda: forest.predict_proba(A))
    server.should_exit = True
    record("serving_ways", figures | {"ways": lines}, shown=False)
    print("page, largest differences:", figures["differences"])


def in_browser(model, X, rows, folder, line):
    """Times of the page, and how far it is from krepes on 50 messy rows and 20 digits."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from headless_browser import chromium

    score = "return arguments[0].map((row) => krepesScore(row).probabilities)"
    page, other = folder / "table.html", folder / "digits.html"
    write_scoring_page(model, page, X, overwrite=True)
    pixels, y = load_digits(return_X_y=True)
    images = (pixels * 15).astype(np.uint8).reshape(-1, 8, 8)
    digits = KernelRidgeClassifier(**FAST, kernel="gaussian").fit(images[:500], y[:500])
    write_scoring_page(digits, other, overwrite=True)
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as browser:
        browser.driver.set_window_size(1100, 900)
        browser.driver.get(page.as_uri())
        odd = messy(rows[:50], model)
        found = {
            "table": float(np.abs(np.array(browser.run(score, plain(odd))) - model.predict_proba(odd)).max())
        }
        browser.driver.save_screenshot(str(folder / "table.png"))

        def by_page(A):
            given = plain(A)
            browser.run("window.given = arguments[0]", given)
            return lambda: browser.run("given.forEach(krepesScore)")

        line("page, in Chromium", page.stat().st_size, by_page)
        browser.driver.get(other.as_uri())
        given = [{"X": image.ravel().tolist()} for image in images[500:520]]
        expected = digits.predict_proba(images[500:520])
        found["digits"] = float(np.abs(np.array(browser.run(score, given)) - expected).max())
        found["bytes"] = [page.stat().st_size, other.stat().st_size]
        browser.driver.save_screenshot(str(folder / "digits.png"))
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            main(Path(place))
