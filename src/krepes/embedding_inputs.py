"""What an estimator remembers of its input, and how batches reach the engine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sklearn.utils.validation import validate_data

from krepes.input_space import InputSpace
from krepes.preparation import Precision
from krepes.sources import Source, TableSource, open_source


def record_input(estimator: Any, X: Any, source: Source, space: InputSpace) -> None:
    """Set `n_features_in_` and, for frames, `feature_names_in_`, as scikit-learn does."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            delattr(estimator, name)
    if is_frame(X):
        validate_data(estimator, used_columns(X, space), reset=True, skip_check_array=True)
    elif space.n_features is not None:
        estimator.n_features_in_ = space.n_features


def check_same_input(estimator: Any, X: Any) -> None:
    """Frames must have the columns, in the order, of the frame that was fitted, as in scikit-learn.

    A model that was fitted on a file finds its columns by name, in any order.
    """
    if is_frame(X):
        if hasattr(estimator, "feature_names_in_"):
            X = used_columns(X, estimator.input_space_)
            validate_data(estimator, X, reset=False, skip_check_array=True)
    elif hasattr(X, "__array__") and getattr(X, "ndim", 0) == 2 and hasattr(estimator, "feature_names_in_"):
        validate_data(estimator, X, reset=False, skip_check_array=True)


def is_frame(X: Any) -> bool:
    """A pandas frame: it has named columns and a positional indexer."""
    return hasattr(X, "columns") and hasattr(X, "iloc")


def used_columns(X: Any, space: InputSpace) -> Any:
    """A frame without the columns that the encoder does not use: labels, excluded ones, those it left out."""
    encoder = space.encoder
    if encoder is None:
        return X
    unused = {role["column"] for role in encoder.roles_} - set(encoder.used_columns_)
    return X.loc[:, [column for column in X.columns if column not in unused]] if unused else X


def opened(data: Any, space: InputSpace) -> Source:
    """The source of some data as the model saw it: images at its size, only the columns that it uses."""
    folder = isinstance(data, str | os.PathLike) and Path(data).is_dir()
    size = (space.shape[0], space.shape[1]) if folder and space.kind == "images" else None
    source = open_source(data, size=size)
    if space.encoder is not None and isinstance(source, TableSource):
        return source.select(space.encoder.used_columns_)
    return source


def paired_batches(
    sources: Sequence[Source | None], space: InputSpace, precision: Precision, batch_rows: int, start: int = 0
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Batches (first row, (X, positives, negatives)) of sources that run side by side."""
    streams = [None if source is None else source.batches(batch_rows, start) for source in sources]
    for first_row, batch in streams[0]:  # type: ignore[union-attr]
        rest = [None if stream is None else next(stream)[1] for stream in streams[1:]]
        raw = (batch, *rest)
        yield (
            first_row,
            tuple(None if b is None else space.tensor(b, precision.dtype, precision.device) for b in raw),
        )
