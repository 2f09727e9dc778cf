"""What a model fixes before its first kernel value: parameters checked, input space, kernel, views, landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from krepes.embedding_inputs import opened, record_input
from krepes.kernels import as_kernel
from krepes.losses import as_loss
from krepes.nystrom import NystromMap
from krepes.preparation import (
    candidate_count,
    choose_landmarks,
    choose_precision,
    choose_views,
    prepare_inputs,
    views_per_landmark,
    with_views,
)
from krepes.progress import display
from krepes.sources import open_source


def check_parameters(model: Any) -> None:
    """Refuse parameters that make no sense."""
    for name in ("n_components", "n_landmarks"):
        value = getattr(model, name)
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}={value!r}: expected an integer >= 1.")
    if not _is_amount(model.regularization):
        raise ValueError(f"regularization={model.regularization!r}: expected a number >= 0.")
    if model.feature_noise != "auto" and not _is_amount(model.feature_noise):
        raise ValueError(f"feature_noise={model.feature_noise!r}: expected a number >= 0 or 'auto'.")


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(0 <= value < np.inf)


def prepare(model: Any, X: Any, positives: Any = None, negatives: Any = None) -> None:
    """Set everything that must exist before the first kernel value."""
    source = open_source(X)
    if source.n_rows < 2:
        raise ValueError(f"Found {source.n_rows} sample(s); a minimum of 2 samples is required to fit.")
    progress = display(model.verbose)
    model.precision_ = choose_precision(model.dtype, model.device)
    model.seed_ = int(check_random_state(model.random_state).randint(2**31 - 1))
    generator = torch.Generator().manual_seed(model.seed_)
    loss, kernel = as_loss(model.loss), as_kernel(model.kernel)
    views = choose_views(model.views, source, loss.views_needed, positives is not None)
    n_candidates = candidate_count(model.landmarks, model.n_landmarks)
    space, candidates = prepare_inputs(
        source, model.preprocess, n_candidates, model.seed_, model.precision_, progress
    )
    record_input(model, X, source, space)
    model.input_space_, model.loss_ = space, loss
    model.kernel_ = kernel.fitted(candidates.rows, generator)
    model.views_ = views.fitted(candidates.rows, generator, groups=space.groups)
    with progress.stage("Landmarks"):
        chosen = choose_landmarks(
            *(model.landmarks, model.n_landmarks, source, space, candidates),
            *(model.kernel_, model.precision_, generator),
        )
        model.landmarks_, model.landmark_indices_ = _tuples(model, *chosen, positives, negatives)
        model.features_ = NystromMap(model.kernel_, model.landmarks_, model.precision_.dtype)
    model.rank_ = model.features_.rank
    model.exact_views_ = _views_are_exact(model)
    model.moments_, model.n_samples_seen_, model._solution = None, 0, None


def _tuples(
    model: Any, landmarks: Any, indices: np.ndarray | None, positives: Any, negatives: Any
) -> tuple[Any, np.ndarray | None]:
    """The landmarks, or several views of each, and the rows that they are."""
    p = model.views_per_landmark_ = views_per_landmark(model.landmarks)
    if p == 1:
        return landmarks, indices
    space, precision = model.input_space_, model.precision_
    pairs = [
        space.tensor(opened(data, space).take(indices), precision.dtype, precision.device)
        for data in (positives, negatives)
        if data is not None and indices is not None
    ]
    return with_views(landmarks, indices, model.views_, p, model.seed_, pairs)


def _views_are_exact(model: Any) -> bool:
    """Integrate the augmentation where there is a formula that costs no more than sampling a view."""
    if not isinstance(model.landmarks_, Tensor) or not model.views_.exact(model.kernel_):
        return False
    n_features = int(np.prod(model.landmarks_.shape[1:]))
    sampled = 2 * n_features + 2 * model.rank_ + model.rank_**2 / len(model.landmarks_)
    return model.views_.expected_cost(model.kernel_, n_features, model.precision_.dtype) <= sampled
