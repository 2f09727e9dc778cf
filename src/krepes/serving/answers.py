"""What a model says of rows, as plain values: predictions, representations, explanations."""

from __future__ import annotations

from typing import Any

import numpy as np

from krepes.autoencoder import KernelAutoencoder
from krepes.embedding import KernelEmbedding
from krepes.explain import class_direction, target_direction
from krepes.explain.attribution import top_attribution
from krepes.machines import (
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.one_pass import OnePassEstimator

TOP = 5  # landmarks that explain a row


def can(model: OnePassEstimator) -> list[str]:
    """What a model answers: predict, transform, explain."""
    represents = isinstance(model, KernelEmbedding | KernelAutoencoder)
    found = ["transform" if represents else "predict"]
    in_cells = getattr(model, "_cell_plan", None) is not None
    ridge = isinstance(model, KernelRidgeRegressor | KernelRidgeClassifier)
    return [*found, "explain"] if isinstance(model, KernelEmbedding) or (ridge and not in_cells) else found


def predicted(model: Any, X: Any) -> dict[str, Any]:
    """Predictions, and how sure they are."""
    if isinstance(model, NoveltyDetector):
        scores = model.score_samples(X)
        p = model._solved().calibration.p_values(scores)
        return {
            "label": np.where(scores < model.offset_, -1, 1).tolist(),
            "score": scores.tolist(),
            "p_value": p.tolist(),
        }
    if isinstance(model, GaussianProcessRegressor):
        mean, deviation = model.predict(X, return_std=True)
        return {"prediction": mean.tolist(), "deviation": deviation.tolist()}
    if hasattr(model, "classes_"):
        P = model.predict_proba(X)
        return {"label": model.classes_[P.argmax(axis=1)].tolist(), "probabilities": P.tolist()}
    return {"prediction": model.predict(X).tolist()}


def transformed(model: Any, X: Any) -> dict[str, Any]:
    """The representation of every row."""
    return {"embedding": model.transform(X).tolist()}


def explained(model: Any, X: Any) -> dict[str, Any]:
    """The landmarks that add most to each prediction, or to the largest component of each representation."""
    if isinstance(model, KernelEmbedding):
        of = np.abs(model.transform(X)).argmax(axis=1)
        called: list[Any] = of.tolist()
        directions: list[Any] = list(range(model.n_components_))
    elif isinstance(model, KernelRidgeClassifier):
        labels = model.classes_.tolist()
        of = model._scores(X).argmax(axis=1)
        called, directions = [labels[i] for i in of], [class_direction(model, label) for label in labels]
    else:
        of, directions = np.zeros(len(X), dtype=int), [target_direction(model)]
        called = ["prediction"] * len(of)
    rows: list[Any] = [None] * len(of)
    numbers = model.landmark_indices_
    for which in np.unique(of):
        found = top_attribution(model, X, directions[which], min(TOP, len(model.landmarks_)))
        for i in np.flatnonzero(of == which):
            rows[i] = [
                {
                    "landmark": int(j),
                    "row": None if numbers is None else int(numbers[j]),
                    "adds": float(value),
                }
                for j, value in zip(found.landmarks[i], found.values[i])
            ]
    return {"of": called, "landmarks": rows}
