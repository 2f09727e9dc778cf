"""Models outside krepes: how far ONNX files are from krepes, their size, and the time of one row and of 1000.

    python benchmarks/serving.py            every kind of model on digits, patches of CIFAR-10, 20 tables
    python benchmarks/serving.py 5          that many tables

For every model: largest difference between onnxruntime and krepes over rows with missing values and unseen words,
relative to the largest number; of clusters, the share of rows that differ; bytes of both files; milliseconds for 1 row
and for all, medians of 5, one thread, and onnxruntime's time as a share of that of krepes.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from itertools import chain
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
from recording import data_file, record
from sklearn.datasets import load_digits

from krepes.autoencoder import KernelAutoencoder
from krepes.clustering import SubspaceClustering
from krepes.embedding import KernelEmbedding
from krepes.export import ExportError, program_of
from krepes.kernels import Gaussian, Patches
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.one_pass import OnePassEstimator

ROWS = 1000
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(uint8)": np.uint8}


def feeds_of(model, frame):
    """The columns of a frame as inputs of the file; an array is X."""
    if isinstance(frame, np.ndarray):
        return {"X": frame}
    found = {}
    for port in program_of(model).inputs:
        cells = frame[port.name]
        if port.dtype == "string":
            texts = cells.astype(object).where(cells.notna(), "").astype(str)
            found[port.name] = texts.str.replace(r"\.0$", "", regex=True).to_numpy(object)[:, None]
        elif "seconds" in port.meaning:
            seconds = cells.to_numpy("M8[us]").astype(np.int64) / 1e6
            found[port.name] = np.where(cells.isna(), np.nan, seconds)[:, None]
        else:
            found[port.name] = cells.to_numpy(np.float64, na_value=np.nan)[:, None]
    return found


def milliseconds(call, repeats=5):
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.median(seconds))


def messy(frame, model):
    """Rows with missing numbers and words that were never seen."""
    if isinstance(frame, np.ndarray):
        return frame
    frame = frame.copy()
    for j, column in enumerate(model.input_space_.encoder.columns_):
        if frame[column.name].dtype.kind == "f":
            frame.loc[frame.index[j::17], column.name] = np.nan
        elif column.role == "category" and not column.of_numbers:
            cells = frame[column.name].astype(object)
            cells[frame.index[j::19]] = "never seen"
            frame[column.name] = cells
    return frame


def measured(name, model, data, rows, output, of_krepes):
    """One line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        target, own = Path(folder, "m.onnx"), Path(folder, "m.krepes")
        model.to_onnx(target, **({} if isinstance(data, np.ndarray) else {"data": data}))
        if isinstance(model, SubspaceClustering):
            model.save(own)
        else:
            OnePassEstimator.save(model, own, sums=False)  # embeddings call their sums moments
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(target), options, providers=["CPUExecutionProvider"])
        sizes = target.stat().st_size, own.stat().st_size
    odd = messy(rows, model)
    types = {each.name: TYPES.get(each.type, object) for each in session.get_inputs()}

    def typed(frame):
        return {key: value.astype(types[key]) for key, value in feeds_of(model, frame).items()}

    expected = np.asarray(of_krepes(odd), dtype=np.float64)
    found = session.run([output], typed(odd))[0]
    if output == "label":
        difference = float(np.mean(found != expected))
    else:
        difference = float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max()))
    many, one = typed(rows), {key: value[:1] for key, value in typed(rows).items()}
    single = rows[:1]
    times = {
        "onnx_1": milliseconds(lambda: session.run([output], one)),
        "krepes_1": milliseconds(lambda: of_krepes(single)),
        "onnx_1000": milliseconds(lambda: session.run([output], many)),
        "krepes_1000": milliseconds(lambda: of_krepes(rows)),
    }
    line = {
        "model": name,
        "rows": len(rows),
        "difference": difference,
        "onnx_bytes": sizes[0],
        "krepes_bytes": sizes[1],
    }
    line |= {key: round(value, 3) for key, value in times.items()}
    line["ratio_1"], line["ratio"] = (
        times["onnx_1"] / times["krepes_1"],
        times["onnx_1000"] / times["krepes_1000"],
    )
    print(
        f"{name:<34} {difference:8.1e} {sizes[0] / 1e6:7.2f} MB {sizes[1] / 1e6:7.2f} MB   1 row "
        f"{times['onnx_1']:7.2f} ms, {line['ratio_1']:5.2f} of krepes   {len(rows)} rows {times['onnx_1000']:8.1f} ms, "
        f"{line['ratio']:5.2f}",
        flush=True,
    )
    return line


