"""Results as a folder of Parquet files, and what a pass will take: for commands with `--engine` and `--dry-run`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import numpy as np

    from krepes.embedding import KernelEmbedding
    from krepes.engines import PassCost, WrittenFolder
    from krepes.one_pass import OnePassEstimator
    from krepes.sources import Source, TableSource

TRIAL_ROWS = 10_000  # that a trial space is prepared from


def is_folder(output: Path) -> bool:
    """Whether a name asks for a folder of Parquet files: it has no ending."""
    return output.suffix == "" or output.is_dir()


def check_output(
    output: Path, keep: list[str], overwrite: bool, engine: str | None, needs_folder: bool
) -> None:
    """Refuse a name that cannot be written, or that one process would have to write for a whole cluster."""
    from krepes.base.files import check_writable
    from krepes.cli.outputs import check_result_file

    if is_folder(output):
        return
    if engine is not None and needs_folder:
        raise typer.BadParameter(
            f"--output {output}: with --engine, workers write a folder of Parquet files; give a name without an "
            f"ending, such as {output.with_suffix('')}."
        )
    check_result_file(output, keep)
    check_writable(output, overwrite)


def write_folder(
    output: Path,
    model: OnePassEstimator,
    results: Callable[[Source], np.ndarray],
    source: Source,
    kept: TableSource | None,
    what: list[Any],
    overwrite: bool,
) -> WrittenFolder:
    """Write the results of all rows; `what` tells them from other results of the same model."""
    from krepes.base.packing import digest
    from krepes.base.progress import Bars
    from krepes.engines import as_engine, write_partitions

    return write_partitions(
        output,
        results,
        source,
        model.identity() | {"method": digest(what)},
        engine=as_engine(model.engine),
        keep=kept,
        overwrite=overwrite,
        progress=Bars(),
    )


def say_folder(written: WrittenFolder, output: Path, shown: str, seconds: float) -> None:
    from krepes.base.files import readable_bytes
    from krepes.cli.describe import line

    files = f"{written.n_files:,} file{'s' * (written.n_files > 1)}"
    again = f" ({written.n_resumed:,} were there already)" if written.n_resumed else ""
    line(
        f"Wrote {output}: {written.n_rows:,} rows{shown} in {files}{again}, "
        f"{readable_bytes(written.n_bytes)}, in {seconds:.1f} s."
    )


def folder_facts(written: WrittenFolder) -> dict[str, Any]:
    return {"bytes": written.n_bytes, "files": written.n_files, "files_there": written.n_resumed}


def fit_cost(model: KernelEmbedding, source: Source) -> PassCost:
    """What the pass of a fit will take, from a trial with the first rows. Nothing is written."""
    from krepes.engines import as_engine, sums_cost
    from krepes.sources.sections import section

    if model._task().of_samples:
        raise ValueError(
            f"--dry-run: {model._task().loss} is trained on samples, in as many epochs as it needs; there is no "
            "estimate."
        )
    space = model.prepare(section(source, 0, min(source.n_rows, TRIAL_ROWS)))
    reader = space.open(source).reader(space.inputs, space.placement)
    return sums_cost(model._accumulator(space), reader, as_engine(model.engine))


def results_cost(
    model: OnePassEstimator, results: Callable[[Source], np.ndarray], source: Source
) -> PassCost:
    """What results of all rows will take, from those of the first."""
    from krepes.engines import as_engine, function_cost
    from krepes.sources.sections import section

    def compute(n_rows: int) -> int:
        return len(results(section(source, 0, min(n_rows, source.n_rows))))

    return function_cost(compute, model.space_.bytes_per_row, source.n_rows, as_engine(model.engine))


def say_cost(cost: PassCost, name: str) -> dict[str, Any]:
    """Print an estimate; the values are what --json gives."""
    from dataclasses import asdict

    from krepes.cli.describe import console, facts, line

    console().print(facts(cost.lines()))
    line(f"Nothing was written (--dry-run). {name}")
    return {"dry_run": asdict(cost)}
