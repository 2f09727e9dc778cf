"""`krepes explain`: which examples a representation is made of, in the terminal or as a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import typer

from krepes.base.storage.files import check_writable, readable_bytes
from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.options import option
from krepes.cli.parameters import given_values
from krepes.cli.terminal import line

if TYPE_CHECKING:
    import numpy as np

    from krepes.one_pass import OnePassEstimator
    from krepes.report.machine_page import Machine
    from krepes.sources import Source

SAMPLE = "In the terminal"


@dataclass(frozen=True)
class Page:
    """A page to open in a browser."""

    panel: ClassVar[str] = "Page"

    output: Annotated[
        Path | None,
        option("--output", "-o", "Write a page to open in a browser.", metavar="FILE.html", panel="Options"),
    ] = None
    title: Annotated[str | None, option("The title of the page.", metavar="TEXT")] = None
    max_rows: Annotated[
        int | None, option("The most rows on the page, drawn at random. By default 5000.", min=1)
    ] = None
    no_samples: Annotated[bool, option("--no-samples", "Leave real rows out.")] = False
    map: Annotated[str | None, option("How rows are laid out: tsne, umap, pacmap, or none.")] = None
    interactive: Annotated[
        bool, option("--interactive", "Write a page that scores the rows that you enter or change.")
    ] = False
    overwrite: Annotated[bool, option("--force", "Overwrite existing files.", panel="Options")] = False

    def check(self) -> None:
        of_reports = self.title, self.max_rows, self.map, self.no_samples or None
        if self.interactive and (self.output is None or of_reports != (None, None, None, None)):
            raise typer.BadParameter(
                "--interactive writes a page that scores rows and holds the landmarks, which are real rows: give it -o "
                "FILE.html, and no --title, --max-rows, --map or --no-samples."
            )
        if self.output is not None:
            check_writable(self.output, self.overwrite)

    def write(self, model: OnePassEstimator, source: Source, **settings: Any) -> dict[str, Any]:
        """Write the page of a representation or of a machine, and say so; nothing without --output."""
        from krepes import KernelEmbedding
        from krepes.report import write_machine_page, write_report

        if self.output is None:
            return {}
        rows = not self.no_samples
        if self.interactive:
            from krepes.report.scoring_page import write_scoring_page

            write_scoring_page(model, self.output, source, self.overwrite)
            return self._written(rows)
        shared: dict[str, Any] = {"title": self.title, "samples": rows, "overwrite": self.overwrite}
        if isinstance(model, KernelEmbedding):
            settings |= given_values(max_rows=self.max_rows, map=self.map)
            write_report(model, source, self.output, **shared, **settings)
        else:
            write_machine_page(cast("Machine", model), source, self.output, **shared)
        return self._written(rows)

    def _written(self, rows: bool) -> dict[str, Any]:
        assert self.output is not None  # because nothing was written
        shown = "It shows real rows to whoever opens it." if rows else "It holds no row of the data."
        size = self.output.stat().st_size
        line(f"Wrote {self.output} ({readable_bytes(size)}). {shown}")
        return {"output": str(self.output), "bytes": size, "holds_rows": rows}


@dataclass(frozen=True)
class SampleOptions:
    """What is explained in the terminal."""

    panel: ClassVar[str] = SAMPLE

    sample: Annotated[int | None, option("Explain this row of DATA here.", metavar="ROW", min=0)] = None
    top: Annotated[int, option("How many rows to show.", min=1)] = 8
    component: Annotated[int | None, option("What landmarks add to this component.")] = None
    class_: Annotated[str | None, option("--class", "What rows add for this class.", metavar="LABEL")] = None
    against: Annotated[
        int | None, option("The difference from this row, along these.", metavar="ROW", min=0)
    ] = None


@command
def explain(
    model: options.Model,
    rows: options.Rows,
    labels: options.LabelOptions,
    page: Page,
    asked: SampleOptions,
    check: Annotated[
        bool, option("--check", "Measure how far explanations can be trusted.", panel=SAMPLE)
    ] = False,
    concept: Annotated[
        list[str], option('Rows that have it, or a rule: "age > 60". Repeatable.', metavar="NAME=FILE|RULE")
    ] = [],  # noqa: B006  (typer copies it)
    random_state: options.Seed = 0,
    device: options.Device = "auto",
) -> dict[str, Any]:
    """Show which real rows of the training data a representation is made of, or which carry a prediction.

    Of a machine, from `krepes train`, it shows how much each column counts; with --sample, the training rows that \
