"""The lengthscale is the one with the best leave-one-out accuracy of nearest neighbours."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_circles
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from krepes import KernelAutoencoder, KernelEmbedding
from krepes.evaluation import choose_bandwidth
from krepes.kernels import Gaussian, Linear
from refusals import refuses

X, y = make_circles(120, noise=0.05, factor=0.4, random_state=0)
LABELLED = np.arange(0, 120, 4)
Y = np.full(120, np.nan)
Y[LABELLED] = y[LABELLED]


def model(kernel="gaussian", **parameters):
    return KernelEmbedding(
        2, kernel=kernel, loss="kernel_pca", n_landmarks=None, random_state=0, **parameters
    )


def test_accuracies_are_those_of_leaving_each_row_out_with_scikit_learn():
    choice = choose_bandwidth(model(), X, Y)
    np.testing.assert_allclose(choice.bandwidths, np.geomspace(0.01, 100, 15))
    for value, accuracy in list(zip(choice.bandwidths, choice.accuracies))[::3]:
        Z = model(Gaussian(value)).fit(X).transform(X[LABELLED])
        naive = cross_val_score(KNeighborsClassifier(3), Z, y[LABELLED], cv=LeaveOneOut()).mean()
        assert accuracy == pytest.approx(naive)


def test_the_chosen_model_has_the_best_accuracy_and_the_given_one_is_not_changed():
    given = model()
    choice = choose_bandwidth(given, X, Y)
    best = choice.bandwidths[choice.accuracies == choice.accuracies.max()]
    assert choice.bandwidth == best[len(best) // 2]
    assert choice.model.kernel_.lengthscale == choice.bandwidth
    assert given.kernel == "gaussian"
    assert not hasattr(given, "space_")


def test_pairs_are_passed_on_to_fit():
    rng = np.random.default_rng(0)
    contrastive = KernelEmbedding(2, kernel="laplacian", loss="simple_contrastive", n_landmarks=None)
    pairs = {"positives": X + 0.1 * rng.normal(size=X.shape), "negatives": rng.permutation(X)}
    choice = choose_bandwidth(contrastive, X, Y, bandwidths=[0.5, 1.0], **pairs)
    assert len(choice.model.landmarks_) == 360


@pytest.mark.filterwarnings("ignore:The views of a row share almost nothing")
def test_a_lengthscale_that_cannot_be_fitted_is_named_and_passed_over():
    line = np.arange(6.0)[:, None]
    strong = KernelEmbedding(1, kernel="gaussian", n_landmarks=None, regularization=0.9)
    labels = {"y": [0, 0, 0, 1, 1, 1], "n_neighbors": 1}
    choice = choose_bandwidth(strong, line, bandwidths=[0.01, 1.0], positives=line + 0.5, **labels)
    assert choice.bandwidth == 1.0
    assert np.isnan(choice.accuracies[0])
    assert "No component is left" in choice.failures[0.01]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bandwidths": []}, "bandwidths"),
        ({"bandwidths": [-1.0]}, "bandwidths"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_neighbors": 30}, "cannot choose"),
        ({"y": np.zeros(120)}, "cannot choose"),
        ({"y": np.arange(31) % 2}, "row"),
        ({"model": model(Linear())}, "lengthscale"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(change, message):
    given = {"model": model(), "X": X, "y": Y, "bandwidths": [1.0]} | change
    with refuses(ValueError, message):
        choose_bandwidth(**given)


def test_an_autoencoder_has_a_lengthscale_to_choose_too():
    autoencoder = KernelAutoencoder(2, n_landmarks=None, max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The descent has not ended")
        choice = choose_bandwidth(autoencoder, X, Y, bandwidths=[0.1, 1.0])
    assert isinstance(choice.model, KernelAutoencoder)
    Z = choice.model.transform(X[LABELLED])
    naive = cross_val_score(KNeighborsClassifier(3), Z, y[LABELLED], cv=LeaveOneOut()).mean()
    assert choice.accuracies.max() == pytest.approx(naive)
