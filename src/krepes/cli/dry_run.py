"""--dry-run: what a pass over the data will take, measured on its first rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from krepes.cli.terminal import line, show_facts
from krepes.engines import PassCost, as_engine, function_cost, sums_cost
from krepes.sources.sections import section

if TYPE_CHECKING:
    import numpy as np

    from krepes.embedding import KernelEmbedding
    from krepes.one_pass import OnePassEstimator
    from krepes.sources import Source

TRIAL_ROWS = 10_000  # that a trial space is prepared from


def fit_cost(model: KernelEmbedding, source: Source) -> dict[str, Any]:
    """Print what the pass of a fit will take."""
    if model._task().of_samples:
        raise ValueError(
            f"--dry-run: {model._task().loss} is trained on samples, in as many epochs as it needs; there is no "
            "estimate."
        )
    space = model.prepare(section(source, 0, min(source.n_rows, TRIAL_ROWS)))
    reader = space.open(source).reader(space.inputs, space.placement)
    cost = sums_cost(model._accumulator(space), reader, as_engine(model.engine))
    return _shown(cost, "Landmarks and columns were those of the first rows.")


def results_cost(
    model: OnePassEstimator, results: Callable[[Source], np.ndarray], source: Source
) -> dict[str, Any]:
    """Print what results of all rows will take."""

    def compute(n_rows: int) -> int:
        return len(results(section(source, 0, min(n_rows, source.n_rows))))

    return _shown(function_cost(compute, model.space_.bytes_per_row, source.n_rows, as_engine(model.engine)))


def _shown(cost: PassCost, note: str = "") -> dict[str, Any]:
    show_facts(cost.lines())
    line(f"Nothing was written (--dry-run). {note}".strip())
    return {"dry_run": asdict(cost)}
