"""What a model says of rows, as plain values: predictions, representations, explanations."""

from __future__ import annotations

from typing import Any

import numpy as np

from krepes.autoencoder import KernelAutoencoder
from krepes.embedding import KernelEmbedding
from krepes.explain import Examples, Reasons, explain
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.one_pass import OnePassEstimator

Classifier = KernelRidgeClassifier | GaussianProcessClassifier
Machine = Classifier | KernelRidgeRegressor | GaussianProcessRegressor | NoveltyDetector
TOP = 5  # rows that explain a row


def can(model: OnePassEstimator) -> list[str]:
    """What a model answers: predict, transform, explain."""
    represents = isinstance(model, KernelEmbedding | KernelAutoencoder)
    found = ["transform" if represents else "predict"]
    ridge = isinstance(model, KernelRidgeRegressor | KernelRidgeClassifier)
    return [*found, "explain"] if isinstance(model, KernelEmbedding) or ridge else found


def predictions_of(model: Machine, X: Any) -> dict[str, Any]:
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
    if isinstance(model, Classifier):
        P = model.predict_proba(X)
        return {"label": model.classes_[P.argmax(axis=1)].tolist(), "probabilities": P.tolist()}
    return {"prediction": model.predict(X).tolist()}


def representation_of(model: KernelEmbedding | KernelAutoencoder, X: Any) -> dict[str, Any]:
    """The representation of every row."""
    return {"embedding": model.transform(X).tolist()}


def reasons_of(
    model: KernelEmbedding | KernelRidgeClassifier | KernelRidgeRegressor, X: Any
) -> dict[str, Any]:
    """The real rows that each prediction rests on, or that each representation is made of."""
    found = explain(model, X, n_top=TOP)
    if isinstance(found, Reasons):
        parts = zip(found.rows.tolist(), found.targets.tolist(), found.adds.tolist(), found.effects.tolist())
        names = ("row", "target", "adds", "effect")
        rows = [[dict(zip(names, each)) for each in zip(*row) if each[0] >= 0] for row in parts]
        return {"of": found.predictions.tolist(), "rows": rows, "others": found.others.tolist()}
    assert isinstance(found, Examples)  # because novelty has no such answer, see `can`
    numbers = found.landmarks if found.rows is None else found.rows
    shares = [
        [{"row": row, "share": share} for row, share in zip(*each)]
        for each in zip(numbers.tolist(), found.shares.tolist())
    ]
    return {"rows": shares, "unexplained": found.unexplained.tolist()}
