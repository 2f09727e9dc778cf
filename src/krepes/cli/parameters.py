"""Parameters of the library on the command line: options, values of --set, and the estimators that they make.

--set NAME=VALUE      NAME as `set_params` has it: regularization, kernel__lengthscale, solver__max_epochs
                      VALUE as JSON or a Python literal, else as text: 0.1, true, None, '["gaussian", "matern"]'
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import typer

from krepes.cli.command import usage_errors
from krepes.cli.options import DATA, MODEL, Override, count, key_and_value, option

if TYPE_CHECKING:
    from krepes.clustering import SubspaceClustering
    from krepes.embedding import KernelEmbedding
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
    with usage_errors():
        model.set_params(**parameters)
        for name, kind in cls.component_kinds.items():
            value = getattr(model, name)
            if isinstance(value, str) and value not in NOT_NAMES:
                resolve(kind, value)
    return model


@dataclass(frozen=True)
class ModelOptions:
    """Parameters that have options; --set has all others."""

    panel: ClassVar[str] = MODEL
    not_parameters: ClassVar[tuple[str, ...]] = ("preprocess", "override")

    preprocess: Annotated[
        str | None, option("How rows are prepared: auto, table, normalize, series, none.", panel=DATA)
    ] = None
    override: Override = field(default_factory=list)

    def parameters(self) -> dict[str, Any]:
        """What was given, without `preprocess`."""
        names = [each.name for each in fields(self) if each.name not in self.not_parameters]
        return given_values(**{name: getattr(self, name) for name in names}) | overrides(self.override)


@dataclass(frozen=True)
class EmbeddingOptions(ModelOptions):
    """The options of a representation, which `krepes fit` and `krepes tune` share."""

    n_components: Annotated[
        str | None, option("Width. By default 64; auto chooses it.", metavar="N", callback=count)
    ] = None
    n_landmarks: Annotated[
        str | None,
        option("Rows to compare with. By default 1000; all is an exact fit.", metavar="N", callback=count),
    ] = None
    kernel: Annotated[str | None, option("How rows are compared: gaussian, laplacian, matern, ...")] = None
    loss: Annotated[str | None, option("spectral_contrastive, vicreg, kernel_pca, simclr, ...")] = None
    views: Annotated[str | None, option("Changes that keep the meaning: image, tabular, none, ...")] = None
    solver__max_epochs: Annotated[
        int | None, option("--epochs", "The most passes of a loss of samples.", min=1)
    ] = None

    def model(self, parameters: dict[str, Any], **others: Any) -> KernelEmbedding:
        """The model that the parameters make."""
        from krepes.embedding import KernelEmbedding

        try:
            return estimator(KernelEmbedding, parameters, **others)
        except typer.BadParameter as error:
            if "solver" in parameters or not any(name.startswith("solver__") for name in parameters):
                raise
            raise typer.BadParameter(f"{error.message} To train on samples, add --set solver=sgd.") from None
