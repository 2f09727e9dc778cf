"""Sparse text, which package a function comes from: time and memory beside dense rows, accuracy beside linear models.

    python benchmarks/sparse_text.py [quality] [memory] [--rows 24000] [--columns 60000] [--landmarks 2000]

Rows are functions of the packages that are installed here, found with ast: documentation and body, at most 800
characters, without the function's name. Features are tf-idf weights of 3 to 5 characters; the package is the label.
Nothing is downloaded, so that the rows depend on what is installed; the numbers of rows and packages are recorded.
Whole files are either for learning or for testing, because functions of one file resemble each other. Finding the rows
takes minutes: they are kept in the folder of temporary files.

memory: the same embedding (Gaussian kernel, kernel PCA, 1000 landmarks chosen among 5000 rows) from a sparse file that
is read in parts, from sparse rows in memory, and from the same rows made dense in float32. Every fit has a process of
its own, whose peak resident size is read at its end. The dense fit needs 4 bytes for every cell, 6 GB.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse
from recording import clock, record
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.svm import LinearSVC

from krepes import KernelEmbedding
from krepes.machines import KernelRidgeClassifier

N_PACKAGES, LEAST, CHARACTERS = 24, 40, 800
FEW = (5, 20)  # labels of every package
CHILD = """
import resource, sys, time
import numpy as np, scipy.sparse
from krepes import KernelEmbedding
from krepes.kernels import Gaussian
from krepes.landmarks import PivotedCholesky
way, path = sys.argv[1:]
X = path if way == "file" else scipy.sparse.load_npz(path)
start = time.perf_counter()
if way == "dense":
    X = X.toarray()
model = KernelEmbedding(64, kernel=Gaussian(1.0), loss="kernel_pca", n_landmarks=1000, random_state=0,
                        landmarks=PivotedCholesky(max_candidates=5000)).fit(X)
fitted = time.perf_counter() - start
Z = np.concatenate(list(model.iter_transform(X)))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, fitted, time.perf_counter() - start - fitted,
      np.abs(Z).sum())
"""


def functions(file: Path) -> list[str]:
    """Documentation and body of every function of a file."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, ValueError, RecursionError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = "\n".join(map(ast.unparse, node.body))[:CHARACTERS]
            if len(text) >= LEAST:
                found.append(text)
    return found


