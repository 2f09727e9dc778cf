"""The rows and the landmarks themselves: columns of a table or of vectors, entries of sparse rows, images, or text.

Both come from the model's input space, so that a row and a landmark are compared as the kernel sees them: encoded
columns are decoded again (rare levels stay "(rare)"), integer pixels multiplied by 255. In what a row and a landmark
agree is measured in that space as well, column by column:

    agreement_j = mean_x d_j(x, l)^2 - d_j(row, l)^2

where d_j is the difference in column j and the mean goes over the rows shown: how much nearer to the landmark the row
is than a row usually is. For a Gaussian kernel, agreement_j / (2 lengthscale^2) is what column j adds to log k beyond
the usual. A common level that both share says little, a rare one much. The page computes it from these columns.
`heat_maps.py` says on which parts of a row its representation depends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

from krepes.base.rows import SparseRows, dense
from krepes.embedding import KernelEmbedding
from krepes.explain.expansion import n_landmarks
from krepes.preimages import ErrorEstimate
from krepes.preimages.invertible import OriginalRows
from krepes.preprocessing import InputSpace
from krepes.preprocessing.columns import Category, Column, Standardised, YesNo
from krepes.report.heat_maps import Heat, image_heat, moved_without
from krepes.report.shown_rows import ShownColumn
from krepes.report.thumbnails import Thumbnails, thumbnails
from krepes.sources import Source

MAX_FEATURES = 100
REBUILT_CELLS = 250_000  # more would make the page too large
TEXT_CHARACTERS = 300
BATCH_ROWS = 512
SHOWN_ENTRIES = 12  # of a sparse row


@dataclass(frozen=True)
class Feature(ShownColumn):
    """A column of the rows and of the landmarks.

    Attributes
    ----------
    name, values, levels : as in `ShownColumn`
    of_landmarks : ndarray of shape (m,)
    rebuilt : ndarray of shape (n,) or None
        The values of the reconstructed rows.
    mean, scale, fill : float
        A number v enters the kernel as (v - mean) / scale; a missing one as that of `fill`.
    indicator : bool
        Whether a missing value enters the kernel as such, too.
    curve : list of two lists of numbers, or None
        Where it is there, v is first moved from the first list to the second, by straight lines.
    pair : list of str or None
        The words that 1 and 0 were in the table.
    """

    of_landmarks: np.ndarray
    rebuilt: np.ndarray | None = None
    mean: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    indicator: bool = False
    pair: list[str] | None = None
    curve: list[list[float]] | None = None


@dataclass(frozen=True)
class ShownSamples:
    """What the rows and the landmarks are; `n_features` counts those left out too. `errors` are of reconstructions.

    `heat` is of the pixels of images, or of the features in their order.
    """

    features: list[Feature]
    n_features: int
    images: Thumbnails | None = None
    texts: dict[str, list[str]] | None = None  # of "rows" and "landmarks"
    errors: ErrorEstimate | None = None
    heat: Heat | None = None

    @property
    def notes(self) -> list[str]:
        """Says so if columns were left out."""
        n = len(self.features)
        about = f"{n} of {self.n_features:,} columns are shown: those in which landmarks differ most."
        return [] if n == self.n_features else [about]


def read_samples(model: KernelEmbedding, source: Source) -> ShownSamples:
    """The shown rows, and the landmarks as the model keeps them."""
    space, m = model.input_space_, n_landmarks(model)
    landmarks = model.landmarks_[:m]
    if space.kind in ("objects", "series"):
        rows = [_text(row) for _, batch in source.batches(BATCH_ROWS) for row in batch]
        return ShownSamples([], 0, texts={"rows": rows, "landmarks": [_text(row) for row in landmarks]})
    if space.kind == "sparse":
        found = (space.tensor(batch, model.space_.dtype) for _, batch in source.batches(BATCH_ROWS))
        rows = [text for batch in found for text in _largest_entries(batch)]
        return ShownSamples([], 0, texts={"rows": rows, "landmarks": _largest_entries(landmarks)})
    encoded = space.unshifted(dense(landmarks).cpu()).numpy()
    rebuilt, errors = model.reconstruct(source, return_error=True) if model.can_decode else (None, None)
    if space.kind == "images":
        tiles = thumbnails(_pixels(source), _raw_pixels(space, encoded), rebuilt)
        heat = image_heat(model, source, encoded.shape[1:])
        return ShownSamples([], 0, images=tiles, errors=errors if tiles.rebuilt else None, heat=heat)
    return _features(model, source, encoded, rebuilt, errors)


def _text(row: object) -> str:
    text = str(row)
    return text if len(text) <= TEXT_CHARACTERS else f"{text[: TEXT_CHARACTERS - 1]}…"


def _largest_entries(rows: SparseRows | Any) -> list[str]:
    """The columns of the largest entries of sparse rows, with their values."""
    texts = []
    for low, high in pairwise(rows.edges.tolist()):
        values, columns = rows.values[low:high], rows.columns[low:high]
        order = np.argsort(-np.abs(values), kind="stable")[:SHOWN_ENTRIES]
        shown = ", ".join(f"x{columns[i]}: {values[i]:.3g}" for i in order)
        texts.append(shown + (", ..." if high - low > SHOWN_ENTRIES else "") if shown else "(all zero)")
    return texts


def _pixels(source: Source) -> Iterator[np.ndarray]:
    for _, batch in source.batches(BATCH_ROWS):
        yield batch.cpu().numpy() if isinstance(batch, Tensor) else np.asarray(batch)


def _raw_pixels(space: InputSpace, landmarks: np.ndarray) -> np.ndarray:
    """Landmarks in the units of the images that were given."""
    if space.normalize is not None:
        mean, std = (np.asarray(part) for part in (space.normalize.mean, space.normalize.std))
        landmarks = landmarks * std + mean if landmarks.ndim == 4 else landmarks * std[0] + mean[0]
    return landmarks * space.divide


def _features(
    model: KernelEmbedding,
    source: Source,
    landmarks: np.ndarray,
    rebuilt: OriginalRows | None,
    errors: ErrorEstimate | None,
) -> ShownSamples:
    space = model.input_space_
    if space.encoder is None:
        names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(landmarks.shape[1])])
        encoded: list[tuple[Column | str, list[int]]] = [(str(name), [j]) for j, name in enumerate(names)]
    else:
        encoded = [pair for pair in zip(space.encoder.columns_, space.encoder.groups_) if _is_plain(pair[0])]
    columns = [column for column, _ in encoded]
    groups = [group for _, group in encoded]
    kept = _most_varied(landmarks, groups)
    shown = rebuilt if len(kept) * source.n_rows <= REBUILT_CELLS else None
    parts: list[list[np.ndarray]] = [[] for _ in kept]
    for _, batch in space.selected(source).batches(BATCH_ROWS):
        rows = space.unshifted(dense(space.tensor(batch, model.space_.dtype)).cpu()).numpy()
        for found, j in zip(parts, kept):
            found.append(_decoded(columns[j], rows[:, groups[j]]))
    features = [
        _feature(
            columns[j],
            np.concatenate(found),
            _decoded(columns[j], landmarks[:, groups[j]]),
            None if shown is None else _rebuilt(columns[j], shown, j),
        )
        for j, found in zip(kept, parts)
    ]
    heat = Heat(moved_without(model, source, [groups[j] for j in kept])) if kept else None
    return ShownSamples(features, len(columns), errors=errors, heat=heat)


def _most_varied(landmarks: np.ndarray, groups: list[list[int]]) -> list[int]:
    """The columns to show, in their order: those in which landmarks differ most, if there are too many."""
    if len(groups) <= MAX_FEATURES:
        return list(range(len(groups)))
    spread = [landmarks[:, group].var(0).sum() for group in groups]
    return sorted(np.argsort(spread, kind="stable")[::-1][:MAX_FEATURES].tolist())


def _decoded(column: Column | str, part: np.ndarray) -> np.ndarray:
    """Values of a column from what it was encoded as: numbers, or codes of levels."""
    if isinstance(column, Category):
        return part.argmax(1)
    if not isinstance(column, Standardised):
        return part[:, 0]
    decimals = min(5 - int(np.floor(np.log10(column.unit_of_digits))), 300)  # what single precision has kept
    values = np.round(column.numbers(part[:, 0]), decimals) + 0.0
    return np.where(part[:, -1] > 0.5, np.nan, values) if column.indicator else values


def _rebuilt(column: Column | str, rows: OriginalRows, j: int) -> np.ndarray:
    """Values of a column of reconstructed rows, as `_decoded` gives them; numbers in few digits."""
    if isinstance(rows, np.ndarray):
        return rows[:, j]
    if isinstance(column, Category):
        place = {level: i for i, level in enumerate(column.outcomes)}
        return np.array(
            [place["(missing)" if v is None else v] for v in rows.column(column.name).to_pylist()]
        )
    assert isinstance(column, Standardised)
    decimals = min(2 - int(np.floor(np.log10(column.unit_of_digits))), 300)
    return np.round(column.decoded_numbers(rows.column(column.name)), decimals) + 0.0


def _is_plain(column: Column) -> bool:
    """Whether a column is one number or one level: not running text, nor a time of day."""
    return isinstance(column, Category) or column.linear


def _feature(
    column: Column | str, values: np.ndarray, of_landmarks: np.ndarray, rebuilt: np.ndarray | None
) -> Feature:
    if isinstance(column, Category):
        return Feature(column.name, values, column.outcomes, of_landmarks, rebuilt)
    if isinstance(column, str):
        return Feature(column, values, None, of_landmarks, rebuilt)
    assert isinstance(column, Standardised)
    return Feature(
        column.name,
        values,
        None,
        of_landmarks,
        rebuilt,
        mean=column.mean,
        scale=column.scale,
        curve=column.curve.tolist() if column.curve.size else None,
        fill=column.median,
        indicator=column.indicator,
        pair=list(column.pair) if isinstance(column, YesNo) else None,
    )
