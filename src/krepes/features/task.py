"""What a model minimises, and how: the loss, its solver, and the strengths that depend on the features' scale.

minimise   loss(W, gamma) + lam |W|^2,    lam = regularization * v,    noise = feature_noise * v

v = mean k(x, x) - |mu|^2 is the variance of the data in the kernel's space, about its mean, whether the landmarks span
it or not: it follows the kernel's scale, and does not change with the precision, the number of landmarks or a shift of
the data (where the kernel does not see one).

What is found is a linear map of kernel values, and the scale of its components can be chosen:

    Z = Z_loss T,    A = A_loss T,    gamma = T^T gamma_loss,    W = W_loss T

A loss fixes the variance of its components whatever their norm in the kernel's space is, so weak and wiggly directions
come out as large as smooth ones, and a classifier with few labels cannot tell them apart. Four scales:

    kernel        columns w_j of norm 1 in the kernel's space: a component's variance is what the kernel gives it
    orthonormal   W^T W = I: ridge regression on the components is kernel ridge regression within their span
    unit          components of variance 1
    loss          as the loss left them, T = I

Where the loss does not change under rotations, the components are first rotated to principal axes: W^T S W is diagonal,
largest first, with S the second moment of the features, about their mean where the loss centres. A loss that fixes its
basis keeps it (except for "orthonormal", which no other basis allows).
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import torch
from torch import Tensor

from krepes.base.code_identity import code_identity
from krepes.base.linalg import descending_eigh, inverse_sqrt
from krepes.base.reporting import Progress, Silent, warn
from krepes.base.storage.checkpoint import Checkpoint
from krepes.base.storage.codec import FLOATS, Bounds, Shape
from krepes.base.storage.packing import digest
from krepes.base.validation import check_choice
from krepes.engines.engine import BLOCKS_PER_BATCH, block_rows
from krepes.features.fit_data import RowReader
from krepes.features.space import FeatureSpace
from krepes.landmarks.nystrom import NystromMap
from krepes.losses import CallableLoss, Loss, MomentLoss
from krepes.losses.checking import warn_of_size
from krepes.moments import Moments
from krepes.solvers.samples import Samples
from krepes.solvers.solver import LEAST_SHARED, Callback, Solution, Solver, shared_by_views
from krepes.views import Image, Paired, Views

logger = logging.getLogger("krepes")

NOISE = 0.001  # of features, where views are drawn from few columns


@dataclass(frozen=True)
class Task:
    """A loss, and everything besides the data that its minimum depends on.

    Attributes
    ----------
    loss : Loss
    solver : Solver
    n_components : int or "auto"
        "auto" must be settled before the loss is minimised, see `krepes.features.held_out`.
    regularization : float
    feature_noise : float or "auto"
        "auto" is `NOISE`, and 0 for images and for pairs, which have views enough.
    scale : of the output
    """

    loss: Loss
    solver: Solver[Any]
    n_components: int | str
    regularization: float
    feature_noise: float | str
    scale: str = "loss"

    @property
    def of_samples(self) -> bool:
        """Whether it is trained on the samples themselves, so that moments do not suffice."""
        return self.solver.data == "samples"

    def check_adds(self) -> None:
        """Refuse to go on with more rows, or without any, where moments do not suffice."""
        if self.of_samples:
            raise ValueError(
                f"{self.loss} with solver={self.solver.name!r} is trained on the samples "
                "themselves: it cannot be continued with more rows, merged or refitted from moments. Call fit with "
                "all rows, or choose a loss of moments, such as spectral_contrastive or barlow_twins."
            )

    def minimised(self, space: FeatureSpace, moments: Moments, callback: Callback | None = None) -> LinearMap:
        """Minimise the loss over the moments."""
        if self.loss.views_needed > 1 and moments.paired:
            _check_shared(moments)
        solution = self.solution(space, moments, callback)
        if isinstance(self.loss, MomentLoss) and _code(self.loss) is not None:
            self._check_size(self.loss, solution, moments)
        return self._mapped(space, solution, moments)

    def _check_size(self, loss: MomentLoss, solution: Solution, moments: Moments) -> None:
        W, lam = solution.W, self.regularization * moments.variance

        def total(c: float) -> float:
            terms = loss.of_moments(moments, c * W, c * solution.gamma)
            return float(sum(terms.values()) + lam * (c * W).square().sum())

        warn_of_size(loss, total)

    def solution(self, space: FeatureSpace, moments: Moments, callback: Callback | None = None) -> Solution:
        """The minimum over the moments, at the scale of the loss."""
        noise = self.noise_with(space.views) if self.loss.views_needed > 1 else 0.0
        return self._solved(space, moments.with_feature_noise(noise), moments, callback)

    def trained(
        self,
        space: FeatureSpace,
        reader: RowReader,
        checkpoint: str | os.PathLike[str] | None,
        callback: Callback | None,
        progress: Progress,
    ) -> LinearMap:
        """Minimise the loss over the samples."""
        samples = samples_of(space, reader, progress)
        if checkpoint is not None:
            samples.checkpoint = Checkpoint(checkpoint, self._identity(space, samples))
        moments = Moments.of_rows(*samples.sample_features)
        if self.loss.views_needed > 1:
            samples.noise_variance = self.noise_with(space.views) * moments.variance
        return self._mapped(space, self._solved(space, samples, moments, callback), moments)

    def _solved(
        self, space: FeatureSpace, data: Moments | Samples, moments: Moments, callback: Callback | None
    ) -> Solution:
        """Minimise over the data; the moments, without feature noise, say what the strengths mean."""
        if isinstance(self.n_components, str):
            raise ValueError(
                f"n_components={self.n_components!r} is chosen from moments by fold, which this model does not have: "
                "give a number, or fit with n_components='auto' or n_folds=5."
            )
        lam = self.regularization * moments.variance
        generator = torch.Generator().manual_seed(space.seed)
        start = time.perf_counter()
        solution = self.solver.solve(self.loss, data, self.n_components, lam, generator, callback)
        logger.info("%s: %.1f s, %d iterations", self.solver, time.perf_counter() - start, solution.n_iter)
        return solution

    def _mapped(self, space: FeatureSpace, solution: Solution, moments: Moments) -> LinearMap:
        """The map of kernel values, at the scale of the output."""
        if solution.W.shape[1] < int(self.n_components):
            warn(
                f"n_components={self.n_components}, but only {solution.W.shape[1]} of them are left: the "
                f"features have rank {space.rank}{self._why_fewer(space, solution)}.",
            )
        found = LinearMap.of(solution, space.features, Spread.of(solution.W, moments))
        return found.scaled(self.scale, self.loss)

    def _why_fewer(self, space: FeatureSpace, solution: Solution) -> str:
        if solution.W.shape[1] == space.rank:
            return ""
        if self.loss.constraint == "orthogonal":  # the condition of [esser, Thm. 2] fails for more
            return (
                ", and no more orthogonal directions are more alike for positives than for negatives. Any further "
                "component would raise the loss, or be zero on all of the data"
            )
        return f" and regularization={self.regularization:g} cuts weak ones"

    def noise_with(self, views: Views) -> float:
        """The strength of feature noise beside these views."""
        if self.feature_noise != "auto":
            return float(self.feature_noise)
        return 0.0 if isinstance(views, Image | Paired) else NOISE

    def _identity(self, space: FeatureSpace, samples: Samples) -> dict[str, str]:
        """Hashes, by name, of everything that training depends on."""
        settings = {
            "rows per block": samples.block_rows,
            "loss": [self.loss, _code(self.loss)],
            "solver": self.solver,
            "n_components": self.n_components,
            "regularization": self.regularization,
            "feature_noise": self.feature_noise,
        }
        hashes = {name: digest(value) for name, value in settings.items()}
        return samples.reader.identity() | hashes | space.fingerprint() | space.seed_fingerprint()


def samples_of(
    space: FeatureSpace,
    reader: RowReader,
    progress: Progress | None = None,
    rows_per_block: int | None = None,
) -> Samples:
    """The rows of a reader for a solver that goes through them many times."""
    rows = rows_per_block or block_rows(space.bytes_per_row)
    return Samples(
        space.features,
        space.views,
        space.seed,
        reader,
        block_rows=rows,
        read_rows=BLOCKS_PER_BATCH * rows,
        landmark_views=space.views_per_landmark,
        progress=progress or Silent(),
    )


def _check_shared(moments: Moments) -> None:
    """Warn of views that have almost nothing in common, from which nothing can be learned."""
    shared = shared_by_views(moments)
    if shared < LEAST_SHARED:
        warn(
            f"The views of a row share almost nothing in the kernel's space ({shared:.1g} of its size), so there is "
            "little to learn. Take a longer lengthscale or weaker views, and look for extreme values in a few rows."
        )


def _code(loss: Loss) -> str | None:
    """The identity of a user's function, or of an object of a user's class; krepes's own are known by name."""
    if isinstance(loss, CallableLoss):
        return code_identity(loss.function)
    return None if type(loss).__module__.startswith("krepes.") else code_identity(loss)


