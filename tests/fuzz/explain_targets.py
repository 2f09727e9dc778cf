"""Explanations and the report, of good models on any rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from fuzz.embedding_targets import KINDS, fitted
from fuzz.label_strategies import labels
from fuzz.strategies import features, images, matrices, mostly, n_rows, often, rows
from fuzz.target import Draw, target
from krepes import KernelEmbedding
from krepes.explain import (
    Concept,
    as_direction,
    attribution,
    class_direction,
    coefficient_spectrum,
    column_values,
    counterfactuals,
    effective_rank,
    explain,
    faithfulness,
    landmark_norms,
    landmarks_are_rows_of,
    matching_maps,
    position_maps,
    row_effect,
)
from krepes.kernels import Patches
from krepes.machines import KernelRidgeRegressor
from krepes.report import write_report


def model_and_rows(draw: Draw) -> tuple[Any, Any]:
    """A fitted model, and mostly rows that it takes."""
    kind = draw(st.sampled_from(KINDS))
    fitting = matrices(1, min_columns=1, sane=True).map(lambda X: np.resize(X, (len(X), 3)))
    if kind == "images":
        fitting = images().map(lambda X: np.resize(np.asarray(X, dtype=float), (len(X), 3, 3)))
    return fitted(kind), draw(often((4, fitting), (1, rows())))


DIRECTIONS = mostly(
    [[1.0, 0.0], np.array([0.5, -0.5]), (1, 1)],
    [
        [0.0, 0.0],
        [1.0],
        [[1.0, 0.0]],
        [np.nan, 1.0],
        [1e300, 1e300],
        [5e-324, 0.0],
        "up",
        None,
        3,
        ["a", "b"],
    ],
)
TOP = mostly([1, 5, 100], [0, -1, 2.5, "few", None])


@target("attribution", "as_direction", weight=2)
def attributions(draw: Draw) -> Any:
    (model, X), direction = model_and_rows(draw), draw(DIRECTIONS)
    return attribution(model, X, direction), as_direction(model, direction)


PICTURES = np.random.default_rng(0).random((20, 8, 8))


@target("position_maps", "matching_maps", "PositionMaps")
def maps_of_positions(draw: Draw) -> Any:
    model = KernelEmbedding(2, kernel=Patches(4), n_landmarks=6, random_state=0).fit(PICTURES)
    X = draw(often((3, st.just(PICTURES[:4])), (1, rows())))
    return position_maps(model, X, draw(DIRECTIONS)), matching_maps(model, X, draw(st.just([0, 1, 2, 3])))


@target("explain", "Examples", "Reasons", "column_values", "ColumnValues", weight=2)
def explained_rows(draw: Draw) -> Any:
    model, X = model_and_rows(draw)
    found = explain(model, X, draw(TOP))
    return found.shares, found.unexplained, column_values(model, X).values


@target("counterfactuals", "Counterfactuals", weight=1)
def others(draw: Draw) -> Any:
    X = draw(rows())
    machine = KernelRidgeRegressor(n_landmarks=10, random_state=0).fit(X, np.arange(n_rows(X)) % 3)
    found = counterfactuals(machine, X).similarity
    return found[~np.isnan(found)]  # none where all rows have one prediction, as documented


@target("faithfulness", "Faithfulness", weight=0.5)
def checks(draw: Draw) -> Any:
    model, X = model_and_rows(draw)
    y = draw(often((1, st.none()), (2, labels(n_rows(X), sane=True)), (1, labels(n_rows(X)))))
    settings = draw(mostly([{}, {"n_rows": 5}], [{"n_rows": 0}, {"n_rows": -1}]))
    found = faithfulness(model, X, y, **settings)
    return found.methods["explain"]["deletion"]


@target("row_effect", "RowEffects", weight=1)
def effects(draw: Draw) -> Any:
    model, X = model_and_rows(draw)
    which = draw(mostly([[0], np.array([0])], [[-1], [0, 0], [10**9], [0.5], "first", None]))
    found = row_effect(model, X, which, on=X)
    return found.total, found.on


@target("coefficient_spectrum", "effective_rank", "landmark_norms", "landmarks_are_rows_of", weight=1)
def spectra(draw: Draw) -> Any:
    model, X = model_and_rows(draw)
    values = draw(
        often(
            (2, features()), (1, st.lists(st.sampled_from([0.0, 1.0, 2.0, 1e300, 1e-300, -1.0]), max_size=4))
        )
    )
    if draw(st.booleans()):
        return effective_rank(values)
    return landmarks_are_rows_of(model, X), coefficient_spectrum(model), landmark_norms(model)


@target("class_direction", weight=1)
def directions(draw: Draw) -> Any:
    rng = np.random.default_rng(0)
    classes = draw(st.sampled_from([["a", "b"], ["a", "b", "c"], [0, 1]]))
    y = np.array(classes)[rng.integers(0, len(classes), 20)]
    classifier = draw(
        mostly([LogisticRegression().fit(rng.normal(size=(20, 2)), y)], [LogisticRegression(), "model", None])
    )
    label = mostly(classes, ["a", "b", 0, 1, None, "c", 2.5, ["a"]])
    return class_direction(classifier, draw(label), draw(st.one_of(st.none(), label)))


CONCEPTS = mostly(
    [{}, {"method": "mean_difference"}],
    [{"method": "guess"}, {"n_permutations": -1}, {"random_state": "seed"}],
)


def shifted(X: Any) -> Any:
    """Other rows of the same kind, where that is easily made."""
    return X[::-1] + 1.0 if isinstance(X, np.ndarray) and X.dtype.kind == "f" else X


@target("Concept", weight=2)
def concepts(draw: Draw) -> Any:
    model, X = model_and_rows(draw)
    settings = {"n_permutations": 2, "n_resamples": 2} | draw(CONCEPTS)
    if draw(st.booleans()):
        one = draw(features())
        other = draw(often((3, st.just(shifted(one))), (1, st.just(one)), (1, features(n_rows(one)))))
        found = Concept(**settings).fit_representation(one, other)
        return found.direction_, found.accuracy_, found.p_value_, found.stability_, found.scores(one)
    absent = draw(often((3, st.just(shifted(X))), (1, rows()), (1, st.none())))
    found = Concept(X, absent, **settings).fit(model)
    return found.direction_, found.scores(model.transform(X)), attribution(model, X, found)


@target("write_report", weight=0.3)
def report(draw: Draw) -> Any:
    """A page, or a clear refusal; and no other file in either case."""
    model, X = model_and_rows(draw)
    given: dict[str, Any] = {"labels": draw(often((1, st.none()), (2, labels(n_rows(X)))))}
    given |= draw(
        mostly(
            [{}, {"samples": False}, {"max_rows": 3}],
            [{"n_top": 0}, {"max_rows": -1}, {"columns": ["no"]}, {"title": 3}],
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        path = write_report(model, X, Path(folder) / "report.html", **given)
        return path.stat().st_size, [file.name for file in Path(folder).iterdir()] == ["report.html"]
