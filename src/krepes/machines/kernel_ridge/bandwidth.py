"""The bandwidth dilemma: is the lengthscale of a kernel machine too short, too long, or fine?

    f(x) = A^T k_x + b:   short lengthscale    k_x -> 0 away from the landmarks, f(x) -> b       [lecture]
                          long lengthscale     k_x -> the same for all rows, f can hardly bend

Measured on rows x, each against the landmarks that it is not itself:

    nearest similarity    max over j of  k(x, z_j) / sqrt(k(x, x) k(z_j, z_j))
    coverage              |phi(x)|^2 / k(x, x); of a landmark 1 - 1 / ((K_mm^-1)_jj k_jj), the others' share
    decayed               nearest similarity < 0.05, or |f(x) - b| < 0.05 of the spread of the targets
    effective rank        exp of the entropy of the eigenvalues of K between rows

and the rules are

    too short    the nearest similarity of half of the rows is < 0.05, or a lengthscale 4 or 16 times as long predicts
                 rows left out better
    too long     a lengthscale 4 or 16 times shorter predicts rows left out better; where that is not known (no kept
                 rows, not a radial kernel): two rows at random have similarity > 0.99, and the penalty is the lowest
                 that was tried

where "better" is an error lower by 10 % and by two standard errors of the differences between rows. Cost: five fits to
at most 2000 rows, each O(n m^2) for m <= 500.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.linalg import effective_rank, symmetric
from krepes.base.rows import Rows, SparseRows, dense, take_rows
from krepes.features.kernel_choice import clearly_lower
from krepes.features.space import FeatureSpace
from krepes.kernels import Kernel, Reweighted
from krepes.kernels.vectors import RadialKernel, as_rows, median_distance
from krepes.machines.kept_rows import placed_blocks
from krepes.machines.kernel_ridge.sample_fit import MOST_ROWS, Sample
from krepes.machines.kernel_ridge.solution import RidgeSolution

if TYPE_CHECKING:
    from krepes.machines.kernel_ridge.machine import RidgeMachine

FAR = 0.05  # nearest similarity, and share of the targets' spread, below which a prediction has decayed
ALIKE = 0.99  # similarity of two rows at random above which all look alike
BETTER = 0.9  # times the error, below which another lengthscale is better
FACTORS = (4.0, 16.0)  # other lengthscales that are tried, longer and shorter
RANK_ROWS = 1000  # from which the effective rank is found, at most one block of rows
PERCENTILES = (10, 50, 90)

Percentiles = tuple[float, float, float]


@dataclass(frozen=True)
class Bandwidth:
    """Whether the lengthscale of a machine suits its rows; print it.

    Attributes
    ----------
    n_rows : int
        Rows that were looked at.
    lengthscale : float or None
        None where the kernel has no single one.
    medians : float or None
        The lengthscale in median distances between rows, in the metric of the kernel.
    similarity : tuple of three floats
        To the nearest landmark: 10th, 50th and 90th percentile of the rows.
    coverage : tuple of three floats, or None
        |phi(x)|^2 / k(x, x), likewise; None for machines solved by conjugate gradients, which have no features.
    decayed : float
        Share of the rows whose prediction is no more than the intercept.
    effective_rank : float
        Of the kernel between rows; near 1, all rows look alike.
    penalty : float
    edge : "lowest", "highest" or None
        Where the penalty is at the edge of those that were tried.
    hint : "too short", "too long" or "fine"
    """

    n_rows: int
    lengthscale: float | None
    medians: float | None
    similarity: Percentiles
    coverage: Percentiles | None
    decayed: float
    effective_rank: float
    penalty: float
    edge: str | None
    hint: str

    def __str__(self) -> str:
        advice = {
            "too short": "The lengthscale is too short: most rows are far from every landmark, or a longer one "
            "predicts better. Try a longer one, or more landmarks.",
            "too long": "The lengthscale is too long: rows look too much alike. Try a shorter one.",
            "fine": "The lengthscale is fine.",
        }
        length = "The kernel has no single lengthscale."
        if self.lengthscale is not None and self.medians is not None:
            length = f"Lengthscale {self.lengthscale:.3g}, {self.medians:.3g} times the median distance between rows."
        lines = [
            advice[self.hint],
            length,
            f"Similarity to the nearest landmark: {_words(self.similarity)}.",
            *([] if self.coverage is None else [f"Coverage by the landmarks: {_words(self.coverage)}."]),
            f"The prediction has decayed to the intercept for {self.decayed:.0%} of {self.n_rows:,} rows.",
            f"Effective rank of the kernel: {self.effective_rank:.1f}.",
        ]
        if self.edge is not None:
            lines.append(f"The penalty, {self.penalty:.3g}, is the {self.edge} that was tried.")
        return "\n".join(lines)


def _words(values: Percentiles) -> str:
    low, middle, high = values
    return f"{middle:.2f} for the typical row, {low:.2f} to {high:.2f} for four in five"


def bandwidth_of(machine: RidgeMachine, X: Any) -> Bandwidth:
    """The bandwidth of a machine on rows X; of None, on its kept rows."""
    found, space = machine._solved(), machine.space_
    kept = None if machine.total_ is None else machine.total_.kept
    if X is not None:
        machine.check_input(X)
        reader = space.reader(X)
        order = np.random.default_rng(space.seed).permutation(reader.n_rows)[: machine.n_kept]
        inputs = reader.take(np.sort(order)).inputs[0]
    elif kept is not None:
        inputs = kept.inputs
    else:
        raise ValueError("This model keeps no rows: give some, bandwidth(X).")
    sample = None
    Y, weight = machine.targets_.matrix(found.held_out.y), found.held_out.weight
    if kept is not None and isinstance(kept.inputs, Tensor | SparseRows):
        first_rows = kept.inputs[:MOST_ROWS]
        sparse = isinstance(first_rows, SparseRows)
        rows = first_rows.double() if sparse else as_rows(first_rows).double().to(space.device)
        first, counts = Y[: len(rows)].to(space.device), weight[: len(rows)].to(space.device)
        sample = Sample(rows, first, counts, machine.fit_intercept, space.seed)
    mean = weight / weight.sum() @ Y
    spread = (weight / weight.sum() @ (Y - mean).square()).sum().sqrt().item()
    return diagnosed(space, found, inputs, spread, X is None, sample)


def diagnosed(
    space: FeatureSpace,
    solution: RidgeSolution,
    inputs: Rows,
    spread: float,
    held_out: bool = False,
    sample: Sample | None = None,
) -> Bandwidth:
    """The bandwidth of a machine, from rows in its input space.

    Parameters
    ----------
    space : FeatureSpace
    solution : RidgeSolution
    inputs : n rows
    spread : float
        Standard deviation of the targets.
    held_out : bool
        Whether these are the rows of `solution.held_out`, whose predictions are then used.
    sample : Sample, optional
        Rows with targets on which other lengthscales are tried.
    """
    covered = space.features.factors is not None or solution.iterations is None
    similarity, coverage, deviation = _against_landmarks(space, inputs, solution.A, covered)
    if held_out:
        deviation = (solution.held_out.predictions - solution.b.cpu()).norm(dim=1).numpy()
    near = similarity >= FAR
    order = np.random.default_rng(space.seed).permutation(len(inputs))[:RANK_ROWS]
    [(_, some)] = placed_blocks(take_rows(inputs, order), space.device)
    K = symmetric(space.kernel(some).double())
    lengthscale, medians = _lengthscale(space.kernel, some)
    tried = solution.errors.penalties
    edges = {tried.min(): "lowest", tried.max(): "highest"} if len(tried) > 1 else {}
    edge = edges.get(solution.errors.best)
    return Bandwidth(
        len(inputs),
        lengthscale,
        medians,
        _percentiles(similarity),
        _percentiles(coverage) if covered else None,
        float((~near | (deviation < FAR * spread)).mean()),
        effective_rank(torch.linalg.eigvalsh(K).cpu().numpy()),
        solution.penalty,
        edge,
        _hint(space.kernel, bool(near.mean() < 0.5), _alike(K) and edge == "lowest", sample),
    )


def _hint(kernel: Kernel, far: bool, alike: bool, sample: Sample | None) -> str:
    """By the rules above."""
    if far:
        return "too short"
    if sample is None or _stretched(kernel, 1.0) is None:
        return "too long" if alike else "fine"
    present = sample.fitted(kernel)
    best, factor = present.error, 1.0
    for other in (*FACTORS, *(1 / f for f in FACTORS)):
        fit = sample.fitted(_stretched(kernel, other) or kernel)
        certain = clearly_lower(fit.row_errors, present.row_errors)
        if certain and fit.error < min(best, BETTER * present.error):
            best, factor = fit.error, other
    return "fine" if factor == 1 else "too short" if factor > 1 else "too long"


def _radial(kernel: Kernel) -> RadialKernel | None:
    """A kernel, behind its metric, that has numbers for lengthscales; None for others."""
    inner = kernel.kernel if isinstance(kernel, Reweighted) else kernel
    return inner if isinstance(inner, RadialKernel) and not isinstance(inner.lengthscale, str) else None


def _stretched(kernel: Kernel, factor: float) -> Kernel | None:
    """The kernel with its lengthscale times a factor; None if it has no lengthscale."""
    inner = _radial(kernel)
    if inner is None:
        return None
    stretched = factor * np.asarray(inner.lengthscale, dtype=np.float64)
    longer = clone(inner).set_params(lengthscale=float(stretched) if stretched.ndim == 0 else stretched)
    return Reweighted(longer, kernel.M) if isinstance(kernel, Reweighted) else longer


def _lengthscale(kernel: Kernel, rows: Rows) -> tuple[float, float] | tuple[None, None]:
    """As a number, and in median distances between rows."""
    inner = _radial(kernel)
    if inner is None or not inner.one_scale or not isinstance(rows, Tensor | SparseRows):
        return None, None
    flat = rows.double() if isinstance(rows, SparseRows) else as_rows(rows).double()
    if isinstance(kernel, Reweighted):
        flat = kernel.weighed(dense(flat))
    length = float(np.asarray(inner.lengthscale))
    return length, length * inner.reach / median_distance(flat, inner.distances_to, None)


def _against_landmarks(
    space: FeatureSpace, inputs: Rows, A: Tensor, covered: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nearest similarity, coverage and |f(x) - b| of every row, (n,) each."""
    root = space.kernel.diag(space.landmarks).double().sqrt()
    own = _own_landmarks(space.landmarks, inputs)
    by_others = _coverage_by_others(space, root.square()) if covered and (own >= 0).any() else None
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for part, rows in placed_blocks(inputs, space.device):
        K = space.features.kernel_block(rows).double()
        norms = space.kernel.diag(rows).double().sqrt()
        S = K / (norms[:, None] * root).clamp(min=torch.finfo(K.dtype).tiny)
        mine = torch.from_numpy(own[part]).to(K.device)
        places = torch.arange(len(K), device=K.device)[mine >= 0]
        S[places, mine[mine >= 0]] = 0.0
        coverage = space.features.coverage(rows) if covered else norms
        if by_others is not None:
            coverage[places] = by_others[mine[mine >= 0]]
        found.append((S.amax(1), coverage, (K @ A.to(K)).norm(dim=1)))
    whole = [torch.cat(parts).cpu().numpy() for parts in zip(*found)]
    return whole[0], whole[1], whole[2]


