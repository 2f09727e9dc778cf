"""`krepes predict`: write the predictions of a machine."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from krepes.cli import options, result_files
from krepes.cli.command import command
from krepes.cli.options import option


@command
def predict(
    model: options.Model,
    rows: options.Rows,
    result: result_files.ResultFolder,
    proba: Annotated[bool, option("--proba", "Also the probability of each class, as p_CLASS.")] = False,
    confidence: Annotated[
        float | None,
        option(
            "--confidence", "--interval", "Also sets that hold the truth this often: low, high or in_CLASS."
        ),
    ] = None,
    std: Annotated[bool, option("--std", "Also the standard deviation, of a Gaussian process.")] = False,
    device: options.Device = "auto",
) -> dict[str, Any]:
    """Write the prediction for every row of DATA, in the order of its rows.

    Rows are read, predicted and written in parts, so that the data may be larger than memory. DATA needs no label. \
In .npy and .npz files, more than the prediction makes an array of records.

    \b[cyan]krepes predict income.krepes new_people.csv -o predictions.parquet --keep id --proba[/]
    [cyan]krepes predict price.krepes houses.csv -o prices.csv --interval 0.9[/]
    [cyan]krepes predict income.krepes /shared/people/ -o /shared/predictions --engine tcp://host:8786[/]
    """
    if confidence is not None and not 0 < confidence < 1:
        raise typer.BadParameter(
            f"--interval or --confidence {confidence:g}: expected a share between 0 and 1, such as 0.9."
        )
    result.check()
    from krepes.cli.opening import load_model
    from krepes.cli.predictions import Predictions
    from krepes.machines.labelled_machine import LabelledMachine

    start = time.perf_counter()
    machine = load_model(model, device, LabelledMachine, made_by="train DATA --label COLUMN -o MODEL")
    machine.set_params(engine=result.engine)
    asked = Predictions(proba, confidence, std)
    asked.check(machine)
    source, dtype = rows.open_for(machine), asked.dtype(machine)
    facts = result.write_records(machine, asked, dtype, source, ["prediction", proba, confidence, std])
    names = list(dtype.names or ())
    seconds = time.perf_counter() - start
    result.say(facts, f" ({', '.join(names[:6])}{', ...' if len(names) > 6 else ''})", seconds)
    return facts | {"columns": names, "seconds": seconds}
