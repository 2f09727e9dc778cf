"""Seconds, peak memory and size of a machine as rows grow, learned from a Parquet file.

    y = 10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4 + noise,      20 columns in [0, 1]      [Friedman 1991]

Fitted exponents are slopes of least squares lines through logarithms.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

NAMES, BLOCK = [f"x{j}" for j in range(20)], 100_000
GROWING = ("seconds of fit", "peak MB", "model MB")


def generated(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.random((n, len(NAMES)), dtype=np.float32)
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * np.square(X[:, 2] - 0.5) + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + rng.standard_normal(n)


def write(path: Path, n: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([*((name, pa.float32()) for name in NAMES), ("y", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n, BLOCK):
            X, y = generated(min(BLOCK, n - start), rng)
            writer.write_table(pa.table([*X.T.copy(), y], schema=schema))


def growth(
    names: list[str], rows: list[int], limit: float, in_own_process: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    """Figures of every model and number of rows, and exponents."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in rows:
            path = Path(folder) / f"{n}.parquet"
            write(path, n)
            for name in names:
                key = f"{name}, {n:,} rows"
                found[key] = in_own_process("growth", limit, name=name, path=str(path))
                print(f"{key}: {found[key]}", flush=True)
            path.unlink()
    for name in names:
        done = {n: found[f"{name}, {n:,} rows"] for n in rows}
        done = {n: figures for n, figures in done.items() if "not measured" not in figures}
        if len(done) > 1:
            for key in GROWING:
                values = [figures[key] for figures in done.values()]
                slope = np.polyfit(np.log(list(done)), np.log(values), 1)[0]
                found[f"{name}, exponent of {key}"] = round(float(slope), 2)
    return found
