"""`krepes merge`: models of parts of the data, added up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command

if TYPE_CHECKING:
    from krepes.one_pass import OnePassEstimator
    from krepes.tally import RowRanges


@command
def merge(
    models: Annotated[
        list[Path],
        options.argument("MODEL ...", "Models of parts, by `krepes fit --base` or `krepes train --base`."),
    ],
    output: options.ModelFile,
    allow_overlap: Annotated[
        bool,
        options.option("--allow-overlap", "Add models with the same row numbers, as without --first-row."),
    ] = False,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Add up models of parts of the data: the result is the model of all their rows.

    The parts must share preprocessing, kernel and landmarks, which they do when they have the same --base.

    [cyan]krepes merge part-*.krepes -o all.krepes[/]
    """
    from krepes.base.files import check_writable, readable_bytes
    from krepes.cli.fitting import rows_held
    from krepes.cli.terminal import line, show_facts

    if len(models) < 2:
        raise typer.BadParameter("One model is not merged: name at least two.")
    check_writable(output, overwrite)
    from krepes import load

    total = load(models[0])
    if not hasattr(total, "merge"):
        raise ValueError(f"{models[0]} holds a {type(total).__name__}, which keeps no sums to merge.")
    seen = [(models[0], total.rows_seen_)]
    for path in models[1:]:
        _add(total, path, seen, allow_overlap)
    total.save(output, overwrite=overwrite)
    size = output.stat().st_size
    known = "" if total.rows_seen_ is None else f" ({total.rows_seen_})"
    groups = {"groups": f"{len(total.groups_):,}"} if total.groups_ else {}
    shown = {"models": f"{len(models):,}", "rows": f"{total.n_samples_seen_:,}{known}"} | groups
    show_facts(shown | {"saved": f"{output}, {readable_bytes(size)}"})
    following = f"krepes info {output}"
    line(f"Next: {following}")
    files = {"models": [str(path) for path in models], "model": str(output), "bytes": size}
    return files | rows_held(total) | {"next": following}


def _add(
    total: OnePassEstimator, path: Path, seen: list[tuple[Path, RowRanges | None]], allow_overlap: bool
) -> None:
    """Add a file's model; errors name the file."""
    from krepes import load

    model = load(path)
    with _named(path, seen[0][0]):
        total.check_mergeable(model)
    for other, rows in seen:
        common = None if rows is None or model.rows_seen_ is None else rows & model.rows_seen_
        if common is not None and len(common) and not allow_overlap:
            raise ValueError(
                f"{path} and {other} both hold rows {common}: the same rows would count twice. Fit each part with its "
                "own --first-row. If they are different rows that were not numbered, say --allow-overlap."
            )
    both = set(model.tally_.files) & set(total.tally_.files)
    if both and not allow_overlap:
        raise ValueError(
            f"{path} and another of these models have both absorbed {sorted(both)[0]}: its rows would count twice. If "
            "these are different files, say --allow-overlap."
        )
    with _named(path, seen[0][0]):
        total.merge(model)
    seen.append((path, model.rows_seen_))


@contextmanager
def _named(path: Path, first: Path) -> Iterator[None]:
    """Errors say which file they are about."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} does not go with {first}. {error}") from error
