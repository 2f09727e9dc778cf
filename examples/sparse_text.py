"""Sparse text: tf-idf weights of character n-grams, in a pipeline, without ever making the rows dense."""

import ast
import importlib
import inspect

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from krepes import KernelEmbedding
from krepes.machines import KernelRidgeClassifier

MODULES = [
    "argparse",
    "ast",
    "asyncio.base_events",
    "decimal",
    "doctest",
    "email.message",
    "fractions",
    "http.client",
]
MODULES += ["logging", "pickle", "statistics", "tarfile", "typing", "unittest.mock", "zipfile"]


def functions(module: str) -> list[str]:
    """Documentation and body of a module's functions, at most 500 characters of each."""
    name = "_pydecimal" if module == "decimal" else module
    source = inspect.getsource(importlib.import_module(name))
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return sorted({"\n".join(map(ast.unparse, node.body))[:500] for node in nodes})


texts = {module: functions(module) for module in MODULES}
X = [text for module in MODULES for text in texts[module]]
y = np.repeat(MODULES, [len(texts[module]) for module in MODULES])
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

words = TfidfVectorizer(analyzer="char", ngram_range=(2, 4), sublinear_tf=True)
rows = words.fit_transform(X_train)
dense = rows.shape[0] * rows.shape[1] * 8 / 1e6
print(
    f"{rows.shape[0]} × {rows.shape[1]} rows, {rows.nnz / rows.shape[0]:.0f} entries each: {dense:.0f} MB if dense"
)

for name, model in {
    "logistic regression": LogisticRegression(C=10, max_iter=1000),
    "KernelRidgeClassifier": KernelRidgeClassifier(random_state=0),
    "KernelEmbedding(64), logistic regression": make_pipeline(
        KernelEmbedding(64, n_landmarks=500, random_state=0), LogisticRegression(C=1000, max_iter=1000)
    ),
}.items():
    pipeline = make_pipeline(words, model).fit(X_train, y_train)
    print(f"{name:42s} {100 * pipeline.score(X_test, y_test):.1f} %")
