"""Values on rows that a solution has not seen, from moments by fold: no second pass over the data.

    for two folds a, b:   (W, gamma) = the minimum over the other folds,   value = its loss on a and b

Folds are taken in a circle, (0, 1), (1, 2), ..., (k - 1, 0), so that there are k values. Two folds are held out at a
time because the square of one sample's moments is biased: |W^T S W|_F^2 comes out larger by about h (h + 1) / n. The
product of two disjoint samples is not, <W^T S_a W, W^T S_b W>. For a loss f(s) = c + l(s) + q(s, s) of moments s,

    2 f((a + b) / 2) - (f(a) + f(b)) / 2  =  c + (l(a) + l(b)) / 2 + q(a, b)

has the mean f(mean of s) if a and b are from disjoint samples. A loss that is not `quadratic_in_moments`
(VICReg with its hinge, normalised Barlow Twins) is evaluated on the moments of both folds together, with that bias.

Covariances are about the means of the folds that were learned from. The value has no regulariser and no feature noise.
Each fold enters two of the k values, so the deviation s of the values gives the standard error
s sqrt(2 (k - 1) / (k (k - 2))): that of a mean over k folds, where a value is the mean of two neighbours.

Cost: k solutions, each O(r^3) or O(r^2 h) per step, whatever n is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh, symmetric
from krepes.base.reporting import warn
from krepes.base.split import Parts
from krepes.features.space import LEAST_FOLDS, FeatureSpace
from krepes.features.task import LinearMap, Spread, Task
from krepes.losses import Loss, MomentForms, Statistics
from krepes.losses.statistics import MomentStatistics
from krepes.moments import Moments

V = TypeVar("V", float, np.ndarray)

SHARE, WIDEST = 0.99, 128  # of n_components="auto", see `best_width`
AUTO_FOLDS = 5  # where n_components="auto" needs folds and no number of them is given
NOTHING = (
    "Nothing that this representation has learned can be shown to hold for rows it has not seen. Take weaker views, a "
    "longer lengthscale or more rows."
)


@dataclass(frozen=True, eq=False)
class HeldOut(Generic[V]):
    """Values on rows that were not learned from.

    Attributes
    ----------
    values : ndarray of shape (k,), or (k, h) for one value per component
        For each of the k parts that were held out.
    mean, standard_error : float, or ndarray of shape (h,)
        Over the k parts.
    """

    values: np.ndarray
    mean: V
    standard_error: V


def over_parts(found: Sequence[float], n_held: int) -> HeldOut[float]:
    """Numbers of which each fold is in n_held, 1 or 2."""
    values = np.array(found)
    return HeldOut(values, float(values.mean()), float(_error(values, n_held)))


def by_component(found: Sequence[np.ndarray], n_held: int) -> HeldOut[np.ndarray]:
    """The same for every component; a part may have lost some of them to the regulariser."""
    values = np.stack([part[: min(map(len, found))] for part in found])
    return HeldOut(values, values.mean(0), _error(values, n_held))


def _error(values: np.ndarray, n_held: int) -> np.ndarray:
    k = len(values)
    return values.std(0, ddof=1) * (1 / k if n_held == 1 else 2 * (k - 1) / (k * (k - 2))) ** 0.5


class HeldOutStatistics(MomentStatistics):
    """Statistics of held-out moments about the means of the moments that were learned from.

        C_vw = mean (z_v - m_v)(z_w - m_w)^T,     m_v = W^T mu_v + gamma,   mu_v the mean feature of the training part

    A covariance about the held-out sample's own mean is not linear in its moments. About means that were fixed before,
    it is: then a loss that is quadratic in covariances can be estimated without bias, see above. What
    does not depend on a centre (alignment, distance, second moment) is as before.

    Parameters
    ----------
    held_out, training : MomentForms
        Of the training part only the means are used.
    W, gamma : Tensors of shape (r, h) and (h,)

    Examples
    --------
    Held-out points 1 and 3 have variance 1 about their own mean, and 1 + (2 - 0)^2 about 0.

    >>> held_out, training = (MomentForms.of(Moments.of_rows(torch.tensor([[a], [b]]))) for a, b in ((1, 3), (-1, 1)))
    >>> HeldOutStatistics(held_out, training, torch.ones(1, 1), torch.zeros(1)).variance_1.item()
    5.0
    """

    def __init__(self, held_out: MomentForms, training: MomentForms, W: Tensor, gamma: Tensor):
        super().__init__(held_out, W, gamma)
        self._about_own_means = MomentStatistics(held_out, W, gamma)
        pairs = ((held_out.mean_1, training.mean_1), (held_out.mean_2, training.mean_2))
        self._shifts = [mine - theirs for mine, theirs in pairs]  # (r,) for each view

    def _shift(self, view: int) -> Tensor:
        return self._W.mT @ self._shifts[view - 1]

    def _covariance(self, view: int, other: int) -> Tensor:
        return super()._covariance(view, other) + torch.outer(self._shift(view), self._shift(other))

    def _variance(self, view: int, other: int) -> Tensor:
        return super()._variance(view, other) + self._shift(view) * self._shift(other)

    @property
    def covariance(self) -> Tensor:
        """Of both views stacked, about the mean of the training part's two views."""
        shift = (self._shift(1) + self._shift(2)) / 2
        return self._about_own_means.covariance + torch.outer(shift, shift)

    @property
    def phi_norm_sq(self) -> Tensor:
        return super().phi_norm_sq + ((self._shifts[0] + self._shifts[1]) / 2).square().sum()

    @property
    def alignment(self) -> Tensor:
        return self._about_own_means.alignment

    @property
    def distance(self) -> Tensor:
        return self._about_own_means.distance

    @property
    def second_moment(self) -> Tensor:
        return self._about_own_means.second_moment

    @property
    def power(self) -> Tensor:
        return self._about_own_means.power


