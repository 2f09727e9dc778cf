"""Is this function a kernel, and does it suit these rows? An answer from a sample of them, in words.

    kernel               k(x, y) = k(y, x),   a^T K a >= 0 for every a,   the same in every batch and call
    similarity           k(x, y) / sqrt(k(x, x) k(y, y))
    effective dimension  sum_i l_i / (l_i + c),  l_i the eigenvalues of K,  c = 0.001 tr K, the ridge of kernel machines
    rank                 how many eigenvalues hold 99 % of tr K: no fewer landmarks can
    kernel distance      sqrt(k(x, x) + k(y, y) - 2 k(x, y)), the distance between phi(x) and phi(y)

A finding of faults is a proof; finding none is evidence, as other rows may show some. Cost: the values between n rows
(500 by default) once, between 64 of them twice, and O(n^3) for the eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.dtype_and_device import Placement
from krepes.base.limits import check_count
from krepes.base.linalg import effective_rank, symmetric
from krepes.base.progress import Silent
from krepes.base.rows import Rows, take_rows
from krepes.base.validation import generator_of
from krepes.engines.local import Local
from krepes.kernels.base import Kernel
from krepes.kernels.checking.fit_check import (
    FEW,
    depends_on_batch,
    diagonal_difference,
    not_symmetric,
    title,
)
from krepes.kernels.checking.matrix_faults import (
    SAME,
    NegativePoints,
    ValueDifference,
    asymmetry,
    difference,
    negative_points,
    precision,
    rounding,
    row_names,
    scales,
)
from krepes.kernels.custom import NotFiniteError, as_kernel
from krepes.kernels.radial import RadialKernel
from krepes.preprocessing.preparing import prepare_inputs
from krepes.sources import open_source

RIDGE = 1e-3  # of the trace
SHARE = 0.99  # of the trace, that the rank is counted for
ALONE = 0.05  # similarity to the nearest row below which a row is like itself only
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
    same : float
        Differences up to this size may be rounding.
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
    asymmetry: ValueDifference | None = None
    repetition: ValueDifference | None = None
    batches: ValueDifference | None = None
    diagonal: ValueDifference | None = None
    same: float | None = None
    smallest_eigenvalue: float | None = None
    tolerance: float | None = None
    negative: NegativePoints | None = None
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
        return self._same(self.asymmetry)

    @property
    def deterministic(self) -> bool | None:
        return self._same(self.repetition)

    @property
    def consistent(self) -> bool | None:
        """Whether values depend on their two rows only."""
        return None if self.batches is None else bool(self._same(self.batches) and self._same(self.diagonal))

    @property
    def positive_semidefinite(self) -> bool | None:
        if self.smallest_eigenvalue is None or self.tolerance is None:
            return None
        return self.smallest_eigenvalue >= -self.tolerance

    def _same(self, found: ValueDifference | None) -> bool | None:
        return None if found is None or self.same is None else found.size <= self.same

    def __str__(self) -> str:
        verdict = "a kernel, as far as these rows can tell" if self.ok else "not a kernel"
        lines = [f"{title(self.kernel)} on {self.n_rows:,} rows: {verdict}.", *self.problems]
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


def check_kernel(
    kernel: str | Kernel | Callable[[Any, Any], Any] | type[Kernel],
    X: Any,
    *,
    n_rows: int = 500,
    random_state: int | np.random.Generator | None = 0,
) -> KernelCheck:
    """Whether a function is a kernel on some rows, and whether it suits them.

    Parameters
    ----------
    kernel : name, Kernel, or callable k(X, Y) -> (n, m)
    X : array, frame, list of objects, or one path
        As an estimator takes it: frames are encoded, arrays are used as they are.
    n_rows : int, default=500
        Rows that are looked at: a random sample of those of X.
    random_state : int, Generator or None, default=0

    Returns
    -------
    KernelCheck
        Print it, or look at `ok`, `problems` and `advice`.

    Examples
    --------
    Nearer than 1 is not a kernel: 0 is near 0.9 and 0.9 near 1.8, but 0 is not near 1.8.

    >>> def near(X, Y):
    ...     return (abs(X - Y.T) < 1) * 1.0
    >>> found = check_kernel(near, [[0.0], [0.9], [1.8]])
    >>> found.ok, found.negative.rows
    (False, (0, 1, 2))
    """
    check_count("n_rows", n_rows, least=2)
    source = open_source(X)
    if source.n_rows < 2:
        raise ValueError(f"Found {source.n_rows} row(s); at least 2 are needed to check a kernel.")
    seed = int(generator_of(random_state).integers(2**31))
    placement, given = Placement(torch.float64, torch.device("cpu")), as_kernel(kernel)
    inputs, sample = prepare_inputs(source, "auto", n_rows, seed, placement, Local(), Silent())
    fitted = given.suited(inputs).fitted(sample.rows, torch.Generator().manual_seed(seed))
    return _with_rows(_checked(fitted, sample.rows, seed, sample.indices), sample.indices)


def _checked(kernel: Kernel, rows: Rows, seed: int, indices: np.ndarray) -> KernelCheck:
    """The check on all of these rows; the rows that it names are positions among them."""
    result = KernelCheck(kernel, len(indices))
    try:
        K = kernel(rows).double()
        few = np.random.default_rng(seed).permutation(len(K))[:FEW]
        part = take_rows(rows, few)
        first, second = kernel(part).double(), kernel(part).double()
        diagonal = diagonal_difference(kernel, rows, K) if torch.isfinite(K).all() else None
    except NotFiniteError:
        diagonal = None
    if diagonal is None:
        advice = "Look for divisions by zero, logarithms and roots of negative numbers, and for overflow."
        problem = f"It has NaN or infinite values between these rows. {advice}"
        return replace(result, finite=False, problems=(problem,))
    s, chosen = scales(K), torch.from_numpy(few)
    around = s[chosen]
    repeated = difference(first, second, around, around)
    beside = difference(first, K[chosen][:, chosen], around, around)
    beside, repeated = (
        ValueDifference(d.size, tuple(int(few[i]) for i in d.rows)) for d in (beside, repeated)
    )
    result = replace(
        result,
        asymmetry=asymmetry(K),
        repetition=repeated,
        batches=beside,
        diagonal=diagonal,
        same=SAME[precision(K)],
    )
    problems = _faults_of_values(result, K, indices)
    if problems:
        return replace(result, problems=tuple(problems))
    found = (result.asymmetry, repeated, beside, diagonal)
    noise = max(d.size for d in found if d is not None)
    S = symmetric(K) / s / s[:, None]
    values, vectors = torch.linalg.eigh(S)
    largest = values.abs().max().clamp(min=torch.finfo(S.dtype).tiny).item()
    result = replace(
        result,
        smallest_eigenvalue=values[0].item() / largest,
        tolerance=rounding(K) + noise * len(K) / largest,
        negative=negative_points(K, vectors[:, 0] / s, noise),
    )
    if not result.positive_semidefinite:
        return replace(result, problems=(_indefinite(result, indices),))
    return _suitable(replace(result, similarities=_similarities(symmetric(K))), rows)


def _faults_of_values(found: KernelCheck, K: Tensor, indices: np.ndarray) -> list[str]:
    """Values that are not those of a symmetric function of two rows."""
    if not found.deterministic and found.repetition is not None:
        names = row_names(found.repetition.rows, indices)
        return [f"It is random: two equal calls differ for {names}. Draw random numbers once, beforehand."]
    if not found._same(found.batches) and found.batches is not None:
        return [depends_on_batch("It", row_names(found.batches.rows, indices))]
    if not found._same(found.diagonal) and found.diagonal is not None:
        return [depends_on_batch("It", row_names(found.diagonal.rows, indices))]
    if not found.symmetric and found.asymmetry is not None:
        return [not_symmetric("It", K, found.asymmetry, row_names(found.asymmetry.rows, indices))]
    return []


def _indefinite(found: KernelCheck, indices: np.ndarray) -> str:
    points = (
        "" if found.negative is None else f": {found.negative.words(row_names(found.negative.rows, indices))}"
    )
    return (
        f"It is not positive semi-definite{points}. Use a kernel that is, or give "
        "the values k(x, landmarks) to a linear model as columns. A model of krepes drops the negative part, and warns."
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


def _suitable(found: KernelCheck, rows: Rows) -> KernelCheck:
    """With lengthscales and advice."""
    kernel, values = found.kernel, found.similarities
    assert values is not None
    if isinstance(kernel, RadialKernel) and kernel.one_scale and isinstance(rows, Tensor):
        by_rule = clone(kernel).set_params(lengthscale="median").fitted(rows)
        found = replace(
            found,
            lengthscale=float(np.asarray(kernel.lengthscale)),
            suggested_lengthscale=by_rule.column_lengthscale(0),
        )
    length = found.suggested_lengthscale
    advice = []
    if values.largest == 0:
        advice.append("All values are zero: there is nothing to learn from.")
    elif values.nearest < ALONE:
        remedy = "Use one that decays more slowly" if length is None else f"Try lengthscale={length:.3g}"
        advice.append(f"Rows are similar to themselves only: the kernel is too narrow. {remedy}.")
    elif values.pairs[1] > ALIKE:
        remedy = (
            "Subtract the mean of the rows, or use a kernel that decays faster"
            if length is None
            else f"Try lengthscale={length:.3g}"
        )
        advice.append(f"All rows look alike: the kernel is too wide. {remedy}.")
    elif values.rank > found.n_rows / 2:
        advice.append(
            f"{SHARE:.0%} of k(x, x) takes {values.rank} dimensions for {found.n_rows:,} rows, and more for more rows: "
            "a model needs very many landmarks, or a wider kernel."
        )
    else:
        advice.append(f"A model needs at least {values.rank} landmarks to keep {SHARE:.0%} of k(x, x).")
    return replace(found, advice=tuple(advice))


def _with_rows(found: KernelCheck, indices: np.ndarray) -> KernelCheck:
    """With rows of the data for positions in the sample."""
    changed: dict[str, Any] = {}
    for name in ("asymmetry", "repetition", "batches", "diagonal"):
        if (value := getattr(found, name)) is not None:
            changed[name] = replace(value, rows=tuple(int(indices[i]) for i in value.rows))
    if found.negative is not None:
        changed["negative"] = found.negative.of_rows(indices)
    return replace(found, **changed)
