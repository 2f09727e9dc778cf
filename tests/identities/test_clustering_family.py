"""The family of codings, the choice among them, the number of clusters, and what follows from a fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster._spectral import cluster_qr
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

import krepes
import krepes.clustering.affinity as affinity
import krepes.clustering.search as search
from krepes.clustering import Neighbours, SelfTuning, SubspaceClustering, clustering_error, plot_selection
from krepes.clustering.counting import Count, count_clusters, modularity
from krepes.clustering.family import ratio
from krepes.clustering.normalization import NormalizedRows
from krepes.clustering.self_expression import DualExpression
from krepes.clustering.subspaces import subspace_of
from krepes.kernels import Gaussian, Linear
from refusals import refuses, warns_of

EVERYTHING = slice(None)


def subspaces(k: int = 4, dim: int = 3, d: int = 20, n: int = 40, noise: float = 0.02):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(k), n)
    X = np.einsum("na,nad->nd", rng.normal(size=(k * n, dim)), rng.normal(size=(k, dim, d))[y])
    return X + noise * rng.normal(size=X.shape), y


def clouds(k: int = 5, n: int = 40, d: int = 4, away: float = 6.0):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(k), n)
    centres = away * np.linalg.qr(rng.normal(size=(max(k, d), max(k, d))))[0][:k, :d]
    return centres[y] + rng.normal(size=(k * n, d)), y


def rows(n: int = 25, d: int = 3) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


# --- candidates ---


def test_the_nearest_rows_are_scikit_learns():
    X = rows()
    C = Neighbours(4).rows(DualExpression(Linear(), X, 1.0))(EVERYTHING)
    assert np.array_equal(C.numpy(), kneighbors_graph(X.numpy(), 4).toarray())


def test_self_tuning_weights_are_a_loop():
    X = rows()
    C = SelfTuning(3).rows(DualExpression(Linear(), X, 1.0))(EVERYTHING).numpy()
    D = [[float((a - b).norm()) for b in X] for a in X]
    reach = [sorted(line)[3] for line in D]  # the row itself is the first
    for i in range(len(X)):
        for j in range(len(X)):
            expected = 0 if i == j else np.exp(-(D[i][j] ** 2) / (reach[i] * reach[j]))
            assert C[i, j] == pytest.approx(expected, abs=1e-12)
    assert np.allclose(SelfTuning(3).rows(DualExpression(Linear(), X, 1.0))(torch.tensor([4, 2])), C[[4, 2]])


def test_new_rows_are_expressed_by_the_nearest():
    X, Y = rows(), rows(4, 3) + 0.3
    expression = DualExpression(Linear(), X, 1.0)
    equal, tuned = (coding(3).new_rows(expression)(Y).numpy() for coding in (Neighbours, SelfTuning))
    own = [sorted(float((a - b).norm()) for b in X)[3] for a in X]
    for i, y in enumerate(Y):
        D = np.array([float((y - x).norm()) for x in X])
        assert set(np.flatnonzero(equal[i])) == set(np.argsort(D)[:3])
        assert np.allclose(tuned[i], np.exp(-(D**2) / (np.sort(D)[2] * np.array(own))))


def test_a_gaussian_kernel_from_shared_distances_is_the_kernel():
    shared = NormalizedRows(rows(), "affine")
    kernel = Gaussian(0.7)
    assert torch.allclose(shared.kernel_matrix(kernel), kernel(shared.X), atol=1e-12)
    assert torch.allclose(shared.X.norm(dim=1), torch.ones(25, dtype=torch.float64))
    assert shared.X.shape == (25, 4)


def test_affine_rows_make_shifted_subspaces_linear():
    """Points of one line that misses the origin: (x, 1) spans two dimensions, and stays expressed after a shift."""
    X = torch.tensor([[0.0, 3.0], [1.0, 3.0], [2.0, 3.0], [5.0, 3.0]], dtype=torch.float64)
    assert torch.linalg.matrix_rank(NormalizedRows(X, "affine").X) == 2


# --- the rule ---


def test_the_ratio_is_a_loop_over_eigenvalues_of_the_laplacian():
    """mean of the first k over the mean of the next k + 2, of I - D^(-1/2) W D^(-1/2)."""
    W = np.abs(rows(12, 12).numpy())
    W = W + W.T
    d = W.sum(1)
    e = np.sort(np.linalg.eigvalsh(np.eye(12) - W / np.sqrt(np.outer(d, d))))
    expected = (sum(e[:3]) / 3) / (sum(e[3:8]) / 5)
    assert ratio(np.sort(1 - e)[::-1], 3) == pytest.approx(expected)


def test_separate_parts_have_ratio_zero():
    assert ratio(np.array([1.0, 1.0, 0.3, 0.2]), 2) == 0


def test_subspaces_and_clouds_get_codings_of_their_world():
    X, y = subspaces(k=5, dim=6, n=80, noise=0.3)
    flat = SubspaceClustering(5, random_state=0).fit(X)
    assert flat.selection_[0]["world"] in ("affine", "subspaces", "projected")
    assert adjusted_rand_score(y, flat.labels_) > 0.95
    Z, z = clouds()
    round_ = SubspaceClustering(5, random_state=0).fit(Z)
    assert round_.selection_[0]["world"] in ("gaussian", "plain", "neighbours")
    assert adjusted_rand_score(z, round_.labels_) > 0.95


def test_the_selection_tells_what_was_tried():
    X, _ = clouds()
    model = SubspaceClustering(5, random_state=0).fit(X)
    chosen = [each for each in model.selection_ if each["chosen"]]
    assert chosen == model.selection_[:1]
    assert {each["world"] for each in model.selection_} >= {
        "gaussian",
        "plain",
        "affine",
        "subspaces",
        "neighbours",
    }
    assert all(0 <= each["ratio"] <= 1.5 and each["rows"] == 200 for each in model.selection_)
    assert len(plot_selection(model).axes[0].patches) == min(20, len(model.selection_))


def test_without_projection_no_projected_candidate_is_tried():
    X, _ = subspaces(noise=0.2)
    worlds = [
        {each["world"] for each in SubspaceClustering(4, random_state=0, **given).fit(X).selection_}
        for given in ({"projection": None}, {"n_iterations": 0})
    ]
    assert all("projected" not in found for found in worlds)


@pytest.mark.parametrize(
    "given",
    [
        {"coding": "ridge"},
        {"kernel": "gaussian"},
        {"regularization": 0.5},
        {"truncation": 4},
        {"normalization": "unit"},
        {"selection": "last"},
        {"n_landmarks": 20},
        {"projection__filter": 0.2},
    ],
    ids=str,
)
def test_what_belongs_to_one_method_asks_for_it(given):
    X, _ = clouds(n=10)
    model = SubspaceClustering(5, n_iterations=1, random_state=0).set_params(**given).fit(X)
    assert model.selection_ == []


# --- the number of clusters ---


def test_modularity_is_a_double_loop():
    """Q = sum over pairs of one cluster of W_ij / w - d_i d_j / w^2  [newman]."""
    W = np.abs(rows(10, 10).numpy())
    W = W + W.T
    labels = np.arange(10) % 3
    d, total = W.sum(1), W.sum()
    same = [(i, j) for i in range(10) for j in range(10) if labels[i] == labels[j]]
    expected = sum(W[i, j] / total - d[i] * d[j] / total**2 for i, j in same)
    assert modularity(W, labels) == pytest.approx(expected)


@pytest.mark.parametrize(("data", "k"), [(clouds, 5), (subspaces, 4)], ids=["clouds", "subspaces"])
def test_the_number_of_clusters_is_found(data, k):
    X, y = data(d=20)
    model = SubspaceClustering(random_state=0).fit(X)
    assert model.n_clusters_ == k
    assert model.count_.scores[k] == 1.0
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_normal_rows_are_one_cluster():
    X = np.random.default_rng(0).normal(size=(150, 4)) * [3.0, 2.0, 1.0, 1.0]
    with warns_of(UserWarning, "one", "cluster"):
        model = SubspaceClustering(random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert not model.count_.structure


def test_a_count_is_sure_where_no_other_but_its_neighbours_comes_near():
    assert Count(4, {4: 1.0, 5: 0.9, 8: 0.4}).sure
    assert not Count(4, {4: 1.0, 8: 0.9}).sure
    assert not Count(1, {4: 1.0, 8: 0.2}, structure=False).sure


def test_the_score_of_a_count_is_gap_times_modularity_times_k():
    X, _ = clouds(k=3, n=12)
    W = np.exp(-((X[:, None] - X) ** 2).sum(-1) / 4) - np.eye(36)
    values, vectors = (each[..., ::-1] for each in np.linalg.eigh(W / np.sqrt(np.outer(W.sum(1), W.sum(1)))))
    count = count_clusters([(W, values, vectors)], 4)
    e = np.maximum(1 - values, 1e-4)
    expected = {k: k * np.log(e[k] / e[k - 1]) * modularity(W, cluster_qr(vectors[:, :k])) for k in (2, 3, 4)}
    assert count.n_clusters == max(expected, key=expected.get) == 3
    assert count.scores == {
        k: pytest.approx(value / max(expected.values()), abs=1e-3) for k, value in expected.items()
    }


# --- what follows from a fit ---


def test_soft_assignments_are_shares_of_the_affinity():
    X, _ = clouds(away=3.0)
    model = SubspaceClustering(5, random_state=0).fit(X)
    W = model.affinity_matrix_.toarray()
    for i in (0, 57, 199):
        votes = [sum(W[i, j] for j in range(200) if model.labels_[j] == c) for c in range(5)]
        assert np.allclose(model.memberships_[i], np.array(votes) / sum(votes))
    new = model.predict_proba(X + 0.01)
    assert np.allclose(new.sum(1), 1)
    assert np.array_equal(new.argmax(1), model.predict(X + 0.01))
    assert adjusted_rand_score(model.labels_, model.predict(X)) > 0.95


def test_every_subspace_has_the_dimension_and_basis_it_was_made_with():
    rng = np.random.default_rng(0)
    for q in (1, 3, 6):
        basis = np.linalg.qr(rng.normal(size=(25, q)))[0]
        X = rng.normal(size=(80, q)) @ basis.T * 2 + 5 + 0.05 * rng.normal(size=(80, 25))
        found = subspace_of(X)
        assert found.dimension == q
        assert np.linalg.norm(basis @ basis.T - found.basis @ found.basis.T) < 0.1
        centred = X - X.mean(0)
        rest = centred - centred @ found.basis @ found.basis.T
        assert found.left_out == pytest.approx((rest**2).sum() / (centred**2).sum())


def test_the_clusters_subspaces_are_those_of_their_rows():
    X, _ = subspaces()
    model = SubspaceClustering(4, random_state=0).fit(X)
    for c, found in enumerate(model.subspaces_):
        assert np.allclose(found.mean, X[model.labels_ == c].mean(0))
        assert found.dimension == 3


def test_a_kernel_matrix_is_as_good_as_the_rows():
    """kernel="precomputed" with inner products: the same labels, and new rows by their products with the old."""
    X, _ = clouds()
    direct = SubspaceClustering(5, random_state=0).fit(X)
    given = SubspaceClustering(5, kernel="precomputed", random_state=0).fit(X @ X.T)
    assert adjusted_rand_score(direct.labels_, given.labels_) == pytest.approx(1.0)
    assert given.selection_[0]["ratio"] == pytest.approx(direct.selection_[0]["ratio"], abs=1e-6)
    new, _ = clouds(n=10)
    assert np.allclose(np.sort(given.predict_proba(new @ X.T)), np.sort(direct.predict_proba(new)), atol=1e-6)


def test_matrices_that_are_no_kernels_are_refused():
    X, _ = clouds(n=5)
    model = SubspaceClustering(5, kernel="precomputed")
    with refuses(ValueError, "precomputed", "symmetric"):
        model.fit(X)
    with refuses(ValueError, "precomputed", "distances"):
        model.fit(np.linalg.norm(X[:, None] - X, axis=2))


@pytest.mark.parametrize("case", ["family", "pictures", "one method", "precomputed"])
def test_a_saved_model_predicts_the_same(case, tmp_path):
    X, _ = clouds()
    if case == "pictures":
        rng = np.random.default_rng(0)
        bars = np.zeros((2, 10, 10))
        bars[0, 2:4], bars[1, :, 6:8] = 1, 1
        X = bars[np.arange(60) % 2] + 0.3 * rng.random((60, 10, 10))
    given = {"one method": {"coding": "ridge"}, "precomputed": {"kernel": "precomputed"}}.get(case, {})
    X = X @ X.T if case == "precomputed" else X
    model = SubspaceClustering(2 if case == "pictures" else 5, random_state=0, **given).fit(X)
    model.save(tmp_path / "clusters.krepes")
    again = krepes.load(tmp_path / "clusters.krepes")
    assert isinstance(again, SubspaceClustering)
    assert again.get_params()["n_clusters"] == model.n_clusters
    assert np.allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-9)
    assert np.array_equal(again.labels_, model.labels_)
    assert [each.dimension for each in again.subspaces_] == [each.dimension for each in model.subspaces_]
    assert again.selection_ == model.selection_


def test_many_rows_are_expressed_by_some(monkeypatch):
    """The graph between rows and landmarks: few entries, and the labels of the whole graph."""
    X, _ = clouds(n=80)
    whole = SubspaceClustering(5, random_state=0).fit(X)
    monkeypatch.setattr(search, "LARGEST_DUAL", 100)
    monkeypatch.setattr(search, "SPREAD_FROM", 150)
    some = SubspaceClustering(5, random_state=0).fit(X)
    place = some._found.place
    assert len(place) == 150
    elsewhere = np.setdiff1d(np.arange(400), place)
    assert some.affinity_matrix_[elsewhere][:, elsewhere].nnz == 0
    assert adjusted_rand_score(some.labels_, whole.labels_) > 0.95
    assert adjusted_rand_score(some.predict(X), some.labels_) > 0.95


def test_the_error_is_the_best_of_all_matchings():
    from itertools import permutations

    rng = np.random.default_rng(0)
    y, labels = rng.integers(0, 4, 50), rng.integers(0, 4, 50)
    expected = min(np.mean(np.array(order)[labels] != y) for order in permutations(range(4)))
    assert clustering_error(y, labels) == pytest.approx(expected)
    assert clustering_error(y, (y + 1) % 4) == 0
    with refuses(ValueError, "50", "49"):
        clustering_error(y, labels[:49])


def test_eigenpairs_are_found_where_some_alone_are_not(monkeypatch):
    """LAPACK gives up on a few eigenvalues that are close together, and finds all of them."""
    N = np.diag([0.2, 1.0, 0.5, 1.0])
    expected = affinity._dense(N, 2)[0]

    def gives_up(*_, **__):
        raise np.linalg.LinAlgError("Internal Error.")

    monkeypatch.setattr(affinity.scipy.linalg, "eigh", gives_up)
    values, vectors = affinity._dense(N, 2)
    np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(N @ vectors, vectors * values, atol=1e-12)
