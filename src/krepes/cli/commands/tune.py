"""`krepes tune`: search for parameters with few labels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from krepes.cli import options
from krepes.cli.command import changed, command, usage_errors
from krepes.cli.options import key_and_value, option
from krepes.cli.parameters import EmbeddingOptions, given_values, parsed
from krepes.cli.terminal import say

if TYPE_CHECKING:
    from krepes.cli.work.tune_report import FitCommand
    from krepes.embedding import KernelEmbedding
    from krepes.evaluation import Search
    from krepes.preprocessing import TableEncoder
    from krepes.sources import Source

RANGE = "KEY=LOW:HIGH, such as loss__temperature=0.05:5"
CHOICE = "KEY=A,B, such as solver__batch_size=128,256"


@dataclass(frozen=True)
class SearchOptions:
    """What is searched, and how."""

    panel: ClassVar[str] = "Search"

    n_trials: Annotated[int, option("--trials", "Trials, earlier runs included.", min=1)] = 20
    ranges: Annotated[
        list[str],
        option("--range", "Search here: loss__temperature=0.05:5[:linear].", metavar="KEY=LOW:HIGH"),
    ] = field(default_factory=list)
    choices: Annotated[
        list[str], option("--choice", "Among values: solver__batch_size=128,256.", metavar="KEY=A,B")
    ] = field(default_factory=list)
    sampler: Annotated[str | None, option("random (the default), or tpe, near the best.")] = None
    metric: Annotated[str | None, option("accuracy, balanced_accuracy, or auto.")] = None
    validation_fraction: Annotated[float | None, option("Of rows, for labels. By default 2 or 10 %.")] = None
    label_fraction: Annotated[float | None, option("Of these labels, to learn from.")] = None
    study: Annotated[Path | None, option("Keep trials; the same command continues.")] = None
    budget: Annotated[float, option("Seconds; trials that do not fit are left out.", min=1)] = 50

    def space(self) -> dict[str, Any]:
        """The search space of --range and --choice.

        >>> SearchOptions(ranges=["loss__temperature=0.05:5"], choices=["solver__batch_size=128,256"]).space()
        {'loss__temperature': (0.05, 5), 'solver__batch_size': [128, 256]}
        """
        pairs = [(key_and_value(text, "--range", RANGE), _range) for text in self.ranges]
        pairs += [(key_and_value(text, "--choice", CHOICE), _choice) for text in self.choices]
        found: dict[str, Any] = {}
        for (key, value), read in pairs:
            if key in found:
                raise typer.BadParameter(f"{key}={value}: {key} was given before.")
            found[key] = read(key, value)
        return found

    def settings(self) -> dict[str, Any]:
        """The arguments of `Search` that were given."""
        names = ("sampler", "metric", "validation_fraction", "label_fraction")
        return given_values(**{name: getattr(self, name) for name in names})


def _range(key: str, text: str) -> Any:
    """LOW:HIGH, perhaps with :linear or :log, as Optuna has it."""
    from krepes.evaluation.tuning.ranges import distribution, import_optuna

    low, high, scale = ([parsed(part) for part in text.split(":")] + [None, None, None])[:3]
    numbers = isinstance(low, int | float) and isinstance(high, int | float)
    if not numbers or scale not in (None, "linear", "log") or text.count(":") > 2:
        raise typer.BadParameter(f"--range {key}={text}: expected {RANGE}.")
    with usage_errors():
        distribution(key, (low, high))
        if scale is None:
            return low, high
        return import_optuna().distributions.FloatDistribution(low, high, log=scale == "log")


def _choice(key: str, text: str) -> list[Any]:
    """A,B as values."""
    parts = [parsed(part.strip()) for part in text.split(",") if part.strip()]
    if not parts:
        raise typer.BadParameter(f"--choice {key}={text}: expected {CHOICE}.")
    return parts


@command
def tune(
    rows: options.NewRows,
    labels: options.SplitLabels,
    chosen: EmbeddingOptions,
    searching: SearchOptions,
    random_state: options.Seed = 0,
    device: options.Device = "auto",
    overwrite: Annotated[bool, option("--force", "Start the study again if its file exists.")] = False,
) -> dict[str, Any]:
    """Search for good parameters with few labels, and print the command that fits with them.

    Every trial learns without labels; a linear classifier on a small labelled part then scores it. \
