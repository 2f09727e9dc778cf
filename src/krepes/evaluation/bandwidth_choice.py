"""The lengthscale by labels: leave-one-out errors of nearest neighbours on the labelled rows  [esser, Experiments].

For each of 15 lengthscales from 0.01 to 100 the model is fitted on all rows, without labels. Every labelled row is
then classified by its k = 3 nearest labelled rows in the representation, itself left out. One fit per lengthscale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from krepes.autoencoder import KernelAutoencoder
from krepes.base.validation import check_count, check_same_rows, is_number
from krepes.embedding import KernelEmbedding
from krepes.evaluation.neighbours import vote
from krepes.preprocessing.labels import encode_labels

BANDWIDTHS = tuple(np.geomspace(0.01, 100, 15).tolist())
Model = TypeVar("Model", KernelEmbedding, KernelAutoencoder)


@dataclass(frozen=True)
class BandwidthChoice(Generic[Model]):
    """What `choose_bandwidth` compared.

    Attributes
    ----------
    model : KernelEmbedding or KernelAutoencoder
        Fitted with the lengthscale that was chosen.
    bandwidth : float
    bandwidths : ndarray of shape (b,)
    accuracies : ndarray of shape (b,)
        Leave-one-out accuracy of each; NaN where the model could not be fitted.
    failures : dict of float to str
        Why, by lengthscale.
    """

    model: Model
    bandwidth: float
    bandwidths: np.ndarray
    accuracies: np.ndarray
    failures: dict[float, str]


def choose_bandwidth(
    model: Model,
    X: Any,
    y: Any,
    *,
    bandwidths: Sequence[float] = BANDWIDTHS,
    n_neighbors: int = 3,
    **given: Any,
) -> BandwidthChoice[Model]:
    """Fit a model with each of several lengthscales, and take the one that serves nearest neighbours best.

    Parameters
    ----------
    model : KernelEmbedding or KernelAutoencoder
        With any kernel that has a lengthscale. It is not changed.
    X : rows to fit on, labelled and unlabelled, as `fit` takes them
    y : array of classes, one for each row of X
        Missing (None or NaN) where a row has no label.
    bandwidths : the lengthscales to compare
    n_neighbors : int, default=3
    given : what `fit` takes besides, such as positives= and negatives=

    Notes
    -----
    Distances are Euclidean, in the representation as it is. Of equally good lengthscales the middle one is taken.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelEmbedding(2, kernel="gaussian", loss="kernel_pca", n_landmarks=None, random_state=0)
    >>> few = np.where(np.arange(150) % 10 == 0, y, np.nan)
    >>> choice = choose_bandwidth(model, X, few, bandwidths=[0.1, 1.0, 10.0])
    >>> bool(choice.accuracies.max() > 0.8), choice.model.kernel_
    (True, Gaussian(lengthscale=1.0))
    """
    check_count("n_neighbors", n_neighbors)
    if np.ndim(bandwidths) != 1 or not len(bandwidths) or not all(is_number(v, above=0) for v in bandwidths):
        raise ValueError(f"bandwidths={bandwidths!r:.80}: expected one or more positive numbers.")
    labels = encode_labels(y)
    rows, classes = labels.present, labels.classes
    codes = labels.codes[rows]
    if len(classes) < 2 or len(codes) <= n_neighbors:
        raise ValueError(
            f"{len(codes)} labels of {len(classes)} class(es) cannot choose a lengthscale: {n_neighbors + 1} labels of "
            "two classes are the least."
        )
    models: dict[float, Model] = {}
    failures: dict[float, str] = {}
    values = np.array(bandwidths, dtype=float)
    scores = np.full(len(values), np.nan)
    for place, value in enumerate(values.tolist()):
        try:
            models[value] = clone(model).set_params(kernel__lengthscale=value).fit(X, **given)
        except ValueError as error:
            if "lengthscale" in str(error) and "Invalid parameter" in str(error):
                raise ValueError(f"kernel={model.kernel!r} has no lengthscale to choose.") from error
            failures[value] = str(error)
            continue
        Z = models[value].transform(X)
        check_same_rows(len(labels.codes), len(Z), "y")
        scores[place] = left_out_accuracy(Z[rows], codes, n_neighbors)
    if not models:
        raise ValueError(
            f"The model could be fitted with none of the lengthscales: {next(iter(failures.values()))}"
        )
    best = np.sort(values[scores == np.nanmax(scores)])
    chosen = float(best[len(best) // 2])
    return BandwidthChoice(models[chosen], chosen, values, scores, failures)


def left_out_accuracy(Z: np.ndarray, codes: np.ndarray, k: int) -> float:
    """The share of rows whose class, one of 0, 1, ..., is that of most of their k nearest others."""
    index = NearestNeighbors(n_neighbors=k).fit(Z)
    near = index.kneighbors(return_distance=False)  # a row is not its own neighbour
    return float((vote(codes[near], k, int(codes.max()) + 1) == codes).mean())
