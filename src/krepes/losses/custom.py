"""Any callable f(Z1, Z2) as a loss. It sees samples only, so it needs a solver that goes through batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from krepes.losses.base import Batch, Loss, Terms


class CallableLoss(Loss):
    """A user's function of two views' embeddings.

    Parameters
    ----------
    function : callable, default=None
        `function(Z1, Z2)` with Z1, Z2 of shape (b, h), returning a scalar tensor or a dict of named scalars whose
        sum is the loss. It should be a mean over samples.

    Notes
    -----
    A function cannot be stored in a model file: it has to be given again when the model is loaded.

    Examples
    --------
    >>> import torch
    >>> loss = CallableLoss(lambda Z1, Z2: (Z1 - Z2).square().sum(1).mean())
    >>> float(loss.terms(Batch((torch.ones(3, 2), torch.zeros(3, 2))))["loss"])
    2.0
    """

    def __init__(self, function: Callable[..., Any] | None = None):
        self.function = function

    def terms(self, batch: Batch) -> Terms:
        if self.function is None:
            raise ValueError("CallableLoss() has no function: give one, CallableLoss(function).")
        value = self.function(*batch.Z[:2])
        terms = value if isinstance(value, dict) else {"loss": value}
        for name, term in terms.items():
            if not isinstance(term, Tensor) or term.ndim != 0:
                shape = f"shape {tuple(term.shape)}" if isinstance(term, Tensor) else type(term).__name__
                raise ValueError(
                    f"The loss function returned {shape} for {name!r}; expected a scalar tensor."
                )
        return terms
