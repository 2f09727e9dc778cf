"""Kernels of histograms, series, mixed rows and columns, each with rows that it compares."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from krepes.kernels import (
    ChiSquared,
    ColumnKernel,
    Custom,
    Gaussian,
    GlobalAlignment,
    Gower,
    Intersection,
    Kernel,
    Laplacian,
    Linear,
    Patches,
    RandomWarping,
)


def histograms(n: int = 40) -> torch.Tensor:
    """Counts, some rows twice, an empty bin and an empty row."""
    X = torch.from_numpy(np.random.default_rng(0).poisson(3.0, size=(n, 6)).astype(float))
    X[:, 2] = 0
    return torch.cat([X, X[:5], torch.zeros(1, 6)])


def series(n: int = 40, channels: int = 2) -> list[np.ndarray]:
    """Random walks of 1 to 12 steps."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(rng.integers(1, 13), channels)).cumsum(0) for _ in range(n)]


def records(n: int = 40) -> list[dict[str, Any]]:
    """Rows of two numbers and a word."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abc"), rng.integers(0, 5))) for _ in range(n)]
    return [{"a": a, "b": b, "word": word} for (a, b), word in zip(rng.normal(size=(n, 2)).tolist(), words)]


def letters_in_common(left: list[str], right: list[str]) -> np.ndarray:
    return np.array([[len(set(a) & set(b)) for b in right] for a in left], dtype=float)


def vectors(n: int = 40) -> torch.Tensor:
    X = torch.randn(n, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.cat([X, X[:5]])


def mixed(n: int = 40) -> torch.Tensor:
    """A number that may be missing (its indicator beside it), a number, a category of three levels, one missing."""
    rng = np.random.default_rng(0)
    level, absent = rng.integers(0, 3, n), (rng.random(n) < 0.3).astype(float)
    columns = [np.where(absent, 0.0, rng.normal(size=n)), absent, rng.normal(size=n), *np.eye(3)[level].T]
    return torch.from_numpy(np.stack(columns, axis=1))


def pictures(n: int = 40) -> torch.Tensor:
    """Random pictures, a flat one, and some twice."""
    X = torch.rand(n, 8, 8, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.cat([X, X[:5], torch.ones(1, 8, 8, 2, dtype=torch.float64)])


LAYOUT = [
    {"category": False, "places": [0], "missing": 1},
    {"category": False, "places": [2], "missing": None},
    {"category": True, "places": [3, 4, 5], "missing": 4},
]

CASES: list[tuple[Kernel, Any]] = [
    (ChiSquared(), histograms()),
    (ChiSquared(2.0), histograms()),
    (ChiSquared(additive=True), histograms()),
    (Intersection(), histograms()),
    (GlobalAlignment(), series()),
    (GlobalAlignment("0.1 median", triangular=4), series(channels=1)),
    (GlobalAlignment(2.0), vectors()),
    (RandomWarping(n_series=20, max_length=5), series()),
    (Gower(), vectors()),
    (Gower(1.0, "mean", "gaussian"), vectors()),
    (Gower(layout=LAYOUT), mixed()),
    (Gower(0.7, profile="gaussian", missing=0.8, layout=LAYOUT), mixed()),
    (Gower(0.7, "mean", missing=0.0, layout=LAYOUT), mixed()),
    (
        ColumnKernel([("first", Gaussian(), slice(2)), ("last", Linear(), [-1])], weights=[2.0, 0.5]),
        vectors(),
    ),
    (ColumnKernel([("a", Laplacian(norm=1), [0, 1]), ("b", "gaussian", 3)], "product"), vectors()),
    (Patches(8, precision="double"), pictures()),
    (Patches(8, pooling="gaussian", layers=2, kernel="gaussian", precision="double"), pictures()),
    (ColumnKernel({"a, b": Gaussian(), "word": Custom(letters_in_common)}), records()),
    (ColumnKernel({"b": Gower(), "word": Custom(letters_in_common)}, "product"), records()),
]
