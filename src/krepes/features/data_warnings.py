"""Warnings of data from which a kernel would learn something else than was meant.

    extreme rows        |x - center| > 1000 median |x - center|       wrong units, codes for missing values
    narrow images       (n, h, w) of real numbers, one side four times the other, or of at most four: time series?
    dominant columns    sum of their scale^2 > 97 % of that of all    columns in different units

Dominant columns are at most three, and at most half of those that vary. Center and scales are those of usual values
(`krepes.base.column_scale`). Only the candidate rows are looked at.
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.base.caller_warning import named_few, warn
from krepes.base.column_scale import column_scale
from krepes.base.linalg import row_blocks
from krepes.kernels import Kernel
from krepes.kernels.vectors import as_rows
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates

EXTREME = 1e3  # times the median distance
MOST_DOMINANT = 3
NARROW = 4  # times as long as wide; and pixels of a side, that an image has more than
OTHERS_SHARE = 0.03  # of the rows' spread that is left to the other columns


def warn_of_data(candidates: Candidates, inputs: InputSpace, kernel: Kernel, as_given: bool) -> None:
    """Look at the candidates of vectors and tables; `as_given` says that columns are meant to be used as they are."""
    rows = candidates.rows
    if inputs.kind not in ("vectors", "table") or not isinstance(rows, Tensor):
        return
    X = as_rows(rows)
    center, scale = column_scale(X)
    extreme = extreme_rows(X, center)
    if extreme:
        names = named_few("row", candidates.indices[extreme].tolist())
        lie = "lie" if len(extreme) > 1 else "lies"
        remedy = (
            "" if kernel.shift_invariant else " This kernel grows with a row, and sees little but such rows."
        )
        warn(
            f"{names.capitalize()} {lie} more than {EXTREME:,.0f} times as far from the middle of the data as half of "
            f"the {len(X):,} rows looked at. Look for wrong units, typing errors and codes of missing values.{remedy}"
        )
    columns = dominant_columns(scale) if inputs.encoder is None and kernel.one_scale and not as_given else []
    if columns:
        share = min((scale[columns].square().sum() / scale.square().sum()).item(), 0.999)
        names, make = named_few("column", columns), "make" if len(columns) > 1 else "makes"
        warn(
            f"{names.capitalize()} {make} up {100 * share:.3g} % of the spread of the rows, and the kernel sees little "
            "else. preprocess='table' gives all columns the same scale; preprocess=None uses them as they are, without "
            "this warning."
        )


def warn_of_shape(inputs: InputSpace, kernel: Kernel, views: object) -> None:
    """Say what an array (n, h, w) was taken for, where it may be one of series and nobody said that it is images."""
    real, chosen = inputs.divide == 1.0, not (views is None or (isinstance(views, str) and views == "auto"))
    if inputs.kind != "images" or len(inputs.shape) != 2 or not real or chosen or kernel.takes_objects:
        return
    short, long = sorted(inputs.shape)
    if short > NARROW and long < NARROW * short:
        return
    height, width = inputs.shape
    warn(
        f"An array (n, {height}, {width}) is taken for images of {height} × {width} pixels. If these are time series "
        f"of {height} steps and {width} channels, say preprocess='series'; if they are vectors, X.reshape(len(X), -1). "
        "views='image' or preprocess=None says that they are images."
    )


def extreme_rows(X: Tensor, center: Tensor) -> list[int]:
    """Rows of X, (n, d), that lie very far from the center."""
    where = center.to(X)
    distance = torch.cat([(X[rows] - where).double().norm(dim=1) for rows in row_blocks(len(X), 4096)])
    return (distance > EXTREME * distance.median()).nonzero()[:, 0].tolist() if distance.median() > 0 else []


def dominant_columns(scale: Tensor) -> list[int]:
    """The few columns beside which the others hardly count, by their scales, (d,); an empty list if there are none.

    >>> dominant_columns(torch.tensor([1.0, 300.0, 2.0])), dominant_columns(torch.tensor([1.0, 3.0, 2.0]))
    ([1], [])
    """
    order = scale.argsort(descending=True)
    squares = scale[order].square()
    others = 1 - squares.cumsum(0) / squares.sum().clamp(min=torch.finfo(squares.dtype).tiny)
    n_varying = int((scale > 0).sum())
    for k in range(1, min(MOST_DOMINANT, n_varying // 2) + 1):
        if others[k - 1] < OTHERS_SHARE:
            return order[:k].tolist()
    return []
