"""What `krepes evaluate` prints: the table, the verdict, the curve; and the same numbers for programs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from krepes.cli.command import with_options
from krepes.cli.options import taken_words
from krepes.cli.terminal import console, line, table
from krepes.evaluation.comparison.verdict import OURS
from krepes.evaluation.probe_result import NAMES
from krepes.evaluation.scoring import score_words

if TYPE_CHECKING:
    from krepes.cli.probing import Evaluated
    from krepes.embedding import KernelEmbedding
    from krepes.evaluation import LabelCurve, Protocol, ProtocolResult, TaskGuess, Verdict
    from krepes.labelled import LabelledRows

SPREAD_COLUMNS = 4  # of the curve: with more counts, the deviations would not fit into 80 columns
PLURALS = {"accuracy": "accuracies", "balanced_accuracy": "balanced_accuracies"}
SCALED = ("kernel", "orthonormal")


def show_data(dataset: LabelledRows, plan: Protocol, guess: TaskGuess | None) -> None:
    """What there is to learn from, and what the target was taken for."""
    what = "targets" if plan.task == "regression" else f"labels of {len(plan.labels.classes):,} classes"
    line(
        f"{dataset.describe()}. {plan.n_labels:,} {what} ({dataset.where}) to learn from, "
        f"{len(plan.draws[0][1]):,} rows to test on."
    )
    if guess is not None and not guess.plain:
        line(taken_words(plan.task, guess.why, guess), style="dim")


def show_findings(found: Evaluated, dataset: LabelledRows, model: KernelEmbedding) -> None:
    first = next(iter(found.results.values()))
    names = list(dict.fromkeys([first.metric, *first.results[0].metrics]))[:2]
    heads = [NAMES.get(name, name.replace("_", " ")) for name in names]  # which may be broken at spaces
    shown = table("", *heads, "time", right=(*heads, "time"))
    shown.columns[0].no_wrap = True
    for name, result in found.results.items():
        cells = [result.words(metric) for metric in names]
        shown.add_row(name, *cells, f"{result.seconds:.1f} s" if result.seconds else "")
    console().print(shown)
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
    shown = table(score, *heads, right=heads)
    for name, results in curve.results.items():
        cells = (
            result.words() if len(heads) <= SPREAD_COLUMNS else score_words(result.metric, result.mean())
            for result in results
        )
        shown.add_row(name, *cells)
    line("\nBy the number of labels:")
    console().print(shown)
    if few is not None:
        text = few.text[:1].lower() + few.text[1:]
        _show_verdict(replace(few, text=f"With {curve.counts[0]:,} labels, {text}", advice=""))


def numbers_of(found: Evaluated) -> dict[str, dict[str, Any]]:
    """All numbers of every repeat, by what was probed and how; of the curve also by the number of labels."""
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


def verdict_numbers(found: Verdict) -> dict[str, Any]:
    """A verdict for programs."""
    differences = {other.name: {"mean": other.mean, "error": other.error} for other in found.differences}
    about = {"text": found.text, "advice": found.advice, "winner": found.winner}
    return about | {"differences": differences}
