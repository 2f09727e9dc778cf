"""A model in words and tables, for people; and as a dictionary, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from krepes.cli.terminal import show_table
from krepes.embedding import KernelEmbedding
from krepes.machines import GaussianProcessClassifier, NoveltyDetector
from krepes.machines.gaussian_process.machine import GaussianProcess
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.labelled_machine import LabelledMachine
from krepes.report.facts import input_words, loss_terms, plain_kernel

if TYPE_CHECKING:
    from krepes.one_pass import OnePassEstimator
    from krepes.preprocessing import TableEncoder

SHOWN_COLUMNS = 60
LONGEST_CELL = 24
STYLES = {"left out": "dim", "label": "green", "excluded": "dim"}  # of columns, by their role
SHARE_IT = "of the training data: share the file as you would the data."


def summary_of(model: OnePassEstimator) -> dict[str, Any]:
    """What a fitted model is, for --json: what `model_facts` says, unrounded."""
    encoder = model.input_space_.encoder
    landmarks = {"number": len(model.landmarks_), "rule": part(model.landmarks), "rank": model.rank_}
    shared = {
        "estimator": type(model).__name__,
        "rows": model.n_samples_seen_,
        "input": input_words(model.input_space_),
        "kernel": part(model.kernel_),
        "landmarks": landmarks,
        "columns": None if encoder is None else columns(encoder),
    }
    if isinstance(model, NoveltyDetector):
        return shared | _detector(model)
    if isinstance(model, LabelledMachine):
        return shared | _machine(model)
    assert isinstance(model, KernelEmbedding)
    return shared | _embedding(model)


def _embedding(model: KernelEmbedding) -> dict[str, Any]:
    steps = {"iterations": model.n_iter_, "epoch_taken": model.best_epoch_}
    return {
        "views": part(model.views_) | {"exact": model.exact_views_},
        "loss": part(model.loss_) | {"terms": loss_terms(model)},
        "solver": part(model.solver_) | steps,
        "components": model.n_components_,
        "moments": model.moments_ is not None,
        "folds": model.space_.n_folds,
    }


def _machine(machine: LabelledMachine[Any, Any]) -> dict[str, Any]:
    found = {
        "label": machine.label_,
        "classes": getattr(machine.targets_, "values", None),
        "kernel": part(plain_kernel(machine)),
        "metric": machine.metric_,
        "sums": machine.total_ is not None,
    }
    if isinstance(machine, RidgeMachine):
        errors, score = machine.penalty_errors_, asdict(machine.held_out_score_)
        found |= {"penalty": machine.penalty_, "penalty_by": errors.by, "held_out": score}
        plan = machine.local_
        found["local"] = (
            None if plan is None else {"kind": plan.kind, "errors": plan.errors, "size": plan.size}
        )
    if isinstance(machine, GaussianProcess):
        found |= {"amplitude": machine.amplitude_, "noise": getattr(machine, "noise_", None)}
        found |= {"log_marginal_likelihood": machine.log_marginal_likelihood_}
    return found


def _detector(machine: NoveltyDetector) -> dict[str, Any]:
    kernel = plain_kernel(machine)
    return {
        "calibration_rows": machine.n_calibration_,
        "measure": machine.measure,
        "kernel": part(kernel),
        "standardised": kernel is not machine.kernel_,
        "penalty": machine.penalty_,
        "false_alarm_rate": machine.false_alarm_rate,
        "attainable_rate": machine.attainable_rate_,
        "sums": machine.total_ is not None,
    }


def part(given: object) -> dict[str, Any]:
    """A component's name and parameters; objects among them by what they print."""
    if isinstance(given, str):
        return {"name": given}
    params = given.get_params(deep=False) if hasattr(given, "get_params") else {}
    return {"name": getattr(given, "name", None) or type(given).__name__, "parameters": params}


def held_words(model: OnePassEstimator) -> str:
    """Which rows of the data a file of this model holds."""
    if isinstance(model, LabelledMachine) and model._cell_plan is not None:
        centres = model._solved().cells.inputs
        held = f"all its {model.n_samples_seen_:,}" if centres is None else f"{len(centres):,} of its"
        return f"It holds {held} rows {SHARE_IT}"
    rows = getattr(model.total_, "kept", None)
    kept = 0 if rows is None else len(rows.rows)
    what = "calibration" if isinstance(model, NoveltyDetector) else "kept"
    others = f" and {kept:,} {what} rows" if kept else ""
    return f"Its {len(model.landmarks_):,} landmarks{others} are rows {SHARE_IT}"


def ability_words(model: OnePassEstimator) -> str:
    """What can be done with a model, by what its file holds."""
    if isinstance(model, KernelEmbedding):
        if model.moments_ is not None:
            return "With moments: it can be refitted with another loss or width, continued and merged."
        why = "Trained on samples" if model.solver_.data == "samples" else "Without moments"
        return f"{why}: it transforms, but cannot be refitted, continued or merged."
    if isinstance(model, GaussianProcessClassifier):
        return "It predicts; it reads the rows several times, and cannot be continued or merged."
    if model.total_ is None:
        does = "detects" if isinstance(model, NoveltyDetector) else "predicts"
        return f"Without sums: it {does}, but cannot be continued or merged."
    forgets = isinstance(model, RidgeMachine)
    return f"With sums: it can be continued{', merged, and forget rows' if forgets else ' and merged'}."


# Columns of a table


def show_columns(encoder: TableEncoder | None, limit: int | None = SHOWN_COLUMNS) -> None:
    """Print how every column of a table is used, before a long pass begins; of other rows, nothing."""
    if encoder is None:
        return
    examples, roles = encoder.examples_, encoder.describe()  # an encoder from a file has no examples
    heads = ["column", "role", "features", *(["example"] if examples else []), ""]
    rows = []
    for column, role, detail, n_outputs in roles[:limit]:
        example = [_shortened(examples.get(column, ""))] if examples else []
        rows.append([column, role, str(n_outputs) if n_outputs else "", *example, detail])
    if limit is not None and len(roles) > limit:
        rows.append([f"... and {len(roles) - limit:,} more (krepes info MODEL --verbose)"])
    show_table(heads, rows, left=("role", "example"), style=lambda row: STYLES.get("".join(row[1:2]), ""))


def columns(encoder: TableEncoder) -> list[dict[str, Any]]:
    """The role of every column of a table, with the numbers of its encoding, for --json."""
    known = {column.name: column for column in [*encoder.columns_, *encoder.left_out_]}
    return [known[name].facts() for name in encoder.input_columns_]


def _shortened(cell: str) -> str:
    """A cell in a few characters.

    >>> _shortened("2023-04-17 12:00:00+00:00 or so")
    '2023-04-17 12:00:00+00:…'
    """
    text = " ".join(cell.split())
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"
