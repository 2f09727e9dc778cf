"""What `krepes tune` shows while it runs, and proposes at the end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krepes.base.reporting import Bars
from krepes.base.validation import is_number
from krepes.cli.command import words_of
from krepes.cli.parameters import parsed
from krepes.cli.terminal import line, say, show_next, show_table
from krepes.evaluation.budget import Budget

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from krepes.evaluation import Search, SearchResult

SHOWN_TRIALS = 10


def introduce(search: Search, n_trials: int, study: Path | None) -> None:
    """What is going to happen."""
    names = ", ".join(f"{name} ({range_words(spec)})" for name, spec in search.space.varied.items())
    once, often = "One pass over the data serves all trials.", "Every trial goes through the data."
    line(f"{search.split.describe()}.\nSearched: {names}.\n{once if search.one_pass else often}")
    done = len(search.result.trials)
    if study is not None and done:
        line(f"{study} has {done} trials already; {max(0, n_trials - done)} to go.")


def range_words(spec: BaseDistribution) -> str:
    given: Any = spec
    if hasattr(spec, "choices"):
        return ", ".join(map(str, given.choices))
    return f"{given.low:g} to {given.high:g}" + ("" if given.log else ", linear")


def run_with_progress(search: Search, n_trials: int, seconds: float) -> SearchResult:
    """Trials as far as the seconds reach, with a bar that says which is the best so far, and what is left out."""
    done, budget = len(search.result.trials), Budget(seconds)
    missing = max(0, n_trials - done)
    if missing:
        search.prepare()
    with Bars().stage(f"Trials, {seconds:g} s at most", missing, unit="trials") as stage:

        def told(result: SearchResult) -> None:
            stage.describe(f"Trials, {best_words(result)}")
            stage.advance(1)
            first = len(result.trials) == done + 1
            took = result.trials[-1].user_attrs["seconds"]
            if first and (text := budget.forecast("trial", took, missing)):
                line(f"{text} More with --budget.", style="dim")

        result = search.run(n_trials, told, budget)
    if (made := len(result.trials)) < n_trials:
        line(f"{made} of {n_trials} trials were made, to keep {budget.words()}.", style="dim")
    return result


def best_words(result: SearchResult) -> str:
    """The best trial so far."""
    if not result.ranked:
        return "all failed so far"
    return f"best {100 * result.best_value:.1f} % in trial {result.best_trial.number + 1}"


def show_result(result: SearchResult, command: FitCommand, width: int | str) -> dict[str, Any]:
    """The best trials, those that failed, and what to do next; also as a dictionary."""
    best = recommended(result, width)
    _show_trials(result, best, width)
    if result.failed:
        line(f"{len(result.failed)} of {len(result.trials)} trials failed: {result.failures()}", style="dim")
    for note in best.user_attrs["notes"]:
        say(note, prefix="Warning: ", style="bold yellow")
    first = result.best_trial
    if best is not first:
        lead = 100 * ((first.value or 0) - (best.value or 0))
        line(
            f"Recommended: trial {best.number + 1}, which keeps all {width} components. Trial {first.number + 1} "
            f"leaves {_width(first)} of them and did better by {lead:.1f} points, which may be chance."
        )
    elif not _keeps_all(best, width):
        asked = best.params.get("n_components", width)
        line(
            f"Trial {best.number + 1} leaves {_width(best)} of {asked} components: no trial that keeps all did as well."
        )
    line("Labels chose these parameters: measure the result on rows that took no part.", style="dim")
    following = show_next(*command.words(result.fixed | best.params))
    return {
        "metric": result.metric,
        "recommended": best.number + 1,
        "best": first.number + 1,
        "parameters": result.fixed | best.params,
        "trials": [
            {"number": trial.number + 1, "params": trial.params, "value": trial.value} | trial.user_attrs
            for trial in result.trials
        ],
        "next": following,
    }


def _show_trials(result: SearchResult, best: FrozenTrial, width: int | str) -> None:
    names = list(best.params)
    cut = not all(_keeps_all(trial, width) for trial in result.ranked)
    columns = ("trial", result.metric.replace("_", " "), *names, *(("components",) if cut else ()), "time")
    rows = []
    for trial in result.ranked[:SHOWN_TRIALS]:
        deviation = trial.user_attrs["scores"]["deviation"]
        values = [trial.params[name] for name in names] + ([_width(trial)] if cut else [])
        score = f"{100 * (trial.value or 0):.1f}{f' ± {100 * deviation:.1f}' if deviation else ''} %"
        cells = (f"{value:g}" if is_number(value) else str(value) for value in values)
        rows.append([str(trial.number + 1), score, *cells, f"{trial.user_attrs['seconds']:.1f} s"])
    show_table(columns, rows, style=lambda row: "bold green" if row[0] == str(best.number + 1) else "")
    hidden = len(result.ranked) - SHOWN_TRIALS
    if hidden > 0:
        line(f"and {hidden} that did worse.", style="dim")


def recommended(result: SearchResult, width: int | str) -> FrozenTrial:
    """The best trial; or, where it cuts components, the best that keeps all and is not worse than chance explains.

    "Chance" is the deviation of the best trial between its draws of labels.
    """
    first = result.best_trial
    if _keeps_all(first, width):
        return first
    low = (first.value or 0) - first.user_attrs["scores"]["deviation"]
    whole = (trial for trial in result.ranked if _keeps_all(trial, width) and (trial.value or 0) >= low)
    return next(whole, first)


def _keeps_all(trial: FrozenTrial, width: int | str) -> bool:
    asked = trial.params.get("n_components", width)
    return asked == "auto" or _width(trial) == asked


def _width(trial: FrozenTrial) -> int:
    """Components that were left in a trial."""
    return int(trial.user_attrs["scores"]["n_components"])


@dataclass(frozen=True)
class FitCommand:
    """`krepes fit` with the options that were searched from, and parameters that the search has `settled`."""

    data: Path
    options: dict[str, Any]
    settled: dict[str, Any]

    def words(self, best: dict[str, Any]) -> list[str]:
        """The command for what was found, ready to paste."""
        found = [f"{name}={_as_text(value)}" for name, value in (self.settled | best).items()]
        given = words_of(self.options) + words_of({"--set": found})
        return ["fit", str(self.data), *given, "-o", f"{self.data.stem or 'model'}.krepes"]


def _as_text(value: object) -> str:
    """A value as `--set` reads it."""
    return value if isinstance(value, str) and parsed(value) is value else json.dumps(value)