LARGEST = 1e30  # coefficient that a solve could give
SCALES = ("kernel", "orthonormal", "loss", "unit")
CUT = 1e-14  # of the largest variance or norm: smaller ones are rounding


@dataclass(frozen=True, eq=False)
class Spread:
    """How the components of a loss lie in the kernel's space and over the data, as a change of scale needs it.

    Attributes
    ----------
    second : Tensor of shape (h, h)
        W^T S W, the second moment of W^T phi(x).
    mean : Tensor of shape (h,)
        W^T mu.
    gram : Tensor of shape (h, h)
        W^T W.
    """

    second: Annotated[Tensor, Shape("h", "h")]
    mean: Annotated[Tensor, Shape("h")]
    gram: Annotated[Tensor, Shape("h", "h")]

    @classmethod
    def of(cls, W: Tensor, moments: Moments) -> Spread:  # W: (r, h)
        W = W.double()
        return cls(W.mT @ moments.S @ W, W.mT @ moments.mean, W.mT @ W)

    @property
    def covariance(self) -> Tensor:
        return self.second - torch.outer(self.mean, self.mean)

    def change(self, scale: str, loss: Loss) -> Tensor | None:
        """T (h, h'), for components ordered by their variance; None where nothing changes.

        >>> from krepes.losses import KernelPCA
        >>> spread = Spread(torch.diag(torch.tensor([1.0, 4.0])), torch.zeros(2), torch.diag(torch.tensor([4.0, 4.0])))
        >>> spread.change("kernel", KernelPCA()).tolist()
        [[0.0, 0.5], [0.5, 0.0]]
        """
        check_choice("scale", scale, SCALES)
        if scale == "loss":
            return None
        moment = self.covariance if loss.intercept != "zero" else self.second
        if scale == "orthonormal":
            B = inverse_sqrt(self.gram.double(), CUT)
            return B @ descending_eigh(B.mT @ moment @ B)[1]
        Q = descending_eigh(moment)[1] if loss.rotation_invariant else torch.eye(len(moment)).to(moment)
        measured = self.gram if scale == "kernel" else self.covariance
        sizes = (Q * (measured.to(Q) @ Q)).sum(0)
        return Q / torch.where(sizes > CUT * sizes.max(), sizes, 1.0).sqrt()


