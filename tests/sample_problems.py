"""Small problems for solvers of samples: pairs of rows, and the batches that a solver makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_iris

from krepes import KernelEmbedding
from krepes.losses import Loss
from krepes.solvers import SGD
from krepes.solvers.sgd.feature_windows import FeatureBatch

X = load_iris().data
_noise = np.random.default_rng(0)
PAIRS = (X + 0.1 * _noise.normal(size=X.shape), X + 0.1 * _noise.normal(size=X.shape))

# Every step sees all rows, so that a fit is plain descent on the whole objective.
FULL_BATCH = {"batch_size": len(X), "validation_fraction": 0, "patience": None, "warmup_epochs": 0}


def fitted(loss: Any, solver: Any, **params: Any) -> KernelEmbedding:
    """A model of the pairs (of the first of them, where a loss looks at single rows)."""
    settings = {"n_landmarks": 30, "random_state": 0, "dtype": "float64", "feature_noise": 0.0}
    settings |= {"regularization": 1e-2}  # well-conditioned, so that training gets to the minimum
    model = KernelEmbedding(3, loss=loss, solver=solver, **{**settings, **params})
    single = isinstance(loss, Loss) and loss.views_needed == 1
    return model.fit(PAIRS[0]) if single else model.fit(PAIRS[0], positives=PAIRS[1])


def full_batch(**settings: Any) -> SGD:
    return SGD(**{**FULL_BATCH, **settings})


def random_batch(loss: Loss, b: int = 12, width: int = 7, seed: int = 0) -> FeatureBatch:
    """Features of b samples without any structure."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    features = tuple(normal(b, width) for _ in range(max(1, loss.views_needed)))
    return FeatureBatch(features, X=normal(b, 5), norm_sq=features[0].square().sum(1) + 1.0)
