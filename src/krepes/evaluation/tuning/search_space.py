"""What a search varies: ranges and choices by parameter name, and the paper's ranges for every loss.  [krepes, B.3]

Names are those of `set_params`: "regularization", "loss__temperature", "solver__learning_rate". Ranges are log-uniform
unless they begin at zero or below.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from krepes.base.components import resolve
from krepes.embedding import KernelEmbedding
from krepes.losses import Loss, as_loss
from krepes.solvers import SGD, Solver, choose_solver
from krepes.solvers.sgd.preconditioners import Preconditioner

# [krepes, B.3] stops after 60 to 80 epochs, or after 10 to 20 without a lower held-out loss.
MAX_EPOCHS, PATIENCE = 60, 10

Value = bool | int | float | str | None  # that a parameter may be tried with


@dataclass(frozen=True)
class Range:
    """Numbers from low to high: whole numbers if both ends are whole and the parameter takes whole numbers.

    >>> Range(0.01, 1).is_log, Range(0, 1).is_log
    (True, False)
    """

    low: float
    high: float
    log: bool | None = None  # None: wherever all numbers are positive

    @property
    def is_log(self) -> bool:
        return self.low > 0 if self.log is None else self.log

    @property
    def first(self) -> float:
        return self.low

    def check(self, name: str) -> None:
        numbers = (self.low, self.high)
        if not all(
            isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in numbers
        ):
            raise ValueError(
                f"The range of {name} is {self.low!r} to {self.high!r}: expected two finite numbers."
            )
        if self.low >= self.high:
            raise ValueError(
                f"The range of {name} is {self.low:g} to {self.high:g}: the lower end must come first."
            )
        if self.is_log and self.low <= 0:
            raise ValueError(
                f"The range of {name} begins at {self.low:g}: a logarithmic range needs positive numbers. Give "
                "Range(low, high, log=False)."
            )

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}" + ("" if self.is_log else ", linear")


@dataclass(frozen=True)
class Choice:
    """One of several values: numbers, names, true or false, None."""

    values: tuple[Value, ...]

    @property
    def first(self) -> Value:
        return self.values[0]

    def check(self, name: str) -> None:
        if len(self.values) == 0:
            raise ValueError(f"There is nothing to choose from for {name}: give at least one value.")
        for value in self.values:
            if value is not None and not isinstance(value, bool | int | float | str):
                raise ValueError(
                    f"{name} may be chosen among numbers, names, true, false and None; got {value!r:.80}."
                )

    def __str__(self) -> str:
        return ", ".join(map(str, self.values))


Space = dict[str, Range | Choice]

_WIDE = Range(1e-5, 100.0)
_STRENGTH = Range(1e-8, 0.1)  # about the paper's range, in units of the variance in the kernel's space
# By the loss's name; a loss that is not here has its regularization searched.
SPACES: dict[str, Space] = {
    "kernel_pca": {"regularization": _STRENGTH},
    "simple_contrastive": {"regularization": _STRENGTH},
    "spectral_contrastive": {"regularization": _STRENGTH},
    "barlow_twins": {"regularization": _STRENGTH},
    "simclr": {"loss__temperature": Range(1e-3, 100.0)},
    "vicreg": {
        "regularization": _STRENGTH,
        "loss__invariance_weight": _WIDE,
        "loss__variance_weight": _WIDE,
        "loss__covariance_weight": _WIDE,
    },
    # Not in [krepes]: the quadratic form has one weight, and above 1 it drops components.
    "vicreg, quadratic": {"regularization": _STRENGTH, "loss__beta": Range(0.0, 1.0)},
    "autoencoder": {"regularization": _STRENGTH, "loss__covariance_weight": _WIDE},
}
OTHER_LOSS: Space = {"regularization": _STRENGTH}
# Differs from [krepes]: it names the weight decay without a range.
ADAM_SPACE: Space = {"solver__learning_rate": Range(1e-4, 1e-1), "solver__weight_decay": Range(1e-6, 1e-2)}


def loss_space(loss: Loss) -> Space:
    """The ranges of a loss and of its regulariser."""
    name = loss.name or ""
    if name == "vicreg" and getattr(loss, "variance", None) == "quadratic":
        name = "vicreg, quadratic"
    return dict(SPACES.get(name, OTHER_LOSS))


def solver_space(solver: Solver) -> Space:
    """Learning rate and weight decay of Adam; the other solvers have nothing that needs a search."""
    if not isinstance(solver, SGD) or solver.optimizer != "adam":
        return {}
    first_order = resolve(Preconditioner, solver.preconditioner).name != "gauss_newton"
    return dict(ADAM_SPACE) if first_order else {}


def chosen_solver(model: KernelEmbedding) -> Solver:
    """The solver that the model would take."""
    return choose_solver(as_loss(model.loss)) if model.solver == "auto" else resolve(Solver, model.solver)


def solver_settings(model: KernelEmbedding, named: bool = False) -> dict[str, Any]:
    """The epochs and the patience that a search sets for SGD, unless the solver is an object with its own settings.

    With `named`, also the name of the solver that "auto" stands for, so that its parameters can be set.
    """
    if not isinstance(model.solver, str | type):
        return {}
    solver = chosen_solver(model)
    if isinstance(solver, SGD):
        return {"solver": "sgd", "solver__max_epochs": MAX_EPOCHS, "solver__patience": PATIENCE}
    return {"solver": solver.name} if named and model.solver == "auto" else {}


@dataclass(frozen=True)
class SettledSpace:
    """What is varied, and the other parameters that every trial has.

    Attributes
    ----------
    varied : {parameter: Range or Choice}
    fixed : parameters that differ from the model's: the solver where its name was "auto", epochs and patience of SGD.
    """

    varied: Space
    fixed: dict[str, Any]


def settle(model: KernelEmbedding, space: Mapping[str, Any] | None) -> SettledSpace:
    """The space to search: default ranges, replaced or extended by the user's, with every name and range checked.

    >>> from krepes import KernelEmbedding
    >>> own = {"loss__temperature": (0.05, 5.0), "solver__weight_decay": None}
    >>> settled = settle(KernelEmbedding(loss="simclr"), own)
    >>> {name: str(spec) for name, spec in settled.varied.items()}
    {'loss__temperature': '0.05 to 5', 'solver__learning_rate': '0.0001 to 0.1'}
    >>> settled.fixed
    {'solver': 'sgd', 'solver__max_epochs': 60, 'solver__patience': 10}
    """
    if not isinstance(space, Mapping | None):
        raise TypeError(f"space={space!r:.60}: expected a dictionary from parameters to ranges or values.")
    own = {name: _as_spec(name, value) for name, value in (space or {}).items()}
    fixed: dict[str, Any] = {}
    varied: Space
    if "loss" in own or "solver" in own:  # then they differ between trials, and so would their parameters
        varied = dict(OTHER_LOSS)
    else:
        varied = loss_space(as_loss(model.loss)) | solver_space(chosen_solver(model))
        fixed = solver_settings(model, named=any(name.startswith("solver__") for name in own))
    for name, spec in own.items():
        if spec is not None:
            varied[name] = spec
        else:
            varied.pop(name, None)
    fixed = {name: value for name, value in fixed.items() if name not in varied}
    if not varied:
        raise ValueError(
            'There is nothing to search: give at least one range, such as space={"regularization": (1e-3, 1)}.'
        )
    return SettledSpace(_checked(model, varied, fixed), fixed)


def _as_spec(
    name: str, value: Range | Choice | tuple[float, float] | list[Value] | None
) -> Range | Choice | None:
    """(low, high) is a range, a list is a choice, None leaves a parameter alone."""
    if value is None or isinstance(value, Range | Choice):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return Range(*value)
    if isinstance(value, list):
        return Choice(tuple(value))
    raise ValueError(
        f"The search space of {name} is {value!r:.80}: expected (low, high), a list of values, a Range, or None to "
        "leave the parameter alone."
    )


def _checked(model: KernelEmbedding, varied: Space, fixed: dict[str, Any]) -> Space:
    """The space with whole numbers only where a parameter is whole; an error where it fits no parameter."""
    example = clone(model).set_params(**fixed)
    checked: Space = {}
    for name, spec in sorted(varied.items(), key=lambda item: item[0].count("__")):
        spec.check(name)
        try:
            example.set_params(**{name: spec.first})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"The model has no parameter {name!r} to search: {error}") from error
        is_float = isinstance(spec, Range) and _is_float(example, name)
        checked[name] = Range(float(spec.low), float(spec.high), spec.log) if is_float else spec  # type: ignore[union-attr]
    return {name: checked[name] for name in varied}


def _is_float(model: KernelEmbedding, name: str) -> bool:
    """Whether the parameter's default is a float."""
    *path, last = name.split("__")
    owner = functools.reduce(getattr, path, model)
    return isinstance(inspect.signature(type(owner)).parameters[last].default, float)
