"""What a file holds of a fitted clustering, checked when it is read.

The rows in the metric found, with their labels and the numbers of the coding, are enough: coefficients of new rows are
computed from them again. The affinity of the training rows is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from torch import Tensor

from krepes.base.storage.codec import Bounds, Count, Shape
from krepes.clustering.metric import Iterate, Settings
from krepes.clustering.search import Found
from krepes.clustering.subspaces import Subspace
from krepes.kernels import Kernel, Patches, as_kernel

if TYPE_CHECKING:
    from krepes.clustering.estimator import SubspaceClustering

INTEGERS = ("int32", "int64")


@dataclass(frozen=True)
class StoredClusters:
    """A fitted SubspaceClustering."""

    parameters: dict[str, Any]
    n_features_in: Count
    feature_names_in: list[str] | None
    labels: Annotated[np.ndarray, Shape("n", dtype=INTEGERS)]
    kept_labels: Annotated[np.ndarray, Shape("l", dtype=INTEGERS)]
    memberships: Annotated[np.ndarray, Shape("n", "k")]
    rows: Annotated[Tensor, Shape("l", "r")]  # in the metric found, normalised
    projection: Annotated[Tensor, Shape("d", "q")]
    patches: Patches | None
    settings: Settings
    scale: Annotated[float, Bounds(above=0)]
    n_clusters: Count
    iteration: Count
    seed: Count
    subspaces: list[Subspace]
    selection: list[dict[str, Any]]

    def check_restored(self) -> None:
        """Refuse labels of clusters that there are not."""
        for labels in (self.labels, self.kept_labels):
            if len(labels) and (labels.min() < 0 or labels.max() >= self.n_clusters):
                raise ValueError(f"The file is damaged: labels beyond its {self.n_clusters} clusters.")

    def found(self, kernel: Kernel | Callable[..., Any] | None) -> Found:
        """The metric and the rows in it."""
        given = self.settings.kernel if kernel is None else as_kernel(kernel)
        settings = replace(self.settings, kernel=given)
        as_they_are = replace(settings, normalization="none")
        kept = Iterate(self.rows, None, self.iteration, as_they_are, self.seed)
        kept.settings, kept.scale = settings, self.scale
        return Found(kept, [], patches=self.patches, basis=self.projection)


def stored_of(model: SubspaceClustering, found: Found, kept_labels: np.ndarray, seed: int) -> StoredClusters:
    """What a file keeps of a fitted model; a random state is not kept."""
    kept, k, names = found.kept, model.n_clusters_, vars(model).get("feature_names_in_")
    parameters = model.get_params(deep=False)
    drawn = parameters["random_state"]
    return StoredClusters(
        parameters=parameters | {"random_state": drawn if isinstance(drawn, int) else None},
        n_features_in=model.n_features_in_,
        feature_names_in=None if names is None else [str(name) for name in names],
        labels=model.labels_,
        kept_labels=kept_labels,
        memberships=model.memberships_,
        rows=kept.X,
        projection=found.projection,
        patches=found.patches,
        settings=replace(kept.settings, kernel=kept.kernel, projection=None, n_clusters=k, n_iterations=0),
        scale=kept.scale,
        n_clusters=k,
        iteration=kept.index,
        seed=seed,
        subspaces=model.subspaces_,
        selection=model.selection_,
    )
