"""Objects and parameters that kernels on objects cannot take: what was given, what was expected, what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from krepes import KernelEmbedding
from krepes.kernels import (
    CommonNeighbours,
    MeanEmbedding,
    Mismatch,
    NGrams,
    ShortestPath,
    Spectrum,
    Subsequence,
    WeisfeilerLehman,
)
from krepes.machines import GaussianProcessRegressor, KernelRidgeClassifier
from krepes.networks import MLP
from refusals import refuses

WORDS = ["banana", "ananas", "bandana", "canal"] * 5
ON_TEXT = [Spectrum(2), Mismatch(3, 1, "abn"), Subsequence(2), NGrams("char", (2, 2))]


@pytest.mark.parametrize("kernel", ON_TEXT, ids=str)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [(None, "NoneType"), (b"abc", "decode"), (3, "int"), (float("nan"), "float"), (["a"], "list")],
)
def test_what_is_not_text_is_named_with_its_place(kernel, wrong, message):
    for use in (lambda X: kernel(X), kernel.diag, lambda X: kernel(["abc"], X), kernel.against(["abc"])):
        with refuses(TypeError, "object 1", message):
            use(["abc", wrong])


@pytest.mark.parametrize("kernel", [*ON_TEXT, WeisfeilerLehman(), CommonNeighbours()], ids=str)
def test_a_single_object_is_not_a_list_of_them(kernel):
    with refuses(TypeError, "'banana'", "Put", "list"):
        kernel("banana")


@pytest.mark.parametrize("kernel", [WeisfeilerLehman(), ShortestPath()], ids=str)
@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("CCO", "dictionary"),
        (None, "dictionary"),
        ([(0, 1)], "dictionary"),
        ({}, "'edges' is required"),
        ({"edges": [(0, 1)], "colours": []}, "colours"),
        ({"edges": 3}, "expected a list"),
        ({"edges": [(0, 1, 2)]}, "pair of node numbers"),
        ({"edges": [(0, -1)]}, "pair of node numbers"),
        ({"edges": [("a", "b")]}, "pair of node numbers"),
        ({"edges": [(0, 5)], "labels": ["C", "O"]}, "reach node 5, and there are 2 labels"),
        ({"edges": [(0, 1)], "nodes": 1}, "reach node 1"),
        ({"edges": [], "nodes": 2.5}, "nodes=2.5"),
        ({"edges": [(0, 1)], "labels": [1.5, 2.5]}, "neither text nor an integer"),
        ({"edges": [(0, 1)], "labels": [None, "C"]}, "neither text nor an integer"),
        ({"edges": [(0, 1)], "edge_labels": [1, 2]}, "2 edge_labels for 1 edges"),
    ],
    ids=str,
)
def test_a_graph_that_is_wrong_is_named(kernel, graph, message):
    with refuses((TypeError, ValueError), "object 1", message):
        kernel([{"edges": [(0, 1)]}, graph])


def test_graphs_with_directions_are_refused():
    networkx = pytest.importorskip("networkx")
    for graph in (networkx.DiGraph([(0, 1)]), networkx.MultiGraph([(0, 1), (0, 1)])):
        with refuses(ValueError, "networkx.Graph"):
            ShortestPath()([graph])


@pytest.mark.parametrize(
    ("wrong", "message"), [("abc", "list"), ([1.5], "1.5"), ([None], "None"), (3, "int")]
)
def test_neighbours_that_are_wrong_are_named(wrong, message):
    with refuses(TypeError, message):
        CommonNeighbours()([[1, 2], wrong])


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([[[0.0]], "abc"], ("array", "points")),
        ([[[0.0]], ["abc"]], "MeanEmbedding(Spectrum"),
        ([[[0.0]], [[1.0], [2.0, 3.0]]], ("equally", "numbers")),
        ([[[0.0]], [[np.nan]]], "finite"),
        ([[[0.0]], [[0.0, 1.0]]], ("1", "2", "coordinates")),
        ([[[0.0]], None], ("array", "points")),
    ],
    ids=str,
)
def test_sets_that_are_wrong_are_named(sets, message):
    with refuses((TypeError, ValueError), message):
        MeanEmbedding().fitted(sets)


def test_items_of_sets_are_checked_by_their_kernel():
    with refuses(TypeError, "Spectrum", "compares"):
        MeanEmbedding(Spectrum())([["abc"], [3]])
    with refuses(TypeError, "'abc'", "MeanEmbedding", "list", "items"):
        MeanEmbedding(Spectrum())(["abc"])


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Spectrum(0), "length=0"),
        (Spectrum(2.5), "length=2.5"),
        (Spectrum(normalize="yes"), "normalize='yes'"),
        (Mismatch(2, 2, "ab"), "mismatches"),
        (Mismatch(2, -1, "ab"), "mismatches=-1"),
        (Mismatch(), "fitted"),
        (Mismatch(alphabet=3), "alphabet=3"),
        (Mismatch(40, 1, "abcd"), ("shorter", "length")),
        (Subsequence(decay=0), "decay=0"),
        (Subsequence(decay=1.5), "decay=1.5"),
        (Subsequence(decay=None), "decay=None"),
        (NGrams("words"), "'words'"),
        (NGrams(lengths=(2, 1)), "lengths"),
        (NGrams(lengths=3), "lengths=3"),
        (NGrams(weighting="idf"), "'idf'"),
        (NGrams(weighting="tfidf"), "fitted"),
        (MeanEmbedding(Spectrum(), lengthscale=-1.0), "-1.0"),
        (MeanEmbedding(Spectrum(), lengthscale="median"), "fitted"),
    ],
    ids=str,
)
def test_bad_parameters_are_named_when_the_kernel_is_used(kernel, message):
    X = [["abc"], ["abd"]] if isinstance(kernel, MeanEmbedding) else ["abc", "abd"]
    with refuses(ValueError, message):
        kernel(X)


def test_estimators_take_columns_and_refuse_tables():
    model = KernelEmbedding(2, kernel="spectrum", loss="kernel_pca", n_landmarks=4, random_state=0)
    Z = model.fit(WORDS).transform(WORDS)
    for column in (np.array(WORDS), np.array(WORDS, dtype=object), pd.Series(WORDS), tuple(WORDS)):
        assert np.array_equal(model.transform(column), Z)
        assert np.array_equal(model.fit(column).transform(WORDS), Z)
    with refuses(TypeError, "DataFrame", "compares", "objects", "list"):
        model.fit(pd.DataFrame({"word": WORDS}))
    with refuses(TypeError, "object 0"):
        model.fit(np.zeros((20, 3)))
    with refuses(ValueError, "0 sample"):
        model.fit([])
    with refuses(TypeError, "object 0"):
        model.transform([None])


def test_sets_of_equal_size_are_sets_and_not_images():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 2)) for _ in range(30)]
    model = KernelEmbedding(
        2, kernel="mean_embedding", loss="kernel_pca", n_landmarks=10, random_state=0
    ).fit(X)
    assert model.transform([rng.normal(size=(9, 2)), torch.zeros(1, 2)]).shape == (2, 2)
    nodes = [[1, 2], [2, 3], [1, 3], [1, 4]] * 4
    machine = KernelRidgeClassifier(kernel="common_neighbours", random_state=0).fit(nodes, np.arange(16) % 2)
    assert machine.predict([[1, 2, 9], []]).shape == (2,)


def test_a_kernel_that_sees_nothing_says_so():
    with refuses(ValueError, "Spectrum(length=9)", "represent"):
        KernelEmbedding(2, kernel=Spectrum(9), loss="kernel_pca", n_landmarks=5, random_state=0).fit(WORDS)


def test_words_without_a_kernel_on_objects_get_a_hint():
    with refuses(TypeError, "Spectrum"):
        KernelEmbedding(2, kernel="gaussian", loss="kernel_pca", n_landmarks=5).fit(WORDS)


def test_a_gaussian_process_wants_one_kernel_on_objects():
    with refuses(ValueError, "2 kernels"):
        GaussianProcessRegressor(kernel=[Spectrum(1), Spectrum(2)]).fit(WORDS, np.arange(20.0))


@pytest.mark.parametrize("kernel", [NGrams(lengths=(1, 10**9)), Subsequence(10**8), Spectrum(10**9)], ids=str)
def test_lengths_beyond_every_string_end_at_once(kernel):
    """R16: a file that names such a length was never loaded to its end."""
    K = kernel(["aab", "aaa", "a"])
    assert K.shape == (3, 3)
    assert np.isfinite(K.numpy()).all()


@pytest.mark.parametrize("alphabet", ["a", "ab", "ACGT"])
def test_mismatches_in_strings_of_absurd_length_are_refused(alphabet):
    with refuses(ValueError, "length=100000000"):
        Mismatch(10**8, alphabet=alphabet)(["aab"])


def test_networks_that_fill_the_memory_are_refused():
    """R16."""
    with refuses(ValueError, "40,001,200,000"):
        MLP(widths=(200_000, 200_000)).build((4,))