def gathered(n_rows: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Texts, their packages and their files: as many of every package as there are to have n_rows in all."""
    folder, per_package = Path(sysconfig.get_paths()["purelib"]), {}
    for package in sorted(path for path in folder.iterdir() if (path / "__init__.py").exists()):
        files = sorted(package.rglob("*.py"))
        order = np.random.default_rng(0).permutation(len(files))
        seen: dict[str, str] = {}
        for i in order:
            if len(seen) >= n_rows // N_PACKAGES * 2:
                break
            seen |= {text: str(files[i]) for text in functions(files[i])}
        per_package[package.name] = seen
    largest = sorted(per_package, key=lambda name: (-len(per_package[name]), name))[:N_PACKAGES]
    rows: list[tuple[str, str, str]] = []
    for name in largest:
        chosen = list(per_package[name].items())[: n_rows // N_PACKAGES]
        rows += [(text, name, file) for text, file in chosen]
    order = np.random.default_rng(1).permutation(len(rows))
    texts, packages, files = zip(*(rows[i] for i in order))
    return list(texts), np.array(packages), np.array(files)


def data(n_rows: int, n_columns: int) -> tuple[scipy.sparse.csr_matrix, np.ndarray, np.ndarray, float]:
    """Features, packages, whether a row is for testing, and seconds of the vectorizer; found before, or now."""
    kept = Path(tempfile.gettempdir()) / f"krepes_sparse_text_{n_rows}_{n_columns}.npz"
    if not kept.exists():
        X, y, test, seconds = features(n_rows, n_columns)
        np.savez(kept, values=X.data, columns=X.indices, edges=X.indptr, y=y, test=test, seconds=seconds)
    with np.load(kept) as file:
        parts = (file["values"], file["columns"], file["edges"])
        X = scipy.sparse.csr_matrix(parts, shape=(len(file["y"]), n_columns))
        return X, file["y"], file["test"], float(file["seconds"])


def features(n_rows: int, n_columns: int) -> tuple[scipy.sparse.csr_matrix, np.ndarray, np.ndarray, float]:
    texts, packages, files = gathered(n_rows)
    names = np.unique(files)
    held_out = np.random.default_rng(2).permutation(names)[: len(names) // 4]
    test = np.isin(files, held_out)
    vectorizer = TfidfVectorizer(
        analyzer="char", ngram_range=(3, 5), max_features=n_columns, sublinear_tf=True, dtype=np.float32
    )
    found: dict[str, float] = {}
    with clock(found, "seconds"):
        vectorizer.fit([text for text, out in zip(texts, test) if not out])
        X = vectorizer.transform(texts)
    return X, packages, test, found["seconds"]


def quality(
    X: scipy.sparse.csr_matrix, y: np.ndarray, test: np.ndarray, n_landmarks: int, figures: dict
) -> None:
    models = {
        "LogisticRegression": LogisticRegression(C=10, max_iter=200),
        "LinearSVC": LinearSVC(),
        f"KernelRidgeClassifier, {n_landmarks} landmarks": KernelRidgeClassifier(
            n_landmarks=n_landmarks, random_state=0
        ),
    }
    for name, model in models.items():
        with clock(figures, f"{name}: seconds of fit"):
            model.fit(X[~test], y[~test])
        with clock(figures, f"{name}: seconds of prediction"):
            figures[f"{name}: accuracy"] = round(100 * model.score(X[test], y[test]), 2)
        print(name, figures[f"{name}: accuracy"], flush=True)
    figures["kernel chosen"] = repr(model.kernel_)
    embeddings = {"kernel PCA": "kernel_pca", "default loss, sparse views": "spectral_contrastive"}
    for name, loss in embeddings.items():
        embedding = KernelEmbedding(128, loss=loss, n_landmarks=1000, random_state=0)
        with clock(figures, f"{name}: seconds of fit"):
            embedding.fit(X[~test])
        few_labels(name, embedding.transform(X[~test]), embedding.transform(X[test]), y, test, figures)
    few_labels("tf-idf", X[~test], X[test], y, test, figures)


def few_labels(
    name: str, train: np.ndarray, held_out: np.ndarray, y: np.ndarray, test: np.ndarray, figures: dict
) -> None:
    """Accuracy of logistic regression with a few labels of every package, its C by cross-validation."""
    scale = np.sqrt(np.mean(np.square(train.data if scipy.sparse.issparse(train) else train)))
    for n in FEW:
        found = []
        for draw in range(3):
            order = np.random.default_rng(draw).permutation(len(y[~test]))
            chosen = np.concatenate([order[y[~test][order] == name][:n] for name in np.unique(y)])
            probe = LogisticRegressionCV(Cs=np.logspace(-2, 3, 6), cv=3, max_iter=200, l1_ratios=(0,))
            probe.fit(train[chosen] / scale, y[~test][chosen])
            found.append(100 * probe.score(held_out / scale, y[test]))
        figures[f"{name}: accuracy with {n} labels of each"] = round(float(np.mean(found)), 2)
        print(name, n, found, flush=True)


def memory(X: scipy.sparse.csr_matrix, figures: dict) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npz"
        scipy.sparse.save_npz(path, X, compressed=False)
        figures["file MB"] = round(path.stat().st_size / 1e6, 1)
        totals = []
        for way in ("file", "memory", "dense"):
            done = subprocess.run(
                [sys.executable, "-c", CHILD, way, str(path)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                figures[f"{way}: failed"] = (
                    done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode
                )
                continue
            peak, fitted, transformed, total = (float(value) for value in done.stdout.split())
            totals.append(total)
            figures[f"{way}: peak MB"] = round(peak)
            figures[f"{way}: seconds of fit"] = round(fitted, 1)
            figures[f"{way}: seconds of transform"] = round(transformed, 1)
            print(way, peak, fitted, transformed, flush=True)
        figures["largest relative difference of sums |Z|"] = float(np.ptp(totals) / np.mean(totals))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=24_000)
    parser.add_argument("--columns", type=int, default=60_000)
    parser.add_argument("--landmarks", type=int, default=2000)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    X, y, test, seconds = data(args.rows, args.columns)
    figures: dict = {
        "rows": X.shape[0],
        "columns": X.shape[1],
        "entries per row": round(X.nnz / X.shape[0], 1),
        "packages": len(np.unique(y)),
        "largest package, share": round(
            100 * np.unique(y[test], return_counts=True)[1].max() / test.sum(), 1
        ),
        "rows for testing": int(test.sum()),
        "seconds of TfidfVectorizer": seconds,
    }
    print(figures, flush=True)
    parts = args.parts or ["memory", "quality"]
    if "memory" in parts:
        memory(X, figures)
    if "quality" in parts:
        quality(X, y, test, args.landmarks, figures)
    record("_".join(["sparse_text", *args.parts]), figures)


if __name__ == "__main__":
    main()
