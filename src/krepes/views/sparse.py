"""Views of sparse rows: some entries are dropped, some replaced by entries of other rows.

    entry (j, v) ->  (j', v')  with probability replace,    drawn from the entries of the data
                     nothing   with probability (1 - replace) drop
                     (j, v)    otherwise,                   and then the row has its old length |x| again

For text: some words are left out, and some are exchanged for words that occur as often as their share. Zeros stay
zeros unless an entry comes to their place. The draws of an entry belong to its row and column
(`krepes.base.random_streams`), so that they depend neither on the block nor on the other entries; a view costs
O(entries). A row of which every entry would be dropped stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.random_streams import uniform_at
from krepes.base.rows import Rows, SparseRows
from krepes.base.validation import check_number
from krepes.views.views import Draws, Groups, Views

POOL = 2**16  # entries of the data that replacements are drawn from
CHOICE, FROM_POOL = 40, 41  # purposes of random streams


class Sparse(Views):
    """Drop entries of sparse rows, and replace some by entries of other rows.

    Parameters
    ----------
    drop : float, default=0.3
        The probability that an entry is left out.
    replace : float, default=0.1
        The probability that an entry becomes another one, drawn from all entries of the data.
    n_views : int, default=2

    Attributes
    ----------
    pool_columns_, pool_values_ : Tensors of shape (q,)
        Entries of the data to draw from; a single zero where there are none, or none are replaced.

    Examples
    --------
    >>> rows = SparseRows(scipy.sparse.csr_array(np.array([[1.0, 2.0, 0.0, 2.0]])))
    >>> view, _ = Sparse(drop=0.5, replace=0.0)(rows, torch.tensor([0]), seed=0)
    >>> view.toarray().round(1).tolist()                     # its length is still 3
    [[0.0, 3.0, 0.0, 0.0]]
    """

    name = "sparse"

    pool_columns_: Tensor
    pool_values_: Tensor

    def __init__(self, drop: float = 0.3, replace: float = 0.1, n_views: int = 2):
        self.drop = drop
        self.replace = replace
        self.n_views = n_views

    def check(self) -> None:
        super().check()
        for name in ("drop", "replace"):
            check_number(name, getattr(self, name), "a probability", least=0, below=1)

    def check_restored(self) -> None:
        if {"pool_columns_", "pool_values_"} & vars(self).keys():
            columns, values = (
                vars(self).get(name, torch.empty(0)) for name in ("pool_columns_", "pool_values_")
            )
            alike = columns.ndim == 1 and columns.shape == values.shape and columns.dtype == torch.int64
            if not alike or not len(columns) or columns.min() < 0:
                raise ValueError("The entries that Sparse views draw from do not fit together.")

    def fitted(self, X: Rows, generator: Draws = None, groups: Groups = None) -> Sparse:
        self.check()
        rows, copy = _sparse(X), clone(self)
        n = len(rows.values) if self.replace > 0 else 0
        places = torch.randperm(n, generator=generator)[:POOL].numpy()
        columns, values = (rows.columns[places], rows.values[places]) if n else ([0], [0.0])
        copy.pool_columns_ = torch.from_numpy(np.array(columns, dtype=np.int64))
        copy.pool_values_ = torch.from_numpy(np.array(values, dtype=np.float64))
        return copy

    def view(self, X: Any, rows: Tensor, seed: int, index: int) -> Tensor | Any:
        if isinstance(X, Tensor):
            changed = self._changed(_sparse(X), rows, seed, index)
            return torch.from_numpy(changed.toarray()).to(X).reshape(X.shape)
        return self._changed(_sparse(X), rows, seed, index)

    def _changed(self, X: SparseRows, rows: Tensor, seed: int, index: int) -> SparseRows:
        row = X.row_of_entry
        owner = rows.cpu().numpy()[row]
        choice = uniform_at(owner, X.columns, seed, index, CHOICE).numpy()
        replaced, kept = choice < self.replace, choice >= self.replace + (1 - self.replace) * self.drop
        # rows that would be empty
        kept |= ~(X.row_sums((kept | replaced).astype(float)) > 0)[row]
        values, columns = X.values.astype(np.float64), X.columns.astype(np.int64)
        if self.replace > 0:
            draws = uniform_at(owner[replaced], columns[replaced], seed, index, FROM_POOL)
            columns[replaced], values[replaced] = self._drawn(draws, X.shape[1])
        left = kept | replaced
        edges = np.concatenate([[0], np.cumsum(np.bincount(row[left], minlength=len(X)))])
        changed = SparseRows(scipy.sparse.csr_array((values[left], columns[left], edges), shape=X.shape))
        before, now = X.square_norms(), changed.square_norms()
        factor = np.sqrt(np.divide(before, now, out=np.zeros_like(now), where=now > 0))
        return changed.with_values((changed.values * factor[changed.row_of_entry]).astype(X.dtype))

    def _drawn(self, draws: Tensor, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Columns and values of entries of the pool, one for every draw."""
        if not hasattr(self, "pool_columns_"):
            raise ValueError("Sparse views draw replacements from the data: call views.fitted(X) first.")
        if len(self.pool_columns_) and int(self.pool_columns_.max()) >= width:
            raise ValueError(f"X has {width} features, but the views were fitted on more.")
        picked = draws.double().mul_(len(self.pool_columns_)).long()
        return self.pool_columns_[picked].numpy(), self.pool_values_[picked].numpy()


def _sparse(X: Any) -> SparseRows:
    """Sparse rows, or dense ones with their zeros left out."""
    if isinstance(X, SparseRows):
        return X
    if not isinstance(X, Tensor):
        raise TypeError(f"Sparse views act on rows of numbers; got a {type(X).__name__}.")
    return SparseRows(scipy.sparse.csr_array(X.detach().cpu().flatten(1).numpy()))
