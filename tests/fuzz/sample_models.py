"""Small fitted models of every kind, as files: the originals that are damaged and forged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fuzz.parts import overlap
from krepes import KernelEmbedding, load
from krepes.kernels import ArcCosine, Custom, EmpiricalNTK, Gaussian, InfiniteWidth, Laplacian, Linear
from krepes.landmarks import Uniform
from krepes.machines import Cells, KernelRidgeClassifier, KernelRidgeRegressor, NoveltyDetector
from krepes.networks import MLP
from krepes.solvers import SGD
from krepes.views import Tabular

SMALL = {"n_components": 2, "n_landmarks": 6, "random_state": 0}
RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(14, 3))
PIXELS = RNG.integers(0, 256, (12, 3, 3), dtype=np.uint8)
WORDS = ["one", "two", "three", "four", "five", "six", "seven"]
TABLE = pd.DataFrame(
    {
        "number": np.where(VECTORS[:, 0] > 1, np.nan, VECTORS[:, 0]),
        "kind": ["a", "b", None, "a", "b", "c", "a"] * 2,
        "truth": VECTORS[:, 1] > 0,
    }
)


@dataclass(frozen=True)
class Saved:
    """A model file.

    Attributes
    ----------
    name : what it is
    data : its bytes
    X, Z : rows, and what the model makes of them, `outputs`
    kernel : the function that a file cannot hold
    """

    name: str
    data: bytes
    X: Any
    Z: np.ndarray
    kernel: Callable | None = None


Model = KernelEmbedding | KernelRidgeClassifier | KernelRidgeRegressor | NoveltyDetector


def outputs(model: Model, X: Any) -> np.ndarray:
    """An array with a row for every row of X."""
    if isinstance(model, KernelRidgeClassifier):
        return model.predict_proba(X)
    if isinstance(model, NoveltyDetector):
        return model.p_values(X)
    return model.predict(X) if isinstance(model, KernelRidgeRegressor) else model.transform(X)


def _machines() -> dict[str, tuple[Model, Any]]:
    """Some of them without the sums: they are saved like the others."""
    few = {"n_landmarks": 6, "random_state": 0, "n_folds": 3}
    y = np.arange(len(VECTORS)) % 2
    in_cells = KernelRidgeRegressor(**few, kernel="gaussian", local=Cells(size=10))
    balanced = KernelRidgeClassifier(**few, kernel="gaussian", class_weight="balanced", n_kept=8)
    return {
        "regressor": (KernelRidgeRegressor(**few, kernel="gaussian").fit(VECTORS, VECTORS[:, :2]), VECTORS),
        "classifier of a table": (KernelRidgeClassifier(**few).fit(TABLE, np.array(["no", "yes"])[y]), TABLE),
        "detector": (NoveltyDetector(false_alarm_rate=0.2, random_state=0).fit(VECTORS), VECTORS),
        "detector of a table": (
            NoveltyDetector(measure="distance", false_alarm_rate=0.2, random_state=0).fit(TABLE),
            TABLE,
        ),
        "balanced classifier": (balanced.fit(VECTORS, y), VECTORS),
        "regressor in cells": (in_cells.fit(np.repeat(VECTORS, 3, axis=0), np.arange(42.0)), VECTORS),
    }


def _models() -> dict[str, tuple[KernelEmbedding, Any]]:
    trained = SGD(max_epochs=1)
    newton = SGD(max_epochs=1, preconditioner="gauss_newton")
    combined = 2.0 * (Gaussian(np.array([0.5, 1.0, 2.0])) + Linear()) * Laplacian(norm=1)
    network = EmpiricalNTK(MLP(widths=(3,)), method="sketch", sketch_size=16, seed=0)
    corrupted = Tabular(drop=0.2, replace=0.2)
    words = KernelEmbedding(**SMALL, kernel=Custom(overlap, pairwise=True), loss="kernel_pca")
    made = {
        "vectors": (KernelEmbedding(**SMALL), VECTORS),
        "table": (KernelEmbedding(**SMALL, loss="barlow_twins"), TABLE),
        "images": (KernelEmbedding(**SMALL, loss="vicreg"), PIXELS),
        "normalised images": (KernelEmbedding(**SMALL, preprocess="normalize"), PIXELS / 255),
        "principal components": (KernelEmbedding(**SMALL, loss="kernel_pca", dtype="float64"), VECTORS),
        "trained": (KernelEmbedding(**SMALL, loss="byol", solver=trained), VECTORS),
        "Gauss-Newton": (KernelEmbedding(**SMALL, loss="simclr", solver=newton), VECTORS),
        "combined kernel": (KernelEmbedding(**SMALL, kernel=combined, views=corrupted), VECTORS),
        "tangent kernel": (KernelEmbedding(**SMALL, kernel=network, loss="kernel_pca"), VECTORS),
        "arc-cosine": (KernelEmbedding(**SMALL, kernel=ArcCosine() + InfiniteWidth()), VECTORS),
        "landmark tuples": (KernelEmbedding(**SMALL, landmarks=Uniform(views_per_landmark=2)), VECTORS),
        "words": (words, WORDS),
    }
    return {name: (model.fit(X), X) for name, (model, X) in made.items()}


@cache
def saved_models() -> list[Saved]:
    """One file of each kind, with and without sums."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, X) in (_models() | _machines()).items():
            both = name in ("vectors", "images", "regressor", "balanced classifier", "detector")
            sums = "moments" if isinstance(model, KernelEmbedding) else "sums"
            for kept in (True, False) if both else (True,):
                path = Path(folder) / "model.krepes"
                model.save(path, **{sums: kept}, overwrite=True)
                kernel = overlapping if name == "words" else None
                Z = outputs(load(path, kernel=kernel), X)
                label = name if kept else f"{name} without {sums}"
                found.append(Saved(label, path.read_bytes(), X, Z, kernel))
    return found


overlapping = Custom(overlap, pairwise=True)
