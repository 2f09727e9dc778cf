"""`krepes transform`: write the representation of every row."""

from __future__ import annotations

import time
from typing import Any

from krepes.cli import options, result_files
from krepes.cli.command import command


@command
def transform(
    model: options.Model,
    rows: options.Rows,
    result: result_files.ResultFolder,
    device: options.Device = "auto",
    dry_run: options.DryRun = False,
) -> dict[str, Any]:
    """Write the representation of every row of DATA, in the order of its rows.

    Rows are read, transformed and written in parts, so that the data may be larger than memory. For a folder \
of images a table also has the column [bold]file[/].

    \b[cyan]krepes transform people.krepes new_people.csv -o features.parquet --keep id[/]
    [cyan]krepes transform people.krepes /shared/people/ -o /shared/features --engine tcp://host:8786[/]
    """
    if not dry_run:
        result.check(needs_folder=False)
    import numpy as np

    from krepes import KernelEmbedding
    from krepes.cli.opening import load_model

    start = time.perf_counter()
    embedding = load_model(model, device, KernelEmbedding, made_by="fit")
    source = rows.open_for(embedding)
    embedding.set_params(engine=result.engine, verbose=1)
    width = len(embedding.intercept_)
    results = embedding.without_engine().transform
    if dry_run:
        from krepes.cli.memory_needed import results_cost

        return results_cost(embedding, results, source)
    if result.is_folder:
        facts = result.write_folder(embedding, results, source, ["transform"])
    else:
        batches = embedding.iter_transform(source, batch_rows=result_files.BATCH_ROWS)
        facts = result.write(batches, source, (width,), np.dtype(embedding.dtype))
    seconds = time.perf_counter() - start
    result.say(facts, f" × {width:,} components", seconds)
    return facts | {"components": width, "seconds": seconds}
