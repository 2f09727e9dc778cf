"""What must exist before the first kernel value: input space, kernel parameters, views and landmarks.

One uniform sample of candidate rows serves all of them (for tables it is drawn during the scan that finds
the columns' moments and levels). Landmarks are chosen among the candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.components import resolve
from krepes.input_space import InputSpace, Normalize
from krepes.kernels import Kernel
from krepes.landmarks import LandmarkSelector
from krepes.preprocessing import TableEncoder
from krepes.progress import Progress
from krepes.sources import Source, reservoir
from krepes.views import Image, NoViews, Paired, Tabular, Views


@dataclass
class Candidates:
    """A uniform sample of rows in the model's input space, with their global indices."""

    rows: Any  # Tensor (N, ...) or list
    indices: np.ndarray


@dataclass
class Precision:
    """Where and in which dtype features are computed."""

    dtype: torch.dtype
    device: torch.device


def choose_precision(dtype: str, device: str) -> Precision:
    """Resolve the estimator's `dtype` and `device`."""
    dtypes = {"float32": torch.float32, "float64": torch.float64}
    if dtype not in dtypes:
        raise ValueError(f"dtype={dtype!r}: expected 'float32' or 'float64'.")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={device!r} cannot be used here ({str(error).splitlines()[0]}).") from error
    return Precision(dtypes[dtype], chosen)


def choose_encoder(preprocess: Any, source: Source) -> TableEncoder | Normalize | None:
    """The preprocessing to fit, if there is any."""
    if isinstance(preprocess, Normalize) or (isinstance(preprocess, str) and preprocess == "normalize"):
        if source.kind != "images":
            raise ValueError(
                f"preprocess='normalize' standardises the channels of images; this is {source.describe()}."
            )
        return preprocess if isinstance(preprocess, Normalize) else Normalize()
    if preprocess is None or (isinstance(preprocess, str) and preprocess == "none"):
        if source.kind == "table":
            raise ValueError(
                "preprocess=None needs numeric arrays; a table has to be encoded: use preprocess='auto'."
            )
        return None
    if isinstance(preprocess, str) and preprocess == "auto":
        return TableEncoder() if source.kind == "table" else None
    if isinstance(preprocess, str) and preprocess == "table":
        preprocess = TableEncoder()
    if isinstance(preprocess, TableEncoder):
        if source.kind not in ("table", "vectors"):
            raise ValueError(f"A TableEncoder encodes tables and 2-D arrays; this is {source.describe()}.")
        return preprocess
    raise ValueError(
        f"preprocess={preprocess!r}: expected 'auto', 'table', 'normalize', None or a TableEncoder."
    )


def prepare_inputs(
    source: Source, preprocess: Any, n_candidates: int, seed: int, precision: Precision, progress: Progress
) -> tuple[InputSpace, Candidates]:
    """Fit the input space and draw the candidates, in at most one scan."""
    encoder = choose_encoder(preprocess, source)
    with progress.stage("Preparing", None):
        if isinstance(encoder, TableEncoder):
            encoder = clone(encoder)
            sample, indices = encoder.fit_source(source, seed=seed, n_candidates=n_candidates)
        else:
            sample, indices = reservoir(source, n_candidates, seed)
        table = encoder if isinstance(encoder, TableEncoder) else None
        space = InputSpace.of(source, sample, table)
        if isinstance(encoder, Normalize):
            space.normalize = encoder.fitted(space.tensor(sample, torch.float64))
        rows = space.tensor(sample, precision.dtype, precision.device)
    return space, Candidates(rows, indices)


