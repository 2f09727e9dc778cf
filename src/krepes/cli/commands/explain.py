"""`krepes explain`: which examples a representation is made of, in the terminal or as a page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import flag, option

if TYPE_CHECKING:
    import numpy as np

    from krepes.embedding import KernelEmbedding
    from krepes.explain import Concept
    from krepes.one_pass import OnePassEstimator
    from krepes.report.machine_page import Machine
    from krepes.sources import Source

_SAMPLE = "In the terminal"
N_RANDOM = 500  # random rows that stand for the absence of a concept


@command
def explain(
    model: options.Model,
    data: options.Data,
    page: Annotated[dict[str, Any], Parameters("write_report")],
    place: Annotated[dict[str, Any], Parameters("KernelEmbedding", only=("device",))],
    output: Annotated[
        Path | None, option("--output", "-o", "Write a page to open in a browser.", metavar="FILE.html")
    ] = None,
    sample: Annotated[
        int | None, option("Explain this row of DATA here.", metavar="ROW", panel=_SAMPLE, min=0)
    ] = None,
    top: Annotated[
        int,
        option("How many landmarks to show.", metavar="N", panel=_SAMPLE, min=1, show_default=True),
    ] = 8,
    component: Annotated[
        int | None,
        option(
            "Show what every landmark adds to this component of the representation.",
            metavar="N",
            panel=_SAMPLE,
        ),
    ] = None,
    class_: Annotated[
        str | None,
        option(
            "--class",
            "Show what every landmark adds for this class, against the others, in a linear classifier.",
            metavar="LABEL",
            panel=_SAMPLE,
        ),
    ] = None,
    against: Annotated[
        int | None,
        option(
            "With --component or --class, explain the difference from this row.",
            metavar="ROW",
            panel=_SAMPLE,
            min=0,
        ),
    ] = None,
    by: Annotated[
        str,
        option(
            "How landmarks are ranked: auto (which is contributions), re_expansion or kernel.",
            metavar="METHOD",
            panel=_SAMPLE,
        ),
    ] = "auto",
    check: Annotated[
        bool,
        flag("--check", "Measure how faithful each of these rankings is, on rows of DATA.", panel=_SAMPLE),
    ] = False,
    label: options.Label = None,
    labels: options.Labels = None,
    encoding: options.Encoding = None,
    array: options.Array = "X",
    concept: Annotated[
        list[str],
        option(
            "A concept, given by a file of rows that have it. Rows without it are random rows of DATA, or those of a "
            'second file: NAME=FILE,FILE. Or a rule about the columns of DATA, such as "age > 60". Repeat the option '
            "for several.",
            metavar="NAME=FILE|RULE",
        ),
    ] = [],  # noqa: B006  (typer copies it)
    random_state: options.Seed = 0,
    threads: options.Threads = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Show which landmarks, real rows of the training data, a representation or a prediction is made of.

    Of a machine, from `krepes train`, it shows how much each column counts; with --sample, what each landmark adds to \
the prediction of a row. The page of a machine has predictions with intervals, or p-values of novelty.

    [cyan]krepes explain people.krepes people.parquet -o report.html[/]

    [cyan]krepes explain people.krepes people.parquet --sample 17[/]

    [cyan]krepes explain photos.krepes photos/ --sample 17 --class cat --concept sea=sea/[/]

    [cyan]krepes explain people.krepes people.parquet --sample 17 --concept "age > 60"[/]

    [cyan]krepes explain people.krepes people.parquet --check --label income[/]

    [cyan]krepes explain income.krepes people.parquet --sample 17[/]
    """
    from krepes.base.files import check_writable
    from krepes.cli.explain_check import show_check
    from krepes.cli.explain_row import explain_row
    from krepes.cli.opening import (
        check_exists,
        is_explained,
        is_machine,
        load_any,
        load_embedding,
        load_machine,
        open_for,
    )

    of_machine = model.is_file() and is_machine(model)
    if output is not None and sample is None and model.is_file() and not is_explained(model):
        check_exists(model, data)
        check_writable(output, overwrite)
        return _write_machine(load_any(model, **place), data, array, encoding, output, page, overwrite)
    if output is None and sample is None and not check and not of_machine:
        raise typer.BadParameter(
            "Give --sample ROW to explain one row here, --check to compare explanations, or -o FILE.html to write a "
            "page."
        )
    if component is not None and class_ is not None:
        raise typer.BadParameter("Give only one of --component and --class.")
    if of_machine and (component is not None or concept):
        raise typer.BadParameter("--component and --concept are for representations; this is a machine.")
    if against is not None and component is None and class_ is None and not of_machine:
        raise typer.BadParameter(
            "--against explains a difference along --component or --class; give one of them."
        )
    check_exists(model, data)
    if output is not None:
        check_writable(output, overwrite)
    if of_machine:
        from krepes.cli.explain_machine import explain_machine

        machine = load_machine(model, **place)
        source = open_for(machine, data, array, encoding)
        y = _labels(machine, source, data, label, labels, encoding)
        told: dict[str, Any] = show_check(machine, source, y, random_state) if check else {}
        if (output is None and not check) or sample is not None:
            told |= explain_machine(machine, source, y, sample, top, class_, against)
        if output is not None:
            told |= _write_machine(machine, data, array, encoding, output, page, overwrite)
        return told
    embedding = load_embedding(model, **place)
    source = open_for(embedding, data, array, encoding)
    y = _labels(embedding, source, data, label, labels, encoding)
    opener = partial(open_for, embedding, array=array, encoding=encoding)
    concepts = [_concept(embedding, source, text, opener, random_state) for text in concept]
    found: dict[str, Any] = show_check(embedding, source, y, random_state) if check else {}
    if sample is not None:
        found |= explain_row(
            embedding, source, y, sample, top, component, class_, against, concepts, random_state, by
        )
    if output is not None:
        named = None if y is None else {label or "label": y}
        settings = page | {"labels": named, "concepts": concepts, "random_state": random_state}
        found |= _write(embedding, source, output, settings, overwrite)
    return found


