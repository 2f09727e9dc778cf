"""`krepes reconstruct`: write what a model has kept of every row, in the form of the data."""

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
def reconstruct(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path,
        option(
            "--output",
            "-o",
            "The file to write. Its ending sets the format: .parquet or .csv for columns, .npz (array X) or .npy for "
            "vectors and images.",
            metavar="FILE",
        ),
    ],
    place: Annotated[dict[str, Any], Parameters("KernelEmbedding", only=("device",))],
    learn_from: Annotated[
        Path | None,
        option(
            "Learn the way back from rows of this file, such as the training data, instead of from the landmarks: "
            "more exact.",
            metavar="FILE",
            panel=options.DATA,
        ),
    ] = None,
    keep: options.Keep = [],  # noqa: B006  (typer copies it)
    encoding: options.Encoding = None,
    array: options.Array = "X",
    threads: options.Threads = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Write what the representation has kept of every row of DATA: its columns or pixels, decoded again.

    Beside each row stand its [bold]error[/] (0 is exact, 1 as far as the mean row), the [bold]expected_error[/] and \
whether it is [bold]trusted[/]; an .npy file has the rows only. Noise that rows do not have in common is left out. \
MODEL may also be an autoencoder that was saved in Python; it gives the [bold]error[/] alone.

    [cyan]krepes reconstruct people.krepes new_people.csv -o rebuilt.parquet --keep id[/]
    """
    from krepes.base.files import check_writable, readable_bytes
    from krepes.cli.describe import line
    from krepes.cli.opening import check_exists, load_decoding, open_for
    from krepes.cli.outputs import check_result_file

    check_result_file(output, keep)
    check_exists(model, data, learn_from)
    check_writable(output, overwrite)
    from krepes.autoencoder import KernelAutoencoder
    from krepes.cli.reconstructions import Reconstructions
    from krepes.results import kept_columns, output_bytes, write_rows

    start = time.perf_counter()
    decoding = load_decoding(model, **place)
    source = open_for(decoding, data, array, encoding)
    kept = kept_columns(source, keep, output)
    found = Reconstructions(decoding, source, output)
    width = decoding.space_.width
    check_writable(output, overwrite, output_bytes(output, source.n_rows, width, found.dtype.itemsize))
    if learn_from is not None:
        if isinstance(decoding, KernelAutoencoder):
            raise ValueError(
                f"learn_from={learn_from}: {model} is an autoencoder, whose decoder was learned in the fit. "
                "This option is for representations."
            )
        decoding.fit_inverse(open_for(decoding, learn_from, array, encoding))
    write_rows(
        output,
        found.batches(_BATCH_ROWS),
        source.n_rows,
        found.shape,
        dtype=found.dtype,
        name="X",
        schema=found.schema,
        beside=found.figures,
        keep=kept,
        overwrite=overwrite,
    )
    figures, size = found.figures(), output.stat().st_size
    error = float(figures["error"].mean())
    estimated = not isinstance(decoding, KernelAutoencoder)
    doubtful = int((~figures["trusted"]).sum()) if estimated else 0
    seconds = time.perf_counter() - start
    line(
        f"Wrote {output}: {source.n_rows:,} rows, {readable_bytes(size)}, in {seconds:.1f} s. Mean error {error:.3f} "
        f"(0 is exact, 1 is the mean row)."
        + (f" {doubtful:,} of the rows cannot be trusted." if doubtful else "")
    )
    return {
        "output": str(output),
        "rows": source.n_rows,
        "error": error,
        "expected_error": float(figures["expected_error"].mean()) if estimated else None,
        "not_trusted": doubtful if estimated else None,
        "kept": [] if kept is None else kept.column_names,
        "bytes": size,
        "seconds": seconds,
    }
