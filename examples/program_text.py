"""
Program text as strings
=======================

From which module of Python's standard library does a function come? String kernels need no vectoriser.
"""

import ast
import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from krepes.kernels import NGrams, Spectrum
from krepes.machines import KernelRidgeClassifier

MODULES = [
    "argparse", "ast", "asyncio.base_events", "fractions", "http.client", "statistics", "tarfile", "typing",
]  # fmt: skip


def functions(module: str) -> list[str]:
    """The bodies of a module's functions without names and documentation, at most 300 characters of each."""
    found = []
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            found.append("\n".join(map(ast.unparse, body))[:300])
    return sorted({text for text in found if len(text) > 40})


texts = [functions(module) for module in MODULES]
X, y = [text for group in texts for text in group], np.repeat(MODULES, [len(group) for group in texts])
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
print(f"{len(X)} functions of {len(MODULES)} modules; one of them:", X[0], sep="\n")

# %%
# ``Spectrum(p)`` counts shared substrings of p characters, ``NGrams`` of several lengths, rare ones weighted up.
counts = make_pipeline(CountVectorizer(analyzer="char", lowercase=False), StandardScaler(with_mean=False))
models = {"single characters, logistic": make_pipeline(counts, LogisticRegression(max_iter=1000))}
pieces = NGrams("char", (1, 5), weighting="tfidf")
for name, kernel in {
    "Spectrum(2)": Spectrum(2),
    "Spectrum(4)": Spectrum(4),
    "NGrams, 1 to 5": pieces,
}.items():
    models[name] = KernelRidgeClassifier(kernel=kernel, random_state=0)
scores = {name: 100 * model.fit(X_train, y_train).score(X_test, y_test) for name, model in models.items()}

# %%
# Longer pieces know more: words and habits of a module, not only its characters.
plt.style.use("tableau-colorblind10")
figure, axis = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
bars = axis.barh(list(scores), list(scores.values()), color=["C2", "C0", "C0", "C0"])
axis.bar_label(bars, fmt="%.1f %%", padding=3)
axis.invert_yaxis()
axis.set(xlabel="test accuracy, %", xlim=(0, 112))
plt.show()
