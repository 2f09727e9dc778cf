"""What a kernel ridge machine is, line by line: for its page, and for the command line."""

from __future__ import annotations

from krepes.kernels import Kernel, Reweighted
from krepes.machines import KernelRidgeClassifier
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.report.model_card import input_words, words

SHOWN_CLASSES = 10


def plain_kernel(machine: RidgeMachine) -> Kernel:
    """The kernel without its metric."""
    kernel = machine.kernel_
    return kernel.kernel if isinstance(kernel, Reweighted) and kernel.kernel is not None else kernel


def machine_facts(machine: RidgeMachine) -> dict[str, str]:
    """What a trained machine is, in the order in which it is shown."""
    chosen = machine.landmarks if isinstance(machine.landmarks, str) else words(machine.landmarks)
    how = "as given" if machine.penalty != "auto" else f"the best by {machine.penalty_errors_.by}"
    return {
        "rows": _rows(machine),
        "input": input_words(machine.input_space_),
        "predicts": _target(machine),
        "kernel": words(plain_kernel(machine)),
        "metric": metric_words(machine.metric_),
        "penalty": f"{machine.penalty_:.3g}, {how}",
        "landmarks": f"{len(machine.landmarks_):,} ({chosen}), rank {machine.rank_:,}",
        "held out": str(machine.held_out_score_),
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
    kind, step = metric.split()
    what = "a weight for each column" if kind == "diagonal" else "columns weighed and turned"
    return f"learned: {what} ({kind}, step {step})"


def _rows(machine: RidgeMachine) -> str:
    """How many rows were trained on."""
    seen = machine.n_samples_seen_
    used = seen if machine.total_ is None else machine.total_.kept.seen
    return (
        f"{seen:,}" if used == seen else f"{used:,} of {seen:,}, the others have no label or are for testing"
    )


def _target(machine: RidgeMachine) -> str:
    """What is predicted: the classes, or a quantity."""
    name = "" if machine.label_ is None else f"{machine.label_}: "
    if not isinstance(machine, KernelRidgeClassifier):
        return f"{name}a quantity"
    classes = [str(value) for value in machine.classes_]
    shown = ", ".join(classes[:SHOWN_CLASSES]) + (", ..." if len(classes) > SHOWN_CLASSES else "")
    return f"{name}{len(classes):,} classes ({shown})"
