"""Views of time series: a crop of them, at a changing speed, larger or smaller, with noise.

    view(u) = m + f (x( a + s w(u) ) - m) + noise sigma N(0, 1),      w(u) = u + warp / 3 sum_k b_k sin(pi k u) / (pi k)

u in [0, 1] runs over the steps. The crop starts at a and has the share s of the length; it is stretched to the whole
length. w is a smooth change of speed that keeps both ends: with b_1, b_2, b_3 in [-1, 1] its slope lies between
1 - warp and 1 + warp, so that time never runs backwards. f is the factor of the amplitude, m and sigma are mean and
deviation of the channel. Jitter, scaling, window slicing and warping are the usual changes of series [iwana].
Crop and warp are one linear interpolation, about 20 ns per number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.random_streams import normal, uniform
from krepes.base.rows import Rows
from krepes.base.validation import check_number
from krepes.views.views import Draws, Groups, Views

CHANGE, NOISE = range(2)  # purposes of the draws of one view
N_WAVES = 3  # of a warp
N_DRAWS = 3 + N_WAVES  # length and place of the crop, amplitude, waves


@dataclass(eq=False, repr=False)
class TimeSeries(Views):
    """Crop, warp of time, amplitude and noise.

    Parameters
    ----------
    noise : float, default=0.05
        Standard deviation of the Gaussian noise, in standard deviations of the channel.
    scaling : float, default=1.1
        Largest factor of the amplitude, and its inverse the smallest, log-uniform; one for all channels of a series.
    crop : float in (0, 1], default=0.8
        The shortest crop, as a share of the length; it is stretched to the whole length. 1 is no crop.
    warp : float in [0, 1), default=0.3
        Largest change of speed: time runs between 1 - warp and 1 + warp times as fast. 0 is no warp.
    n_views : int, default=2

    Attributes
    ----------
    mean_, scale_ : Tensor of shape (c,)
        Mean and standard deviation of the channels, known after `fitted`.

    Notes
    -----
    Series are tensors of shape (b, t, c) or (b, t), or lists of tensors (t_i, c) whose lengths differ; views have the
    same shapes.

    Examples
    --------
    A crop of half the length, stretched: the slope of a line halves.

    >>> views = TimeSeries(noise=0, scaling=1, crop=0.5, warp=0)
    >>> line = torch.arange(5.0)[None]
    >>> view = views.fitted(line).view(line, torch.tensor([0]), seed=0, index=0)
    >>> bool((view.diff() >= 0.5).all()), bool((view.diff() <= 1).all())
    (True, True)
    """

    name = "series"
    takes_lists = True
    shift_equivariant = True

    noise: float = 0.05
    scaling: float = 1.1
    crop: float = 0.8
    warp: float = 0.3
    n_views: int = 2

    mean_: Tensor = field(init=False)
    scale_: Tensor = field(init=False)

    def check(self) -> None:
        super().check()
        check_number("noise", self.noise, "standard deviations of a channel", least=0)
        check_number("scaling", self.scaling, "a largest factor", least=1)
        check_number("crop", self.crop, "a share of the length", above=0, most=1)
        check_number("warp", self.warp, "a change of speed", least=0, below=1)

    def fitted(self, X: Rows, generator: Draws = None, groups: Groups = None) -> TimeSeries:
        self.check()
        points = torch.cat([_channels(x[None])[0] for x in X]).double()
        copy = clone(self)
        copy.mean_, copy.scale_ = points.mean(0), points.std(0, correction=0)
        return copy

    def view(self, X: Any, rows: Tensor, seed: int, index: int) -> Rows:
        if isinstance(X, list):
            return [self.view(x[None], rows[i : i + 1], seed, index)[0] for i, x in enumerate(X)]
        series = _channels(X)  # (b, t, c)
        if not hasattr(self, "scale_") or series.shape[2] != len(self.scale_):
            raise ValueError(
                "Views of series depend on their channels: call views.fitted(X) first, with as many channels."
            )
        draws = uniform(rows, N_DRAWS, seed, index, CHANGE).double()
        out = interpolated(series, self._places(draws, series.shape[1]))
        factor = torch.exp(math.log(self.scaling) * (2 * draws[:, 2] - 1)).to(out)[:, None, None]
        mean = self.mean_.to(out)
        out = (out - mean).mul_(factor).add_(mean)
        if self.noise > 0:
            width = series.shape[1] * series.shape[2]
            noise = normal(rows, width, seed, index, NOISE).to(out).reshape(out.shape)
            out.add_(noise.mul_((self.noise * self.scale_).to(out)))
        return out.reshape(X.shape)

    def _places(self, draws: Tensor, n_steps: int) -> Tensor:
        """Where every step of a view lies in the series, in steps, (b, t)."""
        u = torch.linspace(0, 1, n_steps, dtype=draws.dtype)
        w = u.expand(len(draws), n_steps)
        for k in range(1, N_WAVES + 1):
            b = (2 * draws[:, 2 + k] - 1)[:, None]
            w = w + self.warp / N_WAVES * b * torch.sin(math.pi * k * u) / (math.pi * k)
        share = self.crop + (1 - self.crop) * draws[:, :1]
        return ((1 - share) * draws[:, 1:2] + share * w) * (n_steps - 1)


def interpolated(series: Tensor, places: Tensor) -> Tensor:
    """Series (b, t, c) at real places (b, u) between steps 0 and t - 1, (b, u, c).

    >>> interpolated(torch.tensor([[[0.0], [10.0]]]), torch.tensor([[0.0, 0.25, 1.0]]))[0, :, 0]
    tensor([ 0.0000,  2.5000, 10.0000])
    """
    last = series.shape[1] - 1
    low = places.floor().clamp(0, max(last - 1, 0))
    share = (places - low).clamp_(0, 1).to(series)[:, :, None]
    low = low.long().to(series.device)[:, :, None].expand(-1, -1, series.shape[2])
    left, right = series.gather(1, low), series.gather(1, (low + 1).clamp(max=last))
    return left + (right - left).mul_(share)


def _channels(X: Tensor) -> Tensor:
    """(b, t) or (b, t, c) as (b, t, c)."""
    if X.ndim not in (2, 3):
        raise ValueError(f"Views of series got rows of shape {tuple(X.shape[1:])}; expected (t,) or (t, c).")
    return X.reshape(len(X), X.shape[1], X.shape[2] if X.ndim == 3 else 1)
