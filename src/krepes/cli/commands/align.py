"""`krepes align`: how alike representations of the same rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.options import option
from krepes.cli.result_files import TableFiles
from krepes.cli.terminal import line, show_table

if TYPE_CHECKING:
    from krepes.cli.work.features import FeatureFile

FEATURES = (
    "Files with a row of numbers per sample, in the same order: .npy, .npz (FILE.npz:ARRAY), .parquet, .csv."
)
ESTIMATORS = ("unbiased", "biased")


@command
def align(
    features: Annotated[list[str], options.argument("FEATURES...", FEATURES)],
    files: TableFiles,
    estimator: Annotated[
        str | None, option("unbiased (the default), 0 for unrelated data; or biased.")
    ] = None,
    permutations: Annotated[int, option("Shuffles for the p-value of two files in memory.", min=0)] = 0,
    sketch: Annotated[
        int, option("Buckets (a power of two) to sketch the biased CKA. 0 is exact.", metavar="M", min=0)
    ] = 0,
    exclude: options.Exclude = [],  # noqa: B006  (typer copies it)
    encoding: options.Encoding = None,
    random_state: options.Seed = 0,
) -> dict[str, Any]:
    """Compare representations of the same rows by centred kernel alignment: 1 the same, 0 unrelated.

    \b[cyan]krepes align layer3.npy layer4.npy --permutations 199[/]
    [cyan]krepes align a.npy b.npy c.parquet --sketch 256 --figure models.png[/]
    """
    from krepes.alignment import cka_test, plot_alignment
    from krepes.cli.work.features import open_aligned, short_names

    estimator = _checked(features, estimator, permutations, sketch)
    files.check()
    opened = open_aligned(features, exclude=exclude, encoding=encoding)
    for representation in opened:
        line(f"{representation.name}: {representation.source.describe()}")
    values = _sketched(opened, sketch, random_state) if sketch else _exact(opened, estimator)
    found = {"files": features, "estimator": estimator, "sketched": bool(sketch), "cka": values}
    if permutations:
        X, Y = (file.matrix() for file in opened)
        test = cka_test(X, Y, estimator=estimator, n_permutations=permutations, random_state=random_state)
        line(f"\n{test} ({estimator})")
        found["test"] = vars(test)
    else:
        _show(features, values, f"CKA, {estimator}" + (", sketched" if sketch else ""))
        undefined = [name for i, name in enumerate(features) if values[i][i] != values[i][i]]
        if undefined:
            line(f"Blank: all rows of {', '.join(undefined)} are the same.")
    rows: list[list[Any]] = [["", *features], *([name, *row] for name, row in zip(features, values))]
    files.write(rows, lambda: plot_alignment(values, short_names(features)))
    return found


def _checked(features: list[str], estimator: str | None, permutations: int, sketch: int) -> str:
    """The estimator, once the options fit together."""
    from krepes.cli.work.features import check_buckets

    if len(features) < 2:
        raise typer.BadParameter("Give at least two files: alignment compares representations.")
    options.one_of("--estimator", estimator, ESTIMATORS)
    check_buckets(sketch)
    if permutations and (len(features) > 2 or sketch):
        raise typer.BadParameter("--permutations is for two files without --sketch.")
    if sketch and estimator == "unbiased":
        raise typer.BadParameter("--estimator unbiased: --sketch approximates the biased CKA only.")
    return estimator or ("biased" if sketch else "unbiased")


def _exact(opened: list[FeatureFile], estimator: str) -> list[list[float]]:
    """Every pair in one pass over its two files."""
    from krepes.alignment import StreamedCKA

    values = [[1.0] * len(opened) for _ in opened]
    for i, first in enumerate(opened):
        for j in range(i):
            stream = StreamedCKA(estimator, names=(first.name, opened[j].name))
            for (_, X), (_, Y) in zip(first.finite_batches(), opened[j].finite_batches()):
                stream.update(X, Y)
            values[i][j] = values[j][i] = stream.score()
    return values


def _sketched(opened: list[FeatureFile], n_buckets: int, seed: int) -> list[list[float]]:
    """All pairs from one pass over every file."""
    from krepes.alignment import SketchedCKA

    sketch = SketchedCKA(n_buckets, seed=seed)
    for position, file in enumerate(opened):
        for first, X in file.finite_batches():
            sketch.update({str(position): X}, first_row=first)
    return sketch.table()[1].tolist()


def _show(names: list[str], values: list[list[float]], heading: str) -> None:
    from krepes.alignment.transfer.transferability import number_text

    numbers = [str(i + 1) for i in range(len(names))]
    cells = [[number_text(value, 4) for value in row] for row in values]
    rows = [(number, name, *row) for number, name, row in zip(numbers, names, cells)]
    show_table(("", heading, *numbers), rows, left=[heading])
