"""Sparse rows give what the same dense rows give: kernels, embeddings, machines, views and files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from krepes import KernelEmbedding, load
from krepes.base.components import named
from krepes.base.random_streams import uniform
from krepes.base.rows import SparseRows
from krepes.kernels import Automatic, Cosine, Gaussian, Kernel, Laplacian, Linear, Matern, Polynomial
from krepes.landmarks import KMeansPlusPlus, PivotedCholesky
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.views import Sparse
from krepes.views.sparse import CHOICE
from labels import label
from sample_objects import sparse_rows

N, WIDTH = 90, 40
SAME = 1e-10  # of sparse and dense kernel values in float64
VARIANTS = [
    Gaussian(0.01),
    Gaussian(np.linspace(0.5, 2.0, WIDTH)),
    Laplacian(0.7, norm=1),
    Laplacian(norm=1),
    Laplacian(np.linspace(0.5, 2.0, WIDTH)),
    Laplacian(np.linspace(0.5, 2.0, WIDTH), norm=1),
    Matern(nu=2.5),
    Polynomial(2, offset=0.0, scale=1.0),
    2.0 * (Gaussian(1.0) + Linear()) * Polynomial(2),
]
# Automatic is another kernel for sparse rows than for dense ones.
NAMED = [cls() for cls in named(Kernel).values() if cls.takes_sparse is True and cls is not Automatic]
KERNELS = NAMED + VARIANTS


def rows(n: int = N, density: float = 0.15, seed: int = 0) -> scipy.sparse.csr_array:
    """Sparse rows of both signs, some of them twice, some nearly so, and some empty."""
    X = sparse_rows(n, WIDTH, density, np.random.default_rng(seed))
    if n < 20:
        return X
    return scipy.sparse.vstack(
        [X[: n - 10], X[:4], X[4:8] * (1 + 1e-9), scipy.sparse.csr_array((2, WIDTH))]
    ).tocsr()


def classes(X) -> np.ndarray:
    return (np.asarray(X.sum(1)).reshape(-1) > 0).astype(int)


@pytest.mark.parametrize("kernel", KERNELS, ids=label)
def test_a_kernel_of_sparse_rows_is_that_of_the_dense_ones(kernel):
    X, Y = rows(), rows(30, seed=1)
    Y = scipy.sparse.vstack([Y, X[:10]]).tocsr()
    sparse, dense = kernel.fitted(SparseRows(X)), kernel.fitted(torch.from_numpy(X.toarray()))
    for A, B in ((X, Y), (X, X), (X[:1], Y), (X, Y[:1])):
        assert (sparse(A, B) - dense(A.toarray(), B.toarray())).abs().max() <= SAME
    assert (sparse.diag(SparseRows(X)) - dense.diag(X.toarray())).abs().max() <= SAME


@pytest.mark.parametrize("kernel", KERNELS, ids=label)
def test_single_precision_loses_what_rounding_the_rows_loses(kernel):
    X = rows().astype(np.float32)
    fitted = kernel.fitted(SparseRows(X))
    K, exact = fitted(X), fitted(X.astype(np.float64))
    assert K.dtype == torch.float32
    assert torch.allclose(K.double(), exact, rtol=1e-6, atol=1e-7)


def test_equal_rows_are_at_distance_zero_and_numbers_are_the_entries():
    """|x - y| of rows that are equal, far from zero, in a Laplacian whose lengthscale is small beside them."""
    X = scipy.sparse.csr_array(1e4 + np.arange(12.0).reshape(4, 3))
    K = Laplacian(1e-3)(X)
    assert (K.diagonal() == 1).all()
    assert (K - torch.eye(4)).abs().max() < 1e-12


@given(st.integers(0, 2**32 - 1))
def test_manhattan_distances_are_sums_over_columns(seed):
    rng = np.random.default_rng(seed)
    X, Y = (sparse_rows(5, 7, 0.4, rng) for _ in "ab")
    naive = [[sum(abs(a - b) for a, b in zip(x, y)) for y in Y.toarray()] for x in X.toarray()]
    found = Laplacian(1.0, norm=1).distances_to(SparseRows(Y))(SparseRows(X))
    assert np.abs(found.numpy() - naive).max() < 1e-12


@pytest.mark.parametrize(
    "kernel", [Gaussian(1.5), Laplacian(2.0), Linear(), Polynomial(2, scale=0.5)], ids=label
)
@pytest.mark.parametrize("landmarks", ["uniform", "pivoted_cholesky"])
def test_an_embedding_of_sparse_rows_is_that_of_the_dense_ones(kernel, landmarks):
    """Same kernel, same landmarks: the rules draw the same rows, because they see the same kernel values."""
    X = rows()
    model = KernelEmbedding(
        5,
        kernel=kernel,
        loss="kernel_pca",
        landmarks=landmarks,
        n_landmarks=25,
        dtype="float64",
        random_state=0,
    )
    sparse, dense = clone(model).fit(X), clone(model).fit(X.toarray())
    assert (sparse.landmark_indices_ == dense.landmark_indices_).all()
    Z, W = sparse.transform(X), dense.transform(X.toarray())
    assert np.abs(Z @ Z.T - W @ W.T).max() < 1e-8
    assert sparse.n_features_in_ == WIDTH
    assert np.abs(sparse.transform(X.toarray()) - Z).max() < 1e-12  # dense rows for a model of sparse ones
    assert np.abs(dense.transform(X) - W).max() < 1e-12  # and sparse rows for one of dense ones


def test_ridge_on_sparse_rows_is_ridge_on_the_dense_ones():
    X = rows(200)
    y = np.asarray(X.sum(1)).reshape(-1)
    machine = KernelRidgeRegressor(
        kernel=Gaussian(2.0), lengthscale=2.0, input_metric=None, penalty=1e-3, preprocess=None, dtype="float64",
        random_state=0,
    )  # fmt: skip
    sparse, dense = clone(machine).fit(X, y), clone(machine).fit(X.toarray(), y)
    assert np.abs(sparse.predict(X) - dense.predict(X.toarray())).max() < 1e-8


@pytest.mark.parametrize(
    "rule", ["uniform", "kmeans_plus_plus", "leverage", KMeansPlusPlus(space="kernel")], ids=str
)
def test_every_rule_chooses_among_sparse_rows(rule):
    X = rows()
    model = KernelEmbedding(3, loss="kernel_pca", landmarks=rule, n_landmarks=12, random_state=0).fit(X)
    assert len(set(model.landmark_indices_)) == 12
    assert (model.landmarks_.toarray() == X[model.landmark_indices_].astype(np.float32).toarray()).all()


def test_landmarks_may_be_given_as_sparse_points_or_as_indices():
    X = rows()
    by_index, by_point = (
        KernelEmbedding(3, loss="kernel_pca", landmarks=given, random_state=0).fit(X)
        for given in (np.arange(20), X[:20])
    )
    assert by_index.landmarks_.equals(by_point.landmarks_)


def test_blocks_do_not_change_an_embedding():
    X, model = rows(), KernelEmbedding(4, n_landmarks=20, random_state=0, dtype="float64")
    whole = clone(model).fit(X)
    parts = clone(model).set_params(landmarks=X[whole.landmark_indices_], kernel=whole.kernel_).fit(X)
    by_rows = np.concatenate(list(whole.iter_transform(X, batch_rows=7)))
    assert np.abs(by_rows - whole.transform(X)).max() < 1e-12
    assert parts.transform(X).shape == (N, 4)


def test_partial_fit_adds_what_fit_reads():
    X = rows()
    model = KernelEmbedding(
        4, kernel=Gaussian(1.0), views=Sparse(replace=0.0), landmarks=X[:20], random_state=0, dtype="float64"
    )
    whole, parts = clone(model).fit(X), clone(model).partial_fit(X[:50]).partial_fit(X[50:])
    Z, W = whole.transform(X), parts.transform(X)
    assert np.abs(Z @ Z.T - W @ W.T).max() < 1e-8


MODELS = {
    "embedding": KernelEmbedding(3, n_landmarks=20, random_state=0),
    "embedding by folds": KernelEmbedding(3, n_landmarks=20, n_folds=3, random_state=0),
    "landmark tuples": KernelEmbedding(
        3, n_landmarks=20, landmarks=PivotedCholesky(views_per_landmark=2), random_state=0
    ),
    "classifier": KernelRidgeClassifier(n_landmarks=20, random_state=0),
    "regressor": KernelRidgeRegressor(n_landmarks=20, random_state=0),
    "process": GaussianProcessRegressor(n_landmarks=20, random_state=0),
    "detector": NoveltyDetector(n_landmarks=20, random_state=0),
}


@pytest.mark.filterwarnings("ignore:With .* calibration rows no alarm")
@pytest.mark.filterwarnings("ignore:Nothing that this representation")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_sparse_rows_is_saved_and_goes_on(name, tmp_path):
    X = rows(200)
    y = classes(X)
    model = clone(MODELS[name]).partial_fit(X[:150], y[:150])
    model.save(tmp_path / "m.krepes")
    restored = load(tmp_path / "m.krepes")
    assert restored.landmarks_.equals(model.landmarks_)
    output = model.transform if hasattr(model, "transform") else model.predict
    again = restored.transform if hasattr(model, "transform") else restored.predict
    assert np.allclose(output(X), again(X), rtol=1e-5, atol=1e-6)
    model.partial_fit(X[150:], y[150:])
    restored.partial_fit(X[150:], y[150:])
    assert np.allclose(output(X), again(X), rtol=1e-4, atol=1e-5)


def test_a_process_of_classes_learns_from_sparse_rows(tmp_path):
    X = rows(200)
    y = classes(X)
    model = GaussianProcessClassifier(n_landmarks=50, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    model.save(tmp_path / "m.krepes")
    assert np.allclose(load(tmp_path / "m.krepes").predict_proba(X), model.predict_proba(X), atol=1e-6)


def test_rows_are_forgotten():
    X = rows(200)
    y = classes(X)
    machine = KernelRidgeClassifier(
        kernel=Gaussian(1.0), landmarks=X[-20:], penalty=1e-2, random_state=0
    ).fit(X, y)
    machine.forget(X[:30], y[:30], rows=np.arange(30))
    assert machine.n_samples_seen_ == 170


def test_files_and_matrices_give_one_model(tmp_path):
    X, model = rows(200).astype(np.float32), KernelEmbedding(4, n_landmarks=30, random_state=0)
    expected = clone(model).fit(X).transform(X)
    for compressed in (True, False):
        path = tmp_path / f"{compressed}.npz"
        scipy.sparse.save_npz(path, X, compressed)
        assert np.array_equal(clone(model).fit(path).transform(path), expected)
    for other in (X.tocsc(), X.tocoo(), scipy.sparse.csr_matrix(X)):
        assert np.array_equal(clone(model).fit(other).transform(other), expected)


# Views


def test_the_draws_of_an_entry_are_those_of_its_row_and_column():
    """What is dropped is what the draws of the whole row, zeros and all, would drop."""
    X, index = SparseRows(rows()), torch.arange(100, 100 + N)
    view = Sparse(drop=0.4, replace=0.0).view(X, index, 7, 1)
    stays = uniform(index, WIDTH, 7, 1, CHOICE).numpy() >= 0.4
    expected = np.where(stays, X.toarray(), 0.0)
    expected = np.where((expected == 0).all(1, keepdims=True), X.toarray(), expected)
    before, now = (np.linalg.norm(part, axis=1, keepdims=True) for part in (X.toarray(), expected))
    assert (
        np.abs(
            view.toarray() - expected * np.divide(before, now, where=now > 0, out=np.zeros_like(now))
        ).max()
        < 1e-12
    )


@given(st.lists(st.integers(0, N - 1), min_size=1, max_size=40), st.integers(-(2**70), 2**70))
def test_a_view_of_a_sparse_row_does_not_depend_on_its_block(chosen, seed):
    X, index = SparseRows(rows()), torch.arange(N) * 2**33
    views = Sparse(replace=0.3).fitted(X, torch.Generator().manual_seed(0))
    whole, part = views(X, index, seed), views(X[chosen], index[chosen], seed)
    for a, b in zip(whole, part):
        assert a[chosen].equals(b)


def test_entries_are_dropped_and_replaced_as_often_as_asked():
    """Shares within 4 standard errors; lengths stay; rows that have entries keep some; empty rows stay empty."""
    X = SparseRows(scipy.sparse.csr_array(np.tile(np.arange(1.0, 21.0), (2000, 1)) * (np.arange(20) < 10)))
    drop, replace = 0.3, 0.2
    views = Sparse(drop, replace).fitted(SparseRows(scipy.sparse.csr_array(np.eye(20)[15:])), None)
    view = views.view(X, torch.arange(2000), 0, 0)
    n, kept = 20_000, int((view.columns < 10).sum())
    assert abs(kept / n - (1 - drop) * (1 - replace)) < 4 * np.sqrt(0.25 / n)
    assert (view.columns[view.columns >= 10] >= 15).all()
    assert np.allclose(view.square_norms(), X.square_norms())
    few = SparseRows(rows())
    seen = Sparse(0.95, 0.0).view(few, torch.arange(N), 0, 0)
    assert (np.diff(seen.edges) > 0).tolist() == (np.diff(few.edges) > 0).tolist()


# Text, from end to end


def texts() -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(0)
    words = {"a": [f"w{i}" for i in range(40)], "b": [f"w{i}" for i in range(20, 60)]}
    found = [" ".join(rng.choice(words[name], 12)) for name in words for _ in range(120)]
    return found, np.repeat(["a", "b"], 120)


def test_text_goes_through_a_pipeline(tmp_path):
    X, y = texts()
    embedding = make_pipeline(TfidfVectorizer(), KernelEmbedding(6, n_landmarks=40, random_state=0)).fit(X)
    assert embedding.transform(X).shape == (240, 6)
    assert isinstance(embedding[-1].kernel_, Cosine)
    assert isinstance(embedding[-1].views_, Sparse)
    machine = make_pipeline(TfidfVectorizer(), KernelRidgeClassifier(random_state=0)).fit(X[::2], y[::2])
    assert machine.score(X[1::2], y[1::2]) > 0.95
    assert len(machine[-1].choice_.tried) > 2  # lengthscales were compared
