"""Is this function a kernel, and does it suit these rows? An answer from a sample of them, in words.

    k(x, y) = k(y, x),     a^T K a >= 0 for every a,     the same value in every batch and at every call

    similarity           k(x, y) / sqrt(k(x, x) k(y, y))
    kernel distance      sqrt(k(x, x) + k(y, y) - 2 k(x, y)), the distance between phi(x) and phi(y)
    effective dimension  sum_i l_i / (l_i + c),  l_i the eigenvalues of K,  c = 0.001 tr K, the ridge of kernel machines
    rank                 how many eigenvalues hold 99 % of tr K: no fewer landmarks can

A finding of faults is a proof; finding none is evidence, as other rows may show some. Cost: the values between n rows
(500 by default) once, between 64 of them twice, and O(n^3) for the eigenvalues.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.linalg import effective_rank, symmetric
from krepes.base.rows import Rows, take_rows
from krepes.kernels.checking import faults
from krepes.kernels.custom import NotFiniteError
from krepes.kernels.kernel import Kernel
from krepes.kernels.vectors import RadialKernel

RIDGE = 1e-3  # of the trace
SHARE = 0.99  # of the trace, that the rank is counted for
# similarity to the nearest row below which a row is like itself only
ALONE = 0.05
ALIKE = 0.99  # similarity of a typical pair above which all rows look alike
PERCENTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Similarities:
    """The values of a kernel on a sample of rows, and how many dimensions they fill.

    Attributes
    ----------
    smallest, mean, largest : float
        Of k(x, x).
    pairs : tuple of three floats
        k(x, y) / sqrt(k(x, x) k(y, y)) of two different rows: 10th, 50th and 90th percentile.
    nearest : float
        The same to the most similar other row; the median over rows.
    distance : float
        Median of sqrt(k(x, x) + k(y, y) - 2 k(x, y)).
    effective_dimension : float
        sum_i l_i / (l_i + 0.001 tr K).
    effective_rank : float
        exp of the entropy of the eigenvalues.
    rank : int
        Eigenvalues that hold 99 % of the trace.
    """

    smallest: float
    mean: float
    largest: float
    pairs: tuple[float, float, float]
    nearest: float
    distance: float
    effective_dimension: float
    effective_rank: float
    rank: int


@dataclass(frozen=True)
class KernelCheck:
    """What `check_kernel` found; print it.

    Attributes
    ----------
    kernel : Kernel
        With numbers for data-dependent parameters.
    n_rows : int
        Rows that were looked at.
    finite : bool
        Whether all values are finite numbers. If not, the others are None.
    asymmetry : ValueDifference
        The rows for which k(x, y) and k(y, x) differ most.
    repetition, batches, diagonal : ValueDifference
        The same for two equal calls, for a call with fewer rows, and for `diag`.
    smallest_eigenvalue : float
        Relative to the largest in size, of K with its rows on one scale (K itself where k(x, x) = 1); None where k is
        not symmetric, or not a function of two rows.
    tolerance : float
        Eigenvalues above minus this number may be rounding.
    negative : NegativePoints or None
        Few rows and coefficients a with a^T K a < 0, which prove that this is not a kernel.
    similarities : Similarities or None
        None where it is not a kernel.
    lengthscale, suggested_lengthscale : float or None
        Of a kernel of distances with one lengthscale: its own, and that by which k = 1/e at the median distance.
    problems : tuple of str
        Why it is not a kernel, and what to do.
    advice : tuple of str
        What to change although it is one.
    """

    kernel: Kernel
    n_rows: int
    finite: bool = True
    asymmetry: faults.ValueDifference | None = None
    repetition: faults.ValueDifference | None = None
    batches: faults.ValueDifference | None = None
    diagonal: faults.ValueDifference | None = None
    smallest_eigenvalue: float | None = None
    tolerance: float | None = None
    negative: faults.NegativePoints | None = None
    similarities: Similarities | None = None
    lengthscale: float | None = None
    suggested_lengthscale: float | None = None
    problems: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against its being a kernel."""
        return not self.problems

    @property
    def symmetric(self) -> bool | None:
        return None if self.asymmetry is None else self.asymmetry.rounding

    @property
    def deterministic(self) -> bool | None:
        return None if self.repetition is None else self.repetition.rounding

    @property
    def consistent(self) -> bool | None:
        """Whether values depend on their two rows only."""
        if self.batches is None or self.diagonal is None:
            return None
        return self.batches.rounding and self.diagonal.rounding

    @property
    def positive_semidefinite(self) -> bool | None:
        if self.smallest_eigenvalue is None or self.tolerance is None:
            return None
        return self.smallest_eigenvalue >= -self.tolerance

    def __str__(self) -> str:
        verdict = "a kernel, as far as these rows can tell" if self.ok else "not a kernel"
        lines = [f"{faults.title(self.kernel)} on {self.n_rows:,} rows: {verdict}.", *self.problems]
        if self.smallest_eigenvalue is not None:
            lines.append(
                f"Smallest eigenvalue: {self.smallest_eigenvalue:.2g} of the largest; down to "
                f"{-(self.tolerance or 0):.1g} may be rounding."
            )
        if (values := self.similarities) is not None:
            low, middle, high = values.pairs
            lines += [
                f"k(x, x): {values.mean:.3g} on average, {values.smallest:.3g} to {values.largest:.3g}.",
                f"Similarity of two rows: {middle:.2f} for the typical pair, {low:.2f} to {high:.2f} for four in five; "
                f"{values.nearest:.2f} to the nearest row.",
                f"Effective dimension: {values.effective_dimension:.1f} (ridge {RIDGE}); {values.rank} dimensions hold "
                f"{SHARE:.0%} of k(x, x).",
            ]
        if self.lengthscale is not None:
            lines.append(
                f"Lengthscale: {self.lengthscale:.3g}; k is 1/e at the median distance with "
                f"{self.suggested_lengthscale:.3g}."
            )
        return "\n".join([*lines, *self.advice])


