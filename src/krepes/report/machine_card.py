"""What a machine is, line by line: for its page, and for the command line."""

from __future__ import annotations

from typing import Any

from krepes.kernels import Kernel, Reweighted
from krepes.machines import GaussianProcessRegressor, NoveltyDetector
from krepes.machines.gaussian_process.machine import GaussianProcess
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.labelled_machine import LabelledMachine
from krepes.machines.targets import Classes
from krepes.report.words import component_words, input_words

SHOWN_CLASSES = 10


def plain_kernel(machine: LabelledMachine[Any, Any] | NoveltyDetector) -> Kernel:
    """The kernel without its metric."""
    kernel = machine.kernel_
    return kernel.kernel if isinstance(kernel, Reweighted) and kernel.kernel is not None else kernel


def machine_facts(machine: LabelledMachine[Any, Any] | NoveltyDetector) -> dict[str, str]:
    """What a trained machine or detector is, in the order in which it is shown."""
    if isinstance(machine, NoveltyDetector):
        return _detector(machine)
    chosen = machine.landmarks if isinstance(machine.landmarks, str) else component_words(machine.landmarks)
    return {
        "rows": _rows(machine),
        "input": input_words(machine.input_space_),
        "predicts": _target(machine),
        "kernel": component_words(plain_kernel(machine)),
        "metric": metric_words(machine.metric_),
        **(_penalty(machine) if isinstance(machine, RidgeMachine) else {}),
        "landmarks": f"{len(machine.landmarks_):,} ({chosen}), rank {machine.rank_:,}",
        **({"held out": str(machine.held_out_score_)} if isinstance(machine, RidgeMachine) else {}),
        **(_variances(machine) if isinstance(machine, GaussianProcess) else {}),
    }


def _detector(machine: NoveltyDetector) -> dict[str, str]:
    kernel = plain_kernel(machine)
    metric = "" if kernel is machine.kernel_ else ", columns standardised"
    n, rate = machine.n_calibration_, machine.attainable_rate_
    alarms = f"{100 * rate:.2g} % of normal rows" if rate else f"none possible with {n:,} calibration rows"
    how = "as given" if machine.penalty != "auto" else "chosen"
    return {
        "rows": f"{machine.n_samples_seen_:,}, of which {n:,} calibrate",
        "input": input_words(machine.input_space_),
        "measure": machine.measure,
        "kernel": f"{component_words(kernel)}{metric}",
        "penalty": f"{machine.penalty_:.3g}, {how}",
        "landmarks": f"{len(machine.landmarks_):,}, rank {machine.rank_:,}",
        "false alarms": f"{alarms}, for a rate of {100 * machine.false_alarm_rate:g} %",
    }


def _penalty(machine: RidgeMachine) -> dict[str, str]:
    how = "as given" if machine.penalty != "auto" else f"the best by {machine.penalty_errors_.by}"
    return {"penalty": f"{machine.penalty_:.3g}, {how}"}


def _variances(machine: GaussianProcess) -> dict[str, str]:
    amplitude, evidence = f"{machine.amplitude_:.3g}", f"{machine.log_marginal_likelihood_:,.1f}"
    if not isinstance(machine, GaussianProcessRegressor):
        return {"amplitude": amplitude, "evidence": f"{evidence} (Laplace's approximation)"}
    return {
        "amplitude": f"{amplitude} of the variance of the target",
        "noise": f"{machine.noise_:.3g} of it",
        "evidence": evidence + ("" if machine.n_samples_seen_ <= len(machine.landmarks_) else " (a bound)"),
    }


def metric_words(metric: str | None) -> str:
    """
    >>> metric_words("diagonal 2")
    'learned: a weight for each column (diagonal, step 2)'
    """
    if metric is None or metric == "as given":
        return "columns as given"
    if metric == "standardised":
        return "columns standardised"
    kind, *step = metric.split()
    what = "a weight for each column" if kind == "diagonal" else "columns weighed and turned"
    return f"learned: {what} ({kind}{''.join(f', step {number}' for number in step)})"


def _rows(machine: LabelledMachine[Any, Any]) -> str:
    """How many rows were trained on."""
    used = seen = machine.n_samples_seen_
    if isinstance(machine, RidgeMachine) and machine.total_ is not None:
        used = machine.total_.kept.seen
    others = "" if used == seen else f" of {seen:,}, the others have no label or are for testing"
    return f"{used:,}{others}"


def _target(machine: LabelledMachine[Any, Any]) -> str:
    """What is predicted: the classes, or a quantity."""
    name = "" if machine.label_ is None else f"{machine.label_}: "
    if not isinstance(machine.targets_, Classes):
        return f"{name}a quantity"
    classes = [str(value) for value in machine.targets_.values]
    shown = ", ".join(classes[:SHOWN_CLASSES]) + (", ..." if len(classes) > SHOWN_CLASSES else "")
    return f"{name}{len(classes):,} classes ({shown})"
