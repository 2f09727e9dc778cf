"""The solver contract: find (W, gamma) for a loss, from the features' moments or from the samples themselves.

    minimise   sum of the loss's terms  +  lam * regulariser(W),      |W|^2, or sum_j |w_j|^2 / (w_j^T S w_j)

The second form is for losses that ignore the scale of W's columns: lam |W|^2 would drive such a W to zero. Only the
solver adds the regulariser, once.

A solver names what it needs of a loss (`required`, `constraints`), checks it once, and says what is missing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from krepes.base.components import Component, named
from krepes.losses import Loss, MomentForms, Statistics
from krepes.moments import Moments
from krepes.solvers.samples import Samples

# Entries of a history that are not terms of the loss.
WORK = ("learning_rate", "held_out", "rows_read", "jacobian_products")
Callback = Callable[[int, dict[str, float]], None]  # called with the step and the values of that step

LEAST_SHARED = 1e-6  # of mean k(x, x), between the views of a row


@dataclass
class Solution:
    """What a solver found.

    Attributes
    ----------
    W : Tensor of shape (r, h'), float64
    gamma : Tensor of shape (h',), float64
    history : list of dicts
        Per step (per epoch, in the mean over its batches): every term of the loss, "regularizer" and their sum,
        "total". Training adds the entries of `WORK`.
    n_iter : int
    converged : bool
    solver : str
        The solver's name.
    dropped : int
        How many of the components asked for are missing: beyond the rank, or cut by the regulariser.
    coefficients : Tensor of shape (m, h'), float64, optional
        A, where it was found itself and not by way of W.
    parameters : dict of Tensors
        The loss's own, such as a predictor.
    """

    W: Tensor
    gamma: Tensor
    history: list[dict[str, float]]
    n_iter: int
    converged: bool
    solver: str
    dropped: int = 0
    coefficients: Tensor | None = None
    parameters: dict[str, Tensor] = field(default_factory=dict)


D = TypeVar("D", bound=Moments | Samples)


@dataclass(frozen=True)
class Problem(Generic[D]):
    """A loss plus lam * its regulariser, to be minimised over the components of some data."""

    loss: Loss
    data: D
    n_components: int
    lam: float
    generator: torch.Generator | None = None  # of starts and noise
    callback: Callback | None = None


class Solver(Component, ABC, Generic[D]):
    """Minimises a loss plus its regulariser over (W, gamma)."""

    data: ClassVar[str] = "moments"  # what it works on: "moments" or "samples"
    required: ClassVar[tuple[str, ...]] = ()  # methods that the loss must have
    constraints: ClassVar[tuple[str | None, ...]] = (None,)  # constraints on W that it can keep
    order: ClassVar[int] = 0  # `choose_solver` takes the lowest that fits
    stochastic: ClassVar[bool] = False  # steps on random batches, which end near a minimum and not at it

    def solve(
        self,
        loss: Loss,
        data: D,
        n_components: int,
        lam: float,
        generator: torch.Generator | None = None,
        callback: Callback | None = None,
    ) -> Solution:
        """Minimise loss + lam * regulariser over W (r, h') and gamma (h',), h' <= n_components."""
        problem = Problem(loss, data, n_components, lam, generator, callback)
        self.check(problem)
        return self.minimised(problem)

    @abstractmethod
    def minimised(self, problem: Problem[D]) -> Solution:
        """The solution of a problem that was checked."""

    @classmethod
    def missing(cls, loss: Loss) -> list[str]:
        """What this solver needs and the loss does not have."""
        lacks = [f"{method}()" for method in cls.required if not loss.offers(method)]
        if loss.constraint not in cls.constraints:
            lacks.append(f"freedom from its constraint ({loss.constraint!r})")
        return lacks

    def check(self, problem: Problem[D]) -> None:
        """Refuse, before any work, what cannot be solved."""
        loss, data, lam = problem.loss, problem.data, problem.lam
        if lacks := self.missing(loss):
            raise ValueError(
                f"solver={self.name!r} needs {' and '.join(lacks)}, which the loss {loss} does not have. "
                f"{_alternatives(loss)}"
            )
        if problem.n_components < 1:
            raise ValueError(f"n_components={problem.n_components}: expected a positive number.")
        if not (math.isfinite(lam) and lam >= 0):
            raise ValueError(f"lam={lam}: expected a finite number >= 0.")
        paired = data.paired if isinstance(data, Moments) else data.n_views > 1
        if loss.views_needed > 1 and not paired:
            raise ValueError(
                f"These {self.data} hold one view per sample, but {type(loss).__name__} compares two views of a "
                "sample: fit with views= or positives=."
            )
        if isinstance(data, Moments) and not torch.isfinite(data.sum_11).all():
            raise ValueError("The moments contain NaN or infinite values: check the data and the kernel.")


class ClosedForm(Solver[Moments]):
    """Ask the loss for its minimiser: one or two r x r eigendecompositions, O(r^3), whatever n is.

    Examples
    --------
    >>> from krepes.losses import KernelPCA
    >>> rows = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    >>> solution = ClosedForm().solve(KernelPCA(), Moments.of_rows(rows), n_components=2, lam=0.0)
    >>> solution.W.tolist(), solution.dropped        # the second direction does not vary
    ([[1.0], [0.0]], 1)
    """

    name = "closed_form"
    known_elsewhere_as = ("eigen", "exact")
    required = ("minimiser",)
    constraints = (None, "orthogonal")
    order = 0

    def minimised(self, problem: Problem[Moments]) -> Solution:
        loss, moments, lam = problem.loss, problem.data, problem.lam
        W, gamma = loss.minimiser(moments, problem.n_components, lam)
        if W.shape[1] == 0:
            raise nothing_left(loss, moments, lam)
        _, values = objective(loss, MomentForms.of(moments).embed(W, gamma), lam)
        if problem.callback is not None:
            problem.callback(1, values)
        return Solution(W, gamma, [values], 1, True, "closed_form", problem.n_components - W.shape[1])


def choose_solver(loss: Loss, exact: bool = False) -> Solver[Any]:
    """The solver for `solver="auto"`: a closed form if the loss has one, else the next that fits.

    `exact`: for a model of few points, which is not trained on random batches if anything else fits.

    >>> from krepes.losses import BarlowTwins, KernelPCA, SpectralContrastive
    >>> choose_solver(KernelPCA()), choose_solver(BarlowTwins())
    (ClosedForm(), MomentDescent())
    >>> [choose_solver(SpectralContrastive("triplet"), exact=exact) for exact in (False, True)]
    [SGD(), FullBatch()]
    """
    solvers = named(Solver).values()
    for solver in sorted(solvers, key=lambda solver: (exact and solver.stochastic, solver.order)):
        if not solver.missing(loss):
            return solver()
    raise ValueError(f"No solver for the loss {loss}. {_alternatives(loss)}")


def _alternatives(loss: Loss) -> str:
    solvers: dict[str, type[Solver[Any]]] = named(Solver)
    fitting = [name for name, solver in solvers.items() if not solver.missing(loss)]
    if fitting:
        return f"Solvers that work with it: {', '.join(fitting)}."
    lacks = "; ".join(f"{name} needs {', '.join(solver.missing(loss))}" for name, solver in solvers.items())
    return f"None works with it: {lacks}."


def regularizer(loss: Loss, statistics: Statistics, lam: float) -> Tensor:
    """lam |W|^2, or lam sum_j |w_j|^2 / scale_j for a loss that ignores the scale of the columns."""
    if not loss.scale_invariant:
        return lam * statistics.norm_sq.sum()
    scale = loss.column_scale(statistics)
    return lam * (statistics.norm_sq / torch.where(scale > 0, scale, torch.inf)).sum()


def objective(loss: Loss, statistics: Statistics, lam: float) -> tuple[Tensor, dict[str, float]]:
    """The total to be minimised, and the values of its parts for the history."""
    return summed({**loss.of_statistics(statistics), "regularizer": regularizer(loss, statistics, lam)})


def summed(terms: dict[str, Tensor]) -> tuple[Tensor, dict[str, float]]:
    """The sum of some terms, and the values of all of them and of their "total"."""
    total = torch.stack(list(terms.values())).sum()
    return total, {**{name: term.item() for name, term in terms.items()}, "total": total.item()}


def shared_by_views(moments: Moments) -> float:
    """tr(S_+) / mean k(x, x): how much of a row its views have in common, at most 1."""
    return moments.S_plus.trace().item() / moments.mean_norm_sq if moments.mean_norm_sq > 0 else 0.0


def nothing_left(loss: Loss, moments: Moments, lam: float) -> ValueError:
    """The error for a solution without components."""
    spread = moments.covariance.trace().item()
    total = moments.S.trace().item()
    if spread <= 1e-12 * total:
        why = "all samples have the same features, so there is nothing to tell apart"
    elif moments.paired and shared_by_views(moments) < LEAST_SHARED:
        why = (
            "the views of a row share almost nothing in the kernel's space. Take a longer lengthscale or weaker views, "
            "and look for extreme values in a few rows"
        )
    elif loss.constraint == "orthogonal":
        why = "no direction is more alike for positives than for negatives"
    elif lam > 0:
        why = (
            f"the regulariser (lam={lam:.3g}; the variance of the features is {spread:.3g}) cuts all of them: lower "
            "regularization"
        )
    else:
        why = "the views of a sample share nothing: no direction is positively correlated between them"
    return ValueError(f"No component is left for {loss}: {why}.")
