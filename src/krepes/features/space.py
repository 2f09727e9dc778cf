"""The feature space of a model: everything fixed before the pass over all rows.

    row -> input space -> views -> k(., landmarks) -> phi(x) = F^T k_x

It is a value: built once by `krepes.features.prepare`, shared by a model and its copies, never changed, hashed by part,
saved with the model. Everything that is learned afterwards is a sum over features of this space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import Placement
from krepes.base.reporting import Progress, warn
from krepes.base.rows import Rows, SparseRows, take_rows
from krepes.base.storage.codec import FLOATS, Bounds, Count, Shape, State, decode_part, encode
from krepes.base.storage.packing import digest
from krepes.engines import Engine
from krepes.features.choices import LandmarkRows, choose_views
from krepes.features.fit_data import FitData, RowReader
from krepes.features.kernel_choice import KernelChoice, Tried
from krepes.features.user_kernels import PROBE, check_probe, kernel_probe, with_function
from krepes.kernels import Kernel
from krepes.landmarks.nystrom import NystromMap
from krepes.preprocessing.input_space import InputSpace
from krepes.sources import reservoir
from krepes.views import NoViews, Views

VIEW_ROWS = 10_000  # that the scale of views is learned from
LEAST_FOLDS = 3  # two are held out at a time, and at least one is learned from
LARGEST = 1e150  # largest factor accepted; its square fits float64


@dataclass(frozen=True, eq=False)
class StoredSpace:
    """What a model file says of a space."""

    input_space: InputSpace
    kernel: Kernel
    views: Views
    landmarks: Tensor | SparseRows | list[Any]
    landmark_indices: np.ndarray | None
    seed: Count
    exact_views: bool
    rank: Annotated[int, Bounds(least=1)]
    views_per_landmark: Annotated[int, Bounds(least=1)]
    n_folds: Annotated[int | None, Bounds(least=LEAST_FOLDS)]
    metric: str | None
    kernel_probe: Annotated[Tensor, Shape("probed", "probed", dtype=FLOATS)]
    F: Annotated[Tensor | None, Shape("m", "r"), Bounds(least=-LARGEST, most=LARGEST)] = None
    eigenvalues: Annotated[Tensor | None, Shape("r"), Bounds(above=0)] = None

    def check_restored(self) -> None:
        m, rows = len(self.landmarks), self.landmark_indices
        F, complete = self.F, (self.F is None) == (self.eigenvalues is None)
        problems = {
            "its landmarks": m == 0 or m % self.views_per_landmark != 0,
            "its rank": self.rank > m,
            "its landmarks' rows": rows is not None
            and not (rows.shape == (m,) and rows.dtype.kind in "iu" and rows.min() >= 0),
            "its kernel values": len(self.kernel_probe) != min(m, PROBE),
            "its factors": not complete or (F is not None and F.shape != (m, self.rank)),
        }
        wrong = [name for name, broken in problems.items() if broken]
        if wrong:
            raise ValueError(f"The model file is damaged: {', '.join(wrong)} cannot be what was written.")


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """What must exist before the pass over all rows.

    Attributes
    ----------
    inputs : InputSpace
        How raw rows become tensors: encoder, shape, scale.
    features : NystromMap
        Kernel, landmarks and rank are its own.
    views : Views
    landmark_rows : ndarray of shape (m,) or None
        The rows of the training data that the landmarks are; None for points of the user's.
    views_per_landmark : int
        p; with p > 1 there are m p landmarks, ordered by view.
    exact_views : bool
        Whether augmentations are integrated instead of sampled in pairs.
    placement : Placement
        dtype and device.
    seed : int
        The seed of the views' random streams.
    n_folds : int or None
        Folds of rows whose sums are kept apart; a row's fold follows from its global index.
    metric : str or None
        What columns are to a kernel that was chosen: "as given", "standardised", or the kind of a learned metric.
    choice : KernelChoice or None
        How the kernel was chosen on a sample of rows; it is not saved.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> space = FeatureSpace.on(Linear(), torch.tensor([[2.0, 0.0]]))
    >>> space.features(torch.tensor([[3.0, 5.0]]))          # <x, l> / |l|
    tensor([[3.]])
    """

    inputs: InputSpace
    features: NystromMap
    views: Views
    landmark_rows: np.ndarray | None
    views_per_landmark: int
    exact_views: bool
    placement: Placement
    seed: int
    n_folds: int | None = None
    metric: str | None = None
    choice: KernelChoice[Tried] | None = None

    @classmethod
    def of(
        cls,
        inputs: InputSpace,
        kernel: Kernel,
        views: Views,
        landmarks: LandmarkRows,
        placement: Placement,
        seed: int,
        n_folds: int | None = None,
        decompose: bool = True,
    ) -> FeatureSpace:
        """The space of a kernel, its parameters numbers, on landmarks that are known."""
        points = kernel.storable(landmarks.points)
        if decompose:
            features = NystromMap(kernel, points, placement.dtype, rows=landmarks.rows)
            exact = _views_are_exact(views, features)
        else:
            features, exact = NystromMap.restored(kernel, points, placement.dtype), False
        return cls(
            inputs, features, views, landmarks.rows, landmarks.n_views, exact, placement, seed, n_folds
        )

    @classmethod
    def on(
        cls,
        kernel: Kernel,
        landmarks: Rows,
        *,
        rows: np.ndarray | None = None,
        dtype: torch.dtype | None = None,
        seed: int = 0,
    ) -> FeatureSpace:
        """The space of landmarks that are known, in the space of the kernel: rows as they are, without views."""
        if isinstance(landmarks, Tensor):
            inputs = InputSpace("vectors", tuple(landmarks.shape[1:]))
            placement = Placement(dtype or landmarks.dtype, landmarks.device)
        else:
            inputs = InputSpace("objects")
            if isinstance(landmarks, SparseRows):
                inputs = InputSpace("sparse", landmarks.shape[1:])
            placement = Placement(dtype or torch.float64, torch.device("cpu"))
        return cls.of(inputs, kernel, NoViews(), LandmarkRows(landmarks, rows), placement, seed)

    def decomposed(self) -> FeatureSpace:
        """This space with features: K_mm is decomposed now, unless it is already."""
        return self if self.features.factors is not None else self.with_kernel(self.kernel)

    def with_few_landmarks(self, most: int) -> FeatureSpace:
        """The features of a random part of the landmarks."""
        places = np.sort(np.random.default_rng(self.seed).permutation(len(self.landmarks))[:most])
        points = LandmarkRows(take_rows(self.landmarks, places), None, self.views_per_landmark)
        return self._on(self.kernel, points)

    def with_kernel(self, kernel: Kernel) -> FeatureSpace:
        """The same rows, views and landmarks under another kernel, such as one whose metric was learned."""
        return self._on(kernel, LandmarkRows(self.landmarks, self.landmark_rows, self.views_per_landmark))

    def _on(self, kernel: Kernel, landmarks: LandmarkRows) -> FeatureSpace:
        return self.of(self.inputs, kernel, self.views, landmarks, self.placement, self.seed, self.n_folds)

    def with_views(
        self, data: FitData, views: str | Views | None, views_needed: int, seed: int
    ) -> FeatureSpace:
        """The same encoder, kernel and landmarks for other rows, with views and a seed of their own.

        Its landmarks are not known to be rows of these data.
        """
        series = self.inputs.kind == "series"
        tokens = self.kernel.takes_tokens
        chosen = choose_views(views, data.sources[0], views_needed, data.paired, series=series, tokens=tokens)
        sample, _ = reservoir(self.inputs.selected(data.sources[0]), VIEW_ROWS, seed)
        rows = self.inputs.tensor(sample, self.dtype, self.device)
        generator = torch.Generator().manual_seed(seed)
        fitted = chosen.fitted(rows, generator, groups=self.inputs.groups)
        fitted.check_repeats(rows)
        exact = _views_are_exact(fitted, self.features)
        return replace(self, views=fitted, exact_views=exact, seed=seed, landmark_rows=None)

    def __deepcopy__(self, memo: dict[int, Any]) -> FeatureSpace:
        return self  # a value: copies of an estimator share it

    # What follows from it

    @property
    def kernel(self) -> Kernel:
        return self.features.kernel

    @property
    def landmarks(self) -> Rows:
        """In the input space: Tensor of shape (m, ...), m SparseRows or a list of m objects."""
        return self.features.landmarks

    @property
    def rank(self) -> int:
        return self.features.rank

    @property
    def dtype(self) -> torch.dtype:
        return self.placement.dtype

    @property
    def device(self) -> torch.device:
        return self.placement.device

    @property
    def width(self) -> int:
        """Numbers in a row of the input space; 0 for objects."""
        if isinstance(self.landmarks, SparseRows):
            return self.landmarks.nbytes // (4 * len(self.landmarks))
        return int(np.prod(self.landmarks.shape[1:])) if isinstance(self.landmarks, Tensor) else 0

    @property
    def bytes_per_row(self) -> int:
        """Memory for one row in a block: kernel values, features of every view and the views themselves."""
        V = self.views.n_views
        return 4 * (2 * len(self.landmarks) + (V + 1) * self.rank + 2 * V * self.width)

    @cached_property
    def _expected(self) -> Callable[[Rows], Tensor] | None:
        return self.views.expected_against(self.kernel, self.landmarks)

    def expected(self, X: Rows) -> Tensor:
        """E_aug k(aug(x), landmarks), shape (b, m)."""
        if self._expected is None:
            raise ValueError(f"{self.views} have no formula for their expectation under {self.kernel}.")
        return self._expected(X)

    def reader(self, X: Any) -> RowReader:
        """Any data, opened as this space takes them, as a reader; of pairs, the rows alone."""
        source = self.inputs.open(X)
        if source.companions:
            warn(
                "X holds second views of its rows, which are not used here: results are of the first views alone. To "
                "choose an entry, give krepes.sources.open_source(X, key=...)."
            )
        return FitData((source,)).reader(self.inputs, self.placement)

    def open(self, X: Any, positives: Any = None, negatives: Any = None, **alongside: Any) -> FitData:
        """Open data for this space; see `FitData.open`."""
        return FitData.open(X, positives, negatives, opener=self.inputs.open, **alongside)

    def map(
        self,
        function: Callable[[Rows], Tensor],
        X: Any,
        engine: Engine,
        progress: Progress | None = None,
        batch_rows: int | None = None,
    ) -> Iterator[Tensor]:
        """A function of rows in the input space, block by block; one result for every batch."""
        return engine.map(
            lambda block: function(block.inputs[0]),
            self.reader(X),
            bytes_per_row=self.bytes_per_row,
            batch_rows=batch_rows,
            progress=progress,
        )

    def fingerprint(self) -> dict[str, str]:
        """A hash of each part that sums over features depend on."""
        parts = {
            "preprocessing": self.inputs,
            "kernel": self.kernel,
            "landmarks": self.landmarks,
            "views": self.views,
            "dtype": str(self.dtype).removeprefix("torch."),
        }
        return {name: digest(part) for name, part in parts.items()}

    def seed_fingerprint(self) -> dict[str, str]:
        """A hash of the seed, which merging may differ in and resuming may not."""
        return {"random_state": digest(self.seed)}

    def __getstate__(self) -> State:
        return {name: value for name, value in vars(self).items() if name != "_expected"}

    # Files

    def state(self, factors: bool = True) -> State:
        """What a model file keeps; without `factors`, F is computed again from the landmarks where it is needed."""
        landmarks: Any = self.landmarks
        return encode(
            StoredSpace(
                self.inputs,
                self.kernel,
                self.views,
                landmarks,
                self.landmark_rows,
                self.seed,
                self.exact_views,
                self.rank,
                self.views_per_landmark,
                self.n_folds,
                self.metric,
                kernel_probe(self.kernel, self.landmarks),
                self.features.F if factors else None,
                self.features.eigenvalues if factors else None,
            )
        )

    @classmethod
    def from_state(
        cls, state: State, placement: Placement, kernel: Kernel | Callable[..., Any] | None = None
    ) -> FeatureSpace:
        """The inverse of `state`; `kernel` gives back a user's function, which a file cannot hold."""
        stored = decode_part(StoredSpace, state, placement.device)
        fitted, landmarks = with_function(stored.kernel, kernel), stored.landmarks
        check_probe(fitted, landmarks, stored.kernel_probe)
        factors = None
        if stored.F is not None and stored.eigenvalues is not None:
            factors = stored.eigenvalues, stored.F
        return cls(
            stored.input_space,
            NystromMap.restored(fitted, landmarks, placement.dtype, factors, stored.rank),
            stored.views,
            stored.landmark_indices,
            stored.views_per_landmark,
            stored.exact_views,
            placement,
            stored.seed,
            stored.n_folds,
            stored.metric,
        )


def _views_are_exact(views: Views, features: NystromMap) -> bool:
    """Integrate the augmentation where there is a formula that costs no more than sampling a view."""
    landmarks, kernel = features.landmarks, features.kernel
    if not isinstance(landmarks, Tensor) or not views.exact(kernel):
        return False
    n_features = int(np.prod(landmarks.shape[1:]))
    sampled = 2 * n_features + 2 * features.rank + features.rank**2 / len(landmarks)
    return views.expected_cost(kernel, n_features, features.dtype) <= sampled
