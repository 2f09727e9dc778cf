"""Commands that write a result for every row: `krepes transform`, `reconstruct`, `predict`, `detect`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from krepes.cli import options, result_files
from krepes.cli.command import command, usage_errors
from krepes.cli.options import option
from krepes.cli.result_files import ResultFile, ResultFolder
from krepes.cli.terminal import line

if TYPE_CHECKING:
    import numpy as np

    from krepes.machines import NoveltyDetector

ALARM_COLUMNS = [("score", "f8"), ("p_value", "f8"), ("alarm", "?")]


@command
def transform(
    model: options.Model,
    rows: options.Rows,
    result: ResultFolder,
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
    return result.say(facts, start, f" × {width:,} components") | {"components": width}


@command
def reconstruct(
    model: options.Model,
    rows: options.Rows,
    result: ResultFile,
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
    from krepes.cli.work.reconstructions import Reconstructions

    start = time.perf_counter()
    decoding = load_model(model, device, KernelEmbedding, KernelAutoencoder, made_by="fit")
    assert isinstance(decoding, KernelEmbedding | KernelAutoencoder)
    source = rows.open_for(decoding)
    found = Reconstructions(decoding, source, result.output)
    if learn_from is not None:
        if not isinstance(decoding, KernelEmbedding):
            raise ValueError(
                f"--learn-from {learn_from}: {model} is an autoencoder, whose decoder was learned in the fit. This "
                "option is for representations."
            )
        decoding.fit_inverse(rows.open_for(decoding, learn_from))
    batches = found.batches(result_files.BATCH_ROWS)
    layout = {"name": "X", "schema": found.schema, "beside": found.figures}
    facts = result.write(batches, source, found.shape, found.dtype, **layout)
    facts = result.say(facts, start)
    figures = found.figures()
    means = {name: figures[name].mean() if name in figures else None for name in ("error", "expected_error")}
    doubtful = int((~figures["trusted"]).sum()) if "trusted" in figures else None
    distrust = f" {doubtful:,} of the rows cannot be trusted." if doubtful else ""
    line(f"Mean error {means['error']:.3f} (0 is exact, 1 is the mean row).{distrust}")
    return facts | means | {"not_trusted": doubtful}


@command
def predict(
    model: options.Model,
    rows: options.Rows,
    result: ResultFolder,
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
    result.check()
    from krepes.base.validation import check_share
    from krepes.cli.opening import load_model
    from krepes.cli.work.predictions import Predictions
    from krepes.machines.labelled_machine import LabelledMachine

    start = time.perf_counter()
    with usage_errors():
        if confidence is not None:
            check_share("confidence", confidence)
    machine = load_model(model, device, LabelledMachine, made_by="train DATA --label COLUMN -o MODEL")
    machine.set_params(engine=result.engine)
    asked = Predictions(proba, confidence, std)
    asked.check(machine)
    source, dtype = rows.open_for(machine), asked.dtype(machine)
    facts = result.write_records(machine, asked, dtype, source, ["prediction", proba, confidence, std])
    names = list(dtype.names or ())
    shown = f" ({', '.join(names[:6])}{', ...' if len(names) > 6 else ''})"
    return result.say(facts, start, shown) | {"columns": names}


@command
def detect(
    model: options.Model,
    rows: options.Rows,
    result: ResultFolder,
    rate: Annotated[
        float | None,
        option("--false-alarm-rate", "Normal rows that may be alarms. By default as in training."),
    ] = None,
    device: options.Device = "auto",
) -> dict[str, Any]:
    """Write for every row of DATA how normal it is (score), its p-value, and whether it is an alarm.

    The p-value is the share of normal rows that are at least as novel. An alarm is a p-value up to the false-alarm \
rate. Rows are read, scored and written in parts, so that the data may be larger than memory.

    \b[cyan]krepes train good_days.parquet --task detect -o pump.krepes[/]
    [cyan]krepes detect pump.krepes today.parquet -o alarms.parquet --keep time[/]
    """
    result.check()
    import numpy as np

    from krepes.base.validation import check_share
    from krepes.cli.opening import load_model
    from krepes.machines import NoveltyDetector
    from krepes.sources import open_source

    if rate is not None:
        check_share("rate", rate)
    detector = load_model(model, device, NoveltyDetector, made_by="train DATA --task detect -o MODEL")
    start = time.perf_counter()  # without the time to import torch
    detector.set_params(engine=result.engine)
    if rate is not None:
        detector.set_params(false_alarm_rate=rate)
    source, dtype = rows.open_for(detector), np.dtype(ALARM_COLUMNS)
    counts: list[int] = []

    def counted(machine: NoveltyDetector, batch: Any) -> np.ndarray:
        records = _alarms(machine, batch)
        counts.append(int(records["alarm"].sum()))
        return records

    results = _alarms if result.is_folder else counted
    facts = result.write_records(detector, results, dtype, source, ["detection", detector.false_alarm_rate])
    written = open_source(result.output).label_column("alarm") if result.is_folder else counts
    alarms = int(np.sum(written))
    share = alarms / max(1, source.n_rows)
    chance = detector._solved().calibration.chance(alarms, source.n_rows, detector.false_alarm_rate)
    facts = result.say(facts, start)
    line(f"{alarms:,} alarms, {100 * share:.1f} % of the rows. {_expected(detector, chance)}")
    return facts | {
        "columns": list(dtype.names or ()),
        "alarms": alarms,
        "alarm_rate": share,
        "false_alarm_rate": detector.false_alarm_rate,
        "attainable_rate": detector.attainable_rate_,
        "calibration_rows": detector.n_calibration_,
        "chance": chance,
    }


def _alarms(detector: NoveltyDetector, rows: Any) -> np.ndarray:
    """Scores, p-values and alarms of some rows, as records."""
    import numpy as np

    reading = next(iter(detector.monitor([rows])))
    columns = (reading.scores, reading.p_values, reading.alarms)
    return result_files.records_of(np.dtype(ALARM_COLUMNS), columns)


def _expected(detector: NoveltyDetector, chance: float) -> str:
    rate, n = detector.attainable_rate_, detector.n_calibration_
    if rate == 0:
        from krepes.machines.novelty.calibration import Calibration

        needed = Calibration.needed(detector.false_alarm_rate)
        return (
            f"With {n:,} calibration rows no alarm is possible at a rate of {100 * detector.false_alarm_rate:g} %, "
            f"which needs {needed:,}: train on more rows, or give a higher --false-alarm-rate. Scores still rank rows."
        )
    return (
        f"About {100 * rate:.1f} % of normal rows are alarms. If all rows were normal, this many or more would have "
        f"probability {chance:.2g}."
    )
