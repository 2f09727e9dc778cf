"""Kernels on objects: their formulas in plain loops, and what they are in known cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import kernel_oracles as oracles
import krepes.kernels.objects.mismatch
import krepes.kernels.objects.subsequence
from krepes.kernels import (
    CommonNeighbours,
    Gaussian,
    MeanEmbedding,
    Mismatch,
    NGrams,
    ShortestPath,
    Spectrum,
    Subsequence,
    WeisfeilerLehman,
)
from labels import label
from sample_objects import graphs, neighbour_lists, point_sets, string_sets, strings, texts
from tolerances import assert_same

of_counts = oracles.of_counts
WORD = r"\w+"
FORMULAS = [
    (Spectrum(1), strings, of_counts(lambda x: oracles.substring_counts(x, 1))),
    (Spectrum(3), strings, of_counts(lambda x: oracles.substring_counts(x, 3))),
    (Mismatch(2, 0, "abc"), strings, of_counts(lambda x: oracles.mismatch_counts(x, 2, 0, "abc"))),
    (Mismatch(3, 1, "abcé"), strings, of_counts(lambda x: oracles.mismatch_counts(x, 3, 1, "abcé"))),
    (Mismatch(3, 2, "abc"), strings, of_counts(lambda x: oracles.mismatch_counts(x, 3, 2, "abc"))),
    (Subsequence(1, 0.5), strings, of_counts(lambda x: oracles.subsequence_weights(x, 1, 0.5))),
    (Subsequence(2, 0.8), strings, of_counts(lambda x: oracles.subsequence_weights(x, 2, 0.8))),
    (Subsequence(4, 1.0), strings, of_counts(lambda x: oracles.subsequence_weights(x, 4, 1.0))),
    (WeisfeilerLehman(0), graphs, of_counts(lambda x: oracles.surroundings(x, 0))),
    (WeisfeilerLehman(3), graphs, of_counts(lambda x: oracles.surroundings(x, 3))),
    (ShortestPath(), graphs, of_counts(oracles.distances_of_labels)),
    (CommonNeighbours(), neighbour_lists, lambda x, y: len(set(x) & set(y))),
]


@pytest.mark.parametrize(("kernel", "make", "formula"), FORMULAS, ids=label)
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full)]
)
def test_values_equal_the_formula_in_a_loop(kernel, make, formula, normalize, seed):
    X, Y = make(12, seed), make(9, seed + 100)
    kernel.set_params(normalize=normalize)
    assert_same(kernel(X, Y), oracles.objects_matrix(formula, X, Y, normalize))
    expected = oracles.objects_matrix(formula, Y, Y, normalize).diagonal()
    assert_same(kernel.diag(Y), expected)


@given(st.lists(st.text("abc", max_size=9), min_size=1, max_size=6), st.integers(1, 4), st.floats(0.05, 1))
def test_both_ways_to_subsequences_are_the_formula(words, length, decay):
    """Weights of all subsequences, and the recursion that never lists them."""
    kernel = Subsequence(length, decay, normalize=False)
    expected = oracles.objects_matrix(
        of_counts(lambda x: oracles.subsequence_weights(x, length, decay)), words, words, False
    )
    assert_same(kernel(words), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(krepes.kernels.objects.subsequence, "MOST_WEIGHTS", 0)
        assert_same(kernel(words), expected)
        assert_same(kernel(words, ["xyz", "ab"]), expected.new_tensor(
            [[oracles.of_counts(lambda x: oracles.subsequence_weights(x, length, decay))(a, b)
              for b in ("xyz", "ab")] for a in words]
        ))  # fmt: skip


@given(st.lists(st.text("abcd", max_size=9), min_size=1, max_size=6), st.integers(1, 3), st.integers(0, 2))
def test_both_ways_to_mismatches_are_the_formula(words, length, mismatches):
    """A table of all substrings, and the substrings that occur. Characters outside the alphabet are left out."""
    if mismatches >= length:
        return
    kernel = Mismatch(length, mismatches, "cab", normalize=False)
    expected = oracles.objects_matrix(
        of_counts(lambda x: oracles.mismatch_counts(x, length, mismatches, "abc")), words, words, False
    )
    assert_same(kernel(words), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(krepes.kernels.objects.mismatch, "FEW_PIECES", 0)
        assert_same(kernel(words), expected)


def test_mismatches_take_their_alphabet_from_the_data():
    assert Mismatch().fitted(["cab", "", "da"]).alphabet == "abcd"
    assert Mismatch(alphabet="xy").fitted(["cab"]).alphabet == "xy"
    assert_same(Mismatch(3, 0).fitted(strings(20))(strings(20)), Spectrum(3)(strings(20)))


@pytest.mark.parametrize("lengths", [(1, 1), (1, 3), (2, 2)])
@pytest.mark.parametrize("analyzer", ["word", "char"])
@pytest.mark.parametrize("weighting", ["count", "binary", "tfidf"])
def test_ngrams_are_those_of_scikit_learn(analyzer, lengths, weighting):
    """The cosine of CountVectorizer's or TfidfVectorizer's rows, on the texts that were learned from."""
    X = texts(30)
    settings = {
        "analyzer": analyzer,
        "ngram_range": lengths,
        "token_pattern": WORD if analyzer == "word" else None,
    }
    if weighting == "tfidf":
        rows = TfidfVectorizer(**settings).fit_transform(X).toarray()
    else:
        rows = (
            CountVectorizer(**settings, binary=weighting == "binary").fit_transform(X).toarray().astype(float)
        )
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    kernel = NGrams(analyzer, lengths, weighting).fitted(X)
    assert_same(kernel(X), torch.from_numpy(rows @ rows.T))


def test_a_word_that_was_never_seen_weighs_as_its_formula_says():
    kernel = NGrams(weighting="tfidf", normalize=False).fitted(["a b", "a"])
    assert kernel(["c"]).item() == pytest.approx((1 + math.log(3)) ** 2)
    assert kernel(["a"]).item() == pytest.approx(1.0)


def test_mean_embeddings_are_means_over_pairs():
    X, Y = point_sets(12), point_sets(9, 1)
    formula = oracles.mean_of_pairs(lambda a, b: oracles.gaussian(a, b, 0.8))
    expected = oracles.objects_matrix(formula, X, Y, normalize=False)
    plain = MeanEmbedding(Gaussian(0.8))
    assert_same(plain(X, Y), expected)
    squares = [torch.tensor([formula(A, A) for A in sets], dtype=torch.float64)[:, None] for sets in (X, Y)]
    distance = squares[0] + squares[1].T - 2 * expected
    assert_same(MeanEmbedding(Gaussian(0.8), lengthscale=0.5)(X, Y), torch.exp(-distance / (2 * 0.5**2)))
    words = string_sets(12)
    of_words = oracles.mean_of_pairs(
        lambda a, b: oracles.objects_matrix(
            of_counts(lambda x: oracles.substring_counts(x, 2)), [a], [b]
        ).item()
    )
    assert_same(MeanEmbedding(Spectrum(2))(words), oracles.objects_matrix(of_words, words, words, False))


def test_mean_embeddings_learn_their_lengthscales():
    """That of the points is the median over all of them; two sets at the median distance have similarity 1/e."""
    X = point_sets(40)
    kernel = MeanEmbedding(lengthscale="median").fitted(X)
    assert kernel.kernel.lengthscale == pytest.approx(Gaussian().fitted(np.concatenate(X)).lengthscale)
    K = kernel(X).numpy()
    assert np.median(K[np.triu_indices(40, 1)]) == pytest.approx(math.exp(-1), rel=1e-6)
    double = MeanEmbedding(lengthscale="2 median").fitted(X)
    assert double.lengthscale == pytest.approx(2 * kernel.lengthscale)


def test_sets_may_be_arrays_lists_and_tensors():
    A = [[0.0, 1.0], [2.0, 3.0]]
    for form in (np.array(A), torch.tensor(A), tuple(A), np.array(A, dtype=np.float32)):
        assert_same(MeanEmbedding(Gaussian(1.0))([form], [A]), MeanEmbedding(Gaussian(1.0))([A]))
    assert_same(MeanEmbedding(Gaussian(1.0))([[1.0, 2.0]]), MeanEmbedding(Gaussian(1.0))([[[1.0], [2.0]]]))
    assert_same(MeanEmbedding(Gaussian(1.0))(np.array([A, A])), MeanEmbedding(Gaussian(1.0))([A, A]))


def test_graphs_of_networkx_are_the_same_graphs():
    networkx = pytest.importorskip("networkx")
    plain = graphs(20)
    theirs = []
    for graph in plain:
        G = networkx.Graph()
        G.add_nodes_from((f"node {i}", {"label": name}) for i, name in enumerate(graph["labels"]))
        for (i, j), name in zip(graph["edges"], graph["edge_labels"]):
            G.add_edge(f"node {i}", f"node {j}", label=name)
        theirs.append(G)
    for kernel in (WeisfeilerLehman(), ShortestPath()):
        assert torch.equal(kernel(theirs), kernel(plain))
    ring, path = networkx.cycle_graph(5), networkx.path_graph(5)  # without labels
    assert WeisfeilerLehman(1, normalize=False)([ring], [path]).item() == 25 + 5 * 3
    karate = networkx.karate_club_graph()
    K = CommonNeighbours(normalize=False)([list(karate[node]) for node in karate])
    A = torch.from_numpy(networkx.to_numpy_array(karate, weight=None))
    assert torch.equal(K, A @ A)


@pytest.mark.parametrize("kernel", [WeisfeilerLehman(), ShortestPath()], ids=label)
def test_the_numbers_of_nodes_do_not_matter(kernel):
    rng = np.random.default_rng(0)
    for graph in graphs(20):
        order = rng.permutation(graph["nodes"])
        labels = [graph["labels"][i] for i in np.argsort(order)]
        renamed = {
            **graph,
            "labels": labels,
            "edges": [(int(order[i]), int(order[j])) for i, j in graph["edges"]],
        }
        assert_same(kernel([graph], graphs(10, 1)), kernel([renamed], graphs(10, 1)))


def test_a_label_of_an_edge_is_not_a_label_of_a_node():
    """A bond "C" to an O is not two neighbours, C and O."""
    bond = {"edges": [(0, 1)], "labels": ["H", "O"], "edge_labels": ["C"]}
    two = {"edges": [(0, 1), (0, 2)], "labels": ["H", "C", "O"]}
    assert WeisfeilerLehman(1, normalize=False)([bond], [two]).item() == 2  # H and O of round 0 only
    assert WeisfeilerLehman(0)([{"edges": [], "labels": ["1"]}], [{"edges": [], "labels": [1]}]).item() == 0
