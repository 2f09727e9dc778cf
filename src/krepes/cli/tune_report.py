"""What `krepes tune` shows while it runs, and proposes at the end."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krepes.cli.model_options import parsed
from krepes.cli.names import estimator_defaults

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from krepes.evaluation import Search, SearchResult

SHOWN_TRIALS = 10
_OPTIONS = {  # parameters that have an option of their own in `krepes fit`
    "n_components": "--n-components",
    "n_landmarks": "--n-landmarks",
    "loss": "--loss",
    "kernel": "--kernel",
    "views": "--views",
    "landmarks": "--landmarks",
    "regularization": "--regularization",
    "solver": "--solver",
    "preprocess": "--preprocess",
    "dtype": "--dtype",
    "device": "--device",
}

# While it runs


def introduce(search: Search, n_trials: int, study: Path | None, out: Console) -> None:
    """What is going to happen."""
    names = ", ".join(f"{name} ({spec})" for name, spec in search.space.varied.items())
    if search.one_pass:
        cost = "One pass over the data serves all trials."
    else:
        cost = "Every trial goes through the data."
    lines = [f"{search.split.describe()}.", f"Searched: {names}.", cost]
    done = len(search.study.trials)
    if study is not None and done:
        lines.append(f"{study} has {done} trials already; {max(0, n_trials - done)} to go.")
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)


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
    """A time for people.

    >>> duration(75)
    '1 min 15 s'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


# At the end


def show_result(result: SearchResult, command: Command, out: Console) -> None:
    """The best trials, those that failed, and what to do next."""
    from krepes.cli.describe import simple_table
    from krepes.cli.session import say
    from krepes.evaluation.tuning.search import failures

    metric = result.metric.replace("_", " ")
    names = list(result.best_trial.params)
    table = simple_table("trial", metric, *names, "time", right=("trial", metric, *names, "time"))
    for trial in result.ranked[:SHOWN_TRIALS]:
        deviation = f" ± {100 * trial.scores['deviation']:.1f}" if trial.scores.get("deviation") else ""
        values = (
            f"{trial.params[name]:g}" if _is_number(trial.params[name]) else str(trial.params[name])
            for name in names
        )
        style = "bold green" if trial is result.ranked[0] else ""
        table.add_row(
            str(trial.number),
            f"{100 * (trial.value or 0):.1f}{deviation} %",
            *values,
            f"{trial.seconds:.1f} s",
            style=style,
        )
    out.print(table)
    hidden = len(result.ranked) - SHOWN_TRIALS
    if hidden > 0:
        out.print(f"and {hidden} that did worse.", style="dim")
    if result.failed:
        text = f"{len(result.failed)} of {len(result.trials)} trials failed: {failures(result.trials)}"
        out.print(text, markup=False, highlight=False, style="dim", soft_wrap=True)
    for note in result.best_trial.notes:
        say(note, prefix="Warning: ", style="bold yellow")
    out.print("Labels chose these parameters: measure the result on rows that took no part.", style="dim")
    out.print(f"Next: {command.line(result.best_params)}", markup=False, highlight=False, soft_wrap=True)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Command:
    """`krepes fit` with what was searched from; `line` adds what was found."""

    data: Path
    settings: dict[str, Any]  # options as they were given
    given: dict[str, Any]  # parameters set besides

    def line(self, best: dict[str, Any]) -> str:
        """The command, ready to paste."""
        defaults = estimator_defaults() | {
            "array": "X",
            "size": None,
            "label": None,
            "exclude": [],
            "seed": 0,
        }
        words = ["krepes", "fit", str(self.data)]
        settings = dict(self.settings)
        found = self.given | best
        for name in [name for name in found if name in _OPTIONS]:
            settings[name] = found.pop(name)
        for name, value in settings.items():
            if value != defaults.get(name):
                option = _OPTIONS.get(name, f"--{name}")
                for item in value if isinstance(value, list) else [value]:
                    words += [option, str(item)]
        for name, value in found.items():
            words += ["--set", f"{name}={_as_text(value)}"]
        words += ["-o", f"{self.data.stem or 'model'}.krepes"]
        return shlex.join(words)


def _as_text(value: object) -> str:
    """A value as `--set` reads it."""
    return value if isinstance(value, str) and not _is_json(value) else json.dumps(value)


def _is_json(text: str) -> bool:
    return parsed(text) is not text
