"""Bad input gets a right answer or an exception that says what was given and what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.datasets import load_iris

from krepes import KernelEmbedding
from krepes.base.components import named
from krepes.kernels import Custom, Sigmoid
from krepes.losses import Loss
from refusals import refuses, warns_of

X = load_iris().data
SMALL = {"n_components": 2, "n_landmarks": 20, "random_state": 0}
LOSSES = sorted(named(Loss))


def fit(data, **params):
    return KernelEmbedding(**{**SMALL, **params}).fit(data)


def attempt(model, data):
    """The embedding, or the text of the error."""
    try:
        return model.fit(data).transform(data), None
    except ValueError as error:
        return None, str(error)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_name_their_columns(value):
    bad = X.copy()
    bad[5, 2] = value
    with refuses(ValueError, "columns 2"):
        fit(bad)
    model = fit(X)
    with refuses(ValueError, "columns 2"):
        model.transform(bad)


def test_overflow_to_float32_is_noticed():
    bad = X.copy()
    bad[0, 0] = 1e300
    with refuses(ValueError, "infinity", "columns 0"):
        fit(bad)


@pytest.mark.parametrize("data", [np.empty((0, 3)), np.empty((5, 0)), []])
def test_empty_data(data):
    with refuses(ValueError):
        fit(data)


def test_one_row():
    with refuses(ValueError, "1 sample"):
        fit(X[:1])


@pytest.mark.parametrize("data", [X[0], np.float64(3.0), X.astype(complex), np.array([["a", "b"]] * 5)])
def test_wrong_shapes_and_types(data):
    with pytest.raises((ValueError, TypeError)):
        fit(data)


@pytest.mark.parametrize("loss", LOSSES)
def test_constant_data(loss):
    """Nothing varies: kernel PCA has nothing to find, whatever the loss the answer is finite or an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Z, message = attempt(KernelEmbedding(loss=loss, **SMALL), np.ones((30, 3)))
    if message is not None:
        assert "vary" in message or "component" in message
    else:
        assert np.isfinite(Z).all()


@pytest.mark.filterwarnings("ignore:n_components:UserWarning")
@pytest.mark.parametrize("loss", LOSSES)
def test_constant_columns_and_duplicates(loss):
    data = np.vstack([np.hstack([X, np.ones((150, 1)), X[:, :1]])] * 2)
    Z = fit(data, loss=loss).transform(data)
    assert np.isfinite(Z).all()
    assert np.allclose(Z[:150], Z[150:], atol=1e-5)


def test_wrong_width_at_transform():
    with refuses(ValueError, "3 features", "4"):
        fit(X).transform(X[:, :3])


def test_more_landmarks_than_rows():
    model = fit(X, n_landmarks=1000)
    assert len(model.landmarks_) <= 150


def test_components_beyond_the_rank_are_cut_with_a_warning():
    with warns_of(UserWarning, "n_components=50"):
        model = fit(X[:10], n_components=50)
    assert model.transform(X).shape == (150, model.intercept_.shape[0])
    assert model.intercept_.shape[0] <= 10


@pytest.mark.filterwarnings("ignore:n_components:UserWarning")
def test_a_kernel_that_is_not_positive():
    with warns_of(UserWarning, "positive semi-definite"):
        model = fit(X, kernel=Sigmoid(), loss="kernel_pca")
    assert np.isfinite(model.transform(X)).all()


def test_a_kernel_that_is_zero_or_nan():
    with refuses(ValueError, "represent"):
        fit(X, kernel=lambda A, B: np.zeros((len(A), len(B))), loss="kernel_pca")
    with refuses(ValueError, "NaN"):
        fit(X, kernel=lambda A, B: np.full((len(A), len(B)), np.nan), loss="kernel_pca")
    with refuses(ValueError, "Custom", "shape"):
        fit(X, kernel=Custom(lambda a, b: 1.0), loss="kernel_pca")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_components": 0}, ("n_components=0", "1")),
        ({"n_components": 2.5}, "n_components=2.5"),
        ({"n_landmarks": -3}, "n_landmarks=-3"),
        ({"regularization": -1}, "regularization=-1"),
        ({"regularization": np.nan}, "regularization=nan"),
        ({"feature_noise": -0.1}, "feature_noise=-0.1"),
        ({"dtype": "int8"}, "dtype='int8'"),
        ({"device": "toaster"}, "device='toaster'"),
        ({"kernel": "gausian"}, "'gaussian'"),
        ({"loss": "barlow"}, "Loss"),
        ({"views": 3}, ("Views", "object")),
        ({"landmarks": "all"}, "LandmarkSelector"),
        ({"solver": "magic"}, "Solver"),
        ({"preprocess": "scale"}, "preprocess='scale'"),
        ({"views": None}, ("two", "views")),
        ({"landmarks": [0, 1, 999]}, ("row", "indices")),
    ],
)
def test_parameters_that_make_no_sense(params, message):
    with refuses((ValueError, TypeError), message):
        fit(X, **params)


