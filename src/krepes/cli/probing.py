"""Representations and raw features of the rows that a protocol needs, and their probes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.progress import Bars
from krepes.cli.memory_needed import check_rows_memory
from krepes.evaluation import ProtocolResult, plan_protocol
from krepes.labelled import LabelledRows

if TYPE_CHECKING:
    from krepes.embedding import KernelEmbedding
    from krepes.sources import Rows, Source

_BATCH_ROWS = 16_384


def probe_all(
    model: KernelEmbedding,
    dataset: LabelledRows,
    probes: dict[str, dict[str, Any]],
    raw: bool,
    protocol: dict[str, Any],
) -> dict[str, ProtocolResult]:
    """Results by the name of what was probed, the embedding first; `probes` has the options of each."""
    plan = plan_protocol(
        dataset.y, dataset.train, dataset.test, name=f"The label {dataset.where}", **protocol
    )
    features = gather(model, dataset, plan.rows, raw)
    words = {"linear": "linear probe", "knn": "nearest neighbours"}
    results = {}
    total = len(features) * len(probes) * len(plan.draws)
    with Bars().stage("Probing", total, unit="fits") as stage:
        for probe, options in probes.items():
            for name, Z in features.items():
                results[f"{name}, {words[probe]}"] = plan.run(
                    Z, probe, progress=lambda _: stage.advance(1), **options
                )
    return results | {"always the most frequent class": plan.most_frequent()}


def gather(
    model: KernelEmbedding, dataset: LabelledRows, rows: np.ndarray, raw: bool
) -> dict[str, np.ndarray]:
    """The representation, and the features before the kernel, of some rows of a data set."""
    from krepes.base.rows import dense

    space = model.space_
    width = int(np.prod(dense(model.landmarks_).shape[1:])) if raw else 0
    advice = "Use fewer labels (--label-fraction)" + (
        ", or leave out the raw features (--no-raw)." if raw else "."
    )
    check_rows_memory(len(rows), len(model.intercept_) + width, advice)
    Z, X = [], []
    with Bars().stage("Transforming", len(rows)) as stage:
        for batch in _wanted(dataset.sources, rows):
            Z.append(model.transform(batch))
            if raw:
                encoded = dense(space.inputs.tensor(batch, space.dtype))
                X.append(encoded.reshape(len(encoded), -1).numpy())
            stage.advance(len(Z[-1]))
    features = {"representation": np.concatenate(Z)}
    return features | ({"raw features": np.concatenate(X)} if raw else {})


def _wanted(sources: list[Source], rows: np.ndarray) -> Iterator[Rows]:
    """The rows at sorted indices into all sources, in batches."""
    from krepes.base.rows import count_rows, take_rows

    offset = 0
    for source in sources:
        here = rows[(rows >= offset) & (rows < offset + source.n_rows)] - offset
        offset += source.n_rows
        if source.random_access:
            for start in range(0, len(here), _BATCH_ROWS):
                yield source.take(here[start : start + _BATCH_ROWS])
            continue
        for first, batch in source.batches(_BATCH_ROWS):
            low, high = np.searchsorted(here, [first, first + count_rows(batch)])
            if low < high:
                yield take_rows(batch, here[low:high] - first)
