"""A novelty detector in words, for people; and as a dictionary, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from krepes.cli.describe import columns_summary, input_words, part_summary
from krepes.kernels import Kernel, Reweighted
from krepes.report.model_card import words

if TYPE_CHECKING:
    from krepes.machines import NoveltyDetector


def detector_facts(machine: NoveltyDetector) -> dict[str, str]:
    """What a trained detector is, in the order in which it is shown."""
    kernel, metric = _kernel(machine)
    n, rate = machine.n_calibration_, machine.attainable_rate_
    alarms = f"{100 * rate:.2g} % of normal rows" if rate else f"none possible with {n:,} calibration rows"
    how = "as given" if machine.penalty != "auto" else "chosen"
    return {
        "rows": f"{machine.n_samples_seen_:,}, of which {n:,} calibrate",
        "input": input_words(machine.input_space_),
        "measure": machine.measure,
        "kernel": f"{words(kernel)}{metric}",
        "penalty": f"{machine.penalty_:.3g}, {how}",
        "landmarks": f"{len(machine.landmarks_):,}, rank {machine.rank_:,}",
        "false alarms": f"{alarms}, for a rate of {100 * machine.false_alarm_rate:g} %",
    }


def detector_summary(machine: NoveltyDetector) -> dict[str, Any]:
    """The same for --json, unrounded."""
    encoder, (kernel, metric) = machine.input_space_.encoder, _kernel(machine)
    return {
        "estimator": type(machine).__name__,
        "rows": machine.n_samples_seen_,
        "calibration_rows": machine.n_calibration_,
        "input": input_words(machine.input_space_),
        "measure": machine.measure,
        "kernel": part_summary(kernel),
        "standardised": bool(metric),
        "penalty": machine.penalty_,
        "false_alarm_rate": machine.false_alarm_rate,
        "attainable_rate": machine.attainable_rate_,
        "landmarks": {
            "number": len(machine.landmarks_),
            "rule": part_summary(machine.landmarks),
            "rank": machine.rank_,
        },
        "sums": machine.total_ is not None,
        "columns": None if encoder is None else columns_summary(encoder),
    }


def held_words(machine: NoveltyDetector) -> str:
    """Which rows of the data a file of this detector holds."""
    kept = 0 if machine.total_ is None or machine.total_.kept is None else len(machine.total_.kept.rows)
    others = f" and {kept:,} calibration rows" if kept else ""
    return (
        f"Its {len(machine.landmarks_):,} landmarks{others} are rows of the training data: share the file as you would "
        "the data."
    )


def _kernel(machine: NoveltyDetector) -> tuple[Kernel, str]:
    """The kernel without its metric, and the metric in words."""
    kernel = machine.kernel_
    if isinstance(kernel, Reweighted) and kernel.kernel is not None:
        return kernel.kernel, ", columns standardised"
    return kernel, ""
