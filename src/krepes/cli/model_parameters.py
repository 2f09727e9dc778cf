"""From options to a model: values of --set, components, preprocessing that knows labels and excluded columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from krepes.preprocessing import TableEncoder
    from krepes.sources import Source


def parsed(text: str) -> Any:
    """A value as JSON, and as text where it is none: 0.1, true, null, leverage.

    >>> parsed("0.1"), parsed("leverage")
    (0.1, 'leverage')
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def key_and_value(text: str, option: str, example: str) -> tuple[str, str]:
    """The two sides of KEY=VALUE."""
    key, found, value = text.partition("=")
    if not found or not key.strip():
        raise typer.BadParameter(f"{option} {text}: expected {example}.")
    return key.strip(), value.strip()


def overrides(texts: list[str]) -> dict[str, Any]:
    """Parameters from the KEY=VALUE of --set."""
    pairs = (key_and_value(text, "--set", "KEY=VALUE, such as loss__redundancy=0.1") for text in texts)
    return {key: parsed(value) for key, value in pairs}


def check_trains(parameters: dict[str, Any]) -> None:
    """Refuse options of training where nothing is trained."""
    if not any(name.startswith("solver__") for name in parameters):
        return
    from krepes.base.components import resolve
    from krepes.losses import as_loss
    from krepes.solvers import Solver, choose_solver

    loss, solver = parameters["loss"], parameters["solver"]
    exact = parameters["n_landmarks"] is None
    chosen = choose_solver(as_loss(loss), exact) if solver == "auto" else resolve(Solver, solver)
    if not chosen.stochastic:
        raise typer.BadParameter(
            f"--epochs and the other options of training are for losses that are trained on batches; {loss} is solved "
            f"by {chosen.name}, without any of them. Add --solver sgd to train it."
        )


def split_by_component(parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of the estimator, and those to set afterwards, of its parts."""
    own = {name: value for name, value in parameters.items() if "__" not in name}
    of_parts = {name: value for name, value in parameters.items() if "__" in name}
    network = of_parts.pop("kernel__network", None)
    weights = of_parts.pop("kernel__network__weights", None)
    if network is not None or weights is not None:
        if own["kernel"] != "empirical_ntk":
            raise typer.BadParameter(
                f"--network and --weights are for --kernel empirical-ntk, not for {own['kernel']}."
            )
        from krepes.kernels import EmpiricalNTK
        from krepes.networks import as_network

        chosen = as_network(network or EmpiricalNTK().network)
        own["kernel"] = EmpiricalNTK(chosen if weights is None else chosen.set_params(weights=str(weights)))
    return own, of_parts


def preprocessing(
    choice: str | None,
    source: Source,
    path: Path,
    labels: list[str],
    excluded: list[str],
    columns: list[str],
    missing: list[str],
) -> TableEncoder | str | None:
    """The estimator's `preprocess`: a TableEncoder that knows labels, excluded columns, and what others are."""
    from krepes.labelled import array_names
    from krepes.preprocessing import TableEncoder

    if source.kind == "table" and choice in ("auto", "table"):
        kinds = dict(key_and_value(text, "--column", "NAME=KIND, such as age=number") for text in columns)
        return TableEncoder(
            label=labels[0] if labels else None,
            exclude=[*labels[1:], *excluded],
            columns=kinds or None,
            missing=missing or None,
        )
    if columns or missing:
        option = "--column" if columns else "--missing"
        raise ValueError(f"{option} is for the columns of a table; {path} is {source.describe()}.")
    if excluded:
        raise ValueError(f"--exclude is for the columns of a table; {path} is {source.describe()}.")
    if not set(labels) <= set(names := array_names(path)):
        arrays = f" It has the arrays {', '.join(names)}." if names else ""
        raise ValueError(
            f"--label {labels[0]} is for a column of a table or an array of an .npz file; {path} is "
            f"{source.describe()}.{arrays} Images take their labels from subfolders."
        )
    return choice
