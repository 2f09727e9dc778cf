"""The shipped ImageNet weights do what their makers and the data's README report, on CIFAR-10.

The README states 0.76 (EfficientNet-Lite0) and 0.78 (MobileNetV2) for a ridge probe on 1000 training images at
128 x 128 and 500 test images.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from krepes.networks import EfficientNetLite0, MobileNetV2, Network, file_digest
from krepes.sources.arrays.numpy_files import read_array

SHARED = Path(__file__).resolve().parents[3] / "shared"
FILES = {
    EfficientNetLite0: "efficientnet_lite0_imagenet.npz",
    MobileNetV2: "mobilenetv2_imagenet_features.npz",
}
every_network = pytest.mark.parametrize("cls", FILES, ids=lambda cls: cls.name)


@pytest.fixture
def weights() -> Path:
    folder = SHARED / "weights"
    if not folder.is_dir() or not (SHARED / "data").is_dir():
        pytest.skip("the pretrained weights and the real data sets are not here")
    return folder


@cache
def cifar(part: str, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    path = SHARED / "data" / f"cifar10_{part}.npz"
    X, y = read_array(path, "X")[:n], read_array(path, "y")[:n]
    return torch.from_numpy(X).float() / 255, torch.from_numpy(y.astype(np.int64))


def features(network: Network, X: torch.Tensor) -> torch.Tensor:
    module = network.build(tuple(X.shape[1:]))
    with torch.no_grad():
        return torch.cat([module(X[i : i + 50]) for i in range(0, len(X), 50)]).double()


def ridge_probe(Z: torch.Tensor, y: torch.Tensor, Z_test: torch.Tensor, y_test: torch.Tensor) -> float:
    """Accuracy of ridge regression on one-hot labels, of standardised features; lambda = n."""
    mean, std = Z.mean(0), Z.std(0) + 1e-6
    Z, Z_test = (Z - mean) / std, (Z_test - mean) / std
    targets = torch.eye(10, dtype=torch.float64)[y]
    gram = Z @ Z.T + len(Z) * torch.eye(len(Z), dtype=torch.float64)
    scores = Z_test @ Z.T @ torch.linalg.solve(gram, targets - targets.mean(0)) + targets.mean(0)
    return (scores.argmax(1) == y_test).double().mean().item()


@every_network
def test_all_arrays_of_the_shipped_files_are_used(cls, weights):
    """No name is missing or left over, except the classifier's: `build` would refuse the file."""
    network = cls(weights=weights / FILES[cls])
    module = network.build((32, 32, 3))
    with np.load(weights / FILES[cls]) as file:
        assert {name for name in file.files if not name.startswith("_fc.")} == set(module.state_dict())
        assert all(np.array_equal(value.detach(), file[name]) for name, value in module.named_parameters())
    digest = {"efficientnet_lite0": "b9b9d099f978", "mobilenet_v2": "7b0ddcd08683"}[cls.name]
    assert file_digest(weights / FILES[cls]).startswith(digest)


@every_network
def test_features_of_small_images_separate_classes(cls, weights):
    """500 + 250 images of the test set at 64 x 64: 0.63 and 0.60; the same networks untrained: 0.20 and 0.17."""
    X, y = cifar("test10k", 750)
    Z = features(cls(resolution=64, weights=weights / FILES[cls]), X)
    assert ridge_probe(Z[:500], y[:500], Z[500:], y[500:]) > 0.5


@pytest.mark.full
@every_network
def test_the_probe_of_the_readme(cls, weights):
    """0.78 and 0.78 here: within 4 standard errors (0.019 of 500 images) of the README's 0.76 and 0.78."""
    (X, y), (X_test, y_test) = cifar("train20k", 1000), cifar("test10k", 500)
    network = cls(resolution=128, weights=weights / FILES[cls])
    accuracy = ridge_probe(features(network, X), y, features(network, X_test), y_test)
    stated = {"efficientnet_lite0": 0.76, "mobilenet_v2": 0.78}[cls.name]
    assert abs(accuracy - stated) <= 4 * (stated * (1 - stated) / 500) ** 0.5


# ImageNet's classes that are one of CIFAR-10's
CLASSES = {
    0: [404, 895],  # airliner, warplane
    1: [436, 468, 511, 609, 627, 656, 661, 705, 751, 817],  # cars
    2: [*range(7, 25), *range(80, 101), *range(127, 147)],  # birds
    3: range(281, 286),  # cats
    4: range(351, 354),  # antelopes: ImageNet has no deer
    5: range(151, 269),  # dogs
    6: range(30, 33),  # frogs
    7: [339],  # sorrel
    8: [403, 472, 484, 510, 554, 576, 625, 628, 724, 814, 833, 871, 914],  # ships and boats
    9: [555, 569, 654, 675, 717, 734, 864, 867],  # trucks
}


@pytest.mark.full
def test_the_shipped_classifier_knows_the_classes_of_cifar(weights):
    """EfficientNet-Lite0's own 1000 outputs, without any training here, name 0.61 of CIFAR-10's classes right."""
    path = weights / FILES[EfficientNetLite0]
    X, y = cifar("test10k", 300)
    logits = (
        features(EfficientNetLite0(resolution=160, weights=path), X).numpy()
        @ read_array(path, "_fc.weight").T
    )
    logits += read_array(path, "_fc.bias")
    scores = np.stack([logits[:, list(indices)].max(1) for indices in CLASSES.values()], axis=1)
    assert (scores.argmax(1) == y.numpy()).mean() > 0.5
