"""Views one after another: each changes what the one before gave, with draws of its own."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from torch import Tensor

from krepes.base.components import resolve
from krepes.base.random_streams import stream_key
from krepes.base.rows import Rows
from krepes.views.per_row import PerRow
from krepes.views.views import Draws, Groups, Views


class Chain(Views):
    """Several views, applied in order.

    Parameters
    ----------
    parts : sequence of Views, their names, or functions of one row (`PerRow`)
    n_views : int, default=2
        Of every row; what the parts say is not used.

    Examples
    --------
    >>> import torch
    >>> from krepes.views import Image, Tabular
    >>> photographs = Chain([Image(crop=(0.5, 1.0), flip=0.5), "colour"])
    >>> [view.shape for view in photographs(torch.rand(4, 8, 8, 3), torch.arange(4), seed=0)]
    [torch.Size([4, 8, 8, 3]), torch.Size([4, 8, 8, 3])]
    """

    def __init__(self, parts: Sequence[Any] = ("image", "colour"), n_views: int = 2):
        self.parts = parts
        self.n_views = n_views

    @property
    def of_user(self) -> bool:
        return any(part.of_user for part in self._resolved())

    @property
    def takes_lists(self) -> bool:
        return all(part.takes_lists for part in self._resolved())

    def check(self) -> None:
        super().check()
        if not isinstance(self.parts, list | tuple) or not self.parts:
            raise ValueError(f"parts={self.parts!r:.60}: expected a list of one view or more.")
        for part in self._resolved():
            part.check()

    def fitted(self, X: Rows, generator: Draws = None, groups: Groups = None) -> Chain:
        self.check()
        chain = copy(self)
        chain.parts = [part.fitted(X, generator, groups) for part in self._resolved()]
        return chain

    def view(self, X: Any, rows: Tensor, seed: int, index: int) -> Rows:
        for number, part in enumerate(self._resolved()):
            X = part.drawn(X, rows, stream_key(seed, number), index)
        return X

    def _resolved(self) -> list[Views]:
        return [as_views(part) for part in self.parts]


def as_views(value: object) -> Views:
    """A name, an object, a function of one row, or a list of these as views."""
    if isinstance(value, list | tuple):
        return Chain(value)
    if callable(value) and not isinstance(value, type | Views):
        return PerRow(value)
    return resolve(Views, value)