def checked_kernel(kernel: Kernel, rows: Rows, seed: int, indices: np.ndarray) -> KernelCheck:
    """The check on all of these rows; `indices` are the rows of the data that they are."""
    result = KernelCheck(kernel, len(indices))
    try:
        K = kernel(rows).double()
        finite = bool(torch.isfinite(K).all())
        result = _with_differences(result, rows, K, seed, indices) if finite else result
    except NotFiniteError:
        finite = False
    if not finite:
        advice = "Look for divisions by zero, logarithms and roots of negative numbers, and for overflow."
        problem = f"It has NaN or infinite values between these rows. {advice}"
        return replace(result, finite=False, problems=(problem,))
    if result.problems:
        return result
    found = (result.asymmetry, result.repetition, result.batches, result.diagonal)
    s, noise = faults.scales(K), max(d.size for d in found if d is not None)
    values, vectors = torch.linalg.eigh(symmetric(K) / s / s[:, None])
    largest = values.abs().max().clamp(min=torch.finfo(K.dtype).tiny).item()
    result = replace(
        result,
        smallest_eigenvalue=values[0].item() / largest,
        tolerance=faults.rounding(K) + noise * len(K) / largest,
        negative=faults.negative_points(K, vectors[:, 0] / s, noise, indices),
    )
    if not result.positive_semidefinite:
        points = "" if result.negative is None else f": {result.negative}"
        problem = (
            f"It is not positive semi-definite{points}. Use a kernel that is, or give the values k(x, landmarks) to a "
            "linear model as columns. A model of krepes drops the negative part, and warns."
        )
        return replace(result, problems=(problem,))
    return _suitable(result, _similarities(symmetric(K)), rows)


