"""The contract of views: several augmented versions of every row, and where known their expectation.

    views(X, rows, seed) -> (view_1, ..., view_V),      psi(x) = E_aug k(aug(x), y)      [krepes, Sec. 2]

A view is a function of (row of X, global row index, seed, index of the view) and of nothing else: its draws
come from `krepes.base.random_streams`. The two views of a row are independent given the row, so the cross moment of
their features is the second moment of psi; where `expected` has a formula, training on it is training on
infinitely many views.
"""

from __future__ import annotations

import math
import numbers
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from krepes.base.components import Component
from krepes.base.reporting import warn
from krepes.base.rows import Rows, SparseRows, count_rows, slice_rows
from krepes.kernels.kernel import Kernel, KernelColumns

# of one row: far more than change a result, and every one is computed
Draws = torch.Generator | None
Groups = list[list[int]] | None  # columns that belong together
MOST_VIEWS = 1024
_ONE_AT_A_TIME = threading.RLock()  # the global generators are shared by all threads


class Views(Component, ABC):
    """Augmentations of rows.

    Subclasses implement `view` and `check`; those with an exact expectation also `exact`,
    `expected_against` and `expected_cost`.
    """

    # any view may come first; False: an anchor and its positive
    exchangeable: ClassVar[bool] = True
    n_views: int

    def stand_in(self) -> Views:
        """A file keeps what the views were called: representations of new rows do not need them."""
        return ForeignViews(repr(self), self.n_views)

    @property
    def takes_lists(self) -> bool:
        """Whether rows may be a list of tensors of different lengths."""
        return False

    @property
    def shift_equivariant(self) -> bool:
        """Whether a fitted view of x + c is the view of x, plus c: nothing depends on where zero is."""
        return False

    @abstractmethod
    def view(self, X: Any, rows: Tensor, seed: int, index: int) -> Rows:
        """View number `index` of the rows, shaped like X; X is not changed."""

    @property
    def of_user(self) -> bool:
        """Whether code of the user's makes the views."""
        return not type(self).__module__.startswith("krepes.")

    def drawn(self, X: Any, rows: Tensor, seed: int, index: int) -> Rows:
        """`view` of rows that views can be of; where it is the user's code, of a copy of the rows, and checked."""
        floats = isinstance(X, SparseRows) or (isinstance(X, Tensor) and X.is_floating_point())
        if not floats and not (self.takes_lists and isinstance(X, list)):
            kind = X.dtype if isinstance(X, Tensor) else type(X).__name__
            raise TypeError(
                f"{type(self).__name__} acts on floating-point tensors and sparse rows; got {kind}. Convert first "
                "(pixels: X / 255; lists: torch.stack)."
            )
        if not self.of_user:
            return self.view(X, rows, seed, index)
        found = self.view(X.clone() if isinstance(X, Tensor) else deepcopy(X), rows.clone(), seed, index)
        found = torch.from_numpy(found) if isinstance(found, np.ndarray) else found
        given = getattr(X, "shape", None)
        shape, wanted = (getattr(found, "shape", None), given) if given else (count_rows(found), len(X))
        if shape != wanted:
            raise ValueError(f"{type(self).__name__} gave views of shape {shape} for rows of shape {wanted}.")
        if isinstance(found, Tensor):
            found = found.detach().to(X)
            if not found.isfinite().all():
                raise ValueError(f"The views {self} returned NaN or infinite values for finite rows.")
        return found

    def check_repeats(self, X: Rows) -> None:
        """Warn of views of the user's that are not the same whenever they are drawn."""
        if not self.of_user or not isinstance(X, Tensor) or len(X) < 2:
            return
        few, rows = slice_rows(X, 0, 8), torch.arange(min(8, len(X)))
        with kept_generators():
            whole, again = (torch.as_tensor(self.drawn(few, rows, 0, 0)) for _ in range(2))
            half = torch.as_tensor(self.drawn(few[1:], rows[1:], 0, 0))
        alike = torch.equal(whole, again)
        if not alike or not torch.allclose(whole[1:], half, rtol=1e-4, atol=1e-6):
            when = "are read with other rows" if alike else "are drawn again"
            warn(
                f"The views of {type(self).__name__} differ when the same rows {when}, so results cannot be repeated. "
                "Draw from krepes.base.random_streams, by row; or give a function of one row, "
                "krepes.views.PerRow(function), which sets the global generators by row."
            )

    def check(self) -> None:
        """Raise ValueError where a parameter makes no sense."""
        if not isinstance(self.n_views, numbers.Integral) or not 2 <= self.n_views <= MOST_VIEWS:
            raise ValueError(
                f"n_views={self.n_views!r}: expected an integer from 2 to {MOST_VIEWS}, the views of one row."
            )

    def fitted(self, X: Rows, generator: Draws = None, groups: Groups = None) -> Views:
        """A copy that knows what it needs of the data; by default the views themselves.

        Parameters
        ----------
        X : Tensor of shape (n, ...)
            Candidate rows, in the model's input space.
        generator : torch.Generator
        groups : list of lists of column indices, default=None
            Columns that belong together, such as the one-hot columns of one category.
        """
        self.check()
        return self

    def __call__(self, X: Rows, rows: Tensor, seed: int) -> tuple[Rows, ...]:
        """All views of a block of rows.

        Parameters
        ----------
        X : Tensor of shape (b, ...)
        rows : integer Tensor of shape (b,)
            Global indices of the rows; they need not be sorted or contiguous.
        seed : int
        """
        self.check()
        if len(rows) != len(X):
            raise ValueError(f"{len(X)} rows of data came with {len(rows)} row indices; expected one each.")
        given: Any = X
        found = tuple(self.drawn(given, rows, seed, index) for index in range(self.n_views))
        for part in found:
            if isinstance(part, Tensor) and not torch.isfinite(part.sum()) and not torch.isfinite(part).all():
                raise ValueError(f"The views {self} returned NaN or infinite values for finite rows.")
        return found

    def exact(self, kernel: Kernel) -> bool:
        """Whether `expected` has a formula for this kernel."""
        return False

    def expected_against(self, kernel: Kernel, Y: Any) -> KernelColumns | None:
        """A function X -> E_aug k(aug(x), y), shape (b, m), prepared for Y; None where there is no formula."""
        return None

    def expected(self, kernel: Kernel, X: Any, Y: Any) -> Tensor | None:
        """E_aug k(aug(x), y), shape (b, m), or None where there is no formula."""
        block = self.expected_against(kernel, Y)
        return None if block is None else block(X)

    def expected_cost(self, kernel: Kernel, n_features: int, dtype: torch.dtype = torch.float32) -> float:
        """Rough cost of one entry of `expected`, in flops of a matrix product; infinite without a formula.

        For comparison, a Gaussian kernel entry costs about 2 n_features + 60. `dtype` is that of the rows.
        """
        return math.inf


class ForeignViews(Views):
    """Views of a saved model that krepes does not define. A loaded model transforms without them.

    Parameters
    ----------
    description : str
        Their class and parameters, in words.
    n_views : int, default=2
    """

    takes_lists = True

    def __init__(self, description: str = "", n_views: int = 2):
        self.description = description
        self.n_views = n_views

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # scikit-learn's name
        return f"<the views {self.description}, not in the file>"

    def view(self, X: Any, rows: Tensor, seed: int, index: int) -> Rows:
        raise ValueError(
            f"This model was fitted with views {self.description}, a class that a model file cannot hold. Set them "
            "before fitting again: model.set_params(views=...).fit(X)."
        )


class NoViews(Views):
    """One view per row, the row itself: for losses that compare no views, such as kernel PCA.

    Examples
    --------
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
            "Paired views are given, not drawn: fit(X, positives=P), or choose views='tabular' or views='image'."
        )


@contextmanager
def kept_generators() -> Iterator[None]:
    """The global generators of torch (CPU), numpy and Python, put back at the end."""
    with _ONE_AT_A_TIME:
        states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
        try:
            yield
        finally:
            torch.set_rng_state(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            random.setstate(states[2])
