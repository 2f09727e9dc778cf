"""Estimators with targets: layer transfer, pruned ensembles, ridge machines and calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression

from fuzz.alignment_targets import labelled, probabilities
from fuzz.label_strategies import labels
from fuzz.parts import kernels
from fuzz.strategies import features, mostly, n_rows, often, sane_matrices
from fuzz.target import Draw, cached, target, unless, without
from krepes.alignment import LayerTransferClassifier, PrunedEnsemble, prune_ensemble
from krepes.regression import (
    LeaveOneOutRidge,
    TransductiveRidge,
    expected_calibration_error,
    temperature,
)

ALPHAS = mostly(
    [[1e-3, 1.0], [1.0], 0.1], [[], [0.0], [-1.0], [float("nan")], "small", None, [1e300, 1e-300]]
)
FEW = {"alphas": (1e-4, 1e-2, 1.0), "n_landmarks": 8, "n_features_per_layer": 4, "random_state": 0}
NETWORK = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


@target("LayerTransferClassifier", "LayerScore", weight=2)
def layer_transfer(draw: Draw) -> Any:
    """From features, from several layers, or through a network."""
    X, y = labelled(draw)
    settings = dict(FEW)
    if draw(st.integers(0, 2)) == 0:
        settings |= draw(SETTINGS)
    form = draw(st.sampled_from(["matrix", "layers", "network"]))
    if form == "layers":
        X = {"first": X, "second": draw(features(n_rows(X)))}
    elif form == "network":
        settings["network"] = NETWORK
        X = draw(sane_matrices()) if draw(st.booleans()) else X
        X = np.resize(X, (len(X), 3)).astype(np.float32) if isinstance(X, np.ndarray) and X.ndim == 2 else X
        y = draw(labels(n_rows(X), sane=True))
    if draw(st.integers(0, 3)) == 0:
        settings["kernel"] = draw(kernels())
    free = draw(often((3, st.none()), (1, st.just(X)), (1, features())))
    model = LayerTransferClassifier(**settings).fit(X, y, X_unlabelled=free)
    return model.predict_proba(X), model.decision_function(X), len(model.summary()), len(model.predict(X))


SETTINGS = mostly(
    [
        {"weighting": "uniform"},
        {"landmarks": "countsketch"},
        {"landmarks": "uniform"},
        {"lengthscale_factors": (1.0,)},
        {"betas": (0.0, 0.1)},
        {"selection_rows": 5},
        {"pool": False},
        {"batch_rows": 1},
    ],
    [
        {"weighting": "none"},
        {"lengthscale_factors": (0.0,)},
        {"lengthscale_factors": ()},
        {"alphas": ()},
        {"alphas": (-1.0,)},
        {"betas": (-1,)},
        {"selection_rows": 0},
        {"n_landmarks": 0},
        {"n_features_per_layer": "many"},
        {"layers": ["nothing"]},
        {"layers": []},
        {"batch_rows": 0},
        {"network": "no such network"},
        {"random_state": "seed"},
    ],
)


@cached
def ensembles() -> list[tuple[Any, np.ndarray, np.ndarray]]:
    """Fitted ensembles of every family, with their rows and targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y, numbers = (X[:, 0] > 0).astype(int), X[:, 0] + 0.1 * rng.normal(size=40)
    voting = VotingClassifier([("a", LogisticRegression()), ("b", LogisticRegression(C=0.01))])
    found: list[tuple[Any, np.ndarray]] = [
        (RandomForestClassifier(5, max_depth=2, random_state=0), np.array(["no", "yes"])[y]),
        (BaggingRegressor(n_estimators=5, random_state=0), numbers),
        (GradientBoostingRegressor(n_estimators=5, random_state=0), numbers),
        (AdaBoostClassifier(n_estimators=3, random_state=0), y),
        (voting, y),
    ]
    return [(model.fit(X, target), X, target) for model, target in found]


PRUNING = {
    "method": mostly(["alignment", "stacking", "r2"], ["best"]),
    "predictions": mostly(["auto", "auto", "out_of_bag", "given"], ["none"]),
}