@dataclass(frozen=True, eq=False)
class Part:
    """A solution, the moments that it was found from, and the moments of the held-out folds."""

    loss: Loss
    W: Tensor  # (r, h), at the scale of the loss
    gamma: Tensor  # (h,)
    training: Moments
    held_out: tuple[Moments, ...]

    def zero(self) -> Part:
        """The map that gives 0 for every row."""
        return replace(self, W=torch.zeros_like(self.W), gamma=torch.zeros_like(self.gamma))

    def value(self) -> float:
        """The loss on the two folds that were held out."""
        first, second = (moments * (1 / moments.n) for moments in self.held_out)
        both = self._statistics((first + second) * 0.5)
        terms = self.loss.of_statistics(both)
        if self.loss.quadratic_in_moments:
            a, b = (self.loss.of_statistics(self._statistics(each)) for each in (first, second))
            terms = {name: 2 * terms[name] - (a[name] + b[name]) / 2 for name in terms}
        return sum(term.item() for term in terms.values())

    def _statistics(self, moments: Moments) -> Statistics:
        forms = MomentForms.of(moments)
        if self.loss.intercept != "centered":
            return forms.embed(self.W, self.gamma)
        return HeldOutStatistics(forms, MomentForms.of(self.training), self.W, self.gamma)

    def correlations(self, scale: str) -> np.ndarray:
        """Between the two views, for every component of the output, (h,)."""
        change = Spread.of(self.W, self.training).change(scale, self.loss)
        W = self.W if change is None else self.W @ change
        found = MomentForms.of(reduce(add, self.held_out)).embed(W)
        size = (found.variance_1 * found.variance_2).clamp_min(0).sqrt()
        return (found.agreement / torch.where(size > 0, size, torch.inf)).cpu().numpy()


def circle(folds: Parts[Moments], n_held: int) -> Iterator[tuple[Moments, tuple[Moments, ...]]]:
    """The moments of all but one fold (or two neighbours in the circle of folds), and of those that are held out."""
    keys = sorted(folds)
    if len(keys) <= n_held:
        raise ValueError(
            f"The rows are in {len(keys)} fold(s), and at least {n_held + 1} folds with rows are needed to hold some "
            "out: fit on more rows, or on more rows of nonzero weight."
        )
    for i in range(len(keys)):
        held = [keys[(i + j) % len(keys)] for j in range(n_held)]
        training = reduce(add, (folds[key] for key in keys if key not in held))
        yield training, tuple(folds[key] for key in held)


