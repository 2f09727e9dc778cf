"""Parameters of the library on the command line: values of --set, and the estimators that they make.

--set NAME=VALUE      NAME as `set_params` has it: regularization, kernel__lengthscale, solver__max_epochs
                      VALUE as JSON or a Python literal, else as text: 0.1, true, None, '["gaussian", "matern"]'
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from krepes.clustering import SubspaceClustering
    from krepes.one_pass import OnePassEstimator

    E = TypeVar("E", bound=OnePassEstimator | SubspaceClustering)

NOT_NAMES = ("auto", "none")  # of a part, that the estimator reads itself


def parsed(text: str) -> Any:
    """A value as JSON or a Python literal, or else as text.

    >>> parsed("0.1"), parsed("None"), parsed("leverage")
    (0.1, None, 'leverage')
    """
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    return text


def key_and_value(text: str, option: str, example: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE."""
    key, found, value = text.partition("=")
    if not found or not key.strip():
        raise typer.BadParameter(f"{option} {text}: expected {example}.")
    return key.strip(), value.strip()


def overrides(texts: Sequence[str]) -> dict[str, Any]:
    """Parameters from the NAME=VALUE of --set."""
    pairs = (key_and_value(text, "--set", "NAME=VALUE, such as loss__redundancy=0.1") for text in texts)
    return {key: parsed(value) for key, value in pairs}


def given_values(**values: str | float | None) -> dict[str, Any]:
    """The parameters whose options were given; the words none and all stand for None.

    >>> given_values(n_components="8", n_landmarks="all", kernel=None)
    {'n_components': 8, 'n_landmarks': None}
    """
    found = {name: value for name, value in values.items() if value is not None}
    return {
        name: None if value in ("none", "all") else parsed(value) if isinstance(value, str) else value
        for name, value in found.items()
    }


def estimator(cls: type[E], parameters: Mapping[str, Any], **others: Any) -> E:
    """An estimator with parameters from the command line; wrong names are wrong usage."""
    from krepes.base.components import resolve

    known = cls._get_param_names()
    for name in parameters:
        if name.partition("__")[0] not in known:
            raise typer.BadParameter(
                f"{name} is not a parameter of {cls.__name__}. It has {', '.join(known)}."
            )
    model = cls(**others)
    try:
        model.set_params(**parameters)
        for name, kind in cls.component_kinds.items():
            value = getattr(model, name)
            if isinstance(value, str) and value not in NOT_NAMES:
                resolve(kind, value)
    except (ValueError, TypeError, AttributeError) as error:
        raise typer.BadParameter(str(error)) from None
    return model
