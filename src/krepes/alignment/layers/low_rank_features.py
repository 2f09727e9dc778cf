"""Low-rank features of a layer: coordinates in the span of a few of its rows.

    phi(x) = Q^T k_x diag(s)^(-1/2),   k_x = L x,   L L^T = Q diag(s) Q^T                      [tang, Eq. 3.1 - 3.2]

The Nyström map of the linear kernel with landmarks L. Differs from [tang, Eq. 3.2]: s are the eigenvalues of L L^T
itself; the printed exponent belongs to those of its pseudo-inverse, and has the opposite sign there.

Landmarks are rows, chosen by any rule of `krepes.landmarks`, or, as published, signed sums of rows ("countsketch",
four tables). Sums of rows are for the linear kernel only: for a Gaussian kernel they lie where no row is, and the
error of the kernel was 0.19 instead of 0.0025 (digits, 200 landmarks).

Cost O(n m d) and O(n m^2) for the choice.
"""

from __future__ import annotations

import numpy as np
import torch

from krepes.alignment.similarity.sketched_cka import SketchedCKA
from krepes.base.components import resolve
from krepes.kernels import Linear
from krepes.landmarks import LandmarkSelector
from krepes.landmarks.nystrom import NystromMap

COUNTSKETCH = "countsketch"
N_TABLES = 4  # [tang, Sec. 3.3.1]


def as_landmark_rule(value: str | LandmarkSelector) -> str | LandmarkSelector:
    """ "countsketch", or a LandmarkSelector from an object or a name."""
    return value if isinstance(value, str) and value == COUNTSKETCH else resolve(LandmarkSelector, value)


def low_rank_map(
    Z: np.ndarray,  # (n, d)
    n_landmarks: int,
    rule: str | LandmarkSelector,
    generator: torch.Generator,
) -> NystromMap:
    """The map x -> phi(x) of a layer, from rows of it.

    Examples
    --------
    >>> Z = np.array([[3.0, 4.0], [6.0, 8.0]])            # one direction, (0.6, 0.8)
    >>> Phi = low_rank_map(Z, 2, as_landmark_rule("uniform"), torch.Generator())(Z)
    >>> Phi.abs().round(decimals=9).tolist()
    [[5.0], [10.0]]
    """
    rows = torch.as_tensor(np.asarray(Z, dtype=np.float64))
    if isinstance(rule, str):
        landmarks = torch.as_tensor(signed_sums(Z, n_landmarks, int(generator.initial_seed())))
    else:
        landmarks = rows[rule.select(rows, Linear(), n_landmarks, generator)]
    return NystromMap(Linear(), landmarks, dtype=torch.float64)


def signed_sums(Z: np.ndarray, n_buckets: int, seed: int) -> np.ndarray:  # (M, d)
    """Sums of rows with random signs: S Z for a stacked CountSketch S.

    It has M buckets, the largest power of two up to `n_buckets`. Empty buckets are left out.
    """
    M = 1 << (int(n_buckets).bit_length() - 1)
    sketch = SketchedCKA(max(M, 2), min(N_TABLES, max(M, 2) // 2), seed=seed % 2**31)
    table = sketch.update({"layer": Z}).sketch("layer").table
    sums = table[: len(table) // 2] - table[len(table) // 2 :]
    return sums[np.abs(sums).sum(axis=1) > 0]