carry the prediction of a row, the columns that count for it, and the nearest row with another prediction. The page of \
a machine has predictions with intervals, or p-values of novelty.

    \b[cyan]krepes explain people.krepes people.parquet -o report.html[/]
    [cyan]krepes explain people.krepes people.parquet --sample 17 --concept "age > 60"[/]
    [cyan]krepes explain photos.krepes photos/ --sample 17 --class cat --concept sea=sea/[/]
    [cyan]krepes explain people.krepes people.parquet --check --label income[/]
    """
    page.check()
    from krepes import KernelEmbedding, load
    from krepes.cli.work.explain_machine import explain_machine
    from krepes.cli.work.explaining import explain_row, one_row, read_concept, show_check
    from krepes.explain import explain as explain_rows
    from krepes.machines import NoveltyDetector
    from krepes.machines.labelled_machine import LabelledMachine

    fitted = load(model, device=device)
    _check(fitted, model, page, asked, check, concept)
    source = rows.open_for(fitted)
    if isinstance(fitted, NoveltyDetector):
        if asked.sample is not None:
            line(str(explain_rows(fitted, one_row(source, asked.sample), asked.top)))
        return page.write(fitted, source)
    assert isinstance(fitted, KernelEmbedding | LabelledMachine)
    y = _labels(fitted, source, rows, labels)
    found: dict[str, Any] = show_check(fitted, source, y, random_state) if check else {}
    if isinstance(fitted, LabelledMachine):
        if asked.sample is not None or (page.output is None and not check):
            found |= explain_machine(fitted, source, y, asked)
        return found | page.write(fitted, source)
    assert isinstance(fitted, KernelEmbedding)
    concepts = [read_concept(fitted, source, text, rows, random_state) for text in concept]
    if asked.sample is not None:
        found |= explain_row(fitted, source, y, asked, concepts, random_state)
    named = None if y is None else {labels.label or "label": y}
    return found | page.write(fitted, source, labels=named, concepts=concepts, random_state=random_state)


def _check(
    model: OnePassEstimator, path: Path, page: Page, asked: SampleOptions, check: bool, concept: list[str]
) -> None:
    """Refuse what does not go together, or not with this model."""
    from krepes import KernelEmbedding
    from krepes.cli.opening import other_use
    from krepes.machines import NoveltyDetector
    from krepes.machines.labelled_machine import LabelledMachine

    along = asked.component is not None or asked.class_ is not None
    if asked.component is not None and asked.class_ is not None:
        raise typer.BadParameter("Give only one of --component and --class.")
    if isinstance(model, LabelledMachine | NoveltyDetector):
        if asked.component is not None or concept:
            raise typer.BadParameter("--component and --concept are for representations; this is a machine.")
        if isinstance(model, NoveltyDetector) and (check or (page.output is None and asked.sample is None)):
            raise ValueError(f"{other_use(model, path)} Here: --sample ROW, or its page, -o FILE.html.")
    elif not isinstance(model, KernelEmbedding):
        raise ValueError(f"{other_use(model, path)} It cannot be explained by rows.")
    elif page.output is None and asked.sample is None and not check:
        raise typer.BadParameter(
            "Give --sample ROW to explain one row here, --check to measure explanations, or -o FILE.html to write a "
            "page."
        )
    elif asked.against is not None and not along:
        raise typer.BadParameter(
            "--against explains a difference along --component or --class; give one of them."
        )


def _labels(
    model: OnePassEstimator, source: Source, rows: options.Rows, labels: options.LabelOptions
) -> np.ndarray | None:
    """Labels where they were asked for or are easily found; an explanation does not need them."""
    try:
        return labels.of(source, rows, model)[0]
    except ValueError:
        if labels.label or labels.labels:
            raise
        return None
