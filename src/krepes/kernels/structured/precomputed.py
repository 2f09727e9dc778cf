"""A kernel whose values are given: rows of a kernel matrix instead of rows of data.

    row of the fit    [i, k(x_i, x_1), ..., k(x_i, x_n)]
    new row           [-k(x, x), k(x, x_1), ..., k(x, x_n)], or -3e38 in front where k(x, x) is not known

A landmark is a row of the fit, and k(., landmark i) is column i. Sources of kind "precomputed" put the number in front
(`krepes.sources`). Cost: none but reading; memory n numbers per row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.base.rows import UNKNOWN_DIAGONAL, RowLayout
from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.kernels.vectors import VectorKernel


class Precomputed(VectorKernel):
    """Kernel values that were computed before: `kernel="precomputed"`.

    An estimator is then fitted on K (n, n), the values between all rows, and predicts from K (b, n), the values between
    new rows and rows of the fit. Variances and coverage of new rows need a column more, k(x, x): K (b, n + 1).
    scikit-learn's cross-validation knows, and takes rows and columns.

    Notes
    -----
    There are no views, and rows cannot be added later.

    Examples
    --------
    >>> import torch
    >>> rows = torch.tensor([[0.0, 1.0, 0.5], [1.0, 0.5, 2.0]])       # numbers 0 and 1, then K
    >>> Precomputed()(rows)
    tensor([[1.0000, 0.5000],
            [0.5000, 2.0000]])
    """

    one_scale = False

    def suited(self, layout: RowLayout) -> Kernel:
        if layout.kind != "precomputed":
            raise ValueError(
                "A precomputed kernel stands alone: kernel='precomputed'. Add and multiply matrices, not kernels."
            )
        return self

    def against_rows(self, Y: Tensor) -> KernelColumns:
        columns = 1 + _numbers(
            Y,
            "Landmarks have to be rows that were fitted: with kernel='precomputed', models are fitted on all rows.",
        )
        return lambda X: X[:, columns]

    def diag_rows(self, X: Tensor) -> Tensor:
        own = X[:, 0]
        if bool((own <= UNKNOWN_DIAGONAL).any()):
            raise ValueError(
                "k(x, x) of new rows is not in the kernel matrix, and this needs it: with kernel='precomputed', give "
                "it as a last column. No rows can be added."
            )
        return torch.where(own < 0, -own, X.gather(1, 1 + own.clamp(min=0).long()[:, None])[:, 0])


def _numbers(rows: Tensor, problem: str) -> Tensor:
    """The columns that are the rows' own, (n,)."""
    if rows.shape[1] < 2:
        raise ValueError(
            f"A row of a precomputed kernel is its number and then kernel values; these have {rows.shape[1]} numbers."
        )
    numbers = rows[:, 0]
    if len(rows) and not (numbers.min() >= 0 and numbers.max() < rows.shape[1] - 1):
        raise ValueError(problem)
    return numbers.long()