@target("prune_ensemble", "PrunedEnsemble", "MemberRow", "Savings", weight=2)
def pruned_predictions(draw: Draw) -> Any:
    """Arrays of predictions: numbers, labels or probabilities, with gaps or without."""
    members = draw(often((3, features()), (1, probabilities(12, 2)), (1, labels(12).map(lambda y: [y] * 2))))
    n = n_rows(members)
    rising = (
        np.asarray(members)[:, 0]
        if isinstance(members, np.ndarray) and members.ndim == 2 and members.size
        else None
    )
    y = draw(often((3, st.just(rising)), (2, labels(n, sane=True)), (1, labels(n))))
    given = {name: draw(values) for name, values in PRUNING.items()}
    given["task"] = draw(mostly(["auto", "auto", "regression", "classification"], ["guess"]))
    if draw(st.integers(0, 4)) == 0:
        given["names"] = draw(
            mostly([[f"member {i}" for i in range(_width(members))]], [[], "ab", [1, 2, 3], ["a", "a"]])
        )
    found = prune_ensemble(members, y=y, **given)
    return described(found), len(found.predict(members))


def _width(members: Any) -> int:
    shape = getattr(members, "shape", (0, 2))
    return shape[1] if len(shape) > 1 else 1


@target("prune_ensemble", "PrunedEnsemble", weight=1)
def pruned_ensemble(draw: Draw) -> Any:
    """Fitted ensembles of scikit-learn, on their rows or on others."""
    ensemble, X, y = draw(st.sampled_from(range(5)).map(lambda i: ensembles()[i]))
    if draw(st.integers(0, 2)) == 0:
        X = draw(often((1, st.just(X[::2])), (1, features(len(y))), (1, features())))
        y = draw(often((1, st.just(y[: n_rows(X)])), (1, labels(n_rows(X)))))
    given = {name: draw(values) for name, values in PRUNING.items()}
    found = prune_ensemble(ensemble, X, y, **given)
    return described(found), len(found.predict(X))


def described(found: PrunedEnsemble) -> Any:
    """What a pruned ensemble knows; members may have no score of their own, and few rows none at all."""
    rows = [without(row, "score", "alignment") for row in found.table_]
    return rows, found.weights_, found.intercept_, unless(True, found.score_), found.size_, repr(found)


@target("LeaveOneOutRidge", weight=2)
def ridge(draw: Draw) -> Any:
    X = draw(features())
    y = draw(often((3, features(n_rows(X))), (1, labels(n_rows(X)))))
    model = LeaveOneOutRidge(**draw(often((3, st.just({})), (1, ALPHAS.map(lambda a: {"alphas": a})))))
    model.fit(X, y)
    other = draw(often((2, st.just(X)), (1, features())))
    return model.coef_, model.intercept_, model.errors_, model.loo_predictions_, model.predict(other)


def one_hot_targets(n: int) -> st.SearchStrategy[np.ndarray]:
    return st.integers(0, 99).map(lambda seed: np.eye(2)[np.random.default_rng(seed).integers(0, 2, n)])


@target("TransductiveRidge", weight=2)
def transductive(draw: Draw) -> Any:
    X = draw(features())
    Y = draw(often((3, one_hot_targets(n_rows(X))), (1, features(n_rows(X)))))
    free = draw(often((3, st.just(X)), (1, features())))
    chosen = draw(
        often(
            (3, st.just({})),
            (1, ALPHAS.map(lambda a: {"alphas": a})),
            (1, ALPHAS.map(lambda a: {"betas": a})),
        )
    )
    model = TransductiveRidge(**chosen).fit(X, Y, free)
    return model.coef_, model.intercept_, model.errors_, model.loo_predictions_, model.predict(free)


@target("expected_calibration_error", "temperature", weight=1)
def calibration(draw: Draw) -> Any:
    n = draw(st.sampled_from([0, 1, 4, 9]))
    codes = draw(often((3, st.lists(st.integers(0, 1), min_size=n, max_size=n)), (1, labels(n))))
    if draw(st.booleans()):
        P = draw(often((3, probabilities(n, 2)), (1, features(n))))
        return expected_calibration_error(P, codes, n_bins=draw(mostly([15, 1], [0, -1, 2.5])))
    scores = draw(often((3, probabilities(n, 2)), (2, features(n))))
    return temperature(scores, codes, doubt=draw(mostly([0.0, 0.1], [1.0, -1, float("nan"), "some"])))