def cross_fitted(task: Task, space: FeatureSpace, folds: Parts[Moments], n_held: int) -> Iterator[Part]:
    """The minimum over all but one fold, or two."""
    for training, held in circle(folds, n_held):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the model's own solution has said it
            found = task.solution(space, training)
        yield Part(task.loss, found.W, found.gamma, training, held)


def held_out_loss(task: Task, space: FeatureSpace, folds: Parts[Moments]) -> HeldOut[float]:
    """The loss on two folds of the minimum over the others, for every pair of neighbours."""
    task = settled(task, folds)
    return over_parts([part.value() for part in cross_fitted(task, space, folds, 2)], 2)


def held_out_correlations(task: Task, space: FeatureSpace, folds: Parts[Moments]) -> HeldOut[np.ndarray]:
    """The correlation of the views on one fold, by component of the minimum over the others."""
    task = settled(task, folds)
    if not folds.total.paired:
        raise ValueError("These moments hold one view per row, so there are no correlations between views.")
    return by_component([part.correlations(task.scale) for part in cross_fitted(task, space, folds, 1)], 1)


def settled(task: Task, folds: Parts[Moments]) -> Task:
    """The task with a number for n_components="auto"."""
    if task.n_components != "auto":
        return task
    return replace(task, n_components=best_width(folds))


def best_width(folds: Parts[Moments]) -> int:
    """The smallest width that keeps SHARE of what the views of unseen rows have in common, at most WIDEST.

        kept(h) = sum_{j <= h} u_j^T V_12 u_j  /  sum_j u_j^T V_12 u_j

    V_12 is the covariance between the views on a fold that was held out (for one view per row, their covariance), and
    u_1, u_2, ... are the principal directions of the same matrix over the other folds. It does not depend on the loss.
    One eigendecomposition for every fold, O(k r^3).
    """
    found = []
    for training, held in circle(folds, 1):
        U = descending_eigh(_shared(training))[1]
        found.append((U * (_shared(held[0]) @ U)).sum(0).cumsum(0))
    kept = torch.stack(found).sum(0)
    enough = int((kept < SHARE * kept[-1]).to(torch.int8).argmin()) + 1
    return min(enough, WIDEST) if kept[-1] > 0 else 1


def _shared(moments: Moments) -> Tensor:
    """What two views have in common, (r, r): their covariance."""
    if not moments.paired:
        return moments.covariance
    return moments.S_plus - symmetric(torch.outer(moments.mean_1, moments.mean_2))


def check_learned(task: Task, space: FeatureSpace, sums: Parts[Moments], found: LinearMap) -> None:
    """Warn of a solution from which nothing holds for rows that were not learned from."""
    if len(sums) < LEAST_FOLDS:
        return
    h = len(found.gamma)
    gains, correlations = [], []
    try:
        for part in cross_fitted(replace(task, n_components=h), space, sums, 2):
            gains.append(part.zero().value() - part.value())
            if part.training.paired and task.loss.views_needed > 1:
                correlations.append(part.correlations(task.scale))
    except ValueError as error:  # such as no component left without some of the folds
        warn(f"{NOTHING} {error}")
        return
    gain = over_parts(gains, 2)
    if gain.mean <= 0:
        warn(
            f"{NOTHING} {task.loss} is no lower there than for a representation that is 0 everywhere (lower by "
            f"{gain.mean:.2g} ± {gain.standard_error:.2g})."
        )
    elif correlations:
        agreed = by_component(correlations, 2)
        # sqrt(2 log 2h): the largest of h standard normal values; 1 / sqrt(n): the error of a correlation of 0.
        least = np.maximum(agreed.standard_error, sums.n**-0.5) * np.sqrt(2 * np.log(2 * h))
        if not (agreed.mean > least).any():
            best = int(np.argmax(agreed.mean))
            warn(
                f"{NOTHING} The views of a row agree in no component there (the largest correlation is "
                f"{agreed.mean[best]:.2g} ± {agreed.standard_error[best]:.2g})."
            )
