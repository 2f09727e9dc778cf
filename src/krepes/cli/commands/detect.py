"""`krepes detect`: write how novel rows are, and which of them are alarms."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from krepes.cli import options, result_files
from krepes.cli.command import command
from krepes.cli.options import option

if TYPE_CHECKING:
    import numpy as np

    from krepes.machines import NoveltyDetector
    from krepes.machines.novelty.monitoring import Reading
    from krepes.sources import Source

COLUMNS = ["score", "p_value", "alarm"]


@command
def detect(
    model: options.Model,
    rows: options.Rows,
    result: result_files.ResultFolder,
    rate: Annotated[
        float | None,
        option(
            "--false-alarm-rate",
            "Share of normal rows that may be alarms. By default that of the training.",
            metavar="SHARE",
        ),
    ] = None,
    device: options.Device = "auto",
) -> dict[str, Any]:
    """Write for every row of DATA how normal it is (score), its p-value, and whether it is an alarm.

    The p-value is the share of normal rows that are at least as novel. An alarm is a p-value up to the false-alarm \
rate. Rows are read, scored and written in parts, so that the data may be larger than memory.

    [cyan]krepes train good_days.parquet --task detect -o pump.krepes[/]

    [cyan]krepes detect pump.krepes today.parquet -o alarms.parquet --keep time[/]
    """
    result.check()
    from krepes.base.limits import check_share
    from krepes.cli.opening import load_model
    from krepes.cli.terminal import line
    from krepes.machines import NoveltyDetector

    if rate is not None:
        check_share("rate", rate)
    detector = load_model(model, device, NoveltyDetector, made_by="train DATA --task detect -o MODEL")
    start = time.perf_counter()  # without the time to import torch
    detector.set_params(engine=result.engine)
    if rate is not None:
        detector.set_params(false_alarm_rate=rate)
    source = rows.open_for(detector)
    counted = _Counted(detector)
    if result.is_folder:
        alone = _Counted(detector.without_engine())
        facts = result.write_folder(detector, alone.of, source, ["detect", detector.false_alarm_rate])
        counted.alarms = _alarms_in(result.output)
    else:
        facts = result.write(
            counted.batches(source), source, None, counted.dtype, name="detection", columns=COLUMNS
        )
    seconds = time.perf_counter() - start
    share, chance = counted.alarms / max(1, source.n_rows), counted.chance(source.n_rows)
    result.say(facts, "", seconds)
    line(f"{counted.alarms:,} alarms, {100 * share:.1f} % of the rows. {_expected(detector, chance)}")
    return facts | {
        "columns": COLUMNS,
        "alarms": counted.alarms,
        "alarm_rate": share,
        "false_alarm_rate": detector.false_alarm_rate,
        "attainable_rate": detector.attainable_rate_,
        "calibration_rows": detector.n_calibration_,
        "chance": chance,
        "seconds": seconds,
    }


class _Counted:
    """Records of scores, p-values and alarms; the alarms are counted."""

    def __init__(self, detector: NoveltyDetector):
        import numpy as np

        self.detector, self.alarms = detector, 0
        self.dtype = np.dtype([("score", np.float64), ("p_value", np.float64), ("alarm", np.bool_)])

    def batches(self, source: Source) -> Iterator[np.ndarray]:
        """Records of all rows, in parts."""
        from krepes.base.progress import Bars

        with Bars().stage("Detecting", source.n_rows) as stage:
            parts = (batch for _, batch in source.batches(result_files.BATCH_ROWS))
            for reading in self.detector.monitor(parts):
                self.alarms = reading.n_alarms
                yield self._records(reading)
                stage.advance(len(reading.scores))

    def of(self, rows: Source) -> np.ndarray:
        """The records of some rows."""
        return self._records(next(iter(self.detector.monitor([rows]))))

    def _records(self, reading: Reading) -> np.ndarray:
        import numpy as np

        records = np.empty(len(reading.scores), dtype=self.dtype)
        for name, column in zip(COLUMNS, (reading.scores, reading.p_values, reading.alarms)):
            records[name] = column
        return records

    def chance(self, n_rows: int) -> float:
        """P(at least this many alarms among n normal rows)."""
        detector = self.detector
        return detector._solved().calibration.chance(self.alarms, n_rows, detector.false_alarm_rate)


def _alarms_in(folder: Path) -> int:
    from krepes.sources import open_source

    return int(open_source(folder).label_column("alarm").sum())


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
