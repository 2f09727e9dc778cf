"""What `check_kernel` finds out, as a value that prints itself in words.

similarity           k(x, y) / sqrt(k(x, x) k(y, y))
kernel distance      sqrt(k(x, x) + k(y, y) - 2 k(x, y)), the distance between phi(x) and phi(y)
effective dimension  sum_i l_i / (l_i + c),  l_i the eigenvalues of K,  c = 0.001 tr K, the ridge of kernel machines
rank                 how many eigenvalues hold 99 % of tr K: no fewer landmarks can
"""

from __future__ import annotations

from dataclasses import dataclass

from krepes.kernels.checking.fit_check import title
from krepes.kernels.checking.matrix_faults import NegativePoints, ValueDifference
from krepes.kernels.kernel import Kernel

RIDGE = 1e-3  # of the trace
SHARE = 0.99  # of the trace, that the rank is counted for


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
        return self.is_rounding(self.asymmetry)

    @property
    def deterministic(self) -> bool | None:
        return self.is_rounding(self.repetition)

    @property
    def consistent(self) -> bool | None:
        """Whether values depend on their two rows only."""
        return (
            None
            if self.batches is None
            else bool(self.is_rounding(self.batches) and self.is_rounding(self.diagonal))
        )

    @property
    def positive_semidefinite(self) -> bool | None:
        if self.smallest_eigenvalue is None or self.tolerance is None:
            return None
        return self.smallest_eigenvalue >= -self.tolerance

    def is_rounding(self, found: ValueDifference | None) -> bool | None:
        """Whether a difference is no more than rounding."""
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
