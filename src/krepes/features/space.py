"""The feature space of a model: all that is fixed before the first kernel value.

    row -> input space -> views -> k(., landmarks) -> phi(x) = F^T k_x

It is a value: built once by `FeatureSpace.prepare`, shared by a model and its copies, never changed, hashed by part,
saved with the model. Everything that is learned afterwards is a sum over features of this space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.caller_warning import warn
from krepes.base.codec import State
from krepes.base.components import named
from krepes.base.dtype_and_device import Placement
from krepes.base.packing import digest
from krepes.base.progress import Progress
from krepes.base.rows import Rows, take_rows
from krepes.base.schema import check_entries
from krepes.base.sparse_rows import SparseRows, dense_remedy
from krepes.engines import Engine
from krepes.features.all_points import all_points, check_all_points
from krepes.features.data_warnings import warn_of_data, warn_of_shape
from krepes.features.fit_cost import allowed_candidates, warn_of_cost
from krepes.features.fit_data import FitData, RowReader
from krepes.features.landmark_choice import LandmarkChoice, with_views
from krepes.features.stored_kernels import PROBE, check_probe, kernel_probe, with_function
from krepes.features.view_choice import choose_views
from krepes.kernels import Kernel
from krepes.kernels.checking.fit_check import check_candidates, title
from krepes.landmarks.nystrom import NystromMap
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates, Preprocess, is_series, prepare_inputs
from krepes.sources import reservoir
from krepes.sources.row_subset import subset
from krepes.views import Image, NoViews, Tabular, TimeSeries, Views

VIEW_ROWS = 10_000  # that the scale of views is learned from
LEAST_FOLDS = 3  # two are held out at a time, and at least one is learned from
LARGEST = 1e150  # factor that a file may hold: its square is a number of double precision

# What a model file says of a space, and of which type it must be.
STATE = {
    "input_space": InputSpace,
    "kernel": Kernel,
    "views": Views,
    "landmarks": Tensor | SparseRows | list,
    "landmark_indices": np.ndarray | None,
    "seed": int,
    "exact_views": bool,
    "rank": int,
    "views_per_landmark": int,
    "n_folds": int | None,
    "kernel_probe": Tensor,
    "F": Tensor,
    "eigenvalues": Tensor,
}


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """What must exist before the first kernel value.

    Attributes
    ----------
    inputs : InputSpace
        How raw rows become tensors: encoder, shape, scale.
    kernel : Kernel
        With numbers for its data-dependent parameters.
    views : Views
    landmarks : Tensor of shape (m, ...), m SparseRows or list of m objects
        In the input space.
    landmark_rows : ndarray of shape (m,) or None
        The rows of the training data that they are; None for points of the user's.
    views_per_landmark : int
        p; with p > 1 there are m p landmarks, ordered by view.
    features : NystromMap
    rank : int
        r, the number of features.
    exact_views : bool
        Whether augmentations are integrated instead of sampled in pairs.
    placement : Placement
        dtype and device.
    seed : int
        The seed of the views' random streams.
    n_folds : int or None
        By how many folds of rows sums are kept apart; a row's fold follows from its global index.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> space = FeatureSpace.on(Linear(), torch.tensor([[2.0, 0.0]]))
    >>> space.features(torch.tensor([[3.0, 5.0]]))          # <x, l> / |l|
    tensor([[3.]])
    """

    inputs: InputSpace
    kernel: Kernel
    views: Views
    landmarks: Rows
    landmark_rows: np.ndarray | None
    views_per_landmark: int
    features: NystromMap
    rank: int
    exact_views: bool
    placement: Placement
    seed: int
    n_folds: int | None = None

    @classmethod
    def prepare(
        cls,
        data: FitData,
        *,
        kernel: Kernel,
        landmarks: Any,
        n_landmarks: int | None,
        views: str | Views | None = None,
        views_needed: int = 1,
        preprocess: Preprocess = "auto",
        placement: Placement,
        seed: int,
        engine: Engine,
        progress: Progress,
        prefer: np.ndarray | None = None,
        learn_kernel: Callable[[Candidates, InputSpace], Kernel] | None = None,
        decompose: bool = True,
    ) -> FeatureSpace:
        """Fix the space from data, in at most one scan of them.

        Parameters
        ----------
        data : FitData
            Rows of weight zero are not used. Positives and negatives are views.
        kernel, landmarks, n_landmarks, views, preprocess : as an estimator takes them
            Without a number of landmarks, all points are landmarks, see `krepes.features.all_points`.
        views_needed : int
            How many views of a sample will be compared: 1 or 2.
        placement, seed, engine, progress
        prefer : ndarray of row indices, optional
            Rows that become landmarks before any other, such as those that have labels.
        learn_kernel : callable(Candidates, InputSpace) -> Kernel, optional
            Chooses kernel and parameters, such as by targets; `kernel` then says only whether rows may be shifted.
        decompose : bool
            Whether features are needed. Without them, K_mm is not decomposed, and `rank` is m until `decomposed`.
        """
        source, generator = data.sources[0], torch.Generator().manual_seed(seed)
        if source.n_rows < 2:
            raise ValueError(f"Found {source.n_rows} sample(s); a minimum of 2 samples is required to fit.")
        choice, counting = LandmarkChoice(landmarks, n_landmarks), data.counting_rows
        series = is_series(preprocess)
        chosen_views = choose_views(
            views,
            source,
            views_needed,
            data.paired,
            few=choice.everything,
            series=series,
            tokens=kernel.takes_tokens,
        )
        if choice.everything:
            check_all_points(data, chosen_views)
        part = source if counting is None else subset(source, counting)
        inputs, candidates = prepare_inputs(
            part,
            preprocess,
            allowed_candidates(part, choice.n_candidates, choice.n_landmarks),
            seed,
            placement,
            engine,
            progress,
            may_shift=kernel.shift_invariant and chosen_views.shift_equivariant,
            table_columns=kernel.table_columns,
            tokens=kernel.takes_tokens,
        )
        if isinstance(preprocess, str) and preprocess == "auto":
            warn_of_shape(inputs, kernel, views)
        if inputs.kind == "sparse" and not kernel.takes_sparse:
            able = sorted(name for name, each in named(Kernel).items() if each.takes_sparse is True)
            raise ValueError(
                f"{title(kernel)} has no form for sparse rows. Kernels that have: {', '.join(able)}. "
                f"{dense_remedy(inputs.shape[0])}"
            )
        if inputs.raw_ and isinstance(chosen_views, Tabular | Image | TimeSeries):
            raise ValueError(
                f"There is no augmentation for columns that are compared as they are ({', '.join(inputs.raw_)}): give "
                "positives= (a second view of every row), or use loss='kernel_pca'."
            )
        if counting is not None:
            candidates = replace(candidates, indices=counting[candidates.indices])
        if learn_kernel is None:
            suited = kernel.suited(inputs.layout)
            warn_of_data(candidates, inputs, suited, as_given=preprocess is None or preprocess == "none")
            fitted_kernel = suited.fitted(candidates.rows, generator)
        else:
            fitted_kernel = learn_kernel(candidates, inputs)
        if not choice.everything and choice.selector is not None:
            warn_of_cost(
                candidates.rows, fitted_kernel, data.n_rows, chosen_views.n_views, choice.n_landmarks
            )
        negative = check_candidates(fitted_kernel, candidates.rows, candidates.indices)
        fitted_views = chosen_views.fitted(candidates.rows, generator, groups=inputs.groups)
        reader = data.reader(inputs, placement)
        with progress.stage("Landmarks"):
            if choice.everything:
                drawn = all_points(data, reader, fitted_views, seed)
                fixed = (inputs, fitted_kernel, fitted_views, *drawn, placement, seed, decompose)
                return replace(cls._of(*fixed), exact_views=False)
            if choice.selector is None:
                chosen = choice.points(source, inputs, placement)
            else:
                preferred = _preferred(prefer, reader, choice.n_candidates, seed)
                chosen = choice.choose(candidates, preferred, fitted_kernel, generator)
            p = choice.views_per_landmark
            if p > 1:
                pairs = reader.take(chosen[1]).inputs[1:] if data.paired and chosen[1] is not None else ()
                chosen = with_views(chosen, fitted_views, p, seed, pairs)
            space = cls._of(inputs, fitted_kernel, fitted_views, *chosen, p, placement, seed, decompose)
        if negative is not None and not space.features.indefinite:  # otherwise there was a warning already
            milder = (
                " It is between the landmarks that were chosen, which the model uses." if decompose else ""
            )
            warn(f"{title(fitted_kernel)} is not positive semi-definite: {negative}.{milder}")
        return space

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
        return cls._of(inputs, kernel, NoViews(), landmarks, rows, 1, placement, seed)

    @classmethod
    def _of(
        cls,
        inputs: InputSpace,
        kernel: Kernel,
        views: Views,
        landmarks: Rows,
        landmark_rows: np.ndarray | None,
        views_per_landmark: int,
        placement: Placement,
        seed: int,
        decompose: bool = True,
    ) -> FeatureSpace:
        landmarks = kernel.storable(landmarks)
        fixed = (inputs, kernel, views, landmarks, landmark_rows, views_per_landmark)
        if not decompose:
            features = NystromMap.restored(kernel, landmarks, placement.dtype, None)
            return cls(*fixed, features, len(landmarks), False, placement, seed)
        features = NystromMap(kernel, landmarks, placement.dtype, rows=landmark_rows)
        exact = _views_are_exact(views, features)
        return cls(*fixed, features, features.rank, exact, placement, seed)

    def decomposed(self) -> FeatureSpace:
        """This space with features: K_mm is decomposed now, unless it is already."""
        if self.features.factors is not None:
            return self
        return self.with_kernel(self.kernel)

    def with_few_landmarks(self, most: int) -> FeatureSpace:
        """The features of a random part of the landmarks."""
        places = np.sort(np.random.default_rng(self.seed).permutation(len(self.landmarks))[:most])
        part = replace(self, landmarks=take_rows(self.landmarks, places), landmark_rows=None)
        return part.with_kernel(self.kernel)

    def with_kernel(self, kernel: Kernel) -> FeatureSpace:
        """The same rows, views and landmarks under another kernel, such as one whose metric was learned."""
        fixed = (self.inputs, kernel, self.views, self.landmarks, self.landmark_rows, self.views_per_landmark)
        return replace(self._of(*fixed, self.placement, self.seed), n_folds=self.n_folds)

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
        exact = _views_are_exact(fitted, self.features)
        return replace(self, views=fitted, exact_views=exact, seed=seed, landmark_rows=None)

    def __deepcopy__(self, memo: dict[int, Any]) -> FeatureSpace:
        return self  # a value: copies of an estimator share it

    # What follows from it

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
        """Any data, opened as this space takes them, as a reader."""
        return self.open(X).reader(self.inputs, self.placement)

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

    def __setstate__(self, state: State) -> None:
        vars(self).update(state)

    # Files

    def state(self, factors: bool = True) -> State:
        """What a model file keeps; without `factors`, F is computed again from the landmarks where it is needed."""
        state: State = {
            "input_space": self.inputs,
            "kernel": self.kernel,
            "views": self.views,
            "landmarks": self.landmarks,
            "landmark_indices": self.landmark_rows,
            "seed": self.seed,
            "exact_views": self.exact_views,
            "rank": self.rank,
            "views_per_landmark": self.views_per_landmark,
            "n_folds": self.n_folds,
            "kernel_probe": kernel_probe(self.kernel, self.landmarks),
        }
        return state | ({"F": self.features.F, "eigenvalues": self.features.eigenvalues} if factors else {})

    @classmethod
    def from_state(
        cls, state: State, placement: Placement, kernel: Kernel | Callable[..., Any] | None = None
    ) -> FeatureSpace:
        """The inverse of `state`; `kernel` gives back a user's function, which a file cannot hold."""
        _check_state(state)
        fitted, where = with_function(state["kernel"], kernel), placement.device
        landmarks = state["landmarks"]
        landmarks = landmarks.to(where) if isinstance(landmarks, Tensor) else landmarks
        check_probe(fitted, landmarks, state["kernel_probe"])
        factors = (state["eigenvalues"].to(where), state["F"].to(where)) if "F" in state else None
        return cls(
            state["input_space"],
            fitted,
            state["views"],
            landmarks,
            state["landmark_indices"],
            state["views_per_landmark"],
            NystromMap.restored(fitted, landmarks, placement.dtype, factors),
            state["rank"],
            state["exact_views"],
            placement,
            state["seed"],
            state["n_folds"],
        )


