"""Bounds on new data, and lengthscales by labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from fuzz.label_strategies import labels
from fuzz.outcome import ChangedError
from fuzz.parts import kernels
from fuzz.strategies import features, mostly, n_rows, often, rows, sane_matrices
from fuzz.target import Draw, target
from krepes import KernelAutoencoder, KernelEmbedding
from krepes.evaluation import (
    GeneralizationBound,
    autoencoder_bound,
    choose_bandwidth,
    contrastive_bound,
    downstream_bound,
    reconstruction_bound,
)

SMALL = {"n_components": 2, "n_landmarks": 5, "random_state": 0}
DELTAS = mostly([0.05, 0.5, 1e-12], [0.0, 1.0, -1, "small", None, float("nan")])
COLLISIONS = mostly([0.0, 0.5, 0.999], [1.0, -0.1, None, "some", float("nan")])


def checked(bound: GeneralizationBound) -> Any:
    """All numbers of a bound, which is at least what was seen."""
    if not bound.total >= bound.empirical:
        raise ChangedError("a bound below what it bounds")
    return [bound, bound.total]


@target("contrastive_bound", "downstream_bound", "GeneralizationBound", "DownstreamBound", weight=1)
def bounds_of_triplets(draw: Draw) -> Any:
    X = draw(sane_matrices())
    loss = draw(mostly(["simple_contrastive", "spectral_contrastive"], ["barlow_twins"]))
    kernel = draw(often((4, st.just("gaussian")), (1, kernels(wrong=False))))
    model = KernelEmbedding(**SMALL, loss=loss, kernel=kernel, dtype="float64").fit(
        X, positives=X + 0.1, negatives=X[::-1]
    )
    triplets = [draw(often((6, st.just(part)), (1, rows()))) for part in (X, X + 0.1, X[::-1])]
    kappa = draw(mostly([None, 1.0, 1e6], [0, -1, "all", float("inf")]))
    bound = contrastive_bound(model, *triplets, delta=draw(DELTAS), kappa=kappa)
    return [*checked(bound), downstream_bound(bound, draw(COLLISIONS))]


POSITIVE = mostly([0.0, 0.1, 1.0, 1e3, 1e-200], [-1, None, "large", float("nan"), float("inf"), 1e200, True])


@target("reconstruction_bound", "downstream_bound", "GeneralizationBound", weight=1)
def bounds_of_autoencoders(draw: Draw) -> Any:
    names = ("radius", "encoder_norm", "decoder_norm", "kappa", "lipschitz")
    eigenvalues = draw(
        often(
            (4, st.sampled_from([0.5 ** np.arange(20), [1.0], np.zeros(5), [0.1, -1e-18]])), (1, features())
        )
    )
    bound = reconstruction_bound(
        draw(POSITIVE),
        eigenvalues,
        n_components=draw(mostly([1, 2, 16], [0, -1, 2.5, "two"])),
        delta=draw(DELTAS),
        **{name: draw(POSITIVE) for name in names},
    )
    if draw(st.integers(0, 3)) == 0:
        downstream_bound(bound, draw(COLLISIONS))
    return checked(bound)


@target("autoencoder_bound", weight=1)
def bounds_of_fitted_autoencoders(draw: Draw) -> Any:
    X = draw(sane_matrices())
    kernel = draw(often((4, st.just("gaussian")), (1, kernels(wrong=False))))
    model = KernelAutoencoder(**SMALL, decoder_kernel=kernel, max_iter=2).fit(X)
    numbers = {name: draw(often((2, st.none()), (3, POSITIVE))) for name in ("kappa", "lipschitz")}
    sample = draw(often((4, st.just(X)), (1, rows())))
    return checked(autoencoder_bound(model, sample, radius=draw(POSITIVE), delta=draw(DELTAS), **numbers))


@target("choose_bandwidth", "BandwidthChoice", weight=1)
def bandwidths(draw: Draw) -> Any:
    """The accuracy is NaN where a model could not be fitted, and then it says why."""
    X = draw(often((3, sane_matrices()), (1, rows())))
    y = draw(often((3, labels(n_rows(X), sane=True)), (2, labels(n_rows(X)))))
    kernel = draw(often((4, st.sampled_from(["gaussian", "laplacian", "matern"])), (1, kernels())))
    model = KernelEmbedding(**SMALL, loss="kernel_pca", kernel=kernel)
    tried = draw(mostly([[1.0], [0.1, 1.0, 10.0], (1e-140, 1.0), np.array([0.5, 2.0])], BAD_BANDWIDTHS))
    found = choose_bandwidth(
        model, X, y, bandwidths=tried, n_neighbors=draw(mostly([1, 3], [0, 2.5, 99, "few"]))
    )
    fitted = ~np.isnan(found.accuracies)
    if len(found.failures) != (~fitted).sum() or found.bandwidth not in found.bandwidths:
        raise ChangedError("a failure without a reason, or a lengthscale that was not tried")
    return found.accuracies[fitted], found.model.transform(X)


BAD_BANDWIDTHS = [[], [0.0], [-1.0], [float("nan")], ["a"], "all", 1.0, None, [1e-300]]
