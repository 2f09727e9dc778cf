"""From the options of `krepes tune` to the search space, and to the model to search from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from krepes.cli.model_parameters import key_and_value, parsed

if TYPE_CHECKING:
    from krepes.embedding import KernelEmbedding
    from krepes.evaluation import Choice, Range
    from krepes.evaluation.tuning.search_space import Space


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
        is_log = {"linear": False, "log": True}.get("".join(scale))
        _add(space, key, Range(numbers[0], numbers[1], is_log), text)
    for text in choices:
        key, value = key_and_value(text, "--choice", "KEY=A,B, such as solver__batch_size=128,256")
        values = tuple(parsed(part.strip()) for part in value.split(",") if part.strip())
        _add(space, key, Choice(values), text)
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


def model_from(
    parameters: dict[str, Any],
    overrides: dict[str, Any],
    space: Space,
    seed: int,
) -> tuple[KernelEmbedding, dict[str, Any]]:
    """The model to search from, and the parameters that differ from what its own options say."""
    from krepes import KernelEmbedding
    from krepes.evaluation.tuning.search_space import solver_settings

    model = KernelEmbedding(**(parameters | {"random_state": seed, "verbose": 1}))
    given: dict[str, Any] = {}
    if any(name.startswith("solver__") for name in overrides) and not {"loss", "solver"} & set(space):
        given = solver_settings(model, named=True)
    given |= overrides
    if given:
        model.set_params(**given)
    return model, given