def _labels(
    model: OnePassEstimator,
    source: Source,
    data: Path,
    label: str | None,
    labels: str | None,
    encoding: str | None,
) -> np.ndarray | None:
    """Labels where they were asked for or are easily found; an explanation does not need them."""
    from krepes.cli.opening import label_in_fit
    from krepes.labelled import labels_of

    try:
        column = label or (label_in_fit(model) if labels is None else None)
        return labels_of(source, data, column, labels, encoding)[0]
    except ValueError:
        if label or labels:
            raise
        return None


def _concept(
    model: KernelEmbedding, source: Source, text: str, opener: Callable[[Path], Source], seed: int
) -> Concept:
    """A fitted concept from `NAME=FILE` or `NAME=FILE,FILE`, or from a rule about the columns of DATA."""
    import numpy as np

    from krepes.explain import Concept
    from krepes.explain.concept_rule import is_rule
    from krepes.sources.row_subset import subset

    if is_rule(text):
        return Concept.from_rule(source, text, random_state=seed).fit(model)
    name, equals, files = text.partition("=")
    if not equals or not name or not files:
        raise typer.BadParameter(
            f'--concept {text}: expected NAME=FILE, such as sea=sea.npz, or a rule, such as "age > 60".'
        )
    with_it, _, without = files.partition(",")
    positives = opener(Path(with_it))
    if without:
        negatives = opener(Path(without))
    else:
        size = min(N_RANDOM, source.n_rows)
        rows = np.random.default_rng(seed).choice(source.n_rows, size, replace=False)
        negatives = subset(source, np.sort(rows))
    return Concept(positives, negatives, name=name, random_state=seed).fit(model)


def _write(
    model: KernelEmbedding, source: Source, output: Path, settings: dict[str, Any], overwrite: bool
) -> dict[str, Any]:
    from krepes.report import write_report
    from krepes.report.advice import ON_THE_COMMAND_LINE

    write_report(model, source, output, overwrite=overwrite, advice=ON_THE_COMMAND_LINE, **settings)
    return _wrote(output, settings["samples"])


def _write_machine(
    machine: OnePassEstimator,
    data: Path,
    array: str,
    encoding: str | None,
    output: Path,
    page: dict[str, Any],
    overwrite: bool,
) -> dict[str, Any]:
    """The page of a machine: predictions, intervals, p-values."""
    from krepes.cli.opening import open_for
    from krepes.report import write_machine_page

    source = open_for(machine, data, array, encoding)
    settings = {"title": page["title"], "samples": page["samples"]}
    write_machine_page(cast("Machine", machine), source, output, overwrite=overwrite, **settings)
    return _wrote(output, page["samples"])


def _wrote(output: Path, samples: bool) -> dict[str, Any]:
    """Say what was written."""
    from krepes.base.files import readable_bytes
    from krepes.cli.describe import line

    shown = "It shows real rows of the data to whoever opens it."
    size = output.stat().st_size
    line(f"Wrote {output} ({readable_bytes(size)}). {shown if samples else 'It holds no row of the data.'}")
    return {"output": str(output), "bytes": size, "holds_rows": samples}
