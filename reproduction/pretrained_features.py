"""Features of the layers of pretrained networks on image data sets, computed once and kept if there is a cache.

Outputs of a layer are averaged over their positions. Images are resized inside the network, to a resolution far below
that of its training, because networks are slow without a GPU: features are worse than they could be, for all alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from krepes.alignment import iter_layers
from krepes.base.storage.files import atomic_path
from krepes.networks import as_network
from reproduction.datasets import LOADERS

BATCH_ROWS = 50


@dataclass(frozen=True)
class Pretrained:
    """A network with weights, and the layers that are looked at, from early to late; "" is its output."""

    name: str
    network: str
    weights: str  # pattern of the file
    layers: tuple[str, ...]
    classifier: tuple[str, str] | None = None  # arrays of the file: weight (z, d) and bias (z,)


NETWORKS = (
    Pretrained(
        "EfficientNet-Lite0",
        "efficientnet_lite0",
        "efficientnet_lite0*.npz",
        ("_blocks.4", "_blocks.10", "_blocks.15", ""),
        ("_fc.weight", "_fc.bias"),
    ),
    Pretrained(
        "MobileNetV2", "mobilenet_v2", "mobilenetv2*.npz", ("features.6", "features.13", "features.17", "")
    ),
)


def sampled_images(dataset: str, folder: Path, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n training images (n, h, w[, c]) of bytes, drawn at random, and their labels."""
    (X, y), _ = LOADERS[dataset](folder)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(y))[:n])
    return np.asarray(X)[chosen], np.asarray(y)[chosen]


def layer_features(
    given: Pretrained,
    weights: Path,
    X: np.ndarray,
    resolution: int,
    cache: Path | None,
    key: str,
    say: Callable[[str], None],
) -> dict[str, np.ndarray]:
    """{layer: (n, d) float32}, and "probabilities" where the file has a classifier."""
    file = None if cache is None else cache / f"{given.network}-{key}-{len(X)}-{resolution}px.npz"
    if file is not None and file.exists():
        with np.load(file, allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}
    path = weights_file(weights, given.weights)
    module = (
        as_network(given.network).set_params(weights=path, resolution=resolution).build(tuple(X.shape[1:]))
    )
    say(f"{given.name}: features of {len(X):,} images of {key}")
    parts: dict[str, list[np.ndarray]] = {layer: [] for layer in given.layers}
    for start in range(0, len(X), BATCH_ROWS):
        pixels = torch.from_numpy(X[start : start + BATCH_ROWS]).float() / 255
        for _, outputs in iter_layers(module, pixels, given.layers, batch_rows=BATCH_ROWS):
            for layer, Z in outputs.items():
                parts[layer].append(Z)
    found = {layer or "output": np.concatenate(Z) for layer, Z in parts.items()}
    if given.classifier is not None:
        found["probabilities"] = _probabilities(path, given.classifier, found["output"])
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(file, overwrite=True) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **found)
    return found


def weights_file(folder: Path, pattern: str) -> Path:
    matches = sorted(folder.glob(pattern))
    if not matches:
        raise FileNotFoundError(f"There is no {pattern} in {folder}, the folder of --weights.")
    return matches[0]


def _probabilities(path: Path, names: tuple[str, str], Z: np.ndarray) -> np.ndarray:
    with np.load(path, allow_pickle=False) as file:
        W, b = (file[name] for name in names)
    return torch.softmax(torch.from_numpy(Z @ W.T + b), dim=1).numpy()