def _check_state(state: State) -> None:
    """Types, shapes and ranges of what a file says."""
    check_entries("The model", state, STATE, optional={"F", "eigenvalues"})
    m, r, rows = len(state["landmarks"]), state["rank"], state["landmark_indices"]
    p, probed = state["views_per_landmark"], min(m, PROBE)
    problems = {
        "its landmarks": m == 0,
        "its rank": not 1 <= r <= m,
        "its landmarks' rows": rows is not None
        and not (rows.shape == (m,) and rows.dtype.kind in "iu" and rows.min() >= 0),
        "the views of its landmarks": p < 1 or m % p != 0,
        "its kernel values": tuple(state["kernel_probe"].shape) != (probed, probed)
        or not state["kernel_probe"].is_floating_point(),
        "its seed": state["seed"] < 0,
        "its folds": (state["n_folds"] or LEAST_FOLDS) < LEAST_FOLDS,
    }
    if "F" in state:
        F, eigenvalues = state["F"], state.get("eigenvalues")
        whole = F.dtype == torch.float64 and tuple(F.shape) == (m, r)
        spectrum = (
            eigenvalues is not None and tuple(eigenvalues.shape) == (r,) and bool((eigenvalues > 0).all())
        )
        problems["its factors"] = not (whole and spectrum and F.abs().max() < LARGEST)
    wrong = [name for name, broken in problems.items() if broken]
    if wrong:
        raise ValueError(f"The model file is damaged: {', '.join(wrong)} cannot be what was written.")


def _preferred(rows: np.ndarray | None, reader: RowReader, most: int, seed: int) -> Candidates | None:
    """The preferred rows, or a uniform sample of them where they are very many."""
    if rows is None or not len(rows):
        return None
    rows = np.unique(rows)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    return Candidates(reader.take(rows).inputs[0], rows)


def _views_are_exact(views: Views, features: NystromMap) -> bool:
    """Integrate the augmentation where there is a formula that costs no more than sampling a view."""
    landmarks, kernel = features.landmarks, features.kernel
    if not isinstance(landmarks, Tensor) or not views.exact(kernel):
        return False
    n_features = int(np.prod(landmarks.shape[1:]))
    sampled = 2 * n_features + 2 * features.rank + features.rank**2 / len(landmarks)
    return views.expected_cost(kernel, n_features, features.dtype) <= sampled
