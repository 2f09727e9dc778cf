"""`krepes evaluate` for a representation: what is measured beside it, the verdict and the curve of labels.

The representation, kernel PCA and raw features of the rows that a protocol needs are probed on the same draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.reporting import Bars, warn
from krepes.base.rows import count_rows, number_columns, take_rows
from krepes.cli.command import with_options
from krepes.cli.memory_needed import check_rows_memory, left_out_as_sparse
from krepes.cli.options import taken_words
from krepes.cli.terminal import console, line, show_table
from krepes.embedding import KernelEmbedding
from krepes.evaluation import (
    LabelCurve,
    Protocol,
    ProtocolResult,
    TaskGuess,
    Verdict,
    baseline_estimators,
    guess_task,
    plan_protocol,
    verdict,
)
from krepes.evaluation.budget import Budget
from krepes.evaluation.comparison.baselines import is_kernel_pca, same_kernel_pca
from krepes.evaluation.comparison.draws import Method, run_draws
from krepes.evaluation.comparison.label_curve import curve_of, usable_counts
from krepes.evaluation.comparison.prediction_scores import FLOORS
from krepes.evaluation.comparison.verdict import OURS, PCA, RAW
from krepes.evaluation.probe_result import NAMES
from krepes.evaluation.scoring import score_words
from krepes.labelled import LabelledRows
from krepes.sources import Rows, Source
from krepes.sources.row_subset import subset

if TYPE_CHECKING:
    from krepes.cli.commands.evaluate import Protocolled

_BATCH_ROWS = 16_384
SPREAD_COLUMNS = 4  # of the curve: with more counts, the deviations would not fit into 80 columns
PROBE_WORDS = {"linear": "linear probe", "knn": "nearest neighbours", "ridge": "ridge probe"}
PLURALS = {"accuracy": "accuracies", "balanced_accuracy": "balanced_accuracies"}
SCALED = ("kernel", "orthonormal")
Features = dict[str, np.ndarray]  # of the rows that a protocol needs, by what they are
Results = dict[str, ProtocolResult]


@dataclass(frozen=True)
class Evaluated:
    """Results by what was probed and how, the representation first; the verdict; the curve, where one was wanted."""

    results: Results
    verdict: Verdict
    curve: LabelCurve | None
    few: Verdict | None  # with the fewest labels of the curve
    notes: list[str]


def evaluate_embedding(
    model: KernelEmbedding, dataset: LabelledRows, wanted: Protocolled, seed: int
) -> tuple[dict[str, Any], LabelCurve | None]:
    """Measure a representation and what it is compared with, and print it; all of it for --json, and the curve."""
    _warn_of_feature(model, dataset)
    plan, guess = _planned(dataset, wanted, seed)
    what = "targets" if plan.task == "regression" else f"labels of {len(plan.labels.classes):,} classes"
    line(
        f"{dataset.describe()}. {plan.n_labels:,} {what} ({dataset.where}) to learn from, "
        f"{len(plan.draws[0][1]):,} rows to test on."
    )
    if guess is not None and not guess.plain:
        line(taken_words(plan.task, guess.why, guess), style="dim")
    found = _probe_all(model, dataset, plan, wanted, seed)
    _show_findings(found, dataset, model)
    told = asdict(found.verdict)
    told["differences"] = {
        other.name: {"mean": other.mean, "error": other.error} for other in found.verdict.differences
    }
    numbers = {
        "data": dataset.describe(),
        "labels": dataset.where,
        "task": plan.task,
        "classes": plan.labels.classes if plan.task == "classification" else None,
        "drawn": dataset.test is None,
        "notes": found.notes,
        "verdict": told,
        "results": _numbers_of(found),
    }
    return numbers, found.curve


def _planned(dataset: LabelledRows, wanted: Protocolled, seed: int) -> tuple[Protocol, TaskGuess | None]:
    """Which rows teach and test in every repeat, and what the labels were taken for."""
    name = f"The label {dataset.where}"
    guess = guess_task(dataset.y, name) if wanted.task == "auto" else None
    plan = plan_protocol(
        dataset.y,
        dataset.train,
        dataset.test,
        label_fraction=wanted.label_fraction,
        n_repeats=wanted.n_repeats,
        random_state=seed,
        name=name,
        task=wanted.task if guess is None else guess.name,
    )
    if plan.task == "regression" and wanted.knn:
        raise ValueError(
            "--knn is for classes; the target is a quantity. Leave it out, or say --task classification."
        )
    return plan, guess


def _warn_of_feature(model: KernelEmbedding, dataset: LabelledRows) -> None:
    """A label that the model has as a feature is easy to predict, and proves nothing."""
    encoder = model.input_space_.encoder
    used = [] if encoder is None else encoder.used_columns_
    column = next((name for name in used if dataset.where == f"column {name!r}"), None)
    if column is not None:
        warn(f"The column {column!r} is a feature of the model: fit without it (--label {column}).")


def _probe_all(
    model: KernelEmbedding, dataset: LabelledRows, plan: Protocol, wanted: Protocolled, seed: int
) -> Evaluated:
    """Everything that was asked for, on the same draws; the first probe judges."""
    counts = wanted.counts()
    if counts:
        usable_counts(counts, plan.n_labels)  # wrong numbers are seen before the work
    probes: dict[str, dict[str, Any]] = {"ridge": {}}
    if plan.task == "classification":
        probes = {"linear": {"classifier": wanted.classifier}} | ({"knn": {}} if wanted.knn else {})
    once, budget = plan.distinct(), Budget(wanted.budget)
    floor = once.floor(wanted.scoring)  # so is a scorer that does not fit
    features = _gather(model, dataset, plan.rows, wanted)
    judge = next(iter(probes))
    curve = None
    if counts:
        of_curve = budget.part(2)

        def run(smaller: Protocol) -> tuple[Results, list[str]]:
            parts = {name: Z[np.searchsorted(plan.rows, smaller.rows)] for name, Z in features.items()}
            return _measured(smaller, parts, {judge: probes[judge]}, wanted, of_curve)

        curve = curve_of(plan, counts, run, seed)
    results, notes = _measured(once, features, probes, wanted, budget)
    if (made := len(results[OURS].results)) < len(once.draws):
        floor = once.first(made).floor(wanted.scoring)
    few = None if curve is None else verdict(curve.at(curve.counts[0]))
    judged = {name: result for name, result in results.items() if ", " not in name}
    notes = [note for result in results.values() for note in result.notes] + notes
    notes += [] if curve is None else curve.notes
    named = {
        f"{name}, {PROBE_WORDS[judge]}" if name in (OURS, PCA, RAW) else name: r
        for name, r in results.items()
    }
    whole = named | {FLOORS[plan.task]: floor}
    return Evaluated(whole, verdict(judged, floor), curve, few, list(dict.fromkeys(notes)))


def _measured(
    plan: Protocol,
    features: Features,
    probes: dict[str, dict[str, Any]],
    wanted: Protocolled,
    budget: Budget,
) -> tuple[Results, list[str]]:
    """What the judging probe, the baselines and the other probes find, and notes on what was left out."""
    judge, *others = probes
    shown = {name: Z for name, Z in features.items() if name != RAW or not wanted.no_raw}
    methods = {name: Method(Z, judge, probes[judge]) for name, Z in shown.items()}
    if wanted.baselines and RAW in features:
        for name, estimator in baseline_estimators(plan.task, plan.n_labels).items():
            methods[name] = Method(features[RAW], "estimator", {"estimator": estimator})
    for probe in others:
        methods |= {
            f"{name}, {PROBE_WORDS[probe]}": Method(Z, probe, probes[probe]) for name, Z in shown.items()
        }
    with Bars().stage("Probing", len(methods) * len(plan.draws), unit="fits") as stage:

        def progress(name: str) -> None:
            stage.describe(f"Probing, {name}")
            stage.advance(1)

        return run_draws(plan, methods, budget, scoring=wanted.scoring, progress=progress, say=_say)


def _say(text: str) -> None:
    line(f"{text} More with --budget.", style="dim")


def _gather(model: KernelEmbedding, dataset: LabelledRows, rows: np.ndarray, wanted: Protocolled) -> Features:
    """The representation, kernel PCA, and the features before the kernel, of some rows of a data set."""
    space = model.space_
    raw = not wanted.no_raw or wanted.baselines
    pca = not wanted.no_pca and not is_kernel_pca(model)
    too_wide = left_out_as_sparse(space, len(rows)) if raw else None
    if too_wide is not None:
        line(too_wide, style="dim")
        raw = False
    width = len(model.intercept_) * (1 + pca) + (space.width if raw else 0)
    leave = [option for option, given in (("--no-raw", raw), ("--no-pca", pca)) if given]
    advice = "Use fewer labels (--label-fraction)" + (f", or {' and '.join(leave)}." if leave else ".")
    check_rows_memory(len(rows), width, advice)
    models = {OURS: model} | ({PCA: same_kernel_pca(model, _training(dataset), verbose=1)} if pca else {})
    found: dict[str, list[np.ndarray]] = {name: [] for name in (*models, *([RAW] if raw else []))}
    with Bars().stage("Transforming", len(rows)) as stage:
        for batch in wanted_rows(dataset.sources, rows):
            for name, fitted in models.items():
                found[name].append(fitted.transform(batch))
            if raw:
                found[RAW].append(number_columns(space.inputs.tensor(batch, space.dtype)))
            stage.advance(len(found[OURS][-1]))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _training(dataset: LabelledRows) -> Source:
    """The training rows, with a label or without; all rows where test rows are drawn at random."""
    source = dataset.sources[0]
    rows = None if dataset.train is None else np.flatnonzero(dataset.train[: source.n_rows])
    return source if rows is None or len(rows) == source.n_rows else subset(source, rows)


def wanted_rows(sources: list[Source], rows: np.ndarray) -> Iterator[Rows]:
    """The rows at sorted indices into all sources, in batches."""
    offset = 0
    for source in sources:
        here = rows[(rows >= offset) & (rows < offset + source.n_rows)] - offset
        offset += source.n_rows
        if source.random_access:
            for start in range(0, len(here), _BATCH_ROWS):
                yield source.take(here[start : start + _BATCH_ROWS])
            continue
        for first, batch in source.batches(_BATCH_ROWS):
            low, high = np.searchsorted(here, [first, first + count_rows(batch)])
            if low < high:
                yield take_rows(batch, here[low:high] - first)


def _show_findings(found: Evaluated, dataset: LabelledRows, model: KernelEmbedding) -> None:
    first = next(iter(found.results.values()))
    names = list(dict.fromkeys([first.metric, *first.results[0].metrics]))[:2]
    heads = [NAMES.get(name, name.replace("_", " ")) for name in names]  # which may be broken at spaces
    rows = [
        [name, *map(result.words, names), f"{result.seconds:.1f} s" if result.seconds else ""]
        for name, result in found.results.items()
    ]
    show_table(["", *heads, "time"], rows)
    several = f"Mean ± standard deviation over {len(first.results)} draws of the labels."
    once = "± is the standard error by the choice of test rows; all labels were used, once."
    line(f"{several if len(first.results) > 1 else once}\n", style="dim")
    _show_verdict(found.verdict)
    if found.curve is not None:
        _show_curve(found.curve, found.few)
    for note in found.notes:
        line(with_options(f"Note: {note}."), style="dim")
    if found.verdict.winner == OURS and model.scale in SCALED:
        line("The scale of the components matters: a StandardScaler behind the model undoes it.", style="dim")
    for hint in dataset.hints():
        line(with_options(hint), style="dim")


def _show_verdict(found: Verdict) -> None:
    console().print(found.text, markup=False, highlight=False, style="bold")
    if found.advice:
        console().print(with_options(found.advice), markup=False, highlight=False)


def _show_curve(curve: LabelCurve, few: Verdict | None) -> None:
    first = next(iter(curve.results.values()))[0]
    heads = [f"{count:,}" for count in curve.counts]
    score = NAMES.get(first.metric, first.metric.replace("_", " "))
    rows = []
    for name, results in curve.results.items():
        cells = (
            result.words() if len(heads) <= SPREAD_COLUMNS else score_words(result.metric, result.mean())
            for result in results
        )
        rows.append([name, *cells])
    line("\nBy the number of labels:")
    show_table([score, *heads], rows)
    if few is not None:
        text = few.text[:1].lower() + few.text[1:]
        _show_verdict(replace(few, text=f"With {curve.counts[0]:,} labels, {text}", advice=""))


def _numbers_of(found: Evaluated) -> dict[str, dict[str, Any]]:
    """The numbers of every repeat, by what was probed and how; the curve by the number of labels."""
    numbers = {name: _numbers(result) for name, result in found.results.items()}
    if found.curve is not None:
        for name, results in found.curve.results.items():
            entry = next(key for key in numbers if key == name or key.startswith(f"{name}, "))
            numbers[entry]["by_labels"] = {
                str(count): _numbers(result) for count, result in zip(found.curve.counts, results)
            }
    return numbers


def _numbers(result: ProtocolResult) -> dict[str, Any]:
    metrics = list(result.results[0].metrics)
    return {
        **{metric: result.mean(metric) for metric in metrics},
        **{PLURALS.get(metric, f"{metric}_values"): result.values(metric) for metric in metrics},
        "spread": {metric: result.spread(metric) for metric in metrics},
        "choices": [repeat.choice for repeat in result.results],
        "n_labels": result.n_labels,
        "n_test": result.n_test,
        "seconds": result.seconds,
    }
