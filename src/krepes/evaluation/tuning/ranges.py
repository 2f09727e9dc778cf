"""What a search varies: Optuna's distributions by parameter name, and the paper's ranges for every loss.  [krepes, B.3]

Names are as in `set_params`: "regularization", "loss__temperature", "solver__learning_rate". A pair is a range,
log-uniform unless it begins at zero or below; a list holds values to choose from.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from krepes.base.components import resolve
from krepes.embedding import KernelEmbedding
from krepes.losses import Loss, as_loss
from krepes.solvers import SGD, Solver, choose_solver
from krepes.solvers.sgd import Preconditioner

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

# [krepes, B.3] stops after 60 to 80 epochs, or after 10 to 20 without a lower held-out loss.
MAX_EPOCHS, PATIENCE = 60, 10

Pair = tuple[float, float]
_WIDE = (1e-5, 100.0)
_STRENGTH = (1e-8, 0.1)  # about the paper's range, in units of the variance in the kernel's space
# By the loss's name; a loss that is not here has its regularization searched.
RANGES: dict[str, dict[str, Pair]] = {
    "kernel_pca": {"regularization": _STRENGTH},
    "simple_contrastive": {"regularization": _STRENGTH},
    "spectral_contrastive": {"regularization": _STRENGTH},
    "barlow_twins": {"regularization": _STRENGTH},
    "simclr": {"loss__temperature": (1e-3, 100.0)},
    "vicreg": {
        "regularization": _STRENGTH,
        "loss__invariance_weight": _WIDE,
        "loss__variance_weight": _WIDE,
        "loss__covariance_weight": _WIDE,
    },
    # Not in [krepes]: the quadratic form has one weight, and above 1 it drops components.
    "vicreg, quadratic": {"regularization": _STRENGTH, "loss__beta": (0.0, 1.0)},
    "autoencoder": {"regularization": _STRENGTH, "loss__covariance_weight": _WIDE},
}
OTHER_LOSS: dict[str, Pair] = {"regularization": _STRENGTH}
# Differs from [krepes]: it names the weight decay without a range.
ADAM: dict[str, Pair] = {"solver__learning_rate": (1e-4, 1e-1), "solver__weight_decay": (1e-6, 1e-2)}


def import_optuna() -> ModuleType:
    """Optuna, or an error that says how to get it."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError('A search needs Optuna: pip install "krepes[tune]".') from error
    return optuna


def loss_ranges(loss: Loss) -> dict[str, Pair]:
    """The ranges of a loss and of its regulariser."""
    name = loss.name or ""
    if name == "vicreg" and getattr(loss, "variance", None) == "quadratic":
        name = "vicreg, quadratic"
    return RANGES.get(name, OTHER_LOSS)


def solver_ranges(solver: Solver) -> dict[str, Pair]:
    """Learning rate and weight decay of Adam; the other solvers have nothing that needs a search."""
    if not isinstance(solver, SGD) or solver.optimizer != "adam":
        return {}
    return ADAM if resolve(Preconditioner, solver.preconditioner).name != "gauss_newton" else {}


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
    varied : {parameter: distribution}
    fixed : parameters that differ from the model's: the solver where its name was "auto", epochs and patience of SGD.
    """

    varied: dict[str, BaseDistribution]
    fixed: dict[str, Any]


def settle(model: KernelEmbedding, space: Mapping[str, Any] | None) -> SettledSpace:
    """The space to search: default ranges, replaced or extended by the user's, with every name and range checked.

    >>> own = {"loss__temperature": (0.05, 5.0), "solver__weight_decay": None}
    >>> settled = settle(KernelEmbedding(loss="simclr"), own)
    >>> {name: (spec.low, spec.high) for name, spec in settled.varied.items()}
    {'loss__temperature': (0.05, 5.0), 'solver__learning_rate': (0.0001, 0.1)}
    >>> settled.fixed
    {'solver': 'sgd', 'solver__max_epochs': 60, 'solver__patience': 10}
    """
    if not isinstance(space, Mapping | None):
        raise TypeError(f"space={space!r:.60}: expected a dictionary from parameters to ranges or values.")
    own = dict(space or {})
    fixed: dict[str, Any] = {}
    varied: dict[str, Any] = dict(OTHER_LOSS)
    if not {"loss", "solver"} & {name for name, spec in own.items() if spec is not None}:
        # Else trials differ in them and their parameters.
        varied = loss_ranges(as_loss(model.loss)) | solver_ranges(chosen_solver(model))
        fixed = solver_settings(model, named=any(name.startswith("solver__") for name in own))
    varied = {name: spec for name, spec in (varied | own).items() if spec is not None}
    fixed = {name: value for name, value in fixed.items() if name not in varied}
    if not varied:
        raise ValueError(
            'There is nothing to search: give at least one range, such as space={"regularization": (1e-3, 1)}.'
        )
    return SettledSpace(_distributions(clone(model).set_params(**fixed), varied), fixed)


def _distributions(model: KernelEmbedding, varied: dict[str, Any]) -> dict[str, BaseDistribution]:
    """The space as Optuna has it; an error where it fits no parameter of the model, which is changed."""
    found: dict[str, BaseDistribution] = {}
    for name, spec in sorted(varied.items(), key=lambda item: item[0].count("__")):
        checked: Any = distribution(name, spec)
        first = checked.low if hasattr(checked, "low") else checked.choices[0]
        try:
            model.set_params(**{name: first})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"The model has no parameter {name!r} to search: {error}") from error
        found[name] = distribution(name, spec, whole=not _is_float(model, name))
    return {name: found[name] for name in varied}


def distribution(name: str, spec: object, whole: bool = True) -> BaseDistribution:
    """(low, high) as a range, a list as a choice; `whole` numbers stay whole. Optuna's own are taken as they are."""
    kinds = import_optuna().distributions
    try:
        if isinstance(spec, kinds.BaseDistribution):
            return spec
        if isinstance(spec, list) and all(isinstance(v, bool | int | float | str | None) for v in spec):
            return kinds.CategoricalDistribution(spec)
        low, high = spec if isinstance(spec, tuple) else ()
        if not (math.isfinite(low) and low < high < math.inf):
            raise ValueError("the lower end comes first, and both are finite.")
        is_int = whole and isinstance(low, int) and isinstance(high, int)
        kind = kinds.IntDistribution if is_int else kinds.FloatDistribution
        return kind(low, high, log=low > 0)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"The search space of {name} is {spec!r:.80}: expected (low, high), a list of numbers and names, a "
            f"distribution of Optuna, or None to leave the parameter alone ({error})."
        ) from error


def _is_float(model: KernelEmbedding, name: str) -> bool:
    """Whether the parameter's default is a float."""
    *path, last = name.split("__")
    owner = functools.reduce(getattr, path, model)
    return isinstance(inspect.signature(type(owner)).parameters[last].default, float)
