"""Program text: from which module of Python's standard library does a function come? Strings as they are."""

import ast
import importlib
import inspect

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from krepes.kernels import NGrams, Spectrum
from krepes.machines import KernelRidgeClassifier

MODULES = [
    "argparse",
    "ast",
    "asyncio.base_events",
    "fractions",
    "http.client",
    "statistics",
    "tarfile",
    "typing",
]


def functions(module: str) -> list[str]:
    """The bodies of a module's functions without names and documentation, at most 300 characters of each."""
    source = inspect.getsource(importlib.import_module(module))
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            found.append("\n".join(map(ast.unparse, body))[:300])
    return sorted({text for text in found if len(text) > 40})


texts = {module: functions(module) for module in MODULES}
X = [text for module in MODULES for text in texts[module]]
y = np.repeat(MODULES, [len(texts[module]) for module in MODULES])
print(
    f"{len(X)} functions of {len(MODULES)} modules; the largest has {max(map(len, texts.values())) / len(X):.0%}"
)

models = {
    "characters, logistic regression": make_pipeline(
        CountVectorizer(analyzer="char", lowercase=False),
        StandardScaler(with_mean=False),
        LogisticRegression(max_iter=1000),
    ),
    "Spectrum(2)": KernelRidgeClassifier(kernel=Spectrum(2), random_state=0),
    "Spectrum(4)": KernelRidgeClassifier(kernel=Spectrum(4), random_state=0),
    "NGrams of 1 to 5 characters, tfidf": KernelRidgeClassifier(
        kernel=NGrams("char", (1, 5), weighting="tfidf"), random_state=0
    ),
}
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
for name, model in models.items():
    print(f"{name:36s} accuracy {model.fit(X_train, y_train).score(X_test, y_test):.1%}")
