"""`krepes transform`: write the representation of every row."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

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
            "The file to write. Its ending sets the format: .npy, .npz (array Z), .parquet or .csv.",
            metavar="FILE",
        ),
    ],
    place: Annotated[dict[str, Any], Parameters("KernelEmbedding", only=("device",))],
    keep: options.Keep = [],  # noqa: B006  (typer copies it)
    encoding: options.Encoding = None,
    array: options.Array = "X",
    threads: options.Threads = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Write the representation of every row of DATA, in the order of its rows.

    Rows are read, transformed and written in parts, so that the data may be larger than memory. For a folder \
of images a table also has the column [bold]file[/].

    [cyan]krepes transform people.krepes new_people.csv -o features.parquet --keep id[/]
    """
    from krepes.base.files import check_writable, readable_bytes
    from krepes.cli.describe import line
    from krepes.cli.opening import check_exists, load_embedding, open_for
    from krepes.cli.outputs import check_result_file

    check_result_file(output, keep)
    check_exists(model, data)
    check_writable(output, overwrite)
    import numpy as np

    from krepes.results import kept_columns, output_bytes, write_rows

    start = time.perf_counter()
    embedding = load_embedding(model, **place)
    source = open_for(embedding, data, array, encoding)
    kept = kept_columns(source, keep, output)
    width, dtype = len(embedding.intercept_), np.dtype(embedding.dtype)
    check_writable(output, overwrite, output_bytes(output, source.n_rows, width, dtype.itemsize))
    embedding.verbose = 1
    batches = embedding.iter_transform(source, batch_rows=_BATCH_ROWS)
    write_rows(output, batches, source.n_rows, width, dtype=dtype, keep=kept, overwrite=overwrite)
    size, seconds = output.stat().st_size, time.perf_counter() - start
    line(
        f"Wrote {output}: {source.n_rows:,} rows × {width:,} components, {readable_bytes(size)}, in {seconds:.1f} s."
    )
    kept_names = [] if kept is None else kept.column_names
    return {
        "output": str(output),
        "rows": source.n_rows,
        "components": width,
        "kept": kept_names,
        "bytes": size,
        "seconds": seconds,
    }
