"""Any callable f(Z1, Z2) as a loss. It sees samples only, so it needs a solver that goes through batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from krepes.losses.base import Batch, Loss, Terms
from krepes.losses.checking import check_terms
from krepes.losses.directions import overall_scale
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
    A function cannot be stored in a model file: it has to be given again when the model is loaded. A loss with
    parameters of its own, or of one view, derives from `Loss`.

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

    def column_scale(self, statistics: Statistics) -> Tensor:
        """The sum of the components' variances, once for each of them, (h,)."""
        return overall_scale(statistics)

    def terms(self, batch: Batch) -> Terms:
        if self.function is None:
            raise ValueError("CallableLoss() has no function: give one, CallableLoss(function).")
        value = self._called(*self.views(batch))
        terms = value if isinstance(value, dict) else {"loss": value}
        check_terms(terms, "The loss function")
        return terms

    def _called(self, *views: Tensor) -> Any:
        assert self.function is not None
        try:
            return self.function(*views)
        except TypeError as error:
            if self._takes(*views):
                raise
            raise ValueError(
                f"The loss function {self.function!r} cannot be called with two arguments: {error}. It has to take the "
                "embeddings of two views, function(Z1, Z2); further arguments need defaults. For a loss of one view, "
                "derive from krepes.losses.Loss with views_needed = 1."
            ) from error

    def _takes(self, *views: Tensor) -> bool:
        """Whether the signature admits two positional arguments; True where it is unknown."""
        assert self.function is not None
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # built in
            return True
        try:
            signature.bind(*views)
        except TypeError:
            return False
        return True
