"""What a matrix of kernel values cannot have: pairs that are not symmetric, points of negative squared length.

    k is a kernel on rows x_1 .. x_n  iff  K = K^T  and  a^T K a >= 0 for every a          [lecture; aronszajn]

a^T K a is the squared length of sum_i a_i phi(x_i), so a few rows and coefficients with a^T K a < 0 prove that there
is no feature map phi. Rows are compared on one scale:

    S_ij = k(x_i, x_j) / (s_i s_j),     s_i^2 = max_j |k(x_i, x_j)|, at least sqrt(eps) times the largest of these

which is positive semi-definite iff K is; |S_ij| <= 1, and S = K for kernels with k(x, x) = 1 >= |k(x, y)|. eps is
that of the values: of single precision where they all are numbers of single precision. Rounding moves eigenvalues by
n eps of the largest; kernels of distances and angles lose half of their digits between nearly equal rows, hence at
least 1e-8. Where values that should be equal differ, by less than faults make them differ, that is rounding as well: a
root of |x|^2 - 2 x.y + |y|^2 far from zero has errors of sqrt(eps) |x|.

Cost: eigenvalues of 10,000 pairs and triples of the rows that count most, then of submatrices of few rows.

When a model is fitted, a user's function is checked on a few candidate rows, and between landmarks. Landmarks alone
would not do: rules that look at the kernel choose rows between which it is positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh, symmetric
from krepes.base.rows import Rows, take_rows
from krepes.kernels.custom import Custom
from krepes.kernels.kernel import Kernel, kernel_matrix, wide

FEW = 64  # rows that are checked before a fit
LEAST_ROUNDING = 1e-8  # of the largest eigenvalue
# differences, on the scale of S, that may be rounding
SAME = {torch.float64: 1e-3, torch.float32: 1e-2}
PRECISION_ROWS = 64  # whose values tell the precision
# negative value that is enough of a proof; also a share of the most negative one
EVIDENCE = 0.01
# size of sets: rows among which all sets are tried
TRIED = {1: 2000, 2: 150, 3: 40}
SMALL = 48  # points of which each is left out in turn
MOST = 2000  # rows among which points are looked for


@dataclass(frozen=True)
class ValueDifference:
    """The largest difference of two values that should be equal, and where it is found.

    Attributes
    ----------
    size : float
        On the scale of S.
    rows : tuple of int
    values : tuple of two floats
    rounding : bool
        Whether it is no more than rounding.
    """

    size: float
    rows: tuple[int, ...]
    values: tuple[float, float]
    rounding: bool


@dataclass(frozen=True)
class NegativePoints:
    """Rows and coefficients a with a^T K a < 0.

    Attributes
    ----------
    rows : tuple of int
    coefficients : tuple of float
        The largest is 1 in magnitude.
    value : float
        a^T K a.
    kind : "row" or "landmark"
        What `rows` counts: landmarks where their rows are not known.
    """

    rows: tuple[int, ...]
    coefficients: tuple[float, ...]
    value: float
    kind: str = "row"

    def __str__(self) -> str:
        names = row_names(self.rows, self.kind)
        if len(self.rows) == 1:
            return f"{names} has k(x, x) = {self.value:.3g}"
        numbers = ", ".join(f"{c:.3g}" for c in self.coefficients)
        return f"{names} with a = ({numbers}) give aᵀKa = {self.value:.3g}"


def row_names(rows: Sequence[int], kind: str = "row") -> str:
    """Rows as messages name them.

    >>> row_names((7, 9)), row_names((4, 4), "landmark")
    ('rows 7 and 9', 'landmark 4')
    """
    *first, last = map(str, dict.fromkeys(rows))
    return f"{kind}s {', '.join(first)} and {last}" if first else f"{kind} {last}"


def precision(K: Tensor) -> torch.dtype:
    """float32 where the values of K, (n, m) in float64, are all numbers of single precision, else float64.

    >>> precision(torch.tensor([[1.0, 0.1]], dtype=torch.float64))
    torch.float64
    """
    some = K[:PRECISION_ROWS]
    return torch.float32 if torch.equal(some.float().double(), some) else torch.float64


def rounding(K: Tensor) -> float:
    """How far below zero eigenvalues of K may come by rounding, relative to the largest."""
    return max(LEAST_ROUNDING, len(K) * torch.finfo(precision(K)).eps)


def scales(K: Tensor) -> Tensor:
    """s, shape (n,)."""
    largest = K.abs().amax(1)
    floor = torch.finfo(precision(K)).eps ** 0.5 * largest.max()
    return largest.clamp(min=floor).sqrt() if floor > 0 else torch.ones_like(largest)


def difference(A: Tensor, B: Tensor, scale: Tensor, rows: np.ndarray) -> ValueDifference:
    """The largest of |A - B| / scale, all (n, m); `rows` are the numbers of their rows and columns."""
    D = (A - B).abs() / scale
    place = divmod(int(D.argmax()), D.shape[1])
    size, values = D[place].item(), (A[place].item(), B[place].item())
    return ValueDifference(size, tuple(int(rows[i]) for i in place), values, size <= SAME[precision(A)])


def asymmetry(K: Tensor, rows: np.ndarray) -> ValueDifference:
    """The pair for which k(x, y) and k(y, x) differ most.

    >>> asymmetry(torch.tensor([[1.0, 0.5], [0.25, 1.0]], dtype=torch.float64), np.arange(2))
    ValueDifference(size=0.25, rows=(0, 1), values=(0.5, 0.25), rounding=False)
    """
    s = scales(K)
    return difference(K, K.mT, torch.outer(s, s), rows)


def negative_points(
    K: Tensor, direction: Tensor, noise: float = 0.0, rows: np.ndarray | None = None
) -> NegativePoints | None:
    """Few points with a^T K a < 0, more than rounding explains; None if there are none.

    Parameters
    ----------
    K : Tensor of shape (n, n), float64
    direction : Tensor of shape (n,)
        An eigenvector of the smallest eigenvalue: where it is large, points are looked for.
    noise : float
        Errors of single values, on the scale of S.
    rows : ndarray of shape (n,), optional
        The numbers of the rows in the data.

    Examples
    --------
    A row is like its neighbours, which are not like each other at all:

    >>> K = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
    >>> print(negative_points(K, torch.linalg.eigh(K)[1][:, 0]))
    landmarks 0, 1 and 2 with a = (-0.707, 1, -0.707) give aᵀKa = -0.828
    """
    s = scales(K)
    order = (direction * s).abs().argsort(descending=True)[:MOST]
    S = symmetric(K[order][:, order]) / s[order] / s[order][:, None]
    values = torch.linalg.eigvalsh(S)
    # Of all rows looked at, not of the few: a value that is large beside the rounding of all is a proof.
    allowed = rounding(K) * values[-1].abs().item() + noise * len(S)
    if values[0].item() >= -allowed:
        return None
    chosen = _few(S, max(allowed, EVIDENCE * min(1.0, -values[0].item())))
    value, v = (found[..., 0] for found in torch.linalg.eigh(S[chosen][:, chosen]))
    places = order[chosen]
    a = v / s[places]
    unit = a[a.abs().argmax()]
    by_row = places.argsort()
    found = places[by_row].tolist()
    numbers = tuple(found if rows is None else (int(rows[i]) for i in found))
    coefficients, value = (a / unit)[by_row].tolist(), (value / unit**2).item()
    return NegativePoints(numbers, tuple(coefficients), value, "landmark" if rows is None else "row")


def _few(S: Tensor, enough: float) -> list[int]:
    """Few rows of S whose submatrix has an eigenvalue below -enough; S itself has one."""
    for size, most in TRIED.items():
        sets = list(combinations(range(min(len(S), most)), size))
        found = _smallest(S, sets) if sets else S.new_zeros(1)
        if found.min() < -enough:
            return list(sets[int(found.argmin())])
    return _shrunk(S, _leading(S, enough), enough)


def _leading(S: Tensor, enough: float) -> list[int]:
    """The first rows, as few as will do, by a search in steps of a half."""
    size = 4
    while size < len(S):
        if _smallest(S, [range(size)])[0] < -enough:
            return list(range(size))
        size += size // 2
    return list(range(len(S)))


def _shrunk(S: Tensor, points: list[int], enough: float) -> list[int]:
    """Leave points out as long as the rest is negative: a quarter at a time, then one by one."""
    while len(points) > SMALL:
        v = torch.linalg.eigh(S[points][:, points])[1][:, 0].abs()
        kept = [points[i] for i in v.argsort(descending=True)[: len(points) * 3 // 4].tolist()]
        if _smallest(S, [kept])[0] >= -enough:
            return points
        points = kept
    while len(points) > 1:
        fewer = [points[:i] + points[i + 1 :] for i in range(len(points))]
        found = _smallest(S, fewer)
        if found.min() >= -enough:
            break
        points = fewer[int(found.argmin())]
    return points


def _smallest(S: Tensor, sets: Sequence[Sequence[int]]) -> Tensor:
    """The smallest eigenvalue of the submatrix of each set of rows, all of one size."""
    index = torch.from_numpy(np.asarray([list(points) for points in sets]))
    return torch.linalg.eigvalsh(S[index[:, :, None], index[:, None, :]])[:, 0]


def check_candidates(kernel: Kernel, candidates: Rows, indices: np.ndarray) -> str | None:
    """Refuse a user's function with faults; what proves that it is not positive, None if nothing does.

    `indices` are the rows of the data that the candidates are, for messages.
    """
    places = np.unique(np.linspace(0, len(indices) - 1, FEW).astype(np.int64))
    some = wide(take_rows(candidates, places))
    K = kernel_matrix(kernel, some)
    noise = rounding_of_user(kernel, some, K, indices[places])
    negative = negative_points(K, descending_eigh(K)[1][:, -1], noise, indices[places])
    return None if negative is None else str(negative)


def rounding_of_user(kernel: Kernel, landmarks: Any, K: Tensor, rows: np.ndarray | None = None) -> float:
    """How far values of a user's function that should be equal differ, K (m, m); faults are an error.

    `rows` are the rows of the data that the landmarks are, for messages.
    """
    kind, numbers = ("landmark", np.arange(len(K))) if rows is None else ("row", rows)
    crossed = asymmetry(K, numbers)
    if not crossed.rounding:
        raise ValueError(not_symmetric(title(kernel), crossed, kind))
    beside = diagonal_difference(kernel, landmarks[:FEW], K, numbers)
    if not beside.rounding:
        raise ValueError(depends_on_batch(title(kernel), beside, kind))
    return max(crossed.size, beside.size)


def diagonal_difference(kernel: Kernel, rows: Any, K: Tensor, numbers: np.ndarray) -> ValueDifference:
    """The row whose k(x, x) in `diag` differs most from that in K; `rows` are the first rows of K."""
    n = len(rows)
    scale = scales(K)[:n, None].square()
    found = difference(K.diagonal()[:n, None], kernel.diag(rows).double()[:, None], scale, numbers)
    return replace(found, rows=found.rows[:1], rounding=found.size <= SAME[precision(K)])


def not_symmetric(subject: str, found: ValueDifference, kind: str = "row") -> str:
    first, second = found.values
    return (
        f"{subject} is not symmetric: for {row_names(found.rows, kind)}, k(x, y) is {first:.4g} and k(y, x) is "
        f"{second:.4g}. Take their mean instead, and check that."
    )


def depends_on_batch(subject: str, found: ValueDifference, kind: str = "row") -> str:
    return (
        f"{subject} depends on the batch: the values for {row_names(found.rows, kind)} change with the rows beside "
        "them, or `diagonal` does not give k(x, x). Compute means and scales beforehand. Where rounding is the "
        "cause, subtract the means of the rows and compute in double precision."
    )


def title(kernel: Kernel) -> str:
    """A kernel as messages call it; a function by its name."""
    name = getattr(kernel.function, "__name__", None) if isinstance(kernel, Custom) else None
    return " ".join(str(kernel).split()) if name is None else f"The function {name}"
