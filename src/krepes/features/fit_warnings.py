"""What is worth a warning before a fit: data that mislead the kernel, and fits that take too long.

    extreme rows        |x - center| > 1000 median |x - center|       wrong units, codes for missing values
    narrow images       (n, h, w) of real numbers, one side four times the other, or of at most four: time series?
    dominant columns    sum of their scale^2 > 97 % of that of all    columns in different units

Dominant columns are at most three, and at most half of those that vary. Center and scales come from usual values
(`krepes.base.column_scale`). Only the candidate rows are looked at. What a fit costs, to a factor of three:

    kernel values    n V m + N m          rows n, views V of each, landmarks m, candidates N; N^2 for leverage scores
    features         2 n V m (m + m)      operations: projection and moments, if all m features are kept
    decomposition    10 m^3
    memory           3 N d + 2 m d + N m numbers, and 5 m^2 of double precision

The kernel is measured on a few candidates, and its time divided into parts, of which most kernels have one or two:

    time of a block = call + b row + b l value           b rows, l landmarks
"""

from __future__ import annotations

import time

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from krepes.base.blocks import available_memory, row_blocks
from krepes.base.column_scale import column_scale
from krepes.base.reporting import named_few, warn
from krepes.base.rows import Rows, take_rows
from krepes.engines.engine import block_rows
from krepes.engines.pass_cost import time_in_words
from krepes.kernels import Kernel
from krepes.kernels.vectors import as_rows
from krepes.preprocessing.column_values import family
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates
from krepes.sources import Source, TableSource

EXTREME = 1e3  # times the median distance
MOST_DOMINANT = 3
NARROW = 4  # times as long as wide; and pixels of a side, that an image has more than
OTHERS_SHARE = 0.03  # of the rows' spread that is left to the other columns
CANDIDATE_NUMBERS = 2**28  # that candidates have together, at most: 1 GB in single precision
TEXT_WIDTH = 30  # numbers that a cell of text, or a date, may become, for this estimate
LONG_SECONDS = 3600.0  # a fit that takes longer gets a warning
MANY_VALUES = 10**7  # kernel values below which no fit is long, so that none is measured
PROBE_SECONDS = 2.0  # to measure a kernel that may be slow
# rows and landmarks of blocks that are measured
PROBES = ((4, 4), (32, 4), (4, 32), (32, 32), (128, 32), (32, 128), (128, 128), (512, 128), (512, 512))
OPERATIONS = 2e10  # of matrix products, per second and thread


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


def allowed_candidates(source: Source, wanted: int, n_landmarks: int) -> int:
    """How many of the wanted candidates to draw: fewer where rows are so wide that they would fill the memory.

    >>> from krepes.sources import open_source
    >>> allowed_candidates(open_source(np.zeros((3, 100_000), dtype=np.int8)), 20_000, 1000)
    2684
    """
    if isinstance(source, TableSource):  # rows are held as they are read, as numbers, and encoded
        cells = sum(1 if family(field.type) == "number" else TEXT_WIDTH for field in source.schema)
        width = max(4 * cells, source.row_bytes())
    elif source.kind in ("vectors", "images"):
        width = int(np.prod(np.shape(next(source.batches(1))[1])[1:]))
    else:
        return wanted
    return max(n_landmarks, min(wanted, CANDIDATE_NUMBERS // max(1, width)))


def warn_of_cost(
    candidates: Rows, kernel: Kernel, n_rows: int, n_views: int, n_landmarks: int, values_to_choose: int
) -> None:
    """Warn if a fit will take more than an hour, or more memory than there is."""
    N, m, n = len(candidates), min(n_landmarks, n_rows), n_rows * n_views
    values = n * m + values_to_choose
    numbers = candidates.numel() if isinstance(candidates, torch.Tensor) else 0
    memory = 4 * (3 * numbers + 2 * numbers // N * m + N * m) + 40 * m**2
    free = available_memory()
    what = f"{n_rows:,} rows, {n_views} views of each and {m:,} landmarks"
    if memory > free:
        warn(
            f"This fit needs about {memory / 1e9:.0f} GB of memory for {what}; {free / 1e9:.0f} GB are free. Take "
            "fewer landmarks, or reduce the columns first, for example with sklearn.random_projection."
        )
    if values <= MANY_VALUES:
        return
    algebra = (4 * n * m**2 + 10 * m**3) / OPERATIONS / torch.get_num_threads()
    seconds = algebra + kernel_seconds(kernel, candidates, n + N, values, LONG_SECONDS - algebra)
    if seconds > LONG_SECONDS:
        warn(
            f"This fit will take about {time_in_words(seconds)}: {values:,} kernel values for {what}. Fewer "
            "landmarks (n_landmarks), fewer views or a cheaper kernel make it shorter in proportion; checkpoint= keeps "
            "its state."
        )


def kernel_seconds(kernel: Kernel, rows: Rows, n: int, values: int, enough: float = 0.0) -> float:
    """The time of kernel values between n rows and landmarks, and of k(x, x); or a bound that is below `enough`.

    It is measured on blocks that grow, until they say which part of their time is one of calls, rows or values.
    """
    shapes: list[tuple[float, int, int]] = []
    times: list[float] = []
    spent = 0.0
    _block_seconds(kernel, rows, 2, 2)  # because the first call may compile something
    for b, m_probe in PROBES:
        if max(b, m_probe) > len(rows) or (spent > PROBE_SECONDS and len(times) > 3):
            break
        seconds, total = _block_seconds(kernel, rows, b, m_probe)
        spent += total
        shapes.append((1.0, b, b * m_probe))
        times.append(seconds)
        bound = seconds / (b * m_probe) * values  # the whole fit in blocks as small as this
        if bound <= enough:
            return bound
    if not times:
        return 0.0
    relative = np.array(shapes) / np.maximum(times, 1e-9)[:, None]
    call, row, value = nnls(relative, np.ones(len(times)))[0]
    return float(-(-n // block_rows(12 * values // n)) * call + n * row + values * value)


def _block_seconds(kernel: Kernel, rows: Rows, b: int, m: int) -> tuple[float, float]:
    """The median time of a block of b rows and m landmarks, and what it took to find it."""
    part, landmarks = (take_rows(rows, np.linspace(0, len(rows) - 1, k).astype(int)) for k in (b, m))
    block = kernel.against(landmarks)
    times: list[float] = []
    while len(times) < 3 and sum(times) < PROBE_SECONDS:  # three, because other programs may hold one up
        start = time.perf_counter()
        block(part)
        kernel.diag(part)
        times.append(time.perf_counter() - start)
    return float(np.median(times)), sum(times)
