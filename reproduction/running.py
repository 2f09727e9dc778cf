"""Run the cells of a table, one after the other, and keep what is done.

Every cell: fit without labels, then a linear probe on a tenth of the training labels, tested on the test rows
[krepes, App. B]. Results go to a JSON file after each cell, so an interrupted run continues where it stopped.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from krepes import __version__
from krepes.base.storage.files import atomic_path
from krepes.evaluation import linear_probe
from krepes.networks import file_digest
from reproduction.datasets import DataSplit, load_split
from reproduction.published_tables import Cell, Run, Table

logger = logging.getLogger("krepes")

Results = dict[str, dict[str, Any]]  # by "row | column"


def run_table(
    table: Table,
    folder: Path,
    run: Run,
    output: Path | None = None,
    callback: Callable[[int, Cell, dict[str, Any]], None] | None = None,
    only: str | None = None,
) -> Results:
    """All cells of a table, or those that `only` names; `callback(number done, cell, result)` after each."""
    settings = _settings(table, run)
    results = _restored(output, settings)
    split: tuple[str, DataSplit] | None = None
    cells = cells_of(table, only)
    for cell in cells:
        cell.model(run)  # what is missing is said now, not after an hour
    for number, cell in enumerate(cells, start=1):
        key = f"{cell.row} | {cell.column}"
        if key not in results:
            if split is None or split[0] != cell.dataset:
                split = cell.dataset, load_split(cell.dataset, folder, run.size)
            results[key] = _run(cell, split[1], run)
            if output is not None:
                with atomic_path(output, overwrite=True) as temporary:
                    temporary.write_text(json.dumps({"settings": settings, "results": results}, indent=1))
        if callback is not None:
            callback(number, cell, results[key])
    return results


def cells_of(table: Table, only: str | None = None) -> list[Cell]:
    """The cells to run: those whose row and column contain every word of `only`."""
    words = (only or "").split()
    cells = [cell for cell in table.cells if all(word in f"{cell.row}, {cell.column}" for word in words)]
    if not cells:
        raise ValueError(
            f"No cell of {table.name} contains {only!r}. Rows: {'; '.join(table.rows)}. "
            f"Columns: {'; '.join(table.columns)}."
        )
    return cells


def _restored(output: Path | None, settings: dict[str, Any]) -> Results:
    if output is None or not output.exists():
        return {}
    try:
        content = json.loads(output.read_text())
        found, results = content["settings"], content["results"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{output} is not a result file of python -m reproduction; name another.") from error
    if found != settings:
        different = [name for name in settings if found.get(name) != settings[name]]
        raise ValueError(
            f"{output} holds results with other settings ({', '.join(different)}); name another file, or delete it."
        )
    return results


def _settings(table: Table, run: Run) -> dict[str, Any]:
    """Everything that results depend on; a cache is not part of it."""
    weights = None if run.weights is None else file_digest(run.weights)
    return {
        "table": table.name,
        "size": asdict(run.size),
        "seed": run.seed,
        "network": run.network,
        "weights": weights,
        "version": __version__,
    }


def _run(cell: Cell, split: DataSplit, run: Run) -> dict[str, Any]:
    model = cell.model(run)
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(split.train)
            fitted = time.perf_counter() - begin
            labelled, test = model.transform(split.labelled), model.transform(split.test)
            probe = linear_probe(labelled, split.y_labelled, test, split.y_test, random_state=run.seed)
    except ValueError as error:  # a cell that cannot be trained is a result, too
        logger.warning("%s, %s: %s", cell.row, cell.column, error)
        return {"accuracy": None, "error": str(error), "published": cell.published}
    return {
        "accuracy": 100 * probe.accuracy,
        "balanced_accuracy": 100 * probe.balanced_accuracy,
        "seconds": fitted,
        "iterations": getattr(model, "n_iter_", None),
        "trained_on": len(split.train),
        "labels": len(split.y_labelled),
        "tested_on": len(split.y_test),
        "published": cell.published,
        "warnings": sorted({str(warning.message) for warning in caught if warning.category is UserWarning}),
    }
