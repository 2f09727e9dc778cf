"""Views by a function of one row: the transforms of torchvision and lightly, or any callable.

    view_v(x_i) = function(x_i),    with the global generators set to a seed of (seed, v, i)

Such functions draw from the global generators of torch, numpy or Python. These are set before every call and put back
after the block, so a row has the same views in every pass, block and process, and the caller's draws go on as if
nothing had happened. Cost: a Python call per row and view, and about 30 us for the seeds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.random_streams import stream_key
from krepes.base.rows import Rows
from krepes.base.validation import check_choice
from krepes.views.views import Views, kept_generators

FORMS = ("auto", "row", "chw", "pil")


class PerRow(Views):
    """A function of one row that draws from global generators, such as a transform of torchvision or lightly.

    Parameters
    ----------
    function : callable
        Takes one row and returns its view in the same shape: a tensor, an array, a PIL image, or a list of views, of
        which view v takes entry v.
    form : "auto", "row", "chw" or "pil", default="auto"
        What it is given: the row as it is; an image (c, h, w), the default for rows (h, w, c); or a PIL image, for
        pixels from 0 to 1.
    n_views : int, default=2

    Examples
    --------
    >>> jitter = PerRow(lambda x: x + torch.randn_like(x))
    >>> X, rows = torch.zeros(3, 2), torch.arange(3)
    >>> bool((jitter(X, rows, seed=0)[1][2] == jitter(X[2:], rows[2:], seed=0)[1][0]).all())
    True
    """

    takes_lists = True
    of_user = True

    def __init__(self, function: Callable[[Any], Any] = torch.clone, form: str = "auto", n_views: int = 2):
        self.function = function
        self.form = form
        self.n_views = n_views

    def check(self) -> None:
        super().check()
        check_choice("form", self.form, FORMS)
        if not callable(self.function):
            raise TypeError(f"PerRow needs a function of one row; got {type(self.function).__name__}.")

    def view(self, X: Any, rows: Tensor, seed: int, index: int) -> Rows:
        with kept_generators():
            views = [self._one(x, stream_key(seed, index, int(row)), index) for x, row in zip(X, rows)]
        if not isinstance(X, Tensor):
            return views
        other = next((view for view in views if view.shape != X.shape[1:]), None)
        if other is not None:
            raise ValueError(
                f"The function of PerRow made {tuple(other.shape)} of a row of shape {tuple(X.shape[1:])}. A view must "
                "have the shape of its row: set the size of crops, and leave conversions to preprocessing."
            )
        return torch.stack(views) if views else X.clone()

    def _one(self, x: Tensor, seed: int, index: int) -> Tensor:
        if not isinstance(x, Tensor):
            raise TypeError(
                f"PerRow changes rows of numbers; these are {type(x).__name__} objects. Give positives= instead."
            )
        torch.default_generator.manual_seed(seed & (2**63 - 1))
        random.seed(seed)
        np.random.seed(seed & (2**32 - 1))  # noqa: NPY002  (transforms draw from it)
        form = ("chw" if x.ndim == 3 else "row") if self.form == "auto" else self.form
        found: Any = self.function(_given(x, form))
        if isinstance(found, list | tuple):
            found = found[index % len(found)] if found else None
        if type(found).__module__.startswith("PIL."):
            found = torch.from_numpy(np.array(found)) / 255
        elif isinstance(found, np.ndarray):
            found = torch.from_numpy(found)
        if not isinstance(found, Tensor):
            raise TypeError(
                f"The function of PerRow returned {type(found).__name__}; expected a tensor, an array or a PIL image."
            )
        if form == "chw":
            found = (
                found.movedim(0, -1) if x.ndim == 3 and found.ndim == 3 else found.reshape(found.shape[-2:])
            )
        return found.detach().to(x)


def _given(x: Tensor, form: str) -> object:
    """A row in the form that the function takes, as a copy."""
    if form == "row":
        return x.clone()
    if x.ndim not in (2, 3):
        raise ValueError(
            f"form={form!r} is for images (h, w) or (h, w, c); rows have the shape {tuple(x.shape)}."
        )
    if form == "chw":
        return x.movedim(-1, 0).clone() if x.ndim == 3 else x.clone()[None]
    from PIL import Image

    if not 0 <= x.min() <= x.max() <= 1:
        raise ValueError(f"form='pil' is for pixels from 0 to 1; got {x.min():.3g} to {x.max():.3g}.")
    pixels = (x * 255).round().to("cpu", torch.uint8).numpy()
    return Image.fromarray(pixels[..., 0] if x.ndim == 3 and x.shape[-1] == 1 else pixels)
