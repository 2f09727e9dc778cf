"""`krepes reconstruct`: write what a model has kept of every row, in the form of the data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from krepes.cli import options, result_files
from krepes.cli.command import command
from krepes.cli.options import option


@command
def reconstruct(
    model: options.Model,
    rows: options.Rows,
    result: result_files.ResultFile,
    learn_from: Annotated[
        Path | None, option("Learn the way back from these rows: more exact.", panel=options.DATA)
    ] = None,
    device: options.Device = "auto",
) -> dict[str, Any]:
    """Write what the representation has kept of every row of DATA: its columns or pixels, decoded again.

    Beside each row stand its [bold]error[/] (0 is exact, 1 as far as the mean row), the [bold]expected_error[/] and \
whether it is [bold]trusted[/]; an .npy file has the rows only. Noise that rows do not have in common is left out. \
MODEL may also be an autoencoder that was saved in Python; it gives the [bold]error[/] alone.

    [cyan]krepes reconstruct people.krepes new_people.csv -o rebuilt.parquet --keep id[/]
    """
    result.check()
    from krepes import KernelAutoencoder, KernelEmbedding
    from krepes.cli.opening import load_model
    from krepes.cli.reconstructions import Reconstructions
    from krepes.cli.terminal import line

    start = time.perf_counter()
    decoding = load_model(model, device, KernelEmbedding, KernelAutoencoder, made_by="fit")
    assert isinstance(decoding, KernelEmbedding | KernelAutoencoder)
    source = rows.open_for(decoding)
    found = Reconstructions(decoding, source, result.output)
    estimated = isinstance(decoding, KernelEmbedding)
    if learn_from is not None:
        if not isinstance(decoding, KernelEmbedding):
            raise ValueError(
                f"--learn-from {learn_from}: {model} is an autoencoder, whose decoder was learned in the fit. This "
                "option is for representations."
            )
        decoding.fit_inverse(rows.open_for(decoding, learn_from))
    facts = result.write(
        found.batches(result_files.BATCH_ROWS),
        source,
        found.shape,
        found.dtype,
        name="X",
        schema=found.schema,
        beside=found.figures,
    )
    figures, seconds = found.figures(), time.perf_counter() - start
    error = float(figures["error"].mean())
    doubtful = int((~figures["trusted"]).sum()) if estimated else None
    result.say(facts, "", seconds)
    line(
        f"Mean error {error:.3f} (0 is exact, 1 is the mean row)."
        + (f" {doubtful:,} of the rows cannot be trusted." if doubtful else "")
    )
    return facts | {
        "error": error,
        "expected_error": float(figures["expected_error"].mean()) if estimated else None,
        "not_trusted": doubtful,
        "seconds": seconds,
    }
