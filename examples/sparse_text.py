"""
Sparse rows of text
===================

Use tf-idf weights in a pipeline: rows with tens of thousands of columns stay sparse all the way.
"""

import ast
import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from krepes import KernelEmbedding
from krepes.machines import KernelRidgeClassifier

MODULES = [
    "argparse", "ast", "asyncio.base_events", "decimal", "doctest", "email.message", "fractions", "http.client",
    "logging", "pickle", "statistics", "tarfile", "typing", "unittest.mock", "zipfile",
]  # fmt: skip


def functions(module: str) -> list[str]:
    """Documentation and body of a module's functions, at most 500 characters of each."""
    name = "_pydecimal" if module == "decimal" else module
    source = inspect.getsource(importlib.import_module(name))
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return sorted({"\n".join(map(ast.unparse, node.body))[:500] for node in nodes})


# %%
# From which module of Python's standard library is a function? Its text is cut into pieces of 2 to 4 characters.
texts = [functions(module) for module in MODULES]
X, y = [text for group in texts for text in group], np.repeat(MODULES, [len(group) for group in texts])
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
pieces = TfidfVectorizer(analyzer="char", ngram_range=(2, 4), sublinear_tf=True)
rows = pieces.fit_transform(X_train)
print(f"{rows.shape[0]} × {rows.shape[1]} rows, {rows.nnz / rows.shape[0]:.0f} entries each;", end=" ")
print(f"dense they would need {rows.shape[0] * rows.shape[1] * 8 / 1e6:.0f} MB")

# %%
# The same pipeline with three models.
embedding = KernelEmbedding(64, n_landmarks=500, random_state=0)
for name, model in {
    "logistic regression": LogisticRegression(C=10, max_iter=1000),
    "kernel ridge": KernelRidgeClassifier(random_state=0),
    "64 components, logistic": make_pipeline(embedding, LogisticRegression(C=1000, max_iter=1000)),
}.items():
    score = make_pipeline(pieces, model).fit(X_train, y_train).score(X_test, y_test)
    print(f"{name:24s} {100 * score:.1f} %")

# %%
# The mean cosine between functions of two modules, in the 64 components: modules are dark on the diagonal.
Z = embedding.transform(pieces.transform(X_test))
Z = Z - Z.mean(axis=0)
Z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
means = np.array([Z[y_test == module].mean(axis=0) for module in MODULES])
figure, axis = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
image = axis.imshow(means @ means.T, cmap="Blues", vmin=0)
axis.set_yticks(range(len(MODULES)), MODULES)
axis.set_xticks([])
figure.colorbar(image, label="mean cosine of test functions")
plt.show()
