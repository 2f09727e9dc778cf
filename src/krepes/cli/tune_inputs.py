"""What `krepes tune` reads from its options: the search space, labels, rows, and the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from krepes.cli.model_options import key_and_value, parsed, preprocessing

if TYPE_CHECKING:
    import numpy as np

    from krepes.embedding import KernelEmbedding
    from krepes.evaluation import Choice, Range
    from krepes.evaluation.tuning.search_space import Space
    from krepes.sources import Source


def explored(ranges: list[str], choices: list[str]) -> Space:
    """The search space of --range and --choice.

    >>> explored(["loss__temperature=0.05:5"], ["solver__batch_size=128,256"])
    {'loss__temperature': Range(low=0.05, high=5, log=None), 'solver__batch_size': Choice(values=(128, 256))}
    """
    from krepes.evaluation.tuning.search_space import Choice, Range

    space: Space = {}
    for text in ranges:
        example = "KEY=LOW:HIGH, such as loss__temperature=0.05:5"
        key, value = key_and_value(text, "--range", example)
        low, high, *rest = [*value.split(":"), ""]
        numbers = [parsed(low), parsed(high)]
        scale = rest[:-1]
        if not all(isinstance(x, int | float) for x in numbers) or scale not in ([], ["linear"], ["log"]):
            raise typer.BadParameter(f"--range {text}: expected {example}.")
        _add(
            space,
            key,
            Range(numbers[0], numbers[1], {"linear": False, "log": True}.get("".join(scale))),
            text,
        )
    for text in choices:
        key, value = key_and_value(text, "--choice", "KEY=A,B, such as solver__batch_size=128,256")
        _add(
            space, key, Choice(tuple(parsed(part.strip()) for part in value.split(",") if part.strip())), text
        )
    for key, spec in space.items():
        try:
            spec.check(key)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return space


def _add(space: Space, key: str, spec: Range | Choice, text: str) -> None:
    if key in space:
        raise typer.BadParameter(f"{text}: {key} was given before.")
    space[key] = spec


def tuned_labels(source: Source, path: Path, label: str | None, labels: str | None) -> tuple[np.ndarray, str]:
    """The labels and where they were found."""
    from krepes.cli.data import find_labels, read_labels
    from krepes.sources import TableSource

    if labels is not None:
        if label is not None:
            raise typer.BadParameter("Give either --label or --labels, not both.")
        return read_labels(labels), labels
    if isinstance(source, TableSource) and label is not None:
        return source.label_column(label), f"column {label!r}"
    if isinstance(source, TableSource):
        raise ValueError(
            f"Which column holds the labels? Name it: --label COLUMN. {path} has the columns "
            f"{', '.join(source.column_names[:30])}."
        )
    return find_labels(None, source, path, label)


def used_rows(source: Source, path: Path, split: str | None, n_train: int | None) -> np.ndarray | None:
    """The rows that are not for testing; None for all."""
    import numpy as np

    from krepes.cli.data import find_split, is_npz, npz_names
    from krepes.sources import read_array

    if split is not None and n_train is not None:
        raise typer.BadParameter("Give only one of --split and --n-train.")
    if split is not None:
        return find_split(source, path, split)[0]
    if n_train is None and is_npz(path) and "n_train" in npz_names(path):
        n_train = int(read_array(path, "n_train").reshape(-1)[0])
    if n_train is None:
        return None
    if not 0 < n_train <= source.n_rows:
        raise ValueError(f"--n-train {n_train:,}: there are {source.n_rows:,} rows.")
    return np.arange(n_train)


def model_from(
    settings: dict[str, Any],
    overrides: dict[str, Any],
    space: Space,
    source: Source,
    path: Path,
    label: str | None,
    excluded: list[str],
    seed: int,
) -> tuple[KernelEmbedding, dict[str, Any]]:
    """The model to search from, and the parameters that differ from what its options say."""
    from krepes import KernelEmbedding
    from krepes.evaluation.tuning.search_space import solver_settings

    labels = [label] if label is not None else []
    encoder = preprocessing(settings["preprocess"], source, path, labels, excluded)
    views = None if settings["views"] == "none" else settings["views"]
    model = KernelEmbedding(
        **(settings | {"preprocess": encoder, "views": views, "random_state": seed, "verbose": 1})
    )
    given: dict[str, Any] = {}
    if any(name.startswith("solver__") for name in overrides) and not {"loss", "solver"} & set(space):
        given = solver_settings(model, named=True)
    given |= overrides
    if given:
        model.set_params(**given)
    return model, given