@dataclass(frozen=True, eq=False)
class LinearMap:
    """f(x) = A^T k_x + gamma, with A = A_loss T and gamma = T^T gamma_loss.

    Attributes
    ----------
    A : Tensor of shape (m, h)
    gamma : Tensor of shape (h,)
    history, n_iter, converged, dropped, parameters
        As in `Solution`. The loss's own parameters (a predictor, a decoder) belong to A_loss.
    spread : Spread
        The spread of the loss's components.
    change : Tensor of shape (h_loss, h), or None for the identity
        T, from what the loss minimised to the output's scale.
    """

    A: Annotated[Tensor, Shape("m", "h", dtype=FLOATS), Bounds(least=-LARGEST, most=LARGEST)]
    gamma: Annotated[Tensor, Shape("h", dtype=FLOATS), Bounds(least=-LARGEST, most=LARGEST)]
    history: list[dict[str, float]]
    n_iter: int
    converged: bool
    spread: Spread
    dropped: int = 0
    parameters: dict[str, Tensor] = field(default_factory=dict)
    change: Annotated[Tensor | None, Shape(None, "h", dtype=FLOATS)] = None

    @classmethod
    def of(cls, solution: Solution, features: NystromMap, spread: Spread) -> LinearMap:
        """A_loss = F W, where the solver has not found A itself; at the scale of the loss."""
        A = features.coefficients(solution.W) if solution.coefficients is None else solution.coefficients
        if not (bool(A.isfinite().all()) and bool(solution.gamma.isfinite().all())):
            raise ValueError(
                "The solution has coefficients that are not finite: the moments hold numbers that differ too much in "
                "size. Look for extreme values in the rows."
            )
        how = (solution.history, solution.n_iter, solution.converged)
        return cls(A, solution.gamma.to(A), *how, spread, solution.dropped, solution.parameters)

    def scaled(self, scale: str, loss: Loss) -> LinearMap:
        """The same components at another scale."""
        check_choice("scale", scale, SCALES)
        A, gamma = self._of_loss()
        change = self.spread.change(scale, loss)
        if change is not None:
            A, gamma = A @ change.to(A), gamma @ change.to(A)
        return replace(self, A=A, gamma=gamma, change=change)

    def _of_loss(self) -> tuple[Tensor, Tensor]:
        """A_loss and gamma_loss, float64."""
        A, gamma = self.A.double(), self.gamma.double()
        if self.change is None:
            return A, gamma
        back = torch.linalg.pinv(self.change.to(A))
        return A @ back, gamma @ back

    @property
    def best_epoch(self) -> int | None:
        """The epoch, from 1, with the lowest held-out loss: the one that training returns."""
        values = [step["held_out"] for step in self.history if "held_out" in step]
        return values.index(min(values)) + 1 if values else None

    def in_precision(self, dtype: torch.dtype) -> LinearMap:
        """With A in the precision of the features, as a model file keeps it."""
        return replace(self, A=self.A.to(dtype))

    def check_restored(self) -> None:
        of_loss = len(self.spread.mean)
        if (
            not self.history
            or not len(self.gamma)
            or (self.change is not None and len(self.change) != of_loss)
        ):
            raise ValueError("The file is damaged: it does not say how its coefficients were found.")
