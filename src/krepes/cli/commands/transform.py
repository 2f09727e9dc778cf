"""`krepes transform`: write the representation of every row."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

if TYPE_CHECKING:
    from krepes.sources import TableSource

_BATCH_ROWS = 8192


@command
def transform(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path,
        option(
            "--output",
            "-o",
            "The file to write. Its ending sets the format: .npy, .npz (array Z), .parquet or .csv. A name without an "
            "ending is a folder of Parquet files, written part by part; after an interruption the same command goes "
            "on.",
            metavar="FILE",
        ),
    ],
    place: Annotated[dict[str, Any], Parameters("KernelEmbedding", only=("device",))],
    keep: options.Keep = [],  # noqa: B006  (typer copies it)
    encoding: options.Encoding = None,
    array: options.Array = "X",
    threads: options.Threads = None,
    engine: options.Engine = None,
    dry_run: options.DryRun = False,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Write the representation of every row of DATA, in the order of its rows.

    Rows are read, transformed and written in parts, so that the data may be larger than memory. For a folder \
of images a table also has the column [bold]file[/].

    [cyan]krepes transform people.krepes new_people.csv -o features.parquet --keep id[/]

    [cyan]krepes transform people.krepes /shared/people/ -o /shared/features --engine tcp://host:8786[/]
    """
    from krepes.base.files import check_writable, readable_bytes
    from krepes.cli import folder_results
    from krepes.cli.describe import line
    from krepes.cli.opening import check_exists, load_embedding, open_for

    check_exists(model, data)
    if not dry_run:
        folder_results.check_output(output, keep, overwrite, engine, needs_folder=False)
    import numpy as np

    from krepes.engines.partitioned_output import MethodResults
    from krepes.results import kept_columns, output_bytes, write_rows

    start = time.perf_counter()
    embedding = load_embedding(model, **place)
    source = open_for(embedding, data, array, encoding)
    kept = kept_columns(source, keep, output)
    width, dtype = len(embedding.intercept_), np.dtype(embedding.dtype)
    embedding.engine = engine
    results = MethodResults(embedding.without_engine(), "transform")
    if dry_run:
        return folder_results.say_cost(folder_results.results_cost(embedding, results, source), "")
    if folder_results.is_folder(output):
        written = folder_results.write_folder(
            output, embedding, results, source, kept, ["transform"], overwrite
        )
        seconds = time.perf_counter() - start
        folder_results.say_folder(written, output, f" × {width:,} components", seconds)
        return _facts(
            output, source.n_rows, width, kept, written.n_bytes, seconds
        ) | folder_results.folder_facts(written)
    check_writable(output, overwrite, output_bytes(output, source.n_rows, width, dtype.itemsize))
    embedding.verbose = 1
    batches = embedding.iter_transform(source, batch_rows=_BATCH_ROWS)
    write_rows(output, batches, source.n_rows, width, dtype=dtype, keep=kept, overwrite=overwrite)
    size, seconds = output.stat().st_size, time.perf_counter() - start
    line(
        f"Wrote {output}: {source.n_rows:,} rows × {width:,} components, {readable_bytes(size)}, in {seconds:.1f} s."
    )
    return _facts(output, source.n_rows, width, kept, size, seconds)


def _facts(
    output: Path, n_rows: int, width: int, kept: TableSource | None, size: int, seconds: float
) -> dict[str, Any]:
    return {
        "output": str(output),
        "rows": n_rows,
        "components": width,
        "kept": [] if kept is None else kept.column_names,
        "bytes": size,
        "seconds": seconds,
    }
