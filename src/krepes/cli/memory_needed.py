"""What a command will need of memory and disk, checked before it begins; with --dry-run, also of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from krepes.base.blocks import available_memory
from krepes.base.reporting import warn
from krepes.base.storage.files import check_writable, readable_bytes
from krepes.cli.terminal import line, show_facts
from krepes.embedding import KernelEmbedding
from krepes.engines import PassCost, as_engine, function_cost, sums_cost
from krepes.features.choices import landmark_count
from krepes.features.space import FeatureSpace
from krepes.machines import NoveltyDetector
from krepes.machines.labelled_machine import LabelledMachine
from krepes.one_pass import OnePassEstimator
from krepes.sources import Source, TableSource
from krepes.sources.row_subset import section

MOST_DENSE_BYTES = 2**30  # to which sparse rows are made dense, to compare with other methods
# Matrices of m x m float64 that exist at once: K_mm and its vectors, F, three moments, and the solver's.
LEAST_MATRICES, USUAL_MATRICES = 8, 18
TRIAL_ROWS = 10_000  # that a trial space is prepared from


def check_room(
    model: OnePassEstimator,
    source: Source,
    output: Path | None = None,
    overwrite: bool = False,
    *,
    n_outputs: int = 1,
    sums: bool = True,
) -> None:
    """Refuse a fit that memory or disk cannot hold; warn where memory will be tight.

    The file `output` has landmarks and A; with `sums` also matrices of m x m numbers, and kept rows.
    """
    more, kept = _matrices(model, n_outputs)
    m = min(landmark_count(model.n_landmarks, source.n_rows), source.n_rows)
    free = available_memory()
    least, usual = (8 * (count + more) * m**2 for count in (LEAST_MATRICES, USUAL_MATRICES))
    possible = int((free / (8 * (USUAL_MATRICES + more))) ** 0.5)
    if least > free:
        raise MemoryError(
            f"{m:,} landmarks need at least {readable_bytes(least)} of memory, and {readable_bytes(free)} are free. "
            f"Use at most about {possible:,} (--n-landmarks)."
        )
    if usual > free:
        warn(
            f"{m:,} landmarks may need {readable_bytes(usual)} of memory, and {readable_bytes(free)} are free; about "
            f"{possible:,} are safe (--n-landmarks)."
        )
    if output is not None:
        d = row_width(source)
        if isinstance(model, KernelEmbedding):
            h = m if isinstance(model.n_components, str) else model.n_components
        else:
            h = n_outputs * getattr(model, "n_folds", 1)
        numbers = m * (d + h) // 2
        if sums:
            numbers += kept * m**2 + min(source.n_rows, getattr(model, "n_kept", 0)) * d
        check_writable(output, overwrite, 8 * numbers)


def _matrices(model: OnePassEstimator, n_outputs: int) -> tuple[int, int]:
    """Matrices of m x m numbers besides the usual ones in memory, and in the file.

    A representation has three for each fold. A ridge machine has one for each fold, times the classes where they are
    balanced; a Gaussian process one or, for several classes, one for each; a detector two.
    """
    if isinstance(model, KernelEmbedding):
        folds = model.folds_kept or 1
        return 3 * (folds - 1), 1 + 3 * folds
    by_class = getattr(model, "class_weight", None) == "balanced" or not hasattr(model, "n_folds")
    sums = getattr(model, "n_folds", 1) * (n_outputs if by_class else 1) + isinstance(model, NoveltyDetector)
    return sums, 1 + sums


def row_width(source: Source) -> int:
    """Numbers per row; for a table, whose encoding is not known yet, a few per column."""
    if isinstance(source, TableSource):
        return 4 * len(source.column_names)
    _, row = next(source.batches(1))
    return math.prod(np.shape(row)[1:])


def left_out_as_sparse(space: FeatureSpace, n_rows: int) -> str | None:
    """Why sparse rows are not compared as they are; None where dense copies of them are small enough."""
    if space.inputs.kind != "sparse":
        return None
    width = space.inputs.shape[0]
    size = 8 * n_rows * width
    if size <= MOST_DENSE_BYTES:
        return None
    return (
        f"Raw features are left out: {n_rows:,} rows of {width:,} sparse columns take {readable_bytes(size)} as "
        "dense rows."
    )


def check_rows_memory(n_rows: int, n_columns: int, advice: str) -> None:
    """Refuse to hold more rows in memory than there is room for, with the float64 copy that a probe makes."""
    needed, free = 12 * n_rows * n_columns, available_memory()
    if needed > free:
        raise MemoryError(
            f"{n_rows:,} rows × {n_columns:,} columns need about {readable_bytes(needed)} of memory, and "
            f"{readable_bytes(free)} are free. {advice}"
        )


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
    return _shown(cost, "Landmarks and columns were taken from the first rows.")


def machine_cost(machine: LabelledMachine[Any, Any], source: Source, y: np.ndarray, c: int) -> dict[str, Any]:
    """Print how large the file of a machine will be, on landmarks and in cells; c are the columns of its targets."""
    some = min(source.n_rows, TRIAL_ROWS)
    space = machine.prepare(section(source, 0, some), y[:some])
    n, m, width = source.n_rows, landmark_count(machine.n_landmarks, source.n_rows), 1
    if isinstance(space.landmarks, Tensor):
        width = math.prod(space.landmarks.shape[1:])
    kept, folds = min(n, getattr(machine, "n_kept", 0)), getattr(machine, "n_folds", 1)
    size = 4 if machine._auto_dtype(n) == "float32" else 8
    of_kept = kept * (size * width + 60 + 16 * c)
    sizes = {"landmarks": m * (size * width + 8 * c * folds) + 8 * folds * m**2 + of_kept}
    if machine.may_be_in_cells(n):
        sizes["cells"] = machine.cell_bytes(n, width, size, c) + of_kept
    shown = {
        f"model {'on' if kind == 'landmarks' else 'in'} {kind}": readable_bytes(each)
        for kind, each in sizes.items()
    }
    show_facts({"rows": f"{n:,}", "columns": f"{width:,}, encoded"} | shown)
    line("Nothing was written (--dry-run). Columns were taken from the first rows.")
    return {"dry_run": {"n_rows": n, "width": width, "model_bytes": sizes}}


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
