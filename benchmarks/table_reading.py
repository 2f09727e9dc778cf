"""What reading a table costs beside the kernel pass, and what a column of running text is worth.

    python benchmarks/table_reading.py [cost] [text]

cost: Adult and CoverType as CSV files. Seconds of the processor for pyarrow's own reader, for the scan for types
(`open_source`), for the scan that decides what columns are (numbers and dates in every form, levels, a sample of rows),
for encoding all rows, and for a whole default fit with 1000 landmarks, which does all of these and the kernel pass.

text: functions of five installed packages; the package is to be told from the number of arguments, the number of lines
and the documentation. `KernelRidgeClassifier` without the text, with it hashed into 128 columns (the default), and
logistic regression on tf-idf weights of 3 to 5 characters beside them. Half of the files are for testing.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import pyarrow.csv
from recording import data_file, record
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from krepes import KernelEmbedding, TableEncoder
from krepes.machines import KernelRidgeClassifier
from krepes.sources import open_source

PACKAGES = ("sklearn", "scipy", "pandas", "torch", "matplotlib")
PER_PACKAGE = 800


@contextmanager
def clock(figures: dict[str, Any], name: str) -> Iterator[None]:
    """Store the processor's seconds, which other work on the machine changes little."""
    start = time.process_time()
    yield
    figures[name] = round(time.process_time() - start, 2)


def covertype() -> pd.DataFrame:
    stored = np.load(data_file("covtype.npz"))
    return pd.DataFrame(stored["X"], columns=[f"x{j}" for j in range(stored["X"].shape[1])])


def adult() -> pd.DataFrame:
    return pd.read_parquet(data_file("adult.parquet"))


def cost(frame: pd.DataFrame) -> dict[str, Any]:
    figures: dict[str, Any] = {"rows": len(frame), "columns": frame.shape[1]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        frame.to_csv(path, index=False)
        figures["MB"] = round(path.stat().st_size / 1e6, 1)
        with clock(figures, "CPU seconds, pyarrow.csv.read_csv"):
            pyarrow.csv.read_csv(path, pyarrow.csv.ReadOptions(use_threads=False))
        with clock(figures, "CPU seconds, scan for types"):
            source = open_source(path)
        with clock(figures, "CPU seconds, scan of columns"):
            encoder = TableEncoder().fit(source)
        with clock(figures, "CPU seconds, encoding of all rows"):
            for _, batch in (
                source.select(encoder.used_columns_).as_text(encoder.written_columns_).batches(8192)
            ):
                encoder.transform(batch)
        with clock(figures, "CPU seconds, whole fit"):
            KernelEmbedding(random_state=0).fit(path)
    return figures


def functions() -> pd.DataFrame:
    """Documented functions, at most 800 of each package."""
    rows = []
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        files = sorted(Path(str(spec.origin)).parent.rglob("*.py"))
        found: list[dict[str, Any]] = []
        for file in np.random.default_rng(0).permutation(np.array(files, dtype=object)):
            if len(found) >= PER_PACKAGE:
                break
            for node in ast.walk(ast.parse(file.read_text("utf-8", "replace"))):
                text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
                if text and len(text.split()) > 5:
                    lines = (node.end_lineno or node.lineno) - node.lineno
                    row = {"n_args": len(node.args.args), "n_lines": lines, "text": text[:400]}
                    found.append(row | {"file": str(file), "package": package})
        rows += found[:PER_PACKAGE]
    return pd.DataFrame(rows)


def text() -> dict[str, Any]:
    frame = functions()
    files = frame["file"].unique()
    test = frame["file"].isin(np.random.default_rng(1).permutation(files)[: len(files) // 2]).to_numpy()
    y, X = frame["package"].to_numpy(), frame[["n_args", "n_lines", "text"]]
    figures: dict[str, Any] = {"rows": len(frame), "for testing": int(test.sum())}
    models = {
        "numbers only": KernelRidgeClassifier(preprocess=TableEncoder(exclude=["text"]), random_state=0),
        "with hashed text, the default": KernelRidgeClassifier(random_state=0),
    }
    for name, model in models.items():
        start = time.process_time()
        model.fit(X[~test], y[~test])
        figures[f"CPU seconds, {name}"] = round(time.process_time() - start, 1)
        figures[f"accuracy, {name}"] = round(float(np.mean(model.predict(X[test]) == y[test])), 4)
    linear = make_pipeline(
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), max_features=30_000),
        LogisticRegression(C=10, max_iter=500),
    ).fit(X["text"][~test], y[~test])
    score = np.mean(linear.predict(X["text"][test]) == y[test])
    figures["accuracy, logistic regression on tf-idf of the text"] = round(float(score), 4)
    figures["accuracy, the largest class"] = round(
        float(pd.Series(y[test]).value_counts(normalize=True).iloc[0]), 4
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], "cost", "text"], default=[])
    parts = parser.parse_args().parts or ["cost", "text"]
    warnings.simplefilter("ignore")
    figures: dict[str, Any] = {}
    if "cost" in parts:
        figures |= {"adult": cost(adult()), "covertype": cost(covertype())}
    if "text" in parts:
        figures["text"] = text()
    record("table_reading", figures)


if __name__ == "__main__":
    main()