def of_arrays():
    """Every kind of model on digits."""
    images, y = load_digits(return_X_y=True)
    X = (images / 16).astype(np.float32)
    train, rows = X[:800], X[800:1797][:ROWS]
    common = {"random_state": 0, "lengthscale": "median", "input_metric": None, "kernel": "gaussian"}
    embedding = KernelEmbedding(32, n_landmarks=300, random_state=0).fit(train)
    yield "embedding, digits", embedding, train, rows, "embedding", embedding.transform
    pixels = images.reshape(-1, 8, 8).round().astype(np.uint8) * 15
    pictures = KernelEmbedding(32, n_landmarks=300, random_state=0).fit(pixels[:800])
    yield "embedding, pictures", pictures, pixels, pixels[800:], "embedding", pictures.transform
    ridge = KernelRidgeClassifier(**common).fit(train, y[:800])
    yield "ridge classes, digits", ridge, train, rows, "probabilities", ridge.predict_proba
    cells = KernelRidgeClassifier(**common, local=True).fit(train, y[:800])
    yield "ridge classes in cells, digits", cells, train, rows[:100], "probabilities", cells.predict_proba
    process = GaussianProcessRegressor(**common).fit(train[:500], y[:500])
    deviation = lambda A: process.predict(A, return_std=True)[1]  # noqa: E731
    yield "process, mean", process, train, rows, "prediction", process.predict
    yield "process, deviation", process, train, rows, "deviation", deviation
    classes = GaussianProcessClassifier(**common).fit(train[:300], y[:300] % 3)
    yield "process, classes", classes, train, rows, "probabilities", classes.predict_proba
    novelty = NoveltyDetector(kernel="gaussian", lengthscale="median", random_state=0).fit(train)
    yield "novelty, score", novelty, train, rows, "score", novelty.score_samples
    yield "novelty, p-value", novelty, train, rows, "p_value", novelty.p_values
    auto = KernelAutoencoder(8, max_iter=10, tol=1e9, random_state=0).fit(train[:200])
    yield "autoencoder, encode", auto, train, rows, "embedding", auto.transform
    yield "autoencoder, decode", auto, train, rows, "reconstruction", auto.reconstruct

    clusters = SubspaceClustering(10, n_iterations=2, random_state=0).fit(train)
    yield "clusters, digits", clusters, train, rows.astype(np.float64), "label", clusters.predict


def of_patches():
    """Kernels of patches on digits and CIFAR-10: alone, under a Gaussian, times one of pixels, in two layers."""
    digits, y = load_digits(return_X_y=True)
    grey = (digits * 15).astype(np.uint8).reshape(-1, 8, 8)
    colour = np.load(data_file("cifar10_train20k.npz"))
    kernels = {
        "patches": Patches(128),
        "patches, Gaussian": Patches(128, kernel="gaussian"),
        "patches times pixels": Patches(128, kernel="gaussian") * Gaussian(),
        "patches in two layers, mirrored": Patches(128, layers=2, mirror=True),
    }
    for data, X, labels, n in (("digits", grey, y, 500), ("CIFAR-10", colour["X"], colour["y"], 300)):
        train, rows = X[:n], X[n : n + 100]
        for name, kernel in kernels.items():
            common = {"kernel": kernel, "n_landmarks": 200, "random_state": 0}
            embedding = KernelEmbedding(32, loss="kernel_pca", **common).fit(train)
            yield f"{name}, {data}", embedding, train, rows, "embedding", embedding.transform
        ridge = KernelRidgeClassifier(**common | {"kernel": kernels["patches, Gaussian"]}).fit(
            train, labels[:n]
        )
        yield f"ridge, patches, {data}", ridge, train, rows, "probabilities", ridge.predict_proba


def of_tables(most):
    """Ridge machines of tables."""
    for path in sorted(data_file("tables").glob("*.parquet"))[:most]:
        frame = pd.read_parquet(path)
        frame = frame.sample(min(len(frame), 1200 + ROWS), random_state=0).reset_index(drop=True)
        y, X = frame["target"], frame.drop(columns="target")
        half = len(X) // 2
        regression = y.dtype.kind == "f"
        kind = KernelRidgeRegressor if regression else KernelRidgeClassifier
        model = kind(random_state=0, kernel="auto", lengthscale="median", input_metric=None, n_landmarks=300)
        model.fit(X[:half], y[:half].to_numpy())
        output, call = ("prediction", model.predict) if regression else ("probabilities", model.predict_proba)
        yield path.stem, model, X[:half], X[half:].reset_index(drop=True)[:ROWS], output, call


def main(most=20):
    lines = []
    for each in chain(of_arrays(), of_patches(), of_tables(most)):
        try:
            lines.append(measured(*each))
        except ExportError as error:
            print(f"{each[0]:<34} refused: {error}", flush=True)
            lines.append({"model": each[0], "refused": str(error)})
    record("serving", {"models": lines}, shown=False)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
