"""Commands about model files: `krepes info` and `krepes merge`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.base.storage.files import check_writable, readable_bytes
from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.terminal import line, show_facts, show_next, show_table

if TYPE_CHECKING:
    from krepes.one_pass import OnePassEstimator
    from krepes.tally import RowRanges

_PARTS = {
    "landmarks": "landmarks (rows of the training data)",
    "sums": "sums over rows, and kept rows of the training data if there are any",
    "solution": "coefficients, and what predictions need besides",
    "targets": "targets",
    "F": "Nyström factors F",
    "eigenvalues": "Nyström factors F",
    "moments": "moments",
    "groups": "sums by group",
    "rows_seen": "row numbers",
    "input_space": "preprocessing",
    "kernel": "kernel",
    "kernel_probe": "kernel",
    "views": "views",
    "loss": "loss",
    "landmark_indices": "landmark row numbers",
}


@command
def info(model: options.Model, verbose: options.Verbose = False) -> dict[str, Any]:
    """Show what a model is, which columns it uses, and what its file holds."""
    from krepes.base.storage.model_file import read, sizes
    from krepes.cli import describe
    from krepes.cli.opening import load_model
    from krepes.one_pass import OnePassEstimator
    from krepes.report.facts import model_facts

    fitted = load_model(model, "cpu", OnePassEstimator, made_by="fit")
    header, _ = read(model)
    size = model.stat().st_size
    written = f"krepes {header['version']}, format {header['format']}"
    file = {"file": f"{model}, {readable_bytes(size)}", "written by": written}
    show_facts(file | model_facts(fitted))
    encoder = fitted.input_space_.encoder
    if encoder is not None:
        describe.show_columns(encoder, None if verbose else describe.SHOWN_COLUMNS)
    parts = _parts(sizes(model))
    show_table(("part", "size"), [(part, readable_bytes(taken)) for part, taken in parts.items()])
    line(describe.ability_words(fitted))
    line(describe.held_words(fitted), style="yellow")
    about = {"file": str(model), "bytes": size, "version": header["version"], "format": header["format"]}
    return about | describe.summary_of(fitted) | {"parts": parts}


def _parts(tensors: dict[str, int]) -> dict[str, int]:
    """Bytes by part, largest first."""
    parts: dict[str, int] = {}
    for name, size in tensors.items():
        part = _PARTS.get(name.lstrip(".").split(".")[0], "other")
        parts[part] = parts.get(part, 0) + size
    return dict(sorted(parts.items(), key=lambda item: -item[1]))


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
    if len(models) < 2:
        raise typer.BadParameter("One model is not merged: name at least two.")
    check_writable(output, overwrite)
    from krepes import load
    from krepes.cli.work.fitting import rows_held

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
    following = show_next("info", output)
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
