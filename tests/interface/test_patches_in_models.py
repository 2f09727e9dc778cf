"""Patches as a part of models: embeddings, machines, files, pictures in folders, clusters, alignments."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image as Picture
from sklearn.datasets import load_digits

from krepes import KernelEmbedding, load
from krepes.alignment import SketchedCKA
from krepes.clustering import SubspaceClustering
from krepes.kernels import Patches
from krepes.machines import GaussianProcessClassifier, KernelRidgeClassifier, NoveltyDetector

digits = load_digits()
X, y = (digits.images[:300] * 15).astype(np.uint8), digits.target[:300]
X_test, y_test = (digits.images[300:500] * 15).astype(np.uint8), digits.target[300:500]
SMALL = {"n_patches": 32, "kernel": "gaussian"}


def test_an_embedding_is_saved_merged_and_resumed_like_any_other(tmp_path):
    model = KernelEmbedding(8, kernel=Patches(**SMALL), n_landmarks=60, random_state=0).fit(X)
    Z = model.transform(X_test)
    model.save(tmp_path / "model.krepes")
    assert np.array_equal(load(tmp_path / "model.krepes").transform(X_test), Z)
    halves = [
        model.empty_copy().partial_fit(X[part], first_row=part.start)
        for part in (slice(0, 170), slice(170, 300))
    ]
    together = halves[0].merge(halves[1]).transform(X_test)
    assert np.abs(together @ together.T - Z @ Z.T).max() < 1e-3 * np.abs(Z @ Z.T).max()


@pytest.mark.parametrize("machine", [KernelRidgeClassifier, GaussianProcessClassifier])
def test_machines_learn_from_patches(machine, tmp_path):
    model = machine(kernel=Patches(**SMALL), random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.5  # ten classes
    model.save(tmp_path / "model.krepes")
    assert np.array_equal(load(tmp_path / "model.krepes").predict(X_test), model.predict(X_test))


def test_a_ridge_machine_compares_patches_with_pixels():
    model = KernelRidgeClassifier(random_state=0).fit(X, y)
    assert any(isinstance(tried.kernel, Patches) for tried in model.choice_.tried)


def test_novelty_needs_a_kernel_that_vanishes():
    zeros = X[y == 0]
    model = NoveltyDetector(kernel=Patches(**SMALL), false_alarm_rate=0.2, random_state=0).fit(
        np.repeat(zeros, 4, axis=0)
    )
    assert model.score_samples(X_test[y_test == 0]).mean() > model.score_samples(X_test[y_test != 0]).mean()
    with pytest.raises(ValueError, match="far away"):
        NoveltyDetector(kernel=Patches(8)).fit(X)


def test_features_serve_clustering_and_alignment():
    kernel = Patches(32).fitted(X)
    features = kernel.features(X[:100]).numpy()
    assert len(SubspaceClustering(3, random_state=0).fit(features).labels_) == 100
    sketched = SketchedCKA()
    sketched.update({"patches": features, "pixels": X[:100].reshape(100, -1) / 255})
    assert 0 < sketched.score("patches", "pixels") < 1


def test_pictures_in_a_folder(tmp_path):
    for i, image in enumerate(X[:40]):
        Picture.fromarray(image).resize((20, 20)).save(tmp_path / f"{i:02}.png")
    model = KernelEmbedding(3, kernel="patches", n_landmarks=20, random_state=0).set_params(
        kernel__n_patches=16
    )
    assert model.fit(tmp_path).transform(tmp_path).shape == (40, 3)