def _with_differences(
    result: KernelCheck, rows: Rows, K: Tensor, seed: int, indices: np.ndarray
) -> KernelCheck:
    """With the differences of values that should be equal, and the first fault among them."""
    kernel, few = result.kernel, np.random.default_rng(seed).permutation(len(K))[: faults.FEW]
    part, chosen = take_rows(rows, few), torch.from_numpy(few)
    first, second, s = kernel(part).double(), kernel(part).double(), faults.scales(K)[chosen]
    repetition = faults.difference(first, second, torch.outer(s, s), indices[few])
    batches = faults.difference(K[chosen][:, chosen], first, torch.outer(s, s), indices[few])
    diagonal, crossed = faults.diagonal_difference(kernel, rows, K, indices), faults.asymmetry(K, indices)
    problem = None
    if not repetition.rounding:
        names = faults.row_names(repetition.rows)
        problem = f"It is random: two equal calls differ for {names}. Draw random numbers once, beforehand."
    elif not (batches.rounding and diagonal.rounding):
        problem = faults.depends_on_batch("It", diagonal if batches.rounding else batches)
    elif not crossed.rounding:
        problem = faults.not_symmetric("It", crossed)
    return replace(
        result,
        asymmetry=crossed,
        repetition=repetition,
        batches=batches,
        diagonal=diagonal,
        problems=() if problem is None else (problem,),
    )


def _similarities(K: Tensor) -> Similarities:
    n, k = len(K), K.diagonal()
    norms = k.clamp(min=torch.finfo(K.dtype).tiny).sqrt()
    S = K / norms / norms[:, None]
    pairs = torch.triu_indices(n, n, offset=1)
    between = S[pairs[0], pairs[1]]
    squared = (k[:, None] + k - 2 * K)[pairs[0], pairs[1]]
    low, middle, high = between.quantile(torch.tensor(PERCENTILES, dtype=S.dtype)).tolist()
    values = torch.linalg.eigvalsh(K).flip(0).clamp(min=0)
    trace = values.sum().item()
    ridge = RIDGE * trace if trace > 0 else 1.0
    return Similarities(
        smallest=k.min().item(),
        mean=k.mean().item(),
        largest=k.max().item(),
        pairs=(low, middle, high),
        nearest=S.clone().fill_diagonal_(-torch.inf).amax(1).median().item(),
        distance=squared.clamp(min=0).sqrt().median().item(),
        effective_dimension=(values / (values + ridge)).sum().item(),
        effective_rank=effective_rank(values.numpy()),
        rank=int((values.cumsum(0) < SHARE * trace).sum()) + 1 if trace > 0 else 0,
    )


def _suitable(found: KernelCheck, values: Similarities, rows: Rows) -> KernelCheck:
    """With similarities, lengthscales and advice."""
    kernel, length, suggested = found.kernel, None, None
    if isinstance(kernel, RadialKernel) and kernel.one_scale and isinstance(rows, Tensor):
        (length,) = kernel.column_lengthscales([0])
        (suggested,) = clone(kernel).set_params(lengthscale="median").fitted(rows).column_lengthscales([0])
    remedy = None if suggested is None else f"Try lengthscale={suggested:.3g}"
    if values.largest == 0:
        advice = "All values are zero: there is nothing to learn from."
    elif values.nearest < ALONE:
        remedy = remedy or "Use one that decays more slowly"
        advice = f"Rows are similar to themselves only: the kernel is too narrow. {remedy}."
    elif values.pairs[1] > ALIKE:
        remedy = remedy or "Subtract the mean of the rows, or use a kernel that decays faster"
        advice = f"All rows look alike: the kernel is too wide. {remedy}."
    elif values.rank > found.n_rows / 2:
        advice = (
            f"{SHARE:.0%} of k(x, x) takes {values.rank} dimensions for {found.n_rows:,} rows, and more for more rows: "
            "a model needs very many landmarks, or a wider kernel."
        )
    else:
        advice = f"A model needs at least {values.rank} landmarks to keep {SHARE:.0%} of k(x, x)."
    return replace(
        found,
        similarities=values,
        lengthscale=length,
        suggested_lengthscale=suggested,
        advice=(advice,),
    )
