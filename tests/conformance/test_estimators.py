"""Every estimator keeps scikit-learn's contract."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from krepes import KernelAutoencoder, KernelEmbedding, TableEncoder
from krepes.kernels import Gaussian, Laplacian
from krepes.losses import BarlowTwins
from krepes.networks import MLP
from refusals import refuses
from reproduction.neural_embedding import NeuralEmbedding

SMALL = {"n_components": 2, "n_landmarks": 30, "random_state": 0}


# As for scikit-learn's own estimators that draw at random: what weights do promise is in test_sample_weight.py.
WEIGHTS = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "landmarks, lengthscale and views are drawn from the rows there "
    "are, so a row that is there twice is not drawn as one of weight two; its moments are",
)

# These set n_components to 1, which an autoencoder refuses; test_an_autoencoder_sees_rows_one_by_one is in their place.
ONE_COMPONENT = dict.fromkeys(
    (
        "check_dont_overwrite_parameters",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_fit2d_1sample",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
    ),
    "a bottleneck of one component has only two points of length one",
)


def expected_failures(estimator) -> dict[str, str]:
    if isinstance(estimator, KernelAutoencoder):
        return ONE_COMPONENT
    return WEIGHTS if isinstance(estimator, KernelEmbedding) else {}


@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
@pytest.mark.filterwarnings("ignore:The descent has not ended:UserWarning")
@parametrize_with_checks(
    [
        KernelEmbedding(),
        KernelAutoencoder(2, n_landmarks=5, max_iter=5, tol=0.1),
        TableEncoder(),
        NeuralEmbedding(2, network=MLP(widths=(8,)), max_epochs=1, batch_size=16),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
@pytest.mark.filterwarnings("ignore:The descent has not ended:UserWarning")
@parametrize_with_checks(
    [
        KernelEmbedding(loss="kernel_pca", n_components=2),
        KernelEmbedding("auto", n_folds=3),
        KernelAutoencoder(2),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks_in_other_settings(estimator, check):
    check(estimator)


def test_an_autoencoder_sees_rows_one_by_one():
    """Rows in another order, in parts or of one feature; one row or a vector is refused; parameters stay."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = KernelAutoencoder(2, random_state=0)
    given = model.get_params()
    Z, order = model.fit(X).transform(X), np.random.default_rng(1).permutation(40)
    assert model.get_params() == given
    assert np.allclose(model.transform(X[order]), Z[order], atol=1e-9)
    assert np.allclose(np.vstack([model.transform(row[None]) for row in X]), Z, atol=1e-9)
    assert clone(model).fit(X[:, :1]).transform(X[:, :1]).shape == (40, 2)
    with refuses(ValueError, "1 sample"):
        clone(model).fit(X[:1])
    with refuses(ValueError, "Reshape", "data"):
        model.transform(X[0])


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_grid_search_reaches_parts_given_by_name(iris):
    X, y = iris
    pipeline = make_pipeline(KernelEmbedding(loss="barlow_twins", **SMALL), LogisticRegression(max_iter=1000))
    grid = {
        "kernelembedding__loss__redundancy": [0.1, 1.0],
        "kernelembedding__kernel__lengthscale": [0.5, 2.0],
    }
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    embedding = search.best_estimator_[0]
    assert embedding.loss_.redundancy == search.best_params_["kernelembedding__loss__redundancy"]
    assert embedding.kernel_.lengthscale == search.best_params_["kernelembedding__kernel__lengthscale"]
    assert len({tuple(row) for row in search.cv_results_["params"][0].items()}) == 2


def test_set_params_resolves_a_new_name_before_its_parameters():
    model = KernelEmbedding().set_params(kernel="laplacian", kernel__norm=1)
    assert isinstance(model.kernel, Laplacian)
    assert model.kernel.norm == 1
    model = KernelEmbedding(loss="barlow_twins").set_params(loss__redundancy=0.3)
    assert isinstance(model.loss, BarlowTwins)
    assert model.loss.redundancy == 0.3


def test_fit_does_not_touch_the_parts_it_was_given(iris):
    kernel = Gaussian()
    model = KernelEmbedding(kernel=kernel, **SMALL).fit(iris[0])
    assert kernel.lengthscale == "median"
    assert model.get_params()["kernel__lengthscale"] == "median"
    assert isinstance(model.kernel_.lengthscale, float)


def test_clone_and_pickle_in_memory(iris):
    X, _ = iris
    model = KernelEmbedding(**SMALL).fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.transform(X), model.transform(X))
    assert np.array_equal(clone(model).fit(X).transform(X), model.transform(X))


def test_feature_names_and_set_output(iris):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(iris[0], columns=list("abcd"))
    model = KernelEmbedding(**SMALL).set_output(transform="pandas").fit(frame)
    Z = model.transform(frame)
    assert list(Z.columns) == ["kernelembedding0", "kernelembedding1"]
    assert list(model.feature_names_in_) == list("abcd")
    assert list(model.get_feature_names_out()) == list(Z.columns)


def test_same_seed_same_bits(iris):
    X, _ = iris
    first, second = (KernelEmbedding(**SMALL).fit(X) for _ in range(2))
    assert np.array_equal(first.coefficients_, second.coefficients_)
    other = KernelEmbedding(**{**SMALL, "random_state": 1}).fit(X)
    assert not np.array_equal(first.coefficients_, other.coefficients_)


def test_global_random_state_is_not_touched(iris):
    import torch

    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    KernelEmbedding(**SMALL).fit(iris[0])
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
