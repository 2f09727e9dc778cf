"""`krepes predict`: write the predictions of a machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

_BATCH_ROWS = 8192


@command
def predict(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path,
        option(
            "--output",
            "-o",
            "The file to write. Its ending sets the format: .parquet, .csv, .npy or .npz (array prediction). A name "
            "without an ending is a folder of Parquet files, written part by part; after an interruption the same "
            "command goes on.",
            metavar="FILE",
        ),
    ],
    place: Annotated[dict[str, Any], Parameters("KernelRidgeClassifier", only=("device",))],
    proba: Annotated[
        bool, options.flag("--proba", "Also write the probability of each class, in columns p_CLASS.")
    ] = False,
    confidence: Annotated[
        float | None,
        option(
            "--confidence",
            "--interval",
            "Also write what the truth lies in with this probability: for a quantity an interval, in the columns low "
            "and high; for classes a set, in columns in_CLASS that say which classes belong to it.",
            metavar="SHARE",
        ),
    ] = None,
    std: Annotated[
        bool,
        options.flag(
            "--std",
            "Also write the standard deviation of the function, in the column std. Of a Gaussian process that predicts "
            "a quantity; --interval also counts the noise.",
        ),
    ] = False,
    keep: options.Keep = [],  # noqa: B006  (typer copies it)
    encoding: options.Encoding = None,
    array: options.Array = "X",
    threads: options.Threads = None,
    engine: options.Engine = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Write the prediction for every row of DATA, in the order of its rows.

    Rows are read, predicted and written in parts, so that the data may be larger than memory. DATA needs no label. \
In .npy and .npz files, more than the prediction makes an array of records.

    [cyan]krepes predict income.krepes new_people.csv -o predictions.parquet --keep id --proba[/]

    [cyan]krepes predict price.krepes houses.csv -o prices.csv --interval 0.9[/]

    [cyan]krepes predict income.krepes /shared/people/ -o /shared/predictions --engine tcp://host:8786[/]
    """
    from krepes.base.files import check_writable, readable_bytes
    from krepes.cli import folder_results
    from krepes.cli.describe import line
    from krepes.cli.opening import check_exists, load_predicting, open_for

    if confidence is not None and not 0 < confidence < 1:
        raise typer.BadParameter(
            f"--interval or --confidence {confidence:g}: expected a share between 0 and 1, such as 0.9."
        )
    folder_results.check_output(output, keep, overwrite, engine, needs_folder=True)
    check_exists(model, data)
    from krepes.cli.predictions import Predictions
    from krepes.results import kept_columns, output_bytes, write_rows

    start = time.perf_counter()
    machine = load_predicting(model, **place)
    wanted = Predictions(machine, proba, confidence, std)
    source = open_for(machine, data, array, encoding)
    kept = kept_columns(source, keep, output)
    dtype, names = wanted.dtype, list(wanted.dtype.names or ())
    facts = {
        "output": str(output),
        "rows": source.n_rows,
        "columns": names,
        "kept": [] if kept is None else kept.column_names,
    }
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    if folder_results.is_folder(output):
        machine.engine = engine
        alone = Predictions(machine.without_engine(), proba, confidence, std)
        written = folder_results.write_folder(
            output, machine, alone.of, source, kept, [proba, confidence, std], overwrite
        )
        seconds = time.perf_counter() - start
        folder_results.say_folder(written, output, f" ({shown})", seconds)
        return facts | {"seconds": seconds} | folder_results.folder_facts(written)
    needed = output_bytes(output, source.n_rows, len(names), dtype.itemsize // len(names) + 1)
    check_writable(output, overwrite, needed)
    write_rows(
        output,
        wanted.batches(source, _BATCH_ROWS),
        source.n_rows,
        None,
        dtype=dtype["prediction"] if wanted.plain else dtype,
        name="prediction",
        columns=names,
        keep=kept,
        overwrite=overwrite,
    )
    size, seconds = output.stat().st_size, time.perf_counter() - start
    line(f"Wrote {output}: {source.n_rows:,} rows ({shown}), {readable_bytes(size)}, in {seconds:.1f} s.")
    return facts | {"bytes": size, "seconds": seconds}
