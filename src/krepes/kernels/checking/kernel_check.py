"""Is this function a kernel, and does it suit these rows? An answer from a sample of them, in words.

    k(x, y) = k(y, x),     a^T K a >= 0 for every a,     the same value in every batch and at every call

A finding of faults is a proof; finding none is evidence, as other rows may show some. Cost: the values between n rows
(500 by default) once, between 64 of them twice, and O(n^3) for the eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.linalg import effective_rank, symmetric
from krepes.base.rows import Rows, take_rows
from krepes.kernels.checking.check_result import RIDGE, SHARE, KernelCheck, Similarities
from krepes.kernels.checking.fit_check import (
    FEW,
    depends_on_batch,
    diagonal_difference,
    not_symmetric,
)
from krepes.kernels.checking.matrix_faults import (
    SAME,
    ValueDifference,
    asymmetry,
    difference,
    negative_points,
    precision,
    rounding,
    row_names,
    scales,
)
from krepes.kernels.custom import NotFiniteError
from krepes.kernels.kernel import Kernel
from krepes.kernels.radial import RadialKernel

ALONE = 0.05  # similarity to the nearest row below which a row is like itself only
ALIKE = 0.99  # similarity of a typical pair above which all rows look alike
PERCENTILES = (0.1, 0.5, 0.9)


def checked_kernel(kernel: Kernel, rows: Rows, seed: int, indices: np.ndarray) -> KernelCheck:
    """The check on all of these rows; `indices` are the rows of the data that they are."""
    return _with_rows(_checked(kernel, rows, seed, indices), indices)


def _checked(kernel: Kernel, rows: Rows, seed: int, indices: np.ndarray) -> KernelCheck:
    """The same; the rows that it names are positions among those checked."""
    result = KernelCheck(kernel, len(indices))
    try:
        K = kernel(rows).double()
        finite = bool(torch.isfinite(K).all())
        found = _differences(kernel, rows, K, seed) if finite else {}
    except NotFiniteError:
        finite = False
    if not finite:
        advice = "Look for divisions by zero, logarithms and roots of negative numbers, and for overflow."
        problem = f"It has NaN or infinite values between these rows. {advice}"
        return replace(result, finite=False, problems=(problem,))
    fields: dict[str, Any] = found
    result = replace(result, same=SAME[precision(K)], **fields)
    fault = _fault_of_values(result, K, indices)
    if fault is not None:
        return replace(result, problems=(fault,))
    s, noise = scales(K), max(d.size for d in found.values())
    values, vectors = torch.linalg.eigh(symmetric(K) / s / s[:, None])
    largest = values.abs().max().clamp(min=torch.finfo(K.dtype).tiny).item()
    result = replace(
        result,
        smallest_eigenvalue=values[0].item() / largest,
        tolerance=rounding(K) + noise * len(K) / largest,
        negative=negative_points(K, vectors[:, 0] / s, noise),
    )
    if not result.positive_semidefinite:
        return replace(result, problems=(_indefinite(result, indices),))
    return _suitable(replace(result, similarities=_similarities(symmetric(K))), rows)


def _differences(kernel: Kernel, rows: Rows, K: Tensor, seed: int) -> dict[str, ValueDifference]:
    """Of values that should be equal, by the name of their field."""
    few = np.random.default_rng(seed).permutation(len(K))[:FEW]
    part, chosen = take_rows(rows, few), torch.from_numpy(few)
    first, second, s = kernel(part).double(), kernel(part).double(), scales(K)[chosen]
    found = {
        "repetition": difference(first, second, s, s),
        "batches": difference(first, K[chosen][:, chosen], s, s),
    }
    of_all = {name: replace(d, rows=tuple(int(few[i]) for i in d.rows)) for name, d in found.items()}
    return of_all | {"asymmetry": asymmetry(K), "diagonal": diagonal_difference(kernel, rows, K)}


def _fault_of_values(found: KernelCheck, K: Tensor, indices: np.ndarray) -> str | None:
    """Why the values do not come from a symmetric function of two rows; None if no fault was found."""
    faults: dict[str, Callable[[ValueDifference, str], str]] = {
        "repetition": lambda d, names: (
            f"It is random: two equal calls differ for {names}. Draw random numbers once, beforehand."
        ),
        "batches": lambda d, names: depends_on_batch("It", names),
        "diagonal": lambda d, names: depends_on_batch("It", names),
        "asymmetry": lambda d, names: not_symmetric("It", K, d, names),
    }
    for field, words in faults.items():
        largest = getattr(found, field)
        if not found.is_rounding(largest):
            return words(largest, row_names(largest.rows, indices))
    return None


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