Choosing by labels is not unsupervised: say so. Test rows of --split or --n-train take no part.

    \b[cyan]krepes tune people.parquet --label income --study people.study[/]
    [cyan]krepes tune digits.npz --loss simclr --sampler tpe --range loss__temperature=0.05:5[/]
    """
    from krepes.cli.memory_needed import check_room
    from krepes.cli.work.tune_report import FitCommand
    from krepes.evaluation import Search
    from krepes.evaluation.tuning.ranges import import_optuna
    from krepes.labelled import training_rows

    import_optuna()
    space, given = searching.space(), chosen.parameters()
    _check(space, given, labels)
    others = {"device": device, "random_state": random_state, "verbose": 1}
    model, settled = _model(chosen, space, others)
    source = rows.open()
    check_room(model, source)
    y, where = labels.of(source, rows)
    split = [labels.split] if labels.split and source.kind == "table" else []
    encoder = rows.preprocessing(source, labels.columns(), split, chosen.preprocess or "auto")
    _show_columns(encoder, source)
    prepared = Search(
        model.set_params(preprocess=encoder),
        source,
        y,
        space=dict.fromkeys(given | settled) | space,
        study=searching.study,
        overwrite=overwrite,
        rows=training_rows(source, rows.data, labels.split, labels.n_train),
        random_state=random_state,
        name=f"The label {where}",
        **searching.settings(),
    )
    shared = changed(replace(rows, exclude=[*dict.fromkeys([*rows.exclude, *split])])) | changed(chosen)
    named = {"--label": labels.columns()} | shared | ({"--seed": random_state} if random_state else {})
    return _run(prepared, searching, FitCommand(rows.data, named, settled))


def _check(space: dict[str, Any], given: dict[str, Any], labels: options.SplitLabels) -> None:
    """Refuse options that do not go together."""
    for name in given:
        if name in space:
            raise typer.BadParameter(f"{name} is both set and searched: leave one of them out.")
    arrays = labels.labels is not None and ".np" in labels.labels
    if labels.label is not None and arrays:
        raise typer.BadParameter(
            f"Give either --label or --labels, not both: {labels.labels} has no columns."
        )


def _model(
    chosen: EmbeddingOptions, space: dict[str, Any], others: dict[str, Any]
) -> tuple[KernelEmbedding, dict[str, Any]]:
    """The model to search from. Where parameters of an automatic solver are set, the others are as in a search."""
    from krepes.evaluation.tuning.ranges import solver_settings

    given = chosen.parameters()
    model = chosen.model(given, **others)  # wrong names are seen as they were given
    plain = {name: value for name, value in given.items() if "solver__" not in name}
    if plain == given or {"loss", "solver"} & set(space):
        return model, {}
    usual = solver_settings(chosen.model(plain, **others), named=True)
    settled = {name: value for name, value in usual.items() if name not in given}
    return chosen.model(given | settled, **others), settled


def _show_columns(encoder: TableEncoder | str | None, source: Source) -> None:
    """Print how every column of a table will be used, in a scan of its own."""
    from sklearn.base import clone

    from krepes.cli.describe import show_columns
    from krepes.preprocessing import TableEncoder

    if isinstance(encoder, TableEncoder):
        fitted = clone(encoder)
        fitted.fit_source(source, n_candidates=1)
        show_columns(fitted)


def _run(prepared: Search, searching: SearchOptions, fit: FitCommand) -> dict[str, Any]:
    """Say what will happen, do it, and show the results, also after Ctrl-C."""
    from krepes.cli.work.tune_report import introduce, run_with_progress, show_result

    introduce(prepared, searching.n_trials, searching.study)
    try:
        result = run_with_progress(prepared, searching.n_trials, searching.budget)
    except KeyboardInterrupt:
        result = prepared.result
        if result.ranked:
            show_result(result, fit, prepared.model.n_components)
        kept = (
            f"{len(result.trials)} finished trials are kept in {searching.study}; the same command continues."
        )
        lost = "No trials are kept: --study FILE keeps them."
        say(f"Stopped. {lost if searching.study is None else kept}", style="yellow")
        raise typer.Exit(130) from None
    return show_result(result, fit, prepared.model.n_components)
