"""How a model goes through its data: the pass that sums moments, the samples of a solver, and maps over rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes import engines, model_file
from krepes.code_identity import code_identity
from krepes.embedding_inputs import opened, paired_batches
from krepes.losses import CallableLoss, Loss
from krepes.moments import Moments
from krepes.progress import display
from krepes.sources import Source

IDENTITY_ROWS = 256  # of pairs, by which a checkpoint knows them


def block_rows(model: Any) -> int:
    """Rows whose kernel values and features are computed at once."""
    landmarks = model.landmarks_
    n_features = int(np.prod(landmarks.shape[1:])) if isinstance(landmarks, Tensor) else 0
    return engines.block_rows(len(landmarks), model.rank_, model.views_.n_views, n_features)


def open_sources(model: Any, X: Any, positives: Any, negatives: Any) -> list[Source | None]:
    """The sources of the rows and of what they are paired with."""
    sources = [
        None if data is None else opened(data, model.input_space_) for data in (X, positives, negatives)
    ]
    for name, source in zip(("positives", "negatives"), sources[1:]):
        if source is not None and source.n_rows != _rows(sources):
            raise ValueError(
                f"{name}= has {source.n_rows} rows, X has {_rows(sources)}: one is needed for every row."
            )
    return sources


def check_negatives(loss: Loss, positives: Any, negatives: Any) -> None:
    """Refuse negatives without positives, and say where they have no effect."""
    if negatives is None:
        return
    if positives is None:
        raise ValueError("negatives= need positives= too: a triplet is a sample, a positive and a negative.")
    if not loss.uses_negatives:
        warnings.warn(
            f"{loss} does not look at negatives=. loss='simple_contrastive' does, and so may a class of your own "
            "with uses_negatives = True.",
            UserWarning,
            stacklevel=4,
        )


def sum_moments(
    model: Any, sources: list[Source | None], first_row: int, checkpoint: str | os.PathLike | None
) -> Moments:
    """The moments of all rows; `first_row` is the global index of the first."""
    n_rows, size, start, saved = _rows(sources), block_rows(model), 0, None
    moment_pass = engines.MomentPass(model.features_, model.views_, model.seed_, model.exact_views_)
    if checkpoint is not None:
        saved = engines.Checkpoint(checkpoint, _identity(model, sources, size))
        state = saved.restored()
        if state is not None:
            moment_pass.restore(state["sums"])
            start = state["next_row"]
    batches = paired_batches(sources, model.input_space_, model.precision_, 4 * size, start)
    shifted = ((first + first_row, inputs) for first, inputs in batches)
    engines.run(moment_pass, shifted, n_rows - start, display(model.verbose), size, saved, first_row)
    if saved is not None:
        saved.remove()
    return moment_pass.result()


def open_samples(
    model: Any, sources: list[Source | None], checkpoint: str | os.PathLike | None
) -> engines.Samples:
    """The rows as a solver needs them that goes through them many times."""
    size, space, precision = block_rows(model), model.input_space_, model.precision_
    present = [source for source in sources if source is not None]

    def read(start: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
        return paired_batches(present, space, precision, 4 * size, start)

    def take(rows: np.ndarray) -> tuple[Any, ...]:
        return tuple(space.tensor(source.take(rows), precision.dtype, precision.device) for source in present)

    saved = None
    if checkpoint is not None:
        settings = {
            "loss": [model.loss_, _code(model.loss_)],
            "solver": model.solver_,
            "n_components": model.n_components,
            "regularization": model.regularization,
            "feature_noise": model.feature_noise,
        }
        saved = engines.Checkpoint(checkpoint, _identity(model, sources, size, **settings))
    return engines.Samples(
        model.features_,
        model.views_,
        _rows(sources),
        model.seed_,
        read,
        take,
        4 * size,
        size,
        sources[2] is not None,
        model.views_per_landmark_,
        checkpoint=saved,
        progress=display(model.verbose),
    )


def map_rows(
    model: Any, function: Callable[[Any], Tensor], X: Any, batch_rows: int | None
) -> Iterator[Tensor]:
    """A function of rows in the input space, block by block; one result per batch."""
    source, size = opened(X, model.input_space_), block_rows(model)
    space, precision = model.input_space_, model.precision_
    batches = (
        (first, space.tensor(batch, precision.dtype, precision.device))
        for first, batch in source.batches(batch_rows or 4 * size)
    )
    return engines.map_blocks(function, batches, size, source.n_rows, display(model.verbose))


def _identity(model: Any, sources: list[Source | None], size: int, **settings: Any) -> dict[str, str]:
    """Hashes of all that a fit depends on, by name; of pairs, those of some rows."""
    n_rows = _rows(sources)
    chosen = np.unique(np.linspace(0, n_rows - 1, min(n_rows, IDENTITY_ROWS)).astype(np.int64))
    pairs = [None if source is None else _known(model, source.take(chosen)) for source in sources[1:]]
    known = {
        "random_state": model.seed_,
        "number of rows": n_rows,
        "rows per block": size,
        "pairs": pairs,
        **settings,
    }
    return {name: model_file.digest(value) for name, value in known.items()} | model.fingerprint()


def _known(model: Any, rows: Any) -> Any:
    """Rows as a hash can take them in: numbers; of objects, those that are text or numbers."""
    values = model.input_space_.tensor(rows, torch.float64, torch.device("cpu"))
    if isinstance(values, Tensor):
        return values
    return [value if isinstance(value, str | int | float) else None for value in values]


def _code(loss: Loss) -> str | None:
    """The identity of a user's function, or of an object of a user's class; krepes's own are known by name."""
    if isinstance(loss, CallableLoss):
        return code_identity(loss.function)
    return None if type(loss).__module__.startswith("krepes.") else code_identity(loss)


def _rows(sources: list[Source | None]) -> int:
    assert sources[0] is not None
    return sources[0].n_rows
