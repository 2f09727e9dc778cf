"""Views that need not be drawn: rows as they are, and pairs given by the user."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.views.views import Views


class NoViews(Views):
    """One view per row, the row itself: for losses that compare no views, such as kernel PCA.

    Examples
    --------
    >>> import torch
    >>> NoViews()(torch.ones(1, 2), torch.tensor([0]), seed=0)
    (tensor([[1., 1.]]),)
    """

    n_views = 1
    shift_equivariant = True

    def check(self) -> None:
        """It has no parameters to check."""

    def view(self, X: Tensor, rows: Tensor, seed: int, index: int) -> Tensor:
        return X

    def exact(self, kernel: Kernel) -> bool:
        return True

    def expected_against(self, kernel: Kernel, Y: Any) -> KernelColumns:
        return kernel.against(Y)

    def expected_cost(self, kernel: Kernel, n_features: int, dtype: torch.dtype = torch.float32) -> float:
        return 2.0 * n_features


class Paired(Views):
    """Marks views that come with the data: `fit(X, positives=P, negatives=N)`.

    The anchor and its positive keep their order, so S_11 and S_22 differ. Nothing is drawn; batches already
    hold the pairs.
    """

    exchangeable = False
    n_views = 2
    shift_equivariant = True

    def view(self, X: Tensor, rows: Tensor, seed: int, index: int) -> Tensor:
        if index == 0:
            return X
        raise TypeError(
            "Paired views are given, not drawn: pass the second view of every row as fit(X, positives=P), "
            "or choose views='tabular' or views='image'."
        )
