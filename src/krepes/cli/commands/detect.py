"""`krepes detect`: write how novel rows are, and which of them are alarms."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

if TYPE_CHECKING:
    import numpy as np

    from krepes.machines import NoveltyDetector
    from krepes.machines.novelty.monitoring import Reading
    from krepes.sources import Source

_BATCH_ROWS = 8192
_COLUMNS = ("score", "p_value", "alarm")


@command
def detect(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path,
        option(
            "--output",
            "-o",
            "The file to write. Its ending sets the format: .parquet, .csv, .npy or .npz (array detection). A name "
            "without an ending is a folder of Parquet files, written part by part; after an interruption the same "
            "command goes on.",
            metavar="FILE",
        ),
    ],
    place: Annotated[dict[str, Any], Parameters("NoveltyDetector", only=("device",))],
    rate: Annotated[
        float | None,
        option(
            "--false-alarm-rate",
            "The share of normal rows that may be alarms. By default the one the detector was trained with.",
            metavar="SHARE",
        ),
    ] = None,
    keep: options.Keep = [],  # noqa: B006  (typer copies it)
    encoding: options.Encoding = None,
    array: options.Array = "X",
    threads: options.Threads = None,
    engine: options.Engine = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Write for every row of DATA how normal it is (score), its p-value, and whether it is an alarm.

    The p-value is the share of normal rows that are at least as novel. An alarm is a p-value up to the false-alarm \
rate. Rows are read, scored and written in parts, so that the data may be larger than memory.

    [cyan]krepes train good_days.parquet --task detect -o pump.krepes[/]

    [cyan]krepes detect pump.krepes today.parquet -o alarms.parquet --keep time[/]
    """
    from krepes.base.files import check_writable, readable_bytes
    from krepes.base.limits import check_share
    from krepes.cli import folder_results
    from krepes.cli.describe import line
    from krepes.cli.opening import check_exists, load_detector, open_for

    if rate is not None:
        check_share("rate", rate)
    folder_results.check_output(output, keep, overwrite, engine, needs_folder=True)
    check_exists(model, data)
    from krepes.results import kept_columns, output_bytes, write_rows

    detector = load_detector(model, **place)
    start = time.perf_counter()  # without the time to import torch
    if rate is not None:
        detector.set_params(false_alarm_rate=rate)
    source = open_for(detector, data, array, encoding)
    kept = kept_columns(source, keep, output)
    counted, more = _Counted(detector), {}
    if folder_results.is_folder(output):
        detector.engine = engine
        results = _Counted(detector.without_engine()).of
        what = ["detect", detector.false_alarm_rate]
        written = folder_results.write_folder(output, detector, results, source, kept, what, overwrite)
        size, more = written.n_bytes, folder_results.folder_facts(written)
        counted.alarms = _alarms_in(output)
    else:
        check_writable(output, overwrite, output_bytes(output, source.n_rows, len(_COLUMNS), 8))
        write_rows(
            output,
            counted.batches(source),
            source.n_rows,
            None,
            dtype=counted.dtype,
            name="detection",
            columns=list(_COLUMNS),
            keep=kept,
            overwrite=overwrite,
        )
        size = output.stat().st_size
    seconds = time.perf_counter() - start
    share = counted.alarms / max(1, source.n_rows)
    chance = counted.chance(source.n_rows)
    line(f"Wrote {output}: {source.n_rows:,} rows, {readable_bytes(size)}, in {seconds:.1f} s.")
    line(f"{counted.alarms:,} alarms, {100 * share:.1f} % of the rows. {_expected(detector, chance)}")
    return {
        "output": str(output),
        "rows": source.n_rows,
        "columns": list(_COLUMNS),
        "kept": [] if kept is None else kept.column_names,
        "alarms": counted.alarms,
        "alarm_rate": share,
        "false_alarm_rate": detector.false_alarm_rate,
        "attainable_rate": detector.attainable_rate_,
        "calibration_rows": detector.n_calibration_,
        "chance": chance,
        "bytes": size,
        "seconds": seconds,
    } | more


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
            parts = (batch for _, batch in source.batches(_BATCH_ROWS))
            for reading in self.detector.monitor(parts):
                records = self._records(reading)
                self.alarms = reading.n_alarms
                yield records
                stage.advance(len(records))

    def of(self, rows: Source) -> np.ndarray:
        """The records of some rows."""
        return self._records(next(iter(self.detector.monitor([rows]))))

    def _records(self, reading: Reading) -> np.ndarray:
        import numpy as np

        records = np.empty(len(reading.scores), dtype=self.dtype)
        for name, column in zip(_COLUMNS, (reading.scores, reading.p_values, reading.alarms)):
            records[name] = column
        return records

    def chance(self, n_rows: int) -> float:
        """Of at least so many alarms among normal rows."""
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
