"""Alignment: how alike representations are, and how well they suit labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from fuzz.label_strategies import labels
from fuzz.parts import kernels
from fuzz.strategies import features, is_constant, matrices, mostly, n_rows, often, sane_matrices
from fuzz.target import Draw, target, unless, without
from krepes.alignment import (
    AlignmentSelector,
    SketchedCKA,
    StreamedCKA,
    TransferStatistics,
    TransferTarget,
    cka,
    cka_test,
    combine_kernels,
    combine_sketches,
    compare_networks,
    h_score,
    iter_layers,
    layer_names,
    leep,
    logme,
    one_hot,
    plot_alignment,
    plot_transferability,
    sketch_layers,
    stable_rank,
    transferability,
)

ESTIMATORS = mostly(["unbiased", "biased"], ["debiased", None])
SEEDS = mostly([0, 1, None], [-1, "seed"])


def pair(draw: Draw) -> tuple[Any, Any]:
    """Two representations, mostly of the same rows."""
    X = draw(features())
    return X, draw(features(n_rows(X)))


def labelled(draw: Draw) -> tuple[Any, Any]:
    """Features and labels, mostly of the same rows."""
    X = draw(features())
    return X, draw(often((3, labels(n_rows(X), sane=True)), (1, labels(n_rows(X)))))


def choices() -> st.SearchStrategy[Any]:
    """Kernels as alignment takes them."""
    return often((3, st.just("linear")), (1, st.sampled_from(["precomputed", "gaussian"])), (1, kernels()))


@target("cka", "cka_test", "AlignmentTest", weight=3)
def alike(draw: Draw) -> Any:
    X, Y = pair(draw)
    chosen = {
        "estimator": draw(ESTIMATORS),
        "kernel": draw(often((4, choices()), (1, st.tuples(choices(), choices())))),
    }
    value = cka(X, Y, **chosen)
    n = draw(mostly([0, 3, 9], [-1, "many"]))
    found = cka_test(X, Y, n_permutations=n, random_state=draw(SEEDS), **chosen)
    return value, without(found, "standard_error", "low", "high", *(["p_value"] if n == 0 else []))


@target("StreamedCKA", weight=1)
def streamed(draw: Draw) -> Any:
    X, Y = pair(draw)
    found = StreamedCKA(draw(ESTIMATORS)).update(X, Y)
    if draw(st.booleans()):
        found.update(*draw(st.one_of(st.just((X, Y)), st.tuples(features(), features()))))
    if draw(st.booleans()):
        found.merge(StreamedCKA(found.estimator).update(X, Y))
    return found.score()


@target("SketchedCKA", weight=2)
def sketched(draw: Draw) -> Any:
    """Two representations in a sketch; alignments of what is constant are NaN."""
    X, Y = pair(draw)
    sizes = mostly([(8, 1), (16, 2), (256, 1)], [(100, 1), (4, 4), (0, 1)])
    n_buckets, n_hashes = draw(sizes)
    debias, seed = draw(st.booleans()), draw(mostly([0, 3], [-1]))
    sketch = SketchedCKA(n_buckets, n_hashes, debias=debias, seed=seed)
    sketch.update({"X": X, "Y": Y}, draw(st.sampled_from([None, 0, 7])))
    if draw(st.booleans()):
        other = SketchedCKA(n_buckets, n_hashes, debias=debias, seed=seed).update({"X": X, "Y": Y}, 100)
        sketch.merge(other)
    constant = is_constant(X) or is_constant(Y)
    score, (names, values) = sketch.score("X", "Y"), sketch.table()
    return (
        unless(constant, score),
        None if constant else values,
        len(names),
    )


@target("combine_kernels", "Combination", weight=2)
def combined(draw: Draw) -> Any:
    """NaN is announced for kernels that are constant, and for frequencies without resamples."""
    X, y = labelled(draw)
    others = draw(st.lists(features(n_rows(X)), max_size=2))
    given: Any = {f"kernel {i}": Z for i, Z in enumerate([X, *others])}
    given = draw(st.sampled_from([given, list(given.values())]))
    n = draw(mostly([0, 0, 3], [-1]))
    found = combine_kernels(
        given, y, kernel=draw(choices()), estimator=draw(ESTIMATORS), n_resamples=n, random_state=draw(SEEDS)
    )
    return without(found, "alone", *(["frequency"] if n == 0 else []))


@target("combine_sketches", weight=1)
def combined_sketches(draw: Draw) -> Any:
    X, y = labelled(draw)
    sketch = SketchedCKA(draw(st.sampled_from([8, 64])), seed=0)
    sketch.update({"X": X, "other": draw(features(n_rows(X))), "target": one_hot(y)})
    found = combine_sketches(sketch, draw(mostly(["target"], ["nothing"])), draw(mostly([None, ["X"]], [[]])))
    return without(found, "alone", "frequency")


@target("AlignmentSelector", weight=2)
def selector(draw: Draw) -> Any:
    X, y = labelled(draw)
    groups = draw(mostly([None, [[0]], {"a": [0]}], [[[0], [1, 2]], [[9]], "columns", []]))
    found = AlignmentSelector(groups).fit(X, y)
    return (
        found.transform(X),
        found.get_support(),
        found.get_support(indices=True),
        found.get_feature_names_out().size,
    )


@target("h_score", "logme", "leep", weight=3)
def scores_of_features(draw: Draw) -> Any:
    X, y = labelled(draw)
    which = draw(st.sampled_from(["h_score", "logme", "leep"]))
    if which == "h_score":
        shrink = draw(mostly([True, False, "total"], ["much", None]))
        few = (
            len(set(map(str, list(y) if y is not None else []))) > n_rows(X) // 2
        )  # some class has a single row
        return unless(is_constant(X) or few, h_score(X, y, shrink=shrink))
    if which == "logme":
        return logme(X, y)
    return leep(draw(often((3, probabilities(n_rows(X))), (1, st.just(X)))), y)


@st.composite
def probabilities(draw: st.DrawFn, n: int, width: int | None = None) -> np.ndarray:
    """Rows that sum to one, some with zeros."""
    scores = np.random.default_rng(draw(st.integers(0, 99))).normal(
        size=(n, width or draw(st.integers(1, 4)))
    )
    P = np.exp(scores * draw(st.sampled_from([0.0, 1.0, 50.0])))
    return P / P.sum(axis=1, keepdims=True)


@target("one_hot", "stable_rank", "TransferTarget", weight=1)
def small_functions(draw: Draw) -> Any:
    X = draw(features())
    y = draw(labels(n_rows(X)))
    which = draw(st.sampled_from(["one_hot", "stable_rank", "target"]))
    if which == "one_hot":
        return one_hot(y)
    if which == "stable_rank":
        return stable_rank(X, center=draw(st.booleans()))
    made = TransferTarget(y, n_buckets=draw(mostly([8, 256], [3])), n_permutations=draw(mostly([1, 5], [0])))
    return made.exact_null(0.5, np.ones(3)) if draw(st.booleans()) else None


ASKED = [None, ("log_cka",), ("logme", "h_score"), ("h_score_published", "h_score_regularized")]
SCORES = mostly(ASKED, [("nothing",), ()])


@target("TransferStatistics", "TransferScores", weight=2)
def transfer_statistics(draw: Draw) -> Any:
    """Scores that were not asked for are NaN, and so are those of constant features and of very few rows."""
    X, y = labelled(draw)
    settings = {
        "n_buckets": draw(mostly([8, 256], [5])),
        "n_permutations": draw(mostly([1, 9], [0, -1])),
    }
    method = draw(mostly(["auto", "exact", "sketch"], ["best"]))
    found = TransferStatistics(y, scores=draw(SCORES), method=method, **settings)
    scores = found.update(X, draw(st.sampled_from([None, 0]))).score()
    return scores.n_rows, scores.width, str(scores)


@target("transferability", "Transferability", "plot_transferability", weight=2)
def ranking(draw: Draw) -> Any:
    X, y = labelled(draw)
    models = {"first": X, "second": draw(features(n_rows(X)))}
    if draw(st.integers(0, 4)) == 0:
        models["function"] = draw(st.sampled_from([np.tanh, lambda Z: Z * np.nan, lambda Z: Z[:2], 7]))
    asked = draw(SCORES)
    method = draw(
        mostly(["auto", "exact", "sketch" if asked == ("log_cka",) else "auto"], ["best", "sketch"])
    )
    given = {"scores": asked, "method": method, "n_permutations": draw(mostly([1, 9], [0]))}
    rank_by = draw(mostly([asked[0] if asked else "log_cka"], ["logme", "leep", "nothing"]))
    if draw(st.integers(0, 3)) == 0:
        given["probabilities"] = {"first": draw(probabilities(n_rows(X)))}
    found = transferability(models, y, X, rank_by=rank_by, **given)
    if draw(st.integers(0, 9)) == 0:
        plot_transferability(found)
    return str(found), len(found.rows()), found.column("width"), found.ranking


NETWORK = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


@target("iter_layers", "layer_names", "sketch_layers", "compare_networks", "NetworkComparison", weight=1)
def layers(draw: Draw) -> Any:
    X = draw(
        often(
            (2, matrices(4, min_columns=1, sane=True).map(lambda X: np.resize(X, (len(X), 3)))),
            (1, features()),
        )
    )
    if draw(st.booleans()):
        X = torch.tensor(X).float() if isinstance(X, np.ndarray) and X.dtype.kind == "f" else X
    chosen = draw(mostly([None, ["0"], ["2", "0"]], [["9"], [], "0"]))
    size = draw(mostly([256, 1, 3], [0, "few"]))
    network = draw(mostly([NETWORK], [torch.nn.Identity(), "network"]))
    outputs = list(iter_layers(network, X, chosen, batch_rows=size))
    y = draw(st.one_of(st.none(), labels(n_rows(X))))
    sketch = sketch_layers(network, X, y, chosen, batch_rows=size, sketch=SketchedCKA(16))
    compared = compare_networks(network, NETWORK, X, first_layers=chosen, batch_rows=size, n_buckets=16)
    return outputs, layer_names(network), sketch.names, compared.closest(), str(compared)


@target("plot_alignment", weight=0.3)
def figure(draw: Draw) -> Any:
    values = draw(often((2, sane_matrices()), (1, features())))
    names = [f"row {i}" for i in range(n_rows(values))]
    wide = values.shape[1] if len(getattr(values, "shape", ())) == 2 else 3
    columns = draw(mostly([[f"column {i}" for i in range(wide)]], [None]))
    return plot_alignment(values, names, columns) is None
