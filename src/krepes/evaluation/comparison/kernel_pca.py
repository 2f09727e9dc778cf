"""Kernel PCA in the feature space of a model: the same preprocessing, kernel and landmarks, without views.

What a loss and its views have learned is the difference between the two. Cost: one pass over the rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from krepes.embedding import KernelEmbedding
from krepes.losses import KernelPCA
from krepes.views import NoViews


def is_kernel_pca(model: KernelEmbedding) -> bool:
    """Whether a model is kernel PCA itself."""
    return isinstance(model.loss_, KernelPCA)


def same_kernel_pca(model: KernelEmbedding, X: Any, *, verbose: int = 0) -> KernelEmbedding:
    """Kernel PCA of X, as wide as a fitted model, with its kernel and its landmarks.

    Parameters
    ----------
    model : a fitted KernelEmbedding
    X : the rows that the model was fitted on, or the training rows of an evaluation, as `fit` takes them.
    verbose : 1 shows progress on a terminal.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = KernelEmbedding(3, n_landmarks=50, random_state=0).fit(X)
    >>> other = same_kernel_pca(model, X)
    >>> other.loss_, bool((other.landmarks_ == model.landmarks_).all())
    (KernelPCA(), True)
    """
    space = replace(model.space_, views=NoViews(), exact_views=False)
    pca = KernelEmbedding(
        len(model.intercept_),
        loss="kernel_pca",
        views=None,
        device=model.device,
        dtype=model.dtype,
        engine=model.engine,
        verbose=verbose,
    )
    return pca.fit(X, space=space)
