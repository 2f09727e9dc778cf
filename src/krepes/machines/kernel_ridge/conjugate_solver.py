"""Ridge regression on many landmarks by conjugate gradients, without features and without sums of products.

    (K_nm^T D K_nm + penalty K_mm) A = K_nm^T D Y,      D the weights of the rows, K_nm and Y centred by D       [rudi]

With K_mm = T^T T, C^T C = n / s T^-T K_sm^T K_sm T^-1 + penalty I from s rows, and A = T^-1 C^-1 V, the equations

    C^-T (T^-T K_nm^T D K_nm T^-1 + penalty I) C^-1 V = C^-T T^-T K_nm^T D Y

are nearly the identity: a few dozen iterations are enough. In [rudi, section 3] the s rows are the landmarks, so that
C^T C = n / m T T^T + penalty I. Differs from [rudi]: they are the kept rows, where these are at least twice as many,
because m rows tell little of m directions. With 300 landmarks, s = 1200 of 3000 rows and penalties of 1 and 0.05, a
Gaussian kernel took 16 and 43 iterations instead of 41 and 106.

The penalty is chosen on the kept rows with a part of the landmarks. Each iteration reads the rows once and sums
K_bm^T D (K_bm P) over blocks; K_nm is never whole. The fits without each fold are further columns whose D is zero in
the fold, so that all of them share every kernel value. The intercept, which [rudi] does not have, is exact: D K_nm P
is centred in every pass, by the means of the first.

Cost O(n m (d + (k + 1) c)) per iteration for k folds and c outputs, O(m^3 + s m^2) once; memory 3 times 8 m^2 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.accumulator import Accumulator, FieldSums, SumOfValues
from krepes.base.blocks import Block
from krepes.base.linalg import RELATIVE_CUT, conjugate_gradients, symmetric
from krepes.base.reporting import warn
from krepes.base.rows import Rows
from krepes.base.split import ByFold, Parts
from krepes.base.storage.codec import Shape
from krepes.features.space import FeatureSpace
from krepes.landmarks.nystrom import landmark_matrix
from krepes.machines.kept_rows import KeepRows, KeptRows, placed_blocks
from krepes.machines.kernel_ridge.solution import (
    HeldOutPredictions,
    RidgeSolution,
    folds_of,
    kept_features,
    penalty_errors,
    places_of,
)
from krepes.machines.labelled_machine import AUTO_LANDMARKS
from krepes.machines.targets import Targets
from krepes.regression.ridge_algebra import NormalSums, PenaltyErrors

SOLVERS = ("auto", "direct", "conjugate_gradients")
DIRECT_LANDMARKS = 6000  # up to which "auto" is direct
TOLERANCE = 1e-8  # of the residual, relative to the right-hand side
MOST_ITERATIONS = 200

Reduce = Callable[[Accumulator[Any, Any], str], Any]  # one read of the rows, with a name for its progress


@dataclass(frozen=True, eq=False)
class KernelSum(FieldSums):
    """Sums over rows of [k_x, 1] g(x)^T.

    Attributes
    ----------
    n : float
        Number of rows.
    total : Tensor of shape (m + 1, s), float64
    """

    n: float
    total: Annotated[Tensor, Shape("m", "c")]


class KernelProducts(SumOfValues[KernelSum]):
    """Sums [k_x, 1] g(x)^T: of weights and weighted targets, or of the weighted function K P - offset.

    Parameters
    ----------
    space : FeatureSpace
    targets : Targets
    folds : ByFold
    keys : list of int
        The folds without which there is a fit each, besides that of all rows.
    P : Tensor of shape (m, (k + 1) c), optional
    offset : Tensor of shape ((k + 1) c,), optional
    """

    def __init__(
        self,
        space: FeatureSpace,
        targets: Targets,
        folds: ByFold,
        keys: list[int],
        P: Tensor | None = None,
        offset: Tensor | None = None,
    ):
        self.space, self.targets, self.folds, self.keys = space, targets, folds, keys
        self.P, self.offset = P, offset
        super().__init__()

    def of(self, block: Block, before: KernelSum | None) -> KernelSum:
        K = self.space.features.kernel_block(block.inputs[0]).double()
        D = self.weights(block)
        if self.P is None:
            Y = self.targets.matrix(block.y).to(D)
            G = torch.cat([D, (D[:, :, None] * Y[:, None]).flatten(1)], dim=1)
        else:
            assert self.offset is not None
            G = (K @ self.P - self.offset) * D.repeat_interleave(self.targets.n_outputs, dim=1)
        return KernelSum(float(len(block)), torch.cat([K.mT @ G, G.sum(0, keepdim=True)]))

    def weights(self, block: Block) -> Tensor:
        """What each row counts in the fit to all rows and in those without each fold, (b, k + 1)."""
        outside = self.folds(block)[:, None] != np.array([-1, *self.keys])
        D = outside * (1.0 if block.weight is None else block.weight[:, None])
        return torch.from_numpy(D.astype(np.float64)).to(self.space.device)

    @property
    def device(self) -> torch.device:
        return self.space.device

    @property
    def bytes_per_row(self) -> int:
        columns = (1 + len(self.keys)) * self.targets.n_outputs
        return self.space.bytes_per_row + 8 * (len(self.space.landmarks) + 3 * columns)


class FalkonPreconditioner:
    """The triangles T and C above.

    Parameters
    ----------
    space : FeatureSpace
    inputs : s rows in the input space
    weight : Tensor of shape (s,), float64
    n : float
        The sum of the weights of all rows.
    penalty : float
    intercept : bool
    """

    def __init__(
        self, space: FeatureSpace, inputs: Rows, weight: Tensor, n: float, penalty: float, intercept: bool
    ):
        K = symmetric(landmark_matrix(space.kernel, space.landmarks, space.landmark_rows)[0])
        jitter = RELATIVE_CUT[space.dtype] * K.abs().sum(1).max().item()
        self.T = _upper(K, jitter)
        M, mean, share = torch.zeros_like(K), K.new_zeros(len(K)), (weight / weight.sum()).to(K)
        del K
        for part, rows in placed_blocks(inputs, space.device):
            K_b = space.features.kernel_block(rows).double()
            Z = _solved(self.T.mT, K_b.mT, upper=False)  # (m, b)
            M += (Z * share[part]) @ Z.mT
            mean += Z @ share[part]
        self.C = _upper(n * (M - torch.outer(mean, mean) if intercept else M), penalty)
        self.penalty = penalty

    def coefficients(self, V: Tensor) -> Tensor:
        """T^-1 C^-1 V."""
        return _solved(self.T, _solved(self.C, V))

    def transposed(self, R: Tensor) -> Tensor:
        """C^-T T^-T R."""
        return _solved(self.C.mT, _solved(self.T.mT, R, upper=False), upper=False)

    def penalised(self, V: Tensor) -> Tensor:
        """penalty C^-T C^-1 V."""
        return self.penalty * _solved(self.C.mT, _solved(self.C, V), upper=False)


def _upper(M: Tensor, ridge: float) -> Tensor:
    """U with U^T U = M + ridge I; more ridge where rounding needs it. M is overwritten."""
    M.diagonal().add_(ridge)
    for _ in range(6):
        L, failed = torch.linalg.cholesky_ex(M)
        if not failed.item():
            return L.mT
        M.diagonal().add_(9 * ridge)
        ridge *= 10
    raise ValueError(
        "The kernel between landmarks is not positive definite: use solver='direct', or another kernel."
    )


def _solved(U: Tensor, R: Tensor, upper: bool = True) -> Tensor:
    return torch.linalg.solve_triangular(U, R, upper=upper)


def iterated(
    first: KernelProducts,  # without P
    reduced: Reduce,
    kept: KeptRows,
    penalty: float,
    intercept: bool,
) -> tuple[Tensor, Tensor, int]:
    """A (k + 1, m, c) and b (k + 1, c) of the fits to all rows and without each fold, and the passes after the first.

    The preconditioner is made from the kept rows, where they are enough.
    """
    g, c, m = 1 + len(first.keys), first.targets.n_outputs, len(first.space.landmarks)
    total = reduced(first, "Right-hand side").total
    n, sums, B = total[-1, :g], total[:-1, :g], total[:-1, g:].reshape(m, g, c)
    mu, ybar = sums / n, total[-1, g:].reshape(g, c) / n[:, None]
    if not intercept:
        mu, ybar = torch.zeros_like(mu), torch.zeros_like(ybar)
    points, share = first.space.landmarks, torch.ones(m, dtype=torch.float64)
    if len(kept.rows) >= 2 * m:
        points, share = kept.inputs, kept.weight
    way = FalkonPreconditioner(first.space, points, share, n[0].item(), penalty, intercept)
    done = 0

    def offset(P: Tensor) -> Tensor:
        return torch.einsum("mg,mgc->gc", mu, P.reshape(m, g, c)).flatten()

    def product(V: Tensor) -> Tensor:
        nonlocal done
        done += 1
        P = way.coefficients(V)
        products = KernelProducts(first.space, first.targets, first.folds, first.keys, P, offset(P))
        return way.transposed(reduced(products, f"Iteration {done}").total[:-1]) + way.penalised(V)

    right = way.transposed((B - sums[:, :, None] * ybar).flatten(1))
    V, converged = conjugate_gradients(product, right, TOLERANCE, MOST_ITERATIONS)
    if not bool(converged.all()):
        warn(
            f"Conjugate gradients stopped after {done} iterations without converging: the penalty, {penalty:.3g}, is "
            "very small for this kernel. Give a larger one, or solver='direct'."
        )
    A = way.coefficients(V)
    b = ybar - offset(A).reshape(g, c)
    return A.reshape(m, g, c).permute(1, 0, 2).contiguous(), b, done


def iterated_solution(
    space: FeatureSpace,
    targets: Targets,
    penalty: float | str,  # a number, or "auto"
    intercept: bool,
    n_folds: int,
    n_kept: int,
    reduced: Reduce,
) -> RidgeSolution:
    """Coefficients, the fits without each fold, and predictions of the kept rows."""
    kept: KeptRows = reduced(KeepRows(n_kept, space.seed), "Keeping rows")
    of_row = folds_of(space, kept, n_folds)
    keys = np.unique(of_row).tolist()
    errors = None
    if penalty == "auto":  # on the kept rows, with at most AUTO_LANDMARKS of the landmarks
        Phi = kept_features(space.with_few_landmarks(AUTO_LANDMARKS), kept)
        Y, weight = targets.matrix(kept.y).to(Phi), kept.weight.to(Phi)
        inside = {key: torch.from_numpy(of_row == key).to(Phi.device) for key in keys}
        sums = Parts({key: NormalSums.of_rows(Phi[i], Y[i], weight[i]) for key, i in inside.items()})
        errors, _ = penalty_errors(sums, Phi, Y, weight, True, penalty, space.dtype, intercept)
    best = float(penalty) if errors is None else errors.best
    products = KernelProducts(space, targets, ByFold(n_folds, space.seed), keys if len(keys) > 1 else [])
    A, b, iterations = iterated(products, reduced, kept, best, intercept)
    fold_A, fold_b, keys = (A[1:], b[1:], keys) if len(keys) > 1 else (A, b, [0])
    places = places_of(of_row, keys)
    predictions = predictions_by_folds(space, kept, fold_A, fold_b, places)
    if errors is None:
        misses = (targets.matrix(kept.y) - predictions).square().sum(1)
        error = (kept.weight @ misses / kept.weight.sum()).item()
        errors = PenaltyErrors.of(np.array([best]), np.array([error]), "folds")
    held = HeldOutPredictions(kept.rows, places, kept.y, kept.weight, predictions, predictions)
    return RidgeSolution(A[0], b[0], best, errors, keys, fold_A, fold_b, held, iterations)


def predictions_by_folds(
    space: FeatureSpace,
    kept: KeptRows,
    fold_A: Tensor,  # (k, m, c)
    fold_b: Tensor,  # (k, c)
    places: Tensor,  # (n,)
) -> Tensor:
    """What each kept row is predicted to be by the fit without its fold, (n, c)."""
    found = []
    for part, rows in placed_blocks(kept.inputs, space.device):
        where = places[part].to(space.device)
        scores = torch.einsum("bm,kmc->kbc", space.features.kernel_block(rows).double(), fold_A)
        found.append(scores[where, torch.arange(len(where), device=where.device)] + fold_b[where])
    return torch.cat(found).cpu()
