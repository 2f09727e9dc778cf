"""The files that commands in the documentation read, by name: small, made from data that come with scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.datasets import load_digits


def adult(path: Path) -> None:
    """A table with the columns of Adult that the documentation names."""
    rng = np.random.default_rng(0)
    rich = rng.random(300) < 0.3
    frame = pd.DataFrame(
        {
            "age": (35 + 10 * rich + 10 * rng.normal(size=300)).round(),
            "education": np.where(rich, rng.choice(["BA", "MA"], 300), rng.choice(["BA", "HS"], 300)),
            "hours": (40 + 5 * rng.normal(size=300)).round(),
            "income": np.where(rich, ">50K", "<=50K"),
            "split": np.where(np.arange(300) < 200, "train", "test"),
        }
    )
    frame.to_parquet(path)


def digits(path: Path) -> None:
    data = load_digits()
    np.savez(path, X=data.images.astype(np.uint8), y=data.target)


def few_images(path: Path) -> None:
    data = load_digits()
    colours = np.repeat(data.images[:40, :, :, None], 3, axis=3)
    np.savez(path, X=(colours * 15).astype(np.uint8), y=data.target[:40])


def weights(path: Path) -> None:
    """Random weights, under the names of the published ones."""
    from krepes.networks import EfficientNetLite0

    module = EfficientNetLite0().build((8, 8, 3))
    np.savez(path, **{name: value.numpy() for name, value in module.state_dict().items()})


def photos(path: Path) -> None:
    data = load_digits()
    for i in range(60):
        (path / str(data.target[i])).mkdir(parents=True, exist_ok=True)
        Image.fromarray((15 * data.images[i]).astype(np.uint8)).save(path / str(data.target[i]) / f"{i}.png")


def published(path: Path) -> None:
    """A folder with a small MNIST."""
    path.mkdir()
    data = load_digits()
    images = np.zeros((400, 28, 28), dtype=np.uint8)
    images[:, 10:18, 10:18] = 15 * data.images[:400]
    np.savez(path / "mnist.npz", X=images, y=data.target[:400], n_train=300)


def features(path: Path) -> None:
    """Representations of the digits: pixels, sums of rows, principal components, noise; layers of a network."""
    data = load_digits()
    pixels = data.data
    centred = pixels - pixels.mean(0)
    rng = np.random.default_rng(0)
    made = {
        "pixels": pixels,
        "sums": data.images.sum(2),
        "pca": centred @ np.linalg.svd(centred, full_matrices=False)[2][:16].T,
        "noise": rng.normal(size=(len(pixels), 32)),
        "y": data.target,
        "layer3": pixels[:300],
        "layer4": np.tanh(pixels[:300] @ rng.normal(size=(64, 32)) / 30),
    }
    np.save(path, made[path.stem])


def members(path: Path) -> None:
    """Predictions of twenty members, some of them near copies of others, for a price."""
    rng = np.random.default_rng(0)
    price = 100 + 20 * rng.normal(size=200)
    parts = rng.normal(size=(200, 8)) * 20
    frame = pd.DataFrame({f"m{k}": price + parts[:, k % 8] + 10 * rng.normal(size=200) for k in range(20)})
    frame.assign(price=price).to_parquet(path)


def probabilities(path: Path) -> None:
    """Probabilities of three classes by five members, or the classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    scores = rng.normal(size=(200, 5, 3)) + 1.5 * np.eye(3)[y][:, None]
    shares = np.exp(scores) / np.exp(scores).sum(2, keepdims=True)
    np.save(path, y if path.stem == "classes" else shares)


def subspaces(path: Path) -> None:
    """Rows near two planes."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = rng.uniform(0.5, 1.5, (80, 4)) * np.where(y[:, None] == 0, [1, 1, 0, 0], [0, 0, 1, 1])
    if path.suffix == ".npz":
        np.savez(path, X=X, y=y)
    else:
        np.save(path, X)


FILES = {
    "adult.parquet": adult,
    "data/": published,
    "digits.npz": digits,
    "efficientnet_lite0.npz": weights,
    "images.npz": few_images,
    "members.parquet": members,
    "photos/": photos,
    "planes.npz": subspaces,
    "probabilities.npy": probabilities,
    "classes.npy": probabilities,
    **{f"{name}.npy": features for name in ("pixels", "sums", "pca", "noise", "y", "layer3", "layer4")},
}
