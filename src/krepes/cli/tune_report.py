"""What `krepes tune` shows while it runs, and proposes at the end."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krepes.cli.describe import console, line, simple_table
from krepes.cli.model_parameters import parsed
from krepes.cli.option_signatures import Parameters
from krepes.cli.session import say

if TYPE_CHECKING:
    from rich.progress import Progress

    from krepes.evaluation import Search, SearchResult, Trial

SHOWN_TRIALS = 10

# While it runs


def introduce(search: Search, n_trials: int, study: Path | None) -> None:
    """What is going to happen."""
    names = ", ".join(f"{name} ({spec})" for name, spec in search.space.varied.items())
    if search.one_pass:
        cost = "One pass over the data serves all trials."
    else:
        cost = "Every trial goes through the data."
    for text in (f"{search.split.describe()}.", f"Searched: {names}.", cost):
        line(text)
    done = len(search.study.trials)
    if study is not None and done:
        line(f"{study} has {done} trials already; {max(0, n_trials - done)} to go.")


class Display:
    """On a terminal: trial k of n, the best so far, time left."""

    def __init__(self, result: SearchResult, n_trials: int):
        self.n_trials, self.before = n_trials, len(result.trials)
        self.start = time.perf_counter()
        self._bar: Progress | None = None
        self._first = result

    def __enter__(self) -> Display:
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal and self.before < self.n_trials:
            columns = (
                progress.SpinnerColumn(),
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.TextColumn("{task.fields[best]}"),
                progress.TimeElapsedColumn(),
                progress.TextColumn("{task.fields[left]}"),
            )
            self._bar = progress.Progress(*columns, console=console, transient=True)
            self._bar.start()
            self._bar.add_task("", total=self.n_trials, best="", left="")
            self.update(self._first)
        return self

    def update(self, result: SearchResult) -> None:
        if self._bar is not None:
            words = self.words(result)
            self._bar.update(
                self._bar.task_ids[0],
                completed=len(result.trials),
                description=words["description"],
                best=words["best"],
                left=words["left"],
            )

    def words(self, result: SearchResult) -> dict[str, str]:
        """What the bar says of the trials so far."""
        done = len(result.trials)
        best = (
            f"best {100 * result.best_value:.1f} % in trial {result.best_trial.number}"
            if result.ranked
            else ""
        )
        left = ""
        if done > self.before:
            seconds = (time.perf_counter() - self.start) / (done - self.before) * (self.n_trials - done)
            left = f"about {duration(seconds)} left"
        return {
            "description": f"Trial {min(done + 1, self.n_trials)} of {self.n_trials}",
            "best": best,
            "left": left,
        }

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()


def duration(seconds: float) -> str:
    """A time as text.

    >>> duration(75)
    '1 min 15 s'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


# At the end


def show_result(result: SearchResult, command: FitCommand) -> dict[str, Any]:
    """The best trials, those that failed, and what to do next; also as a dictionary."""
    from krepes.evaluation.tuning.search import failures

    wide, best = command.n_components, recommended(result, command.n_components)
    metric, names = result.metric.replace("_", " "), list(best.params)
    cut = not all(_keeps_all(trial, wide) for trial in result.ranked)
    columns = ("trial", metric, *names, *(("components",) if cut else ()), "time")
    table = simple_table(*columns, right=columns)
    for trial in result.ranked[:SHOWN_TRIALS]:
        deviation = f" ± {100 * trial.scores['deviation']:.1f}" if trial.scores.get("deviation") else ""
        values = [trial.params[name] for name in names] + ([_width(trial)] if cut else [])
        table.add_row(
            str(trial.number),
            f"{100 * (trial.value or 0):.1f}{deviation} %",
            *(f"{value:g}" if _is_number(value) else str(value) for value in values),
            f"{trial.seconds:.1f} s",
            style="bold green" if trial is best else "",
        )
    console().print(table)
    hidden = len(result.ranked) - SHOWN_TRIALS
    if hidden > 0:
        line(f"and {hidden} that did worse.", style="dim")
    if result.failed:
        text = f"{len(result.failed)} of {len(result.trials)} trials failed: {failures(result.trials)}"
        line(text, style="dim")
    for note in best.notes:
        say(note, prefix="Warning: ", style="bold yellow")
    first, left = result.best_trial, _width(best)
    lead = 100 * ((first.value or 0) - (best.value or 0))
    if best is not first:
        line(
            f"Recommended: trial {best.number}, which keeps all {wide} components. Trial {first.number} leaves "
            f"{_width(first)} of them and did better by {lead:.1f} points, which may be chance."
        )
    elif not _keeps_all(best, wide):
        asked = best.params.get("n_components", wide)
        line(f"Trial {best.number} leaves {left} of {asked} components: no trial that keeps all did as well.")
    line("Labels chose these parameters: measure the result on rows that took no part.", style="dim")
    following = command.line(result.fixed | best.params)
    line(f"Next: {following}")
    return {
        "metric": result.metric,
        "recommended": best.number,
        "best": first.number,
        "parameters": result.fixed | best.params,
        "trials": [asdict(trial) for trial in result.trials],
        "next": following,
    }


def recommended(result: SearchResult, n_components: int | str | None) -> Trial:
    """The best trial; or, where it cuts components, the best that keeps all and is not worse than chance explains.

    "Chance" is the deviation of the best trial between its draws of labels.
    """
    first = result.best_trial
    if _keeps_all(first, n_components):
        return first
    low = (first.value or 0) - first.scores.get("deviation", 0.0)
    whole = (
        trial for trial in result.ranked if _keeps_all(trial, n_components) and (trial.value or 0) >= low
    )
    return next(whole, first)


def _keeps_all(trial: Trial, n_components: int | str | None) -> bool:
    asked = trial.params.get("n_components", n_components)
    return asked == "auto" or _width(trial) in (None, asked)


def _width(trial: Trial) -> int | None:
    """Components that were left in a trial; None in studies of earlier versions."""
    found = trial.scores.get("n_components")
    return None if found is None else int(found)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class FitCommand:
    """`krepes fit` with what was searched from; `line` adds what was found."""

    data: Path
    settings: dict[str, Any]  # options as they were given
    given: dict[str, Any]  # parameters set besides

    @property
    def n_components(self) -> int | str | None:
        """The width of all trials, unless it was searched."""
        return self.given.get("n_components", self.settings["n_components"])

    def line(self, best: dict[str, Any]) -> str:
        """The command, ready to paste."""
        rows = {row.name: row for row in Parameters("KernelEmbedding").rows()}
        plain: dict[str, Any] = {"array": "X", "size": None, "label": None, "exclude": [], "random_state": 0}
        plain |= {"column": [], "missing": [], "encoding": None}
        words = ["krepes", "fit", str(self.data)]
        found = self.settings | self.given | best
        for name in [name for name in found if name in rows or name in plain]:
            value = found.pop(name)
            default = plain[name] if name in plain else rows[name].default
            option = rows[name].option.split()[0] if name in rows else f"--{name}"
            if value != default or (name in rows and rows[name].nested):
                for item in value if isinstance(value, list) else [value]:
                    words += [
                        "--seed" if name == "random_state" else option,
                        (rows[name].null or "none") if item is None else str(item),
                    ]
        for name, value in found.items():
            words += ["--set", f"{name}={_as_text(value)}"]
        words += ["-o", f"{self.data.stem or 'model'}.krepes"]
        return shlex.join(words)


def _as_text(value: object) -> str:
    """A value as `--set` reads it."""
    return value if isinstance(value, str) and not _is_json(value) else json.dumps(value)


def _is_json(text: str) -> bool:
    return parsed(text) is not text
