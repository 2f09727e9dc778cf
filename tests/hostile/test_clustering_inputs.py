"""Subspace clustering on bad input: the right answer, or an error that says what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from krepes.clustering import (
    Covariance,
    ElasticNet,
    Filter,
    MatchingPursuit,
    Precision,
    SubspaceClustering,
)
from krepes.clustering.self_expression import DualExpression
from krepes.kernels import ArcCosine, Custom, Gaussian, Linear, Polynomial
from refusals import refuses, warns_of

QUADRATIC = Polynomial(2, offset=0.0)
KERNELS = {"auto": "auto", "quadratic": QUADRATIC, "linear": "linear"}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def lines(n: int = 20, d: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three separate planes."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), n)
    X = np.zeros((3 * n, d))
    for c in range(3):
        X[y == c, 2 * c : 2 * c + 2] = rng.uniform(0.5, 1.5, (n, 2))
    return X + 0.01 * rng.normal(size=X.shape), y


def model(k: int | None = 3, **parameters) -> SubspaceClustering:
    return SubspaceClustering(k, **({"n_iterations": 2, "random_state": 0} | parameters))


@every_kernel
def test_duplicate_rows_belong_together(kernel):
    X, y = lines()
    labels = model(kernel=kernel).fit_predict(np.vstack([X, X]))
    assert adjusted_rand_score(np.tile(y, 2), labels) == pytest.approx(1.0)


@every_kernel
def test_all_rows_the_same(kernel):
    labels = model(1, kernel=kernel).fit_predict(np.ones((10, 3)))
    assert (labels == 0).all()


@every_kernel
def test_zero_rows_do_not_disturb_the_others(kernel):
    """A black image among faces."""
    X, y = lines()
    X[0] = 0
    fitted = model(kernel=kernel).fit(X)
    assert fitted.affinity_matrix_.shape == (60, 60)
    assert fitted.affinity_matrix_[[0]].sum() == 0
    assert adjusted_rand_score(y[1:], fitted.labels_[1:]) > 0.95
    assert np.isfinite(fitted.projection_).all()
    assert set(fitted.predict(np.zeros((1, 6)))) <= {0, 1, 2}


def test_nothing_but_zeros_is_an_error():
    with refuses(ValueError, "6 of 6", "zero"):
        model(2, kernel="linear").fit(np.zeros((6, 3)))


def test_orthogonal_rows_cannot_be_expressed():
    with refuses(ValueError, "kernel='gaussian'", "cluster"):
        model(2, kernel="linear").fit(np.eye(5))


@every_kernel
def test_one_cluster(kernel):
    X, _ = lines()
    assert set(model(1, kernel=kernel).fit_predict(X)) == {0}


def test_labels_that_mean_little_are_announced():
    with warns_of(UserWarning, "rows", "same"):
        model(2).fit(np.ones((20, 3)))
    noise = np.random.default_rng(0).normal(size=(60, 30))
    with warns_of(UserWarning, "show", "cluster"):
        assert model(None, n_iterations=0).fit(noise).n_clusters_ == 1


def test_parameters_of_no_projection():
    with refuses(ValueError, "projection__filter", "None"):
        model(2, projection=None).set_params(projection__filter=0.3)


def test_as_many_clusters_as_rows():
    X, _ = lines(3)
    assert sorted(model(9).fit_predict(X)) == list(range(9))


def test_more_clusters_than_rows():
    with refuses(ValueError, "9 rows"):
        model(10).fit(lines(3)[0])


def test_two_rows():
    assert sorted(model(2).fit_predict([[1.0, 0.0], [0.0, 1.0]])) == [0, 1]


def test_one_row():
    with refuses(ValueError, "minimum", "2"):
        model(1).fit([[1.0, 2.0]])


def test_more_components_than_clusters_are_put_together():
    """Six orthogonal pairs in three clusters: no coefficient joins them; the warning says what is done."""
    X = np.repeat(np.eye(6), 2, axis=0)
    with warns_of(UserWarning, "6 components"):
        labels = model(3, kernel="linear", projection=None, truncation=1).fit_predict(X)
    assert (labels[::2] == labels[1::2]).all()
    assert len(set(labels)) == 3


def test_truncated_components_are_joined():
    """With one coefficient per row the affinity falls into many pairs; their next coefficients join them."""
    X, y = lines(30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = model(truncation=1, coding="ridge").fit_predict(X)
    assert adjusted_rand_score(y, labels) > 0.9


def test_a_projection_that_collapses_ends_the_iteration():
    """A filter that keeps one direction, in which all rows are the same after normalisation."""
    rng = np.random.default_rng(0)
    X = np.hstack([10 + rng.random((30, 1)), 0.1 * rng.normal(size=(30, 3))])
    largest = Filter(lambda share: (share == share.max()).double())
    fitted = model(2, projection=largest, n_iterations=5, selection="last").fit(X)
    assert np.isfinite(fitted.projection_).all()
    assert len(set(fitted.labels_)) == 2


@pytest.mark.parametrize(
    "gains", [lambda D: D * torch.nan, lambda D: -D, lambda D: D[:1]], ids=["nan", "negative", "short"]
)
def test_a_filter_must_give_gains(gains):
    with refuses(ValueError, "0", "eigenvalue", "finite"):
        model(projection=gains).fit(lines()[0])


def test_a_filter_of_zeros_leaves_nothing():
    with refuses(ValueError, "filter", "zero"):
        model(projection=lambda D: D * 0).fit(lines()[0])


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_the_scale_of_the_data_does_not_matter(scale):
    X, y = lines()
    for kernel in ("auto", QUADRATIC):
        assert adjusted_rand_score(y, model(kernel=kernel).fit_predict(X * scale)) == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_values_are_refused(bad):
    X, _ = lines()
    X[3, 1] = bad
    with refuses(ValueError, "X"):
        model().fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_clusters": 2.5}, "n_clusters=2.5"),
        ({"truncation": 0}, "truncation=0"),
        ({"n_iterations": -1}, "n_iterations=-1"),
        ({"regularization": 0}, "regularization=0"),
        ({"truncation": "some"}, "truncation='some'"),
        ({"regularization": float("nan")}, "regularization=nan"),
        ({"normalization": "row"}, "normalization='row'"),
        ({"selection": "first"}, "selection='first'"),
        ({"projection": "precisoin"}, "'precision'"),
        ({"projection": Precision(0)}, "filter=0"),
        ({"coding": "lsr"}, "Known names"),
        ({"coding": "matching_pursuit", "coding__n_nonzero": 0}, "n_nonzero=0"),
        ({"coding": "elastic_net", "coding__l1_ratio": 0}, "l1_ratio=0"),
        ({"n_landmarks": 0}, "n_landmarks=0"),
        ({"n_landmarks": "some"}, "n_landmarks='some'"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with refuses(ValueError, message):
        SubspaceClustering(n_clusters=3).set_params(**parameters).fit(lines()[0])


def test_kernels_without_a_derivative_are_for_no_projection():
    X, _ = lines()
    for kernel in (ArcCosine(), Custom(lambda A, B: A @ B.T), Gaussian(1.0) + Linear()):
        with refuses(TypeError, "derivative"):
            model(kernel=kernel).fit(X)
        assert len(model(kernel=kernel, projection=None).fit_predict(X)) == len(X)


def test_an_indefinite_kernel_is_refused():
    with refuses(ValueError, "positive semi-definite"):
        model(kernel=Custom(lambda A, B: -10 * (A @ B.T)), projection=None).fit(lines()[0])


def test_inputs_are_not_changed_and_may_be_tensors_or_images():
    X, _ = lines()
    kept = X.copy()
    labels = model(projection=Covariance()).fit_predict(X)
    assert np.array_equal(X, kept)
    assert np.array_equal(model(projection=Covariance()).fit_predict(torch.from_numpy(X)), labels)
    assert np.array_equal(model(projection=Covariance()).fit_predict(X.reshape(-1, 2, 3)), labels)


def test_no_square_array_for_many_rows(monkeypatch):
    """Beyond the limit the regressions use landmarks and the affinity is sparse; without a truncation it is refused."""
    import krepes.clustering.metric as metric
    import krepes.clustering.search as search

    monkeypatch.setattr(metric, "DualExpression", None)  # would fail if it were used
    for module in (metric, search):
        monkeypatch.setattr(module, "LARGEST_DUAL", 100)
    X, y = lines(60)
    fitted = model(coding="ridge").fit(X)
    assert adjusted_rand_score(y, fitted.labels_) > 0.95
    assert fitted.affinity_matrix_.nnz <= 2 * 7 * len(X)
    with refuses(ValueError, "truncation=None"):
        model(truncation=None).fit(X)


@pytest.mark.parametrize(
    ("coding", "name"),
    [
        (ElasticNet(max_iter=0), "max_iter=0"),
        (ElasticNet(max_iter=-1), "max_iter=-1"),
        (ElasticNet(max_iter=1.5), "max_iter=1.5"),
        (MatchingPursuit(tol="small"), "tol='small'"),
    ],
)
def test_parameters_of_codings_that_make_no_sense_are_refused(coding, name):
    with refuses(ValueError, name):
        model(coding=coding).fit(lines(8)[0])


def test_an_elastic_net_may_take_more_steps_than_can_be_counted():
    X, _ = lines(8)
    few, many = (model(coding=ElasticNet(max_iter=steps)).fit(X) for steps in (10_000, 2**70))
    assert np.array_equal(few.labels_, many.labels_)


def test_an_elastic_net_expresses_one_row_that_is_named_by_a_tensor():
    """As a group of one row is, where groups are linked."""
    C = ElasticNet().rows(DualExpression(Linear(), torch.from_numpy(lines(8)[0]), 1.0))
    assert torch.equal(C(torch.tensor([5])), C(slice(5, 6)))
