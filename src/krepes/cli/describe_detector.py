"""A novelty detector as a dictionary, for programs; `krepes.report.machine_card` has it in words, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from krepes.cli.describe import columns_summary, part_summary
from krepes.report.machine_card import detector_kernel
from krepes.report.words import input_words

if TYPE_CHECKING:
    from krepes.machines import NoveltyDetector


def detector_summary(machine: NoveltyDetector) -> dict[str, Any]:
    """The same for --json, unrounded."""
    encoder, (kernel, metric) = machine.input_space_.encoder, detector_kernel(machine)
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
