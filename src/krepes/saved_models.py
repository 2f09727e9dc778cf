"""`krepes.load`: any model file, whichever of the estimators wrote it."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable

from krepes.base.storage import model_file
from krepes.kernels import Kernel
from krepes.one_pass import OnePassEstimator

# The estimators that `load` knows, and where they are; imported when a file needs them.
SAVED = {
    "GaussianProcessClassifier": "krepes.machines",
    "GaussianProcessRegressor": "krepes.machines",
    "KernelAutoencoder": "krepes.autoencoder",
    "KernelEmbedding": "krepes.embedding",
    "KernelRidgeClassifier": "krepes.machines",
    "KernelRidgeRegressor": "krepes.machines",
    "NoveltyDetector": "krepes.machines",
    "SubspaceClustering": "krepes.clustering",
}


def load(
    path: str | os.PathLike,
    *,
    kernel: Kernel | Callable | None = None,
    device: str = "auto",
    sha256: str | None = None,
) -> OnePassEstimator:
    """Read a model file, whichever of krepes's estimators wrote it.

    `kernel` gives back a user's kernel function, which a file cannot hold. An estimator class of your own reads its
    files with `YourClass.load(path)`. With `sha256`, a file with another hash (`sha256sum FILE`) is refused.
    """
    if sha256 is not None:
        with open(path, "rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != sha256.strip().lower():
            raise ValueError(f"{path} has the SHA-256 {found}; expected {sha256}. It is another file.")
    kind = model_file.kind_of(path)
    if kind == "Checkpoint":
        raise ValueError(
            f"{path} is the checkpoint of a fit that has not ended: call the same fit again with checkpoint=that file, "
            "and it continues."
        )
    if kind not in SAVED:
        raise ValueError(
            f"{path} holds a {kind}, which is not an estimator of krepes. If that is a class of your own, "
            f"call {kind}.load(path)."
        )
    return getattr(importlib.import_module(SAVED[kind]), kind).load(path, kernel=kernel, device=device)