def test_objects_need_pairs_or_kernel_pca():
    words = ["one", "two", "three", "four"]
    kernel = Custom(lambda a, b: float(len(set(a) & set(b))), pairwise=True)
    with refuses(ValueError, "positives="):
        fit(words, kernel=kernel)
    pairs = KernelEmbedding(**SMALL, kernel=kernel, loss="spectral_contrastive")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs.fit(words, positives=["ones", "twos", "threes", "fours"])
    assert np.isfinite(pairs.transform(words)).all()


def test_pairs_that_do_not_fit():
    with refuses(ValueError, "positives=", "10 rows", "X", "150"):
        KernelEmbedding(**SMALL).fit(X, positives=X[:10])
    with refuses(ValueError, "negatives=", "positives="):
        KernelEmbedding(**SMALL).fit(X, negatives=X)
    with refuses(ValueError, "positives=", "view"):
        KernelEmbedding(loss="kernel_pca", **SMALL).fit(X, positives=X)


def test_models_that_do_not_fit_together():
    one, other = fit(X), fit(X, random_state=1)
    with refuses(ValueError, "landmarks"):
        one.merge(other)
    with refuses(ValueError, "kernel"):
        one.merge(fit(X, landmarks=one.landmarks_, kernel="laplacian"))


def test_what_refit_cannot_change_is_named():
    with refuses(ValueError, "kernel", "data"):
        fit(X).refit(kernel="laplacian")
    with refuses(ValueError, "view", "sample"):
        fit(X, loss="kernel_pca").refit(loss="vicreg")


def test_inputs_are_not_changed():
    data = X.copy()
    tensor = torch.tensor(X, requires_grad=True)
    fit(data).transform(data)
    fit(tensor).transform(tensor.detach())
    assert np.array_equal(data, X)
    assert tensor.grad is None
    data.flags.writeable = False
    fit(data[::-1]).transform(data[:, ::-1])


def test_transform_does_not_drop_gradients_in_silence():
    """U8."""
    model, tensor = fit(X), torch.tensor(X, requires_grad=True)
    with refuses(TypeError, "gradients", "X.detach()"):
        model.transform(tensor)
    with torch.no_grad():
        assert np.array_equal(model.transform(tensor), model.transform(X))


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(
    data=arrays.arrays(
        np.float64,
        st.tuples(st.integers(2, 12), st.integers(1, 4)),
        elements=st.floats(-1e6, 1e6, allow_nan=False, width=32),
    ),
    loss=st.sampled_from(LOSSES),
    kernel=st.sampled_from(["gaussian", "laplacian", "linear", "polynomial", "arc_cosine", "matern"]),
)
def test_any_finite_data_give_finite_embeddings_or_a_clear_error(data, loss, kernel):
    model = KernelEmbedding(2, loss=loss, kernel=kernel, n_landmarks=5, random_state=0)
    Z, message = attempt(model, data)
    if message is not None:
        assert len(message) > 20
    else:
        assert Z.shape == (len(data), model.intercept_.shape[0])
        assert np.isfinite(Z).all()
        assert 1 <= Z.shape[1] <= 2


def test_what_is_not_fitted_says_so():
    from sklearn.exceptions import NotFittedError

    for action in (lambda m: m.coverage(X), lambda m: m.transform(X), lambda m: m.refit(n_components=1)):
        with pytest.raises(NotFittedError):
            action(KernelEmbedding())
    with refuses(TypeError, "str"):
        fit(X).merge("model")


def test_words_with_a_kernel_on_vectors():
    with refuses(TypeError, "objects", "numbers"):
        fit(["one", "two", "three"], loss="kernel_pca")


def test_pixels_must_be_of_the_kind_that_was_fitted():
    pixels = np.random.default_rng(0).integers(0, 256, (30, 4, 4), dtype=np.uint8)
    model = fit(pixels)
    with refuses(ValueError, "255", "integers", "fitted"):
        model.transform(pixels / 255)


def test_ignored_negatives_are_mentioned():
    with warns_of(UserWarning, "negatives="):
        KernelEmbedding(**SMALL).fit(X, positives=X + 0.1, negatives=X[::-1].copy())


def test_frames_need_only_the_columns_that_were_used(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    frame["note"] = [f"remark {i}" for i in range(150)]  # near-unique text: left out
    model = fit(frame)
    assert np.allclose(model.transform(frame[list("abcd")]), model.transform(frame))
    frame.to_csv(tmp_path / "a.csv", index=False)
    from_file = fit(tmp_path / "a.csv")
    assert np.allclose(
        from_file.transform(frame[list("dcba")]), from_file.transform(tmp_path / "a.csv"), atol=1e-5
    )
