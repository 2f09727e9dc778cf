"""`krepes evaluate`: how well a simple classifier does on a representation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from krepes.base.storage.files import atomic_path
from krepes.cli import options
from krepes.cli.command import changed, command, json_text, usage_errors
from krepes.cli.options import option
from krepes.cli.result_files import FIGURES, check_output, save_figure

if TYPE_CHECKING:
    from krepes.labelled import LabelledRows
    from krepes.one_pass import OnePassEstimator


@dataclass(frozen=True)
class Protocolled:
    """What is measured, and beside what."""

    panel: ClassVar[str] = "Protocol"

    task: Annotated[str, option("What labels are: classification, regression, auto.")] = "auto"
    label_fraction: Annotated[float | None, option("Of the training labels, drawn in every repeat.")] = None
    label_counts: Annotated[
        str | None, option("Also the score with fewer labels: 50,100,300.", metavar="N,N,...")
    ] = None
    n_repeats: Annotated[int, option("--repeats", "Draws of the labels.", min=1)] = 5
    classifier: Annotated[str, option("logistic, or svm as in the paper.")] = "logistic"
    scoring: Annotated[str | None, option("Another score of scikit-learn, such as roc_auc.")] = None
    knn: Annotated[bool, option("--knn", "Also classify by nearest neighbours.")] = False
    no_raw: Annotated[bool, option("--no-raw", "Leave out the rows as they enter the kernel.")] = False
    no_pca: Annotated[bool, option("--no-pca", "Leave out kernel PCA on the same landmarks.")] = False
    baselines: Annotated[bool, option("--baselines", "Also boosting, a random forest, an RBF SVM.")] = False
    budget: Annotated[
        float,
        option(
            "For probes and baselines; what does not fit is left out, in words.", metavar="SECONDS", min=1
        ),
    ] = 50

    def counts(self) -> list[int]:
        """Numbers of labels as they are written, 50,100,300."""
        parts = [part.strip() for part in (self.label_counts or "").split(",") if part.strip()]
        wrong = not all(part.isdecimal() and int(part) >= 2 for part in parts)
        if wrong or (self.label_counts is not None and not parts):
            raise typer.BadParameter(
                f"--label-counts {self.label_counts}: expected numbers of at least 2, such as 50,100,300."
            )
        return sorted({int(part) for part in parts})

    def check(self) -> None:
        """Refuse values that are wrong for any data, before the data are opened."""
        from krepes.base.validation import check_number
        from krepes.evaluation.linear import PATHS
        from krepes.evaluation.scoring import check_scoring
        from krepes.preprocessing.targets import TASKS

        options.one_of("--task", self.task, TASKS)
        options.one_of("--classifier", self.classifier, tuple(PATHS))
        with usage_errors():
            if self.label_fraction is not None:
                check_number("label_fraction", self.label_fraction, "a share", above=0, most=1)
            if self.scoring is not None:
                check_scoring(self.scoring)


@command
def evaluate(
    model: options.Model,
    rows: options.Rows,
    labels: options.SplitLabels,
    wanted: Protocolled,
    test: Annotated[
        Path | None, option("Test rows; DATA is for training.", metavar="DATA", panel=options.DATA)
    ] = None,
    figure: Annotated[Path | None, option("Draw the scores of --label-counts (.png, .pdf, .svg).")] = None,
    output: Annotated[Path | None, option("--output", "-o", "Write the results as JSON too.")] = None,
    random_state: options.Seed = 0,
    device: options.Device = "auto",
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Measure a model with labels: a representation by a linear classifier trained on it, a machine by its predictions.

    The raw features and kernel PCA are measured on the same rows, and the verdict says whether the representation is \
better. Labels that are quantities are predicted by ridge regression. Without --split, --n-train or --test, a fifth of \
the labelled rows is drawn for testing in every repeat. A machine is measured beside others that are trained on the \
rows kept in its file.

    \b[cyan]krepes evaluate people.krepes people.parquet --split split --label-fraction 0.1[/]
    [cyan]krepes evaluate digits.krepes digits.npz --label-counts 50,100,300,1000 --figure curve.png[/]
    """
    if sum(choice is not None for choice in (labels.split, labels.n_train, test)) > 1:
        raise typer.BadParameter("Give only one of --split, --n-train and --test.")
    if figure is not None and not wanted.counts():
        raise typer.BadParameter("--figure draws the scores of --label-counts: give both.")
    check_output(output, overwrite)
    check_output(figure, overwrite, "--figure", FIGURES)
    wanted.check()
    from krepes import KernelEmbedding, load
    from krepes.cli.opening import other_use
    from krepes.cli.work.embedding_evaluation import evaluate_embedding
    from krepes.cli.work.machine_evaluation import evaluate_machine
    from krepes.evaluation import plot_label_curve
    from krepes.machines.kernel_ridge.machine import RidgeMachine

    fitted = load(model, device=device)
    if isinstance(fitted, KernelEmbedding):
        dataset = _opened(fitted, rows, labels, test)
        found, curve = evaluate_embedding(fitted, dataset, wanted, random_state)
        if figure is not None and curve is not None:
            save_figure(plot_label_curve(curve), figure, overwrite)
    elif isinstance(fitted, RidgeMachine):
        _check_machine(model, wanted, test)
        found = evaluate_machine(fitted, _opened(fitted, rows, labels), wanted)
    else:
        raise ValueError(
            f"{other_use(fitted, model)} This command is for representations and ridge machines."
        )
    if output is not None:
        with atomic_path(output, overwrite=overwrite) as temporary:
            temporary.write_text(json_text(found["results"]), encoding="utf-8")
    return found


def _opened(
    model: OnePassEstimator, rows: options.Rows, labels: options.SplitLabels, test: Path | None = None
) -> LabelledRows:
    from krepes.labelled import open_labelled

    return open_labelled(
        rows.data,
        label=labels.named(model),
        labels=labels.labels,
        test=test,
        split=labels.split,
        n_train=labels.n_train,
        opener=lambda path: rows.open_for(model, path),
        encoding=rows.encoding,
    )


def _check_machine(path: Path, wanted: Protocolled, test: Path | None) -> None:
    """Refuse what is for representations."""
    if test is not None:
        raise typer.BadParameter(f"--test: {path} is a machine. Give the test rows as DATA.")
    for name in changed(wanted, ("n_repeats", "classifier", "no_raw", "baselines", "budget")):
        raise typer.BadParameter(f"{name} is for representations; {path} is a machine.")
