"""Layer transfer: low-rank features, choice of layers and the machine against direct computations."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import load_digits
from torch import nn

from krepes.alignment import LayerTransferClassifier, combine_kernels, iter_layers, one_hot
from krepes.alignment.layers.three_steps import as_landmark_rule, low_rank_map
from krepes.kernels import Gaussian
from krepes.networks import ConvNet
from krepes.regression import LeaveOneOutRidge, TransductiveRidge, expected_calibration_error


@pytest.fixture(scope="module")
def task():
    """Two layers that know different parts of four classes, one of noise; 60 rows and 80 more without labels."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 140)
    layers = {
        "low": np.eye(2)[codes % 2] * 2 + rng.normal(size=(140, 2)),
        "noise": rng.normal(size=(140, 6)),
        "high": (np.eye(2)[codes // 2] * 3) @ rng.normal(size=(2, 5)) + rng.normal(size=(140, 5)),
    }
    y = np.array(["ant", "bee", "cat", "dog"])[codes]
    return {k: Z[:60] for k, Z in layers.items()}, y[:60], {k: Z[60:] for k, Z in layers.items()}, y[60:]


@pytest.mark.parametrize("rule", ["uniform", "pivoted_cholesky", "countsketch"])
def test_with_as_many_landmarks_as_rows_the_features_reproduce_the_kernel(rule):
    """[tang, Eq. 3.2] with its exponent put right: Phi Phi^T = X X^T where the landmarks span the rows."""
    X = np.random.default_rng(0).normal(size=(40, 7)) + 2
    Phi = low_rank_map(X, 64, as_landmark_rule(rule), torch.Generator().manual_seed(0))(X).numpy()
    assert Phi.shape == (40, 7)
    assert np.allclose(Phi @ Phi.T, X @ X.T, rtol=1e-9)


def test_with_few_landmarks_the_features_are_the_projection_on_their_span():
    """Phi Phi^T = X L^T (L L^T)^-1 L X^T                                                          [tang, Eq. 3.1]"""
    X = np.random.default_rng(0).normal(size=(40, 7))
    features = low_rank_map(X, 3, as_landmark_rule("uniform"), torch.Generator().manual_seed(0))
    L = features.landmarks.numpy()
    assert L.shape == (3, 7)
    expected = X @ L.T @ np.linalg.inv(L @ L.T) @ L @ X.T
    Phi = features(X).numpy()
    assert np.allclose(Phi @ Phi.T, expected, rtol=1e-9)


def test_one_layer_and_the_linear_kernel_are_ridge_regression(task):
    X, y = task[0]["high"], task[1]
    model = LayerTransferClassifier(kernel="linear", n_landmarks=50, random_state=0).fit(X, y)
    plain = LeaveOneOutRidge().fit(X, one_hot(y))
    assert model.layers_ == ["X"]
    assert model.alpha_ == plain.alpha_
    assert np.allclose(model.decision_function(X), plain.predict(X), rtol=1e-6, atol=1e-9)
    assert np.allclose(model.machine_.loo_predictions_, plain.loo_predictions_, rtol=1e-6, atol=1e-9)


def test_the_scores_are_kernel_ridge_regression_on_the_weighted_layers(task):
    """With all rows as landmarks: (K + lam I)^-1 on centred features, K Gaussian of the concatenated layers."""
    X, y = task[:2]
    model = LayerTransferClassifier(kernel="gaussian", random_state=0).fit(X, y)
    Z = np.hstack([X[name] * mu**0.5 for name, mu in zip(model.layers_, model.weights_)])
    Z /= Z.var(axis=0).sum() ** 0.5
    K = Gaussian(model.kernel_.lengthscale)(Z).numpy()
    n, H = len(K), np.eye(len(K)) - 1 / len(K)
    Y = one_hot(y)
    dual = np.linalg.solve(H @ K @ H + model.alpha_ * model.machine_.unit_ * np.eye(n), H @ Y)
    expected = H @ K @ H @ dual + Y.mean(0)
    assert np.allclose(model.decision_function(X), expected, rtol=1e-4, atol=1e-5)


def test_leave_one_out_predictions_are_those_of_refitting_the_machine(task):
    X, y = task[:2]
    model = LayerTransferClassifier(n_landmarks=25, random_state=0).fit(X, y)
    Z = np.hstack([X[name] * model._scales[name] for name in model.layers_])
    # The layers' own rotation does not change distances; landmarks and width stay those of the fit.
    maps = np.hstack([model._maps[name](X[name]).numpy() * model._scales[name] for name in model.layers_])
    assert np.allclose(Z @ Z.T, maps @ maps.T, rtol=1e-8)
    Phi, Y, penalty = model._nystrom(maps).numpy(), one_hot(y), model.alpha_ * model.machine_.unit_
    for i in (0, 17, 59):
        rest = np.delete(np.arange(60), i)
        center, mean = Phi[rest].mean(0), Y[rest].mean(0)
        C = Phi[rest] - center
        W = np.linalg.solve(C.T @ C + penalty * np.eye(C.shape[1]), C.T @ (Y[rest] - mean))
        assert np.allclose((Phi[i] - center) @ W + mean, model.machine_.loo_predictions_[i], rtol=1e-6)


def test_unlabelled_rows_enter_by_transductive_ridge_and_choose_landmarks_with_the_others(task):
    X, y, free, _ = task
    model = LayerTransferClassifier(n_landmarks=40, betas=(0.5,), random_state=0).fit(X, y, free)
    assert isinstance(model.machine_, TransductiveRidge)
    assert model.beta_ == 0.5
    Phi, Phi_free = (
        model._nystrom(
            np.hstack([model._maps[name](part[name]).numpy() * model._scales[name] for name in model.layers_])
        ).numpy()
        for part in (X, free)
    )
    again = TransductiveRidge((model.alpha_,), (0.5,)).fit(Phi, one_hot(y), Phi_free)
    assert np.allclose(model.decision_function(free), again.predict(Phi_free), rtol=1e-9)
    plain = LayerTransferClassifier(n_landmarks=40, random_state=0).fit(X, y)
    assert not np.allclose(plain.decision_function(free), model.decision_function(free))


def test_unlabelled_rows_are_predicted_without_their_own_guesses():
    """Of digits: about as well calibrated as on new rows, and more often right, where `predict_proba` is too sure."""
    X, y = load_digits(return_X_y=True)
    errors, right = [], []
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(len(X))
        some, free, new = rows[:100], rows[100:700], rows[700:]
        model = LayerTransferClassifier(random_state=seed).fit(X[some], y[some], X[free])
        P = model.predict_proba(X[free]), model.unlabelled_probabilities_, model.predict_proba(X[new])
        errors.append([expected_calibration_error(p, y[part]) for p, part in zip(P, (free, free, new))])
        right.append([np.mean(c == y[free]) for c in (model.predict(X[free]), model.unlabelled_predictions_)])
    fitted, own, new = np.mean(errors, axis=0)
    assert fitted > 1.5 * new  # what was wrong
    assert own < 1.2 * new
    assert np.mean(right, axis=0)[1] > np.mean(right, axis=0)[0]


def test_missing_labels_are_unlabelled_rows(task):
    X, y, free, _ = task
    both = {name: np.vstack([X[name], free[name]]) for name in X}
    labels = np.concatenate([y.astype(object), [None] * 80])
    options = {"n_landmarks": 200, "random_state": 0}
    split = LayerTransferClassifier(**options).fit(X, y, free)
    marked = LayerTransferClassifier(**options).fit(both, labels)
    assert [s.share for s in marked.alignments_] == pytest.approx([s.share for s in split.alignments_])
    assert np.allclose(marked.decision_function(free), split.decision_function(free), atol=1e-6)
    assert np.allclose(marked.unlabelled_probabilities_, split.unlabelled_probabilities_, atol=1e-6)
    assert LayerTransferClassifier(**options).fit(X, y).unlabelled_probabilities_.shape == (0, 4)


def test_the_weights_are_those_of_combine_kernels_and_noise_has_next_to_none(task):
    X, y = task[:2]
    model = LayerTransferClassifier(random_state=0).fit(X, y)
    found = combine_kernels(X, y)
    assert [s.weight for s in model.alignments_] == pytest.approx(found.weights.tolist())
    assert model.alignment_ == pytest.approx(found.alignment)
    share = {s.layer: s.share for s in model.alignments_}
    assert share["noise"] < 0.1 < min(share["low"], share["high"])
    assert sum(share.values()) == pytest.approx(1.0)
    assert "high" in model.summary()
    assert model.summary() in str(model)


def test_the_scale_of_a_layer_does_not_matter(task):
    X, y, other, _ = task
    scaled, there = ({**part, "high": 1e4 * part["high"]} for part in (X, other))
    options = {"landmarks": "uniform", "random_state": 0}
    model, again = (LayerTransferClassifier(**options).fit(part, y) for part in (X, scaled))
    assert [s.share for s in again.alignments_] == pytest.approx([s.share for s in model.alignments_])
    assert np.allclose(model.predict_proba(other), again.predict_proba(there), rtol=1e-5)


def test_uniform_weights_give_every_layer_the_same_variance(task):
    model = LayerTransferClassifier(weighting="uniform", random_state=0).fit(*task[:2])
    assert [s.share for s in model.alignments_] == pytest.approx([1 / 3] * 3)
    assert model.layers_ == ["low", "noise", "high"]


def test_the_temperature_makes_leave_one_out_predictions_more_likely(task):
    X, y, other, y_other = task
    model = LayerTransferClassifier(random_state=0).fit(X, y)
    codes = np.searchsorted(model.classes_, y)

    def surprise(T: float) -> float:
        return -log_softmax(model.machine_.loo_predictions_ / T, axis=1)[np.arange(60), codes].mean()

    assert surprise(model.temperature_) < surprise(1.0) - 0.1
    P = model.predict_proba(other)
    assert np.allclose(P.sum(1), 1)
    assert np.array_equal(model.classes_[P.argmax(1)], model.predict(other))
    assert model.score(other, y_other) > 0.6


def test_the_width_with_the_smallest_leave_one_out_error_is_taken(task):
    X, y = task[:2]
    given = {"kernel": "gaussian", "landmarks": "uniform", "random_state": 0}
    errors = {}
    for factor in (0.3, 1.0, 3.0):
        one = LayerTransferClassifier(lengthscale_factors=(factor,), **given).fit(X, y)
        errors[one.kernel_.lengthscale] = one.machine_.errors_.min()
    model = LayerTransferClassifier(lengthscale_factors=(0.3, 1, 3), **given).fit(X, y)
    assert model.kernel_.lengthscale == pytest.approx(min(errors, key=errors.get))


def test_linear_and_gaussian_kernels_and_their_sums_compete_by_leave_one_out(task):
    """kernel="auto" is never worse, on rows left out, than a linear or a Gaussian kernel alone."""
    X, y = task[:2]
    given = {"weighting": "uniform", "random_state": 0}
    alone = [LayerTransferClassifier(kernel=k, **given).fit(X, y) for k in ("linear", "gaussian")]
    both = LayerTransferClassifier(**given).fit(X, y)
    assert both.machine_.errors_.min() <= min(each.machine_.errors_.min() for each in alone) * (1 + 1e-9)


def test_rows_left_out_choose_the_weights_of_layers():
    """One layer of many that has the classes gets nearly all the weight; layers that all have them, all some."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    noise = {f"noise {i}": rng.normal(size=(120, 20)) for i in range(20)}
    one_has_it = {"good": one_hot(y) + 0.3 * rng.normal(size=(120, 3)), **noise}
    model = LayerTransferClassifier(random_state=0).fit(one_has_it, y)
    errors = model.left_out_errors_
    assert errors["alignment"] < errors["mean"] < errors["uniform"]
    assert max(model.alignments_, key=lambda score: score.share).layer == "good"
    assert "rows left out" in model.summary()
    all_have_it = {f"layer {i}": one_hot(y) + rng.normal(size=(120, 3)) for i in range(5)}
    model = LayerTransferClassifier(random_state=0).fit(all_have_it, y)
    assert min(score.share for score in model.alignments_) > 0.1


def test_mean_weights_give_every_layer_the_mean_of_both_shares(task):
    X, y = task[:2]
    shares = {}
    for weighting in ("uniform", "alignment", "mean"):
        model = LayerTransferClassifier(weighting=weighting, random_state=0).fit(X, y)
        shares[weighting] = np.array([score.share for score in model.alignments_])
        assert not model.left_out_errors_
    np.testing.assert_allclose(shares["mean"], (shares["uniform"] + shares["alignment"]) / 2, atol=1e-12)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(4 * 36, 8))
    return body.train()


def test_a_network_is_the_same_as_its_layers_and_is_left_alone(network):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(50, 1, 8, 8)).astype(np.float32)
    y = (images[:, 0, :4].mean(axis=(1, 2)) > images[:, 0, 4:].mean(axis=(1, 2))).astype(int)
    model = LayerTransferClassifier(network, batch_rows=7, random_state=0).fit(images, y)
    names = [score.layer for score in model.alignments_]
    assert names == ["0", "1", "3", "4"]  # dropout repeats what is before it
    assert network.training
    assert not network[0]._forward_hooks
    parts = [outputs for _, outputs in iter_layers(network, images, names)]
    layers = {name: np.concatenate([part[name] for part in parts]) for name in names}
    given = LayerTransferClassifier(random_state=0).fit(layers, y)
    assert given.layers_ == model.layers_
    assert np.allclose(given.decision_function(layers), model.decision_function(images), atol=1e-4)


def test_rows_beyond_the_selection_are_streamed_through_the_chosen_layers_only(network):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(90, 1, 8, 8)).astype(np.float32)
    y = np.arange(90) % 2
    images[y == 1, 0, 2] += 1.0
    seen = []
    handle = network[0].register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    model = LayerTransferClassifier(network, selection_rows=60, batch_rows=30, random_state=0).fit(images, y)
    handle.remove()
    assert sum(seen) == 90 + 2  # every row once, and two rows to find the layers
    assert model.machine_.loo_predictions_.shape == (90, 2)
    assert model.score(images, y) > 0.8


def test_same_seed_same_bits_clone_and_pickle(task):
    X, y, other, _ = task
    model = LayerTransferClassifier(n_landmarks=20, n_features_per_layer=3, random_state=0).fit(X, y)
    for again in (clone(model).fit(X, y), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.predict_proba(other), model.predict_proba(other))
    tuned = clone(model).set_params(kernel__lengthscale=3.0, landmarks__max_candidates=30).fit(X, y)
    assert tuned.kernel_.lengthscale == 3.0


def test_networks_of_krepes_take_pixels():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 100, size=(40, 8, 8), dtype=np.uint8)
    y = np.arange(40) % 2
    images[y == 1, :4] += 100
    model = LayerTransferClassifier(ConvNet(channels=(4, 8)), random_state=0).fit(images, y)
    assert model.score(images, y) == 1.0
    assert np.allclose(
        model.decision_function(images), model.decision_function(images.astype(np.float32) / 255), atol=1e-5
    )


def test_layers_of_few_rows_are_taken_as_they_are(task, monkeypatch):
    """Whole layers where they fit into memory; else as with 256 landmarks of every layer."""
    X, y = task[:2]
    whole = LayerTransferClassifier(random_state=0).fit(X, y)
    for name, layer_map in whole._maps.items():
        np.testing.assert_array_equal(layer_map(X[name]).numpy(), X[name])
    monkeypatch.setitem(LayerTransferClassifier.fit.__globals__, "WHOLE_BYTES", 0)
    small = LayerTransferClassifier(random_state=0).fit(X, y)
    same = LayerTransferClassifier(n_features_per_layer=256, random_state=0).fit(X, y)
    np.testing.assert_array_equal(small.decision_function(X), same.decision_function(X))