def choose_views(views: Any, source: Source, views_needed: int, paired: bool) -> Views:
    """The views object for a source: `views="auto"` picks by its kind and size, pairs need none."""
    if paired:
        if views_needed < 2:
            raise ValueError(
                "positives= were given, but this loss looks at one view per sample: leave them out."
            )
        return Paired()
    if views == "auto":
        if views_needed < 2:
            return NoViews()
        if source.kind == "objects":
            raise ValueError(
                "There is no augmentation for arbitrary objects: give positives= (a second view of every "
                "sample), or use loss='kernel_pca'."
            )
        # Because few rows sampled often estimate S_+ better than few rows sampled twice, at little cost.
        n_views = min(8, max(2, 40_000 // source.n_rows))
        return Image(n_views=n_views) if source.kind == "images" else Tabular(n_views=n_views)
    if views is None or views == "none":
        if views_needed > 1:
            raise ValueError("This loss compares two views of a sample: give views= or positives=.")
        return NoViews()
    return resolve(Views, views)


def choose_landmarks(
    landmarks: Any,
    n_landmarks: int,
    source: Source,
    space: InputSpace,
    candidates: Candidates,
    kernel: Kernel,
    precision: Precision,
    generator: torch.Generator,
) -> tuple[Any, np.ndarray | None]:
    """Landmarks in the input space and their global row indices (None for points of the user's)."""
    if isinstance(landmarks, str | LandmarkSelector | type):
        selector = resolve(LandmarkSelector, landmarks)
        chosen = selector.select(candidates.rows, kernel, n_landmarks, generator)
        chosen = torch.as_tensor(chosen).cpu()
        return take(candidates.rows, chosen), candidates.indices[chosen.numpy()]
    array = landmarks if isinstance(landmarks, Tensor) else _as_array(landmarks)
    if array is not None and array.ndim == 1 and not _is_float(array) and space.kind != "objects":
        indices = np.asarray(array, dtype=np.int64)
        if len(indices) == 0 or indices.min() < 0 or indices.max() >= source.n_rows:
            raise ValueError(
                f"landmarks= are row indices; they must lie between 0 and {source.n_rows - 1} and not be empty."
            )
        return space.tensor(source.take(indices), precision.dtype, precision.device), indices
    points = space.tensor(landmarks if array is None else array, precision.dtype, precision.device)
    if len(points) == 0:
        raise ValueError("landmarks= is empty: give at least one point or row index, or the name of a rule.")
    return points, None


def views_per_landmark(landmarks: Any) -> int:
    """p of the landmark rule; points that the user gives are taken as they are."""
    if not isinstance(landmarks, str | LandmarkSelector | type):
        return 1
    p = resolve(LandmarkSelector, landmarks).views_per_landmark
    if not isinstance(p, int | np.integer) or isinstance(p, bool) or p < 1:
        raise ValueError(f"views_per_landmark={p!r}: expected an integer >= 1.")
    return int(p)


def with_views(
    landmarks: Any, indices: np.ndarray | None, views: Views, p: int, seed: int, pairs: list[Any]
) -> tuple[Any, np.ndarray | None]:
    """Landmark tuples: p views of every landmark as centres, ordered by view.         [krepes, section 3]

    They are the views that training sees of these rows; for pairs, the row, its positive and its negative.
    """
    if pairs:
        parts = [landmarks, *pairs]
        if p > len(parts):
            raise ValueError(f"views_per_landmark={p}, but pairs give {len(parts)} views of every row.")
        parts = parts[:p]
    elif views.n_views < 2 or not isinstance(landmarks, Tensor):
        raise ValueError(
            f"views_per_landmark={p} needs views of the landmarks, and this loss or data has none: use 1."
        )
    else:
        rows = torch.arange(len(landmarks)) if indices is None else torch.from_numpy(indices)
        parts = [views.view(landmarks, rows, seed, index) for index in range(p)]
    centres = torch.cat(parts) if isinstance(landmarks, Tensor) else [row for part in parts for row in part]
    return centres, None if indices is None else np.tile(indices, p)


def take(rows: Any, chosen: Tensor) -> Any:
    """Rows by index, from a tensor or a list."""
    return rows[chosen.to(rows.device)] if isinstance(rows, Tensor) else [rows[i] for i in chosen.tolist()]


def _as_array(value: Any) -> np.ndarray | None:
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" else None


def _is_float(array: Any) -> bool:
    return array.is_floating_point() if isinstance(array, Tensor) else array.dtype.kind == "f"


def candidate_count(landmarks: Any, n_landmarks: int) -> int:
    """How many candidate rows to sample: the selector's own number, or enough to learn scales from."""
    if isinstance(landmarks, str | LandmarkSelector | type):
        selector = resolve(LandmarkSelector, landmarks)
        return selector.n_candidates(n_landmarks)
    return 10_000
