"""L-BFGS on all samples at once: the minimum of a loss that needs samples, for small data.

    Z_v = Phi_v W + gamma,    minimise   sum of terms(Z_1, Z_2[, Z_-]) + lam |W|^2    over W = B M and gamma

The same start and coordinates B as in descent on the moments. Nothing is drawn, so a fit gives the same result every
time, to the accuracy of the descent. The features of all samples are in memory: O(n r), and O(n r h) for a step.

The spectral contrastive loss of triplets is convex in W W^T. A minimum whose W has fewer than h independent columns is
therefore the lowest of all; one with h may not be, though random starts have not found a lower one.   [journee]
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from krepes.base.blocks import available_memory
from krepes.base.linalg import descending_eigh
from krepes.base.storage.files import readable_bytes
from krepes.base.validation import check_count, check_number
from krepes.losses import Batch, Loss, MomentForms
from krepes.losses.checking import check_loss
from krepes.moments import Moments
from krepes.solvers.moment_descent import VANISHED, Descent, start, vanished, whitened
from krepes.solvers.samples import Samples
from krepes.solvers.sgd.feature_windows import view_pairs
from krepes.solvers.solver import Problem, Solution, Solver, nothing_left, regularizer, summed

DIVERGED = 1e8  # embeddings start at unit variance: a loss that far below zero has no minimum

Features = tuple[Tensor, ...]  # (n, k) each: of two views, then of the negatives


class UnboundedError(Exception):
    """The loss falls without end."""


@dataclass
class SampleDescent(Descent):
    """`Descent` on the samples themselves; the moments' forms give the norms.

    `batches` hold the features of all samples in the basis of the forms, one batch for every pair of views.
    """

    batches: list[Features] = field(default_factory=list)

    def value(self, M: Tensor, c: Tensor | None) -> tuple[Tensor, dict[str, float]]:
        gamma = 0.0 if c is None else c
        terms: dict[str, Tensor] = {}
        for batch in self.batches:
            found = self.loss.terms(Batch(tuple(Phi @ M + gamma for Phi in batch)))
            terms = {name: terms.get(name, 0.0) + term / len(self.batches) for name, term in found.items()}
        terms["regularizer"] = regularizer(self.loss, self.forms.embed(M, c), self.lam)
        total, values = summed(terms)
        if values["total"] < -DIVERGED:
            raise UnboundedError
        return total, values


class FullBatch(Solver[Samples]):
    """Minimise a loss of samples over all of them at once, for small data.

    Parameters
    ----------
    max_iter : int, default=1000
    tol : float, default=1e-10
        Stop when five steps together lower the objective by less than this fraction of it.

    Notes
    -----
    It takes every loss of the embeddings alone: not BYOL, whose target moves, nor the autoencoder, which needs the
    rows. With more than two views of a row, the loss is the mean over all pairs of them.

    Examples
    --------
    >>> FullBatch(max_iter=100)
    FullBatch(max_iter=100)
    """

    name = "full_batch"
    known_elsewhere_as = ("batch",)
    data = "samples"
    order = 3

    def __init__(self, max_iter: int = 1000, tol: float = 1e-10):
        self.max_iter = max_iter
        self.tol = tol

    @classmethod
    def missing(cls, loss: Loss) -> list[str]:
        lacks = super().missing(loss)
        lacks += ["a target that stands still"] * (loss.target_decay is not None)
        lacks += ["freedom from parameters of its own"] * loss.offers("parameters")
        return lacks + [f"a value without {name}" for name in loss.needs]

    def check(self, problem: Problem[Samples]) -> None:
        super().check(problem)
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol, least=0)

    def minimised(self, problem: Problem[Samples]) -> Solution:
        loss, data, n_components, lam = problem.loss, problem.data, problem.n_components, problem.lam
        check_loss(loss, max(2, min(n_components, data.features.rank)), n_views=2 + data.has_negatives)
        views, negatives = _features(data, problem.generator or torch.Generator().manual_seed(data.seed))
        exchangeable = data.views.exchangeable
        moments = Moments.of_views(*views) if exchangeable else Moments.of_pairs(*views)
        origin = torch.zeros_like(moments.mean) if loss.intercept == "zero" else moments.mean
        _, basis = whitened(Moments.of_rows(torch.cat([*views, *negatives])), origin, lam)
        if basis.shape[1] == 0:
            raise nothing_left(loss, moments, lam)
        forms = MomentForms.of(moments).shifted(origin).in_basis(basis)
        seen, apart = ([(Phi - origin) @ basis for Phi in part] for part in (views, negatives))
        batches = [(seen[i], seen[j], *apart) for i, j in _pairs(len(views), exchangeable)]
        descent = SampleDescent(loss, forms, lam, self.tol, problem.callback, batches=batches)
        M, c = start(min(n_components, basis.shape[1]), basis.shape[1], loss.intercept == "learned")
        try:
            M, c = descent.run(M.to(basis), c.to(basis), self.max_iter)
        except UnboundedError:
            raise _no_minimum(loss, views, negatives, lam) from None
        if loss.rotation_invariant:  # components that are not needed become columns of zeros
            M = M @ descending_eigh(forms.embed(M, c).second_moment)[1]
        statistics = forms.embed(M, c)
        kept = ~vanished(statistics) & (statistics.power.max() > VANISHED)  # it was 1 at the start
        M, c = M[:, kept], c[kept]
        return descent.solution("full_batch", self.max_iter, n_components, moments, origin, basis @ M, c)


def _pairs(n_views: int, exchangeable: bool) -> list[tuple[int, int]]:
    """The pairs of views that are compared; an anchor and its positive keep their order."""
    return view_pairs(n_views) if exchangeable else [(0, 1)]


def _no_minimum(loss: Loss, views: list[Tensor], negatives: list[Tensor], lam: float) -> ValueError:
    advice = "Raise regularization"
    if loss.offers("sufficient_lam"):
        moments = Moments.of_pairs(views[0], views[1], negatives[0] if negatives else views[0].roll(-1, 0))
        enough = loss.sufficient_lam(moments)
        times = f"{enough / lam:.2g} times as much" if lam > 0 else f"lam={enough:.2g}"
        advice += (
            f": {times} is enough, and often less. Or use the loss over all pairs, which always has a minimum"
        )
    return ValueError(f"{loss} has no minimum here: the larger W is, the lower it gets. {advice}.")


def _features(data: Samples, generator: torch.Generator) -> tuple[list[Tensor], list[Tensor]]:
    """Features (n, r), float64, of every view of all samples, and of the negatives where there are any."""
    n_inputs = data.n_views + data.has_negatives
    needed, free = 16 * n_inputs * data.n_rows * data.features.rank, available_memory()
    if needed > free:
        raise ValueError(
            f"solver='full_batch' keeps the features of all {data.n_rows:,} samples, which take "
            f"{readable_bytes(needed)}; {readable_bytes(free)} are free. Use solver='sgd', or fewer landmarks."
        )
    parts: list[list[Tensor]] = [[] for _ in range(n_inputs)]
    for batch in data.read(0):
        for block in batch.blocks(data.block_rows):
            for part, view in zip(parts, data.drawn(block, data.seed, range(data.n_views))):
                part.append(data.features(view).double())
    features = [torch.cat(part) for part in parts]
    if data.noise_variance > 0:  # one draw for the whole fit
        for Phi in features:
            noise = torch.randn(Phi.shape, generator=generator, dtype=Phi.dtype)
            Phi.add_(noise.to(Phi), alpha=data.noise_variance**0.5)
    return features[: data.n_views], features[data.n_views :]