def _own_landmarks(landmarks: Rows, inputs: Rows) -> np.ndarray:
    """The landmark that each row is, by its values; -1 for none."""
    places = {key: place for place, key in enumerate(_keys(landmarks))}
    return np.array([places.get(key, -1) for key in _keys(inputs)], dtype=np.int64)


def _keys(rows: Rows) -> list[Hashable]:
    if isinstance(rows, Tensor):
        return [row.tobytes() for row in rows.cpu().numpy()]
    if isinstance(rows, SparseRows):
        places = [slice(low, high) for low, high in pairwise(rows.edges.tolist())]
        return [(rows.columns[p].tobytes(), rows.values[p].tobytes()) for p in places]
    return [row if isinstance(row, Hashable) else id(row) for row in rows]


def _coverage_by_others(space: FeatureSpace, diagonal: Tensor) -> Tensor:
    """How much of each landmark the others span, (m,): one minus its Schur complement in K_mm + c I.

    c is the cut below which eigenvalues were dropped: without it, landmarks that coincide would divide by zero.
    """
    F, s = space.features.F, space.features.eigenvalues
    c = space.features.cut * s[0]
    squares = F.square() @ s  # of the eigenvectors that were kept
    inverse = F.square() @ (s / (s + c)) + (1 - squares).clamp(min=0) / c
    left = (1 / inverse - c).clamp(min=0)
    return torch.where(diagonal > 0, 1 - left / diagonal, 1.0).clamp(0, 1)


def _alike(K: Tensor) -> bool:
    """Whether two rows at random have a similarity above ALIKE."""
    norms = K.diagonal().clamp(min=torch.finfo(K.dtype).tiny).sqrt()
    pairs = torch.triu_indices(len(K), len(K), offset=1)
    S = (K / norms / norms[:, None])[pairs[0], pairs[1]]
    return S.numel() > 0 and S.median().item() > ALIKE


def _percentiles(values: np.ndarray) -> Percentiles:
    low, middle, high = (float(v) for v in np.percentile(values, PERCENTILES))
    return low, middle, high
