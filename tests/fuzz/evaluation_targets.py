"""Probes, protocols, searches, networks as a baseline, and clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from fuzz.alignment_targets import labelled
from fuzz.label_strategies import labels
from fuzz.outcome import ChangedError
from fuzz.parts import kernels, parts
from fuzz.strategies import features, mostly, n_rows, often, rows, sane_matrices
from fuzz.target import Draw, target, unless, without
from krepes import KernelEmbedding
from krepes.base.components import named
from krepes.clustering import (
    Coding,
    Covariance,
    Projection,
    SubspaceClustering,
    clustering_error,
    plot_iterations,
    plot_selection,
    within_share,
)
from krepes.evaluation import (
    baseline_estimators,
    estimator_probe,
    guess_task,
    knn_probe,
    label_curve,
    linear_probe,
    plan_protocol,
    plot_label_curve,
    probe_protocol,
    ridge_probe,
    same_kernel_pca,
    search,
    verdict,
)

FRACTIONS = mostly([0.5, 0.2, 0.3], [0.0, 1.0, -1, "half", float("nan"), None])


@target("linear_probe", "knn_probe", "ProbeResult", weight=3)
def probes(draw: Draw) -> Any:
    """The accuracy of a choice is NaN where there was none to make."""
    Z, y = labelled(draw)
    other = draw(often((3, st.just((Z, y))), (1, st.tuples(features(), st.just(y)))))
    settings: dict[str, Any] = {
        "validation": draw(FRACTIONS),
        "random_state": draw(mostly([0, 1], [-1, "seed"])),
    }
    if draw(st.booleans()):
        settings["C_grid"] = draw(mostly([(1.0,), (0.01, 1.0)], [(), (-1.0,), (float("nan"),), "all", 1.0]))
        settings["classifier"] = draw(mostly(["logistic", "svm"], ["forest", None]))
        found = linear_probe(Z, y, *other, **settings)
    else:
        settings["k_grid"] = draw(mostly([(1, 3), (1,), (50,)], [(), (0,), (-1,), (2.5,), "all"]))
        settings["metric"] = draw(mostly(["cosine", "euclidean"], ["city", None]))
        found = knn_probe(Z, y, *other, **settings)
    return (
        without(found, "validation_accuracy", "model", "classes", "recall"),
        str(found),
        found.model.predict(Z).size,
    )


@target("plan_protocol", "probe_protocol", "Protocol", "ProtocolResult", weight=2)
def protocols(draw: Draw) -> Any:
    Z, y = labelled(draw)
    settings = {
        "label_fraction": draw(mostly([0.5, 0.9, None, 0.1], [0.0, -1, 2.0, "some"])),
        "n_repeats": draw(mostly([1, 2], [0, -1, 2.5])),
        "test_fraction": draw(FRACTIONS),
        "random_state": draw(mostly([0, 1, None], [-1, "seed"])),
    }
    if draw(st.integers(0, 7)) == 0:
        settings["train"] = draw(mostly([np.arange(4), [0, 1, 2, 3]], [[], [-1], [99], "rows", [0.5], [[0]]]))
        settings["test"] = draw(mostly([np.arange(4, 6), [4]], [None, [0, 1], []]))
    if draw(st.booleans()):
        found = probe_protocol(Z, y, probe=draw(mostly(["linear", "knn"], ["tree"])), **settings)
    else:
        plan = plan_protocol(y, **settings)
        found = plan.run(Z, probe="knn")
        plan.floor()
    return found.values("accuracy"), found.values("balanced_accuracy"), str(found), found.n_labels


@target("ridge_probe", "guess_task", "TaskGuess", weight=2)
def regressions(draw: Draw) -> Any:
    """R^2 is NaN where all test rows have the same target."""
    Z, y = labelled(draw)
    y = draw(often((1, st.just(y)), (2, st.just(np.linspace(0.1, 9.0, n_rows(y))))))
    guess = guess_task(y)
    found = ridge_probe(Z, y, Z, y, alphas=draw(mostly([(1.0,), (0.01, 1.0)], [(), (-1.0,), "all"])))
    return guess.name, guess.why, without(found, "metrics", "model", "validation_accuracy"), str(found)


@target(
    "label_curve", "LabelCurve", "plot_label_curve", "verdict", "Verdict", "Difference", "paired_difference"
)
def comparisons(draw: Draw) -> Any:
    Z, y = labelled(draw)
    counts = draw(mostly([(2, 4), (4,), (3, 900)], [(), (0,), (2.5,), "all", (-3,)]))
    settings = {"counts": counts, "n_repeats": draw(mostly([1, 2], [0, 2.5]))}
    settings |= {"probe": draw(mostly([None, "knn"], ["tree"]))}
    curve = label_curve({"representation": Z, "raw features": Z}, y, **settings)
    plot_label_curve(curve)
    return str(curve), str(verdict(curve.at(curve.counts[0]))), curve.notes


@target("estimator_probe", "baseline_estimators", weight=0.3)
def baselines(draw: Draw) -> Any:
    Z, y = labelled(draw)
    estimator = baseline_estimators("classification", n_rows(y))[
        draw(st.sampled_from(["RBF SVM", "random forest"]))
    ]
    if "n_estimators" in estimator.get_params():
        estimator.set_params(n_estimators=2)
    found = estimator_probe(Z, y, Z, y, estimator=draw(mostly([estimator], [None, KernelEmbedding(2)])))
    return without(found, "validation_accuracy", "model", "classes", "recall")


@target("same_kernel_pca", weight=0.3)
def kernel_pcas(draw: Draw) -> Any:
    X = draw(sane_matrices())
    model = KernelEmbedding(2, n_landmarks=5, random_state=0).fit(X)
    found = same_kernel_pca(model, draw(often((3, st.just(X)), (1, rows()))))
    return found.transform(X), found.rank_


@target("search", "Search", "SearchResult", weight=0.3)
def searches(draw: Draw) -> Any:
    X = draw(often((3, sane_matrices()), (1, rows())))
    y = draw(often((3, labels(n_rows(X), sane=True)), (1, labels(n_rows(X)))))
    model = KernelEmbedding(2, loss="barlow_twins", n_landmarks=5, random_state=0)
    space = draw(mostly([None, {"loss__redundancy": (0.01, 1.0)}, {"n_components": [1, 2]}], BAD_SPACES))
    settings = {"n_trials": draw(mostly([1], [0, -1])), "sampler": draw(mostly(["random", "tpe"], ["grid"]))}
    settings |= draw(mostly([{}], [{"metric": "f1"}, {"validation_fraction": 2.0}, {"label_fraction": 0.0}]))
    found = search(model, X, y, space=space, **settings)
    return [unless(trial.value is None, trial.value) for trial in found.trials], len(found.table())


BAD_SPACES = [
    {},
    {"nothing": [1]},
    {"loss__redundancy": (1.0, 0.1)},
    {"loss__redundancy": []},
    {"kernel": 3},
    "all",
    {"loss__redundancy": (-1.0, float("nan"))},
]


@target(
    "SubspaceClustering",
    *(cls.__name__ for cls in (*named(Coding).values(), *named(Projection).values())),
    weight=3,
)
def clusters(draw: Draw) -> Any:
    """Any rows, kernel, coding and projection; labels are numbers from 0."""
    X = draw(often((3, sane_matrices()), (2, features())))
    settings: dict[str, Any] = {"n_clusters": draw(mostly([2, 3, None, 1], [0, -1, 2.5, "two", 50]))}
    settings |= {"n_iterations": draw(mostly([0, 1, 2], [-1, "few"])), "n_init": 1, "random_state": 0}
    if draw(st.booleans()):
        settings["kernel"] = draw(often((2, st.just("auto")), (2, kernels())))
    if draw(st.booleans()):
        settings["coding"] = draw(parts(Coding))
    if draw(st.booleans()):
        settings["projection"] = draw(
            often((6, parts(Projection)), (1, st.sampled_from([None, Covariance(), abs])))
        )
    if draw(st.booleans()):
        settings |= draw(CLUSTERING)
    model = SubspaceClustering(**settings).fit(X)
    if model.labels_.shape != (n_rows(X),) or model.labels_.min() < 0:
        raise ChangedError(f"labels {model.labels_}")
    other = draw(often((2, st.just(X)), (1, features())))
    return model.predict(other), model.project(other), within_share(model.affinity_matrix_, model.labels_)


CLUSTERING = mostly(
    [
        {"truncation": None},
        {"truncation": 2},
        {"normalization": "none"},
        {"regularization": 0.01},
        {"n_landmarks": 5},
        {"coding": "neighbours"},
        {"normalization": "affine"},
        {"kernel": "precomputed"},
    ],
    [
        {"truncation": 0},
        {"truncation": "some"},
        {"normalization": "maximum"},
        {"regularization": -1},
        {"regularization": float("nan")},
        {"n_landmarks": 0},
        {"n_landmarks": "all"},
        {"selection": "best"},
        {"n_init": 0},
    ],
)


@target(
    *("plot_iterations", "plot_selection", "within_share", "clustering_error", "Subspace"),
    *("Coding", "Projection"),
    weight=0.3,
)
def cluster_figures(draw: Draw) -> Any:
    X = draw(often((4, sane_matrices()), (1, features())))
    y = draw(often((1, st.none()), (2, labels(n_rows(X), sane=True)), (1, labels(n_rows(X)))))
    model = SubspaceClustering(2, n_iterations=1, n_init=1, random_state=0)
    shown = {
        "axes": draw(mostly([None, (0, 0)], [(0, 9), 3])),
    }
    if draw(st.integers(0, 3)) == 0:
        plot_iterations(model, X, y, **shown)
    if draw(st.integers(0, 5)) == 0:
        plot_selection(model.fit(X))
    if y is not None and draw(st.booleans()):
        clustering_error(y, np.arange(n_rows(X)) % 3)
    W = draw(
        often(
            (3, st.just(np.abs(X @ X.T) if isinstance(X, np.ndarray) and X.ndim == 2 else X)), (1, features())
        )
    )
    return within_share(W, y)
