"""Any callable f(Z1, Z2) as a loss. It sees samples only, so it needs a solver that goes through batches."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from krepes.base.components import External
from krepes.losses.batch import Batch, Terms
from krepes.losses.checking import check_terms
from krepes.losses.directions import overall_scale
from krepes.losses.loss import Loss
from krepes.losses.statistics import Statistics


class CallableLoss(Loss):
    """A user's function of two views' embeddings.

    Parameters
    ----------
    function : callable, default=None
        `function(Z1, Z2)` with Z1, Z2 of shape (b, h), returning a scalar tensor or a dict of named scalars whose
        sum is the loss. It should be a mean over samples.
    scale_invariant : bool, default=False
        Whether the value stays the same when Z1 and Z2 are multiplied by one number. The regulariser then does as
        well; otherwise it would shrink such an embedding without end.

    Notes
    -----
    A torch module is trained along with the representation, from the weights that it has; the trained ones are in
    `loss_parameters_`, the module itself stays as it was. A loss of one view, or with negatives, derives from `Loss`.

    A model file keeps the function's name only: a loaded model transforms without it, and needs a loss to fit again.

    Examples
    --------
    >>> import torch
    >>> loss = CallableLoss(lambda Z1, Z2: (Z1 - Z2).square().sum(1).mean())
    >>> float(loss.terms(Batch((torch.ones(3, 2), torch.zeros(3, 2))))["loss"])
    2.0
    """

    scale_invariant = False

    def __init__(self, function: Callable[..., Any] | None = None, scale_invariant: bool = False):
        self.function = function
        self.scale_invariant = scale_invariant

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        rest = ", scale_invariant=True" * self.scale_invariant
        return f"CallableLoss({'' if self.function is None else described(self.function)}{rest})"

    def offers(self, method: str) -> bool:
        if method == "parameters":
            return isinstance(self.function, torch.nn.Module) and bool([*self.function.parameters()])
        return super().offers(method)

    def __call__(self, *Z: Any, X: Any = None) -> Tensor:
        """The value of the function; a module is called with the weights that it has."""
        return self._sum(Z, X)

    def column_scale(self, statistics: Statistics) -> Tensor:
        """The sum of the components' variances, once for each of them, (h,)."""
        return overall_scale(statistics)

    def parameters(self, n_components: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The module's weights as they are, by their names."""
        module: Any = self.function
        return {name: value.detach().clone() for name, value in module.named_parameters()}

    def terms(self, batch: Batch) -> Terms:
        if self.function is None:
            raise ValueError("CallableLoss() has no function: give one, CallableLoss(function).")
        value = self._called(batch.parameters, *self.views(batch))
        terms = value if isinstance(value, dict) else {"loss": value}
        check_terms(terms, "The loss function")
        return terms

    def _called(self, weights: dict[str, Tensor], *views: Tensor) -> Any:
        assert self.function is not None
        try:
            if weights and isinstance(self.function, torch.nn.Module):
                return torch.func.functional_call(self.function, weights, views)
            return self.function(*views)
        except TypeError as error:
            if self._takes(*views):
                raise
            raise ValueError(
                f"The loss function {described(self.function)} cannot be called with two arguments: {error}. It has to "
                "take the embeddings of two views, function(Z1, Z2); further arguments need defaults. For a loss of "
                "one view, derive from krepes.losses.Loss with views_needed = 1."
            ) from error

    def _takes(self, *views: Tensor) -> bool:
        """Whether the signature admits two positional arguments; True where it is unknown."""
        function: Any = self.function
        try:
            inspect.signature(getattr(function, "forward", function)).bind(*views)
        except (TypeError, ValueError) as error:
            return isinstance(error, ValueError)  # built in
        return True


def described(function: object) -> str:
    """A function by its name, without an address.

    >>> described(functools.partial(max, default=0))
    'partial(max)'
    """
    if isinstance(function, External):
        return repr(function)
    if isinstance(function, functools.partial):
        return f"partial({described(function.func)})"
    return str(getattr(function, "__qualname__", type(function).__name__)).rpartition("<locals>.")[2]
