"""Nearest neighbours on two components, few labels: the protocol of the small-data experiments  [esser, Experiments].

    half of the rows without labels, 5 % with labels, 45 % for testing
    fit on the first two parts, classify by the 3 nearest labelled rows

Every setting, a kernel's lengthscale or how a network is trained, is chosen by leave-one-out on the labelled rows, and
so is the kernel. Rows are used as they are.

    positive    x + noise, of NOISE times the root of the mean variance of the columns, the same for all columns
    negative    another row of the first two parts; the paper does not print how it makes either
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from krepes.autoencoder import KernelAutoencoder
from krepes.embedding import KernelEmbedding
from krepes.evaluation import choose_bandwidth
from krepes.evaluation.bandwidth_choice import left_out_accuracy
from krepes.kernels import ArcCosine, Gaussian, Kernel, Laplacian, Linear
from krepes.losses import SpectralContrastive

LABELLED, TESTED = 0.05, 0.45
COMPONENTS, NEIGHBOURS = 2, 3
NOISE = 0.3
REGULARIZATION = 0.5  # of the spectral loss of triplets, which has no minimum where this is small
RAW, PCA, SIMPLE, SPECTRAL, AUTOENCODER = (
    "raw features",
    "kernel PCA",
    "simple contrastive",
    "spectral, triplets",
    "autoencoder",
)
KERNELS: dict[str, Kernel] = {
    "Gaussian": Gaussian(),
    "Laplacian": Laplacian(),
    "linear": Linear(),
    "ReLU": ArcCosine(),
}


class FewLabels(NamedTuple):
    """One split. Labelled rows are the last ones of `train`; classes are 0, 1, ..."""

    train: np.ndarray
    y_labelled: np.ndarray
    test: np.ndarray
    y_test: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray


class NeighbourScores(NamedTuple):
    """Shares of rows that are classified right: of labelled rows, each left out, and of test rows."""

    left_out: float
    test: float


FAILED = NeighbourScores(float("nan"), float("nan"))
Found = dict[tuple[str, str], list[NeighbourScores]]  # by method and kernel, one for each split


def few_label_split(X: np.ndarray, y: np.ndarray, seed: int) -> FewLabels:
    """One split, with the same share of every class in all parts, and its triplets."""
    codes = np.unique(y, return_inverse=True)[1]
    n_labelled = max(round(LABELLED * len(X)), 2 * (codes.max() + 1), NEIGHBOURS + 1)
    rest, test = train_test_split(np.arange(len(X)), test_size=TESTED, stratify=codes, random_state=seed)
    plain, labelled = train_test_split(
        rest, test_size=int(n_labelled), stratify=codes[rest], random_state=seed
    )
    train = X[np.concatenate([plain, labelled])]
    positives, negatives = triplets(train, np.random.default_rng(seed))
    return FewLabels(train, codes[labelled], X[test], codes[test], positives, negatives)


def triplets(X: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A positive and a negative for every row."""
    scale = NOISE * np.sqrt(X.var(axis=0).mean())
    cycle = generator.permutation(len(X))  # the negative of a row is the next one of the cycle: never itself
    negatives = np.empty_like(X)
    negatives[cycle] = X[np.roll(cycle, -1)]
    return X + scale * generator.normal(size=X.shape), negatives


def neighbour_scores(split: FewLabels, Z: np.ndarray, Z_test: np.ndarray) -> NeighbourScores:
    """Of nearest neighbours on representations of the rows to fit on and to test."""
    labelled = Z[-len(split.y_labelled) :]
    neighbours = KNeighborsClassifier(NEIGHBOURS).fit(labelled, split.y_labelled)
    return NeighbourScores(
        left_out_accuracy(labelled, split.y_labelled, NEIGHBOURS),
        float(neighbours.score(Z_test, split.y_test)),
    )


def models(seed: int) -> dict[str, KernelEmbedding | KernelAutoencoder]:
    """The exact models of the paper, by method."""
    losses: dict[str, dict[str, Any]] = {
        PCA: {"loss": "kernel_pca"},
        SIMPLE: {"loss": "simple_contrastive"},
        SPECTRAL: {"loss": SpectralContrastive("triplet"), "regularization": REGULARIZATION},
    }
    embeddings: dict[str, KernelEmbedding | KernelAutoencoder] = {
        method: KernelEmbedding(COMPONENTS, n_landmarks=None, scale="loss", random_state=seed, **parameters)
        for method, parameters in losses.items()
    }
    return embeddings | {
        AUTOENCODER: KernelAutoencoder(COMPONENTS, n_landmarks=None, max_iter=60, tol=1e-3, random_state=seed)
    }


def kernel_scores(split: FewLabels, seed: int) -> Iterator[tuple[tuple[str, str], NeighbourScores]]:
    """Of the raw features, and of every method with every kernel."""
    yield (RAW, ""), neighbour_scores(split, split.train, split.test)
    for method, model in models(seed).items():
        pairs = {"positives": split.positives, "negatives": split.negatives}
        given = pairs if method in (SIMPLE, SPECTRAL) else {}
        for name, kernel in KERNELS.items():
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # fewer components than asked for, a descent that has not ended
                yield (method, name), _model_scores(model, kernel, split, given)


def _model_scores(
    model: KernelEmbedding | KernelAutoencoder, kernel: Kernel, split: FewLabels, given: dict[str, Any]
) -> NeighbourScores:
    model.set_params(kernel=kernel)
    try:
        if "lengthscale" in kernel.get_params():
            y = np.full(len(split.train), np.nan)
            y[-len(split.y_labelled) :] = split.y_labelled
            fitted = choose_bandwidth(model, split.train, y, n_neighbors=NEIGHBOURS, **given).model
        else:
            fitted = model.fit(split.train, **given)
    except ValueError:  # the loss has no minimum, or no component is left
        return FAILED
    return neighbour_scores(split, fitted.transform(split.train), fitted.transform(split.test))
