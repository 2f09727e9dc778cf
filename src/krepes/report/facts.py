"""Models and their parts in words: for pages, and for the command line."""

from __future__ import annotations

import inspect
from typing import Any

from krepes.base.components import Component
from krepes.embedding import KernelEmbedding
from krepes.kernels import Kernel, Reweighted
from krepes.machines import GaussianProcessRegressor, NoveltyDetector
from krepes.machines.gaussian_process.machine import GaussianProcess
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.labelled_machine import LabelledMachine
from krepes.machines.targets import Classes
from krepes.one_pass import OnePassEstimator
from krepes.preprocessing import InputSpace
from krepes.solvers import WORK

VIEWS_WITHOUT_NAME = {"NoViews": "none", "Paired": "given in pairs"}
LONGEST = 40  # characters of a parameter
SHOWN_CLASSES = 10


def component_words(part: Component, hidden: tuple[str, ...] = ()) -> str:
    """A kernel, loss, view or selector: its name, and the parameters that differ from their defaults.

    >>> from krepes.kernels import Gaussian
    >>> component_words(Gaussian(2.16956))
    'gaussian (lengthscale 2.17)'
    """
    name = getattr(part, "name", None)
    if name is None:
        return repr(part) if hasattr(part, "get_params") else type(part).__name__
    defaults = {key: p.default for key, p in inspect.signature(type(part)).parameters.items()}
    shown = [
        f"{key} {_short(value)}"
        for key, value in part.get_params(deep=False).items()
        if key not in hidden and (repr(value) != repr(defaults.get(key)) or _is_lengthscale(key, value))
    ]
    return f"{name} ({', '.join(shown)})" if shown else str(name)


def _is_lengthscale(key: str, value: object) -> bool:
    return key == "lengthscale" and isinstance(value, float)


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    text = str(value) if isinstance(value, str | int | bool) or value is None else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def input_words(space: InputSpace) -> str:
    """What a row is before the kernel sees it."""
    if space.encoder is not None:
        used, features = len(space.encoder.used_columns_), space.encoder.n_features_out_
        return f"table, {used:,} of {space.encoder.n_features_in_:,} columns used, {features:,} features"
    if space.kind == "images":
        channels = f" × {space.shape[2]} channels" if len(space.shape) > 2 else ", grey"
        return f"images, {space.shape[0]} × {space.shape[1]} pixels{channels}"
    return f"{space.kind}, {space.n_features:,} features" if space.n_features else space.kind


def views_words(model: KernelEmbedding) -> str:
    """The augmentation, and whether it was integrated or sampled."""
    if getattr(model.views_, "name", None) is None:
        return VIEWS_WITHOUT_NAME.get(type(model.views_).__name__, "none")
    how = "expectation in closed form" if model.exact_views_ else f"{model.views_.n_views} sampled per row"
    return f"{component_words(model.views_, hidden=('n_views',))}, {how}"


def steps_words(model: KernelEmbedding) -> str:
    """How far a fitted model's solver went, to be added to its name; nothing for closed forms."""
    if model.n_iter_ <= 1:
        return ""
    if model.solver_.data != "samples":
        return f", {model.n_iter_:,} iterations"
    earlier = model.best_epoch_ not in (None, model.n_iter_)
    return f", {model.n_iter_:,} epochs" + (f", epoch {model.best_epoch_:,} taken" if earlier else "")


def plain_kernel(machine: LabelledMachine[Any, Any] | NoveltyDetector) -> Kernel:
    """The kernel without its metric."""
    kernel = machine.kernel_
    return kernel.kernel if isinstance(kernel, Reweighted) and kernel.kernel is not None else kernel


def model_facts(model: OnePassEstimator) -> dict[str, str]:
    """What a fitted model is, line by line."""
    if isinstance(model, NoveltyDetector | LabelledMachine):
        return machine_facts(model)
    assert isinstance(model, KernelEmbedding)
    return embedding_facts(model)


def embedding_facts(model: KernelEmbedding) -> dict[str, str]:
    """What a fitted representation is, in the order in which it is shown."""
    chosen = model.landmarks if isinstance(model.landmarks, str) else component_words(model.landmarks)
    terms = ", ".join(f"{name} {value:.4g}" for name, value in loss_terms(model).items())
    return {
        "rows": f"{model.n_samples_seen_:,}",
        "input": input_words(model.input_space_),
        "kernel": component_words(model.kernel_),
        "landmarks": f"{len(model.landmarks_):,} ({chosen}), rank {model.rank_:,}",
        "views": views_words(model),
        "loss": component_words(model.loss_) + (f": {terms}" if terms else ""),
        "solver": component_words(model.solver_) + steps_words(model),
        "representation": f"{model.n_components_:,} components"
        + (", chosen from the data" if model.n_components == "auto" else ""),
    }


def loss_terms(model: KernelEmbedding) -> dict[str, float]:
    """The terms of the loss at the coefficients that were taken."""
    taken = model.history_[(model.best_epoch_ or 0) - 1] if model.history_ else {}
    return {name: value for name, value in taken.items() if name not in WORK or name == "held_out"}


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
        **_centres(machine, chosen),
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


def _centres(machine: LabelledMachine[Any, Any], chosen: str) -> dict[str, str]:
    """What rows are compared with: landmarks, the rows of cells, or both; and what was compared to choose that."""
    plan = machine.local_
    found = {"landmarks": f"{len(machine.landmarks_):,} ({chosen}), rank {machine.rank_:,}"}
    if plan is None:
        return found
    if plan.in_cells:
        cells = machine._solved().cells.partitions
        number = " and ".join(f"{part.tree.n_cells:,}" for part in cells)
        beside = found if plan.uses_landmarks else {}
        both = f", {plan.share:.2f} of the mean with landmarks"
        rest = {"cells": "", "mean of both": both}.get(plan.kind, ", on what landmarks leave over")
        found = beside | {"cells": f"{number} of up to {plan.size:,} rows{rest}"}
    errors = "; ".join(f"{kind} {error:.4f}" for kind, error in plan.errors.items())
    compared = {"compared": f"{errors} (squared errors of {plan.n_compared:,} rows left out)"}
    return found | compared if errors else found


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
