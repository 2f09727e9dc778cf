"""What a model minimises, and how: the loss, its solver, and the strengths that depend on the features' scale.

minimise   loss(W, gamma) + lam |W|^2,    lam = regularization * v,    noise = feature_noise * v

v = mean k(x, x) - |mu|^2 is the variance of the data in the kernel's space, about its mean, whether the landmarks span
it or not: it follows the kernel's scale, and does not change with the precision, the number of landmarks or a shift of
the data (where the kernel does not see one).
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from typing import Any

import torch

from krepes.base.checkpoint import Checkpoint
from krepes.base.code_identity import code_identity
from krepes.base.packing import digest
from krepes.base.reporting import Progress, Silent, warn
from krepes.engines.engine import BLOCKS_PER_BATCH, block_rows
from krepes.features.fit_data import RowReader
from krepes.features.space import FeatureSpace
from krepes.losses import CallableLoss, Loss
from krepes.moments import Moments
from krepes.solvers.linear_map import LinearMap, Spread
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
    scale : of the output, see `krepes.solvers.linear_map`
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
        return self._mapped(space, self.solution(space, moments, callback), moments)

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
                ", and only so many orthogonal directions are more alike for positives than for negatives. Any further "
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
