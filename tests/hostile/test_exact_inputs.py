"""All points as landmarks: coinciding, constant and very few rows, too many of them, and objects."""

from __future__ import annotations

import numpy as np
import pytest

from krepes import KernelEmbedding, load
from krepes.features import choices
from krepes.kernels import Custom, Gaussian, Linear
from krepes.landmarks import Uniform
from krepes.losses import SpectralContrastive
from refusals import refuses


def triplets(n=12, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X + 0.2 * rng.normal(size=(n, d)), rng.normal(size=(n, d))


def model(h=2, loss="simple_contrastive", **parameters):
    given = {"kernel": Gaussian(1.0), "random_state": 0} | parameters
    return KernelEmbedding(h, loss=loss, n_landmarks=None, **given)


def fitted(data, *arguments, **parameters):
    X, P, N = data
    return model(*arguments, **parameters).fit(X, positives=P, negatives=N)


def test_duplicated_triplets_change_nothing_but_the_number_of_landmarks():
    data = triplets()
    once, twice = fitted(data), fitted([np.tile(part, (2, 1)) for part in data])
    assert (once.rank_, twice.rank_) == (36, 36)
    assert len(twice.landmarks_) == 72
    np.testing.assert_allclose(twice.transform(data[0]), once.transform(data[0]), atol=1e-8)


def test_positives_that_are_the_anchors_are_cut_by_rank():
    X, _, N = triplets()
    found = fitted((X, X, N))
    assert found.rank_ == 24
    A = found.coefficients_
    K = Gaussian(1.0)(found.landmarks_).numpy()
    np.testing.assert_allclose(A.T @ K @ A, np.eye(2), atol=1e-8)


@pytest.mark.filterwarnings("ignore:n_components=")
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("loss", ["simple_contrastive", "spectral_contrastive", "kernel_pca", "vicreg"])
def test_two_and_three_rows(n, loss):
    X, P, _ = triplets(n)
    pairs = {} if loss == "kernel_pca" else {"positives": P}
    found = model(5, loss).fit(X, **pairs)
    Z = found.transform(X)
    assert np.isfinite(Z).all()
    assert 1 <= Z.shape[1] <= 2 * n


def test_one_row_is_refused():
    X, P, N = triplets(1)
    with refuses(ValueError, "2 samples"):
        fitted((X, P, N))


def test_constant_rows_are_named():
    X = np.ones((6, 2))
    with refuses(ValueError, "samples", "features"):
        fitted((X, X, X))


@pytest.mark.filterwarnings("ignore:n_components=500, but only")
def test_more_components_than_there_can_be():
    data = triplets()
    found = fitted(data, 500)
    assert 1 <= found.n_components_ <= 24, "S_+ - S_- has a rank of 2n at most"
    triplet = fitted(data, 500, SpectralContrastive("triplet"), regularization=0.6)
    assert triplet.n_components_ <= 36


def test_too_many_points_are_refused_with_the_memory_and_the_way_out(monkeypatch):
    monkeypatch.setattr(choices, "MOST_POINTS", 30)
    with refuses(ValueError, "36 points", "12 rows", "3 points", "10.4 kB") as error:
        fitted(triplets())
    assert "n_landmarks=1000" in str(error.value)
    assert "Up to 10 such rows" in str(error.value)
    monkeypatch.setattr(choices, "MOST_POINTS", 10**9)
    monkeypatch.setattr(choices, "available_memory", lambda: 50_000)
    with refuses(ValueError, "50 kB"):
        fitted(triplets())


def test_a_landmark_rule_is_not_asked(monkeypatch):
    monkeypatch.setattr(Uniform, "choose", None)
    found = fitted(triplets(), landmarks=Uniform(max_candidates=1))
    assert len(found.landmarks_) == 36


def test_landmarks_that_are_given_are_taken():
    data = triplets()
    found = fitted(data, landmarks=data[0][:5])
    assert len(found.landmarks_) == 5


def letters(a, b):
    return np.array([[float(len(set(x) & set(y))) for y in b] for x in a])


WORDS = ["kernel", "colonel", "representation", "presentation", "station", "nation"]
OTHERS = ["kernels", "colonels", "representations", "presentations", "stations", "nations"]


def test_objects_with_a_kernel_of_the_users(tmp_path):
    found = model(3, kernel=Custom(letters)).fit(WORDS, positives=OTHERS, negatives=WORDS[::-1])
    assert list(found.landmarks_) == [*WORDS, *OTHERS, *WORDS[::-1]]
    assert found.rank_ < 18
    found.save(tmp_path / "words.krepes")
    again = load(tmp_path / "words.krepes", kernel=letters)
    np.testing.assert_allclose(again.transform(OTHERS), found.transform(OTHERS), atol=1e-10)


@pytest.mark.parametrize("loss", ["simple_contrastive", SpectralContrastive("triplet")], ids=str)
def test_files_come_back_whole(tmp_path, loss):
    data = triplets()
    found = fitted(data, loss=loss, regularization=0.6)
    found.save(tmp_path / "exact.krepes")
    again = load(tmp_path / "exact.krepes")
    assert again.n_landmarks is None
    assert again.dtype == "float64"
    assert repr(again.solver_) == repr(found.solver_)
    np.testing.assert_allclose(again.transform(data[0]), found.transform(data[0]), atol=1e-12)


def test_the_precision_that_was_asked_for_is_kept():
    assert str(fitted(triplets(), dtype="float32").space_.dtype) == "torch.float32"
    X = triplets()[0]
    assert str(KernelEmbedding(2, n_landmarks=5).fit(X).space_.dtype) == "torch.float32"


@pytest.mark.parametrize("value", [0, -1, 1.5, "all", True])
def test_other_numbers_of_landmarks_are_refused(value):
    with refuses(ValueError, "n_landmarks"):
        KernelEmbedding(2, n_landmarks=value).fit(triplets()[0])


def test_full_batch_says_what_it_lacks():
    X = triplets()[0]
    with refuses(ValueError, "solver='full_batch'", "target"):
        model(2, "byol", solver="full_batch", views="tabular").fit(X)
    with refuses(ValueError, "solver='full_batch'", "X", "value"):
        model(2, "autoencoder", solver="full_batch").fit(X)


def test_losses_that_full_batch_cannot_take_are_still_trained():
    X = triplets(40)[0]
    found = model(2, "autoencoder").set_params(solver__max_epochs=1).fit(X)
    assert found.solver_.name == "sgd"


def test_linear_kernels_have_the_rank_of_the_columns():
    assert fitted(triplets(), 1, kernel=Linear()).rank_ == 3
