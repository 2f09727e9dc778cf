"""`krepes detect`: write how novel rows are, and which of them are alarms."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from krepes.cli import options, result_files
from krepes.cli.command import command
from krepes.cli.options import option

if TYPE_CHECKING:
    import numpy as np

    from krepes.machines import NoveltyDetector

COLUMNS = [("score", "f8"), ("p_value", "f8"), ("alarm", "?")]


@command
def detect(
    model: options.Model,
    rows: options.Rows,
    result: result_files.ResultFolder,
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
    from krepes.cli.terminal import line
    from krepes.machines import NoveltyDetector
    from krepes.sources import open_source

    if rate is not None:
        check_share("rate", rate)
    detector = load_model(model, device, NoveltyDetector, made_by="train DATA --task detect -o MODEL")
    start = time.perf_counter()  # without the time to import torch
    detector.set_params(engine=result.engine)
    if rate is not None:
        detector.set_params(false_alarm_rate=rate)
    source = rows.open_for(detector)
    what = ["detection", detector.false_alarm_rate]
    counts: list[int] = []

    def counted(machine: NoveltyDetector, batch: Any) -> np.ndarray:
        records = _records(machine, batch)
        counts.append(int(records["alarm"].sum()))
        return records

    results = _records if result.is_folder else counted
    facts = result.write_records(detector, results, np.dtype(COLUMNS), source, what)
    written = open_source(result.output).label_column("alarm") if result.is_folder else counts
    alarms = int(np.sum(written))
    seconds = time.perf_counter() - start
    share = alarms / max(1, source.n_rows)
    chance = detector._solved().calibration.chance(alarms, source.n_rows, detector.false_alarm_rate)
    result.say(facts, "", seconds)
    line(f"{alarms:,} alarms, {100 * share:.1f} % of the rows. {_expected(detector, chance)}")
    return facts | {
        "columns": [name for name, _ in COLUMNS],
        "alarms": alarms,
        "alarm_rate": share,
        "false_alarm_rate": detector.false_alarm_rate,
        "attainable_rate": detector.attainable_rate_,
        "calibration_rows": detector.n_calibration_,
        "chance": chance,
        "seconds": seconds,
    }


def _records(detector: NoveltyDetector, rows: Any) -> np.ndarray:
    """Scores, p-values and alarms of some rows."""
    import numpy as np

    reading = next(iter(detector.monitor([rows])))
    columns = (reading.scores, reading.p_values, reading.alarms)
    return result_files.records_of(np.dtype(COLUMNS), columns)


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
