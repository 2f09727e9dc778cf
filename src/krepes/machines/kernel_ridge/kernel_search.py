"""Which kernels a machine is asked to try, and the choice among them on a sample of rows.

kernel="auto"         Laplacian in the L1 norm for up to 128 columns, or cosine for sparse rows; Gaussian and Laplacian
kernel=[k1, k2]       these; on objects, as they are
lengthscale="auto"    several for each, in medians of the distances
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.packing import digest
from krepes.base.rows import take_rows
from krepes.base.sparse_rows import SparseRows
from krepes.features import FitData
from krepes.kernels import Automatic, Cosine, Gaussian, Kernel, Laplacian, as_kernel
from krepes.kernels.automatic import MOST_COLUMNS
from krepes.kernels.products import Vectors
from krepes.kernels.radial import Lengthscale, RadialKernel
from krepes.kernels.vectors import as_rows
from krepes.machines.kernel_ridge.space_choice import (
    MOST_ROWS,
    Sample,
    SpaceChoice,
    choose_on_objects,
    choose_space,
)
from krepes.machines.labelled_machine import landmark_count
from krepes.machines.targets import Targets
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates, Preprocess

MOST_OBJECTS = 500  # whose kernel matrices are computed to compare kernels

Kernels = str | Kernel | Callable | Sequence[str | Kernel | Callable]


@dataclass(frozen=True)
class KernelSearch:
    """What a user asked for.

    Attributes
    ----------
    kernel : "auto", a kernel, or several
    lengthscale : "auto", or as radial kernels take it
    metric : None, "diagonal", "full" or "auto"
    intercept : bool
    preprocess, n_landmarks : as an estimator takes them
    """

    kernel: Kernels
    lengthscale: Lengthscale
    metric: str | None = None
    intercept: bool = True
    preprocess: Preprocess = "auto"
    n_landmarks: int | str | None = "auto"

    @property
    def automatic(self) -> bool:
        return (isinstance(self.kernel, str) and self.kernel == "auto") or isinstance(self.kernel, Automatic)

    @property
    def searches_lengthscale(self) -> bool:
        return isinstance(self.lengthscale, str) and self.lengthscale == "auto"

    def given(self) -> list[Kernel]:
        """The kernels that were named; none where they are automatic."""
        if self.automatic:
            return []
        asked: Any = self.kernel
        kernels = [as_kernel(k) for k in (asked if isinstance(asked, list | tuple) else [asked])]
        if not kernels:
            raise ValueError("kernel=[]: name at least one kernel.")
        return kernels

    def is_given(self, kernel: Kernel) -> bool:
        """Whether a kernel is the one that was named, without a number from the data."""
        given = self.given()
        return len(given) == 1 and digest(given[0]) == digest(kernel)

    def first(self) -> Kernel:
        """The kernel as far as it is known before the rows are."""
        return next(iter(self.given()), Automatic())

    def standardises(self, inputs: InputSpace) -> bool:
        """Whether columns divided by their spread compete with those as given."""
        return inputs.kind == "vectors" and inputs.encoder is None and self.preprocess == "auto"

    def usual(self, narrow: bool) -> list[Kernel]:
        """Those that compete where none is named; `narrow`: L1 distances are affordable."""
        return [*([Laplacian(norm=1)] if narrow else []), Gaussian(), Laplacian()]

    def rivals(self, inputs: InputSpace, width: int) -> list[Kernel]:
        """The kernels that compete for rows of so many columns, with the lengthscale that was asked for."""
        narrow = inputs.kind in ("table", "vectors") and width <= MOST_COLUMNS
        given = [k if isinstance(k, Automatic) else k.suited(inputs.layout) for k in self.given()]
        kernels = given or [*([Cosine()] if inputs.kind == "sparse" else []), *self.usual(narrow)]
        if self.searches_lengthscale:
            return kernels
        return [
            clone(k).set_params(lengthscale=self.lengthscale) if isinstance(k, RadialKernel) else k
            for k in kernels
        ]

    def choose(
        self, data: FitData, candidates: Candidates, inputs: InputSpace, targets: Targets, seed: int
    ) -> SpaceChoice:
        """Kernel, lengthscale and metric by leave-one-out errors of some candidates; of objects, only the kernel."""
        if not isinstance(candidates.rows, Tensor | SparseRows):
            return self._choose_on_objects(data, candidates, inputs, targets, seed)
        rows = candidates.rows if isinstance(candidates.rows, SparseRows) else as_rows(candidates.rows)
        sample = sample_of(rows, candidates.indices, data, targets, self.intercept, seed)
        return choose_space(
            sample,
            self.rivals(inputs, sample.rows.shape[1]),
            search_lengthscale=self.searches_lengthscale,
            metric=None if inputs.kind == "sparse" else self.metric,  # because gradients would be dense
            standardise=self.standardises(inputs),
            groups=inputs.groups,
            n_rows=data.n_rows,
            n_landmarks=landmark_count(self.n_landmarks, data.n_rows),
        )

    def _choose_on_objects(
        self, data: FitData, candidates: Candidates, inputs: InputSpace, targets: Targets, seed: int
    ) -> SpaceChoice:
        generator = torch.Generator().manual_seed(seed)
        kernels = [kernel.suited(inputs.layout).fitted(candidates.rows, generator) for kernel in self.given()]
        places = np.random.default_rng(seed).permutation(len(candidates.indices))[:MOST_OBJECTS]
        Y, weight = _targets_of(data, candidates.indices[places], targets)
        objects: Any = take_rows(candidates.rows, places)
        return choose_on_objects(objects, kernels, Y, weight, self.intercept)


def sample_of(
    rows: Vectors,  # shape: (n, d)
    indices: np.ndarray,  # shape: (n,), of the rows in the data
    data: FitData,
    targets: Targets,
    intercept: bool,
    seed: int,
    most: int = MOST_ROWS,
) -> Sample:
    """Some rows with their targets, at random."""
    places = np.random.default_rng(seed).permutation(len(rows))[:most]
    device = rows.device
    Y, weight = _targets_of(data, indices[places], targets)
    weight = None if weight is None else weight.to(device)
    return Sample(rows[torch.from_numpy(places).to(device)].double(), Y.to(device), weight, intercept, seed)


def _targets_of(data: FitData, rows: np.ndarray, targets: Targets) -> tuple[Tensor, Tensor | None]:
    """Targets (n, c) and weights (n,) of some rows."""
    assert data.y is not None
    weight = None if data.weight is None else torch.from_numpy(data.weight[rows])
    return targets.matrix(data.y[rows]), weight
