"""`krepes transform`: write the representation of every row."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from krepes.cli import options
from krepes.cli.session import command

if TYPE_CHECKING:
    import pyarrow as pa

    from krepes.sources import Source, TableSource

_BATCH_ROWS = 8192


@command
def transform(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write; its ending chooses .npy, .npz (array Z), .parquet or .csv.",
            show_default=False,
        ),
    ],
    keep: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN", help="Carry a column, such as an id, to a .parquet or .csv file. Repeatable."
        ),
    ] = [],  # noqa: B006  (typer copies it)
    array: options.Array = "X",
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Write the representation of every row of DATA, in the order of its rows.

    Rows are read, transformed and written in parts, so that the data may be larger than memory. For a folder \
of images a table also has the column [bold]file[/].

    [cyan]krepes transform people.krepes new_people.csv -o features.parquet --keep id[/]
    """
    from krepes.base.files import atomic_path, check_writable, readable_bytes
    from krepes.cli.data import check_exists, open_for
    from krepes.cli.describe import console
    from krepes.cli.writers import check_suffix, output_bytes, writing

    suffix = check_suffix(output, keep)
    check_exists(model)
    check_exists(data)
    check_writable(output, force)
    import numpy as np

    from krepes import load

    start = time.perf_counter()
    embedding = load(model, device=device)
    source = open_for(embedding, data, array)
    kept = _kept_columns(source, keep, suffix)
    n_columns, dtype = len(embedding.intercept_), np.dtype(embedding.dtype)
    check_writable(output, force, output_bytes(suffix, source.n_rows, n_columns, dtype.itemsize))
    embedding.verbose = 1
    with atomic_path(output, overwrite=force) as temporary:
        schema = None if kept is None else kept.schema
        with writing(temporary, suffix, source.n_rows, n_columns, dtype, schema) as writer:
            batches = embedding.iter_transform(source, batch_rows=_BATCH_ROWS)
            for Z, columns in zip(batches, _kept_batches(kept), strict=kept is not None):
                writer.write(Z, columns)
    size = readable_bytes(output.stat().st_size)
    console().print(
        f"Wrote {output}: {source.n_rows:,} rows × {n_columns:,} components, {size}, in "
        f"{time.perf_counter() - start:.1f} s.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _kept_columns(source: Source, keep: list[str], suffix: str) -> TableSource | None:
    """A table source of the columns to carry over; the file names for a folder of images."""
    from krepes.sources import TableSource
    from krepes.sources.image_folders import ImageFolderSource
    from krepes.sources.tables.frames import mapping_source

    if isinstance(source, TableSource):
        return source.select(keep) if keep else None
    if keep:
        raise ValueError(f"--keep {keep[0]}: {source.describe()} has no columns.")
    if isinstance(source, ImageFolderSource) and suffix in (".parquet", ".csv"):
        return mapping_source({"file": [file.relative_to(source.root).as_posix() for file in source.files]})
    return None


def _kept_batches(kept: TableSource | None) -> Iterator[pa.Table | None]:
    if kept is None:
        while True:
            yield None
    for _, batch in kept.batches(_BATCH_ROWS):
        yield batch
