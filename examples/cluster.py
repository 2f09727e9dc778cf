"""The same fit in this process and in two workers of a Dask cluster.

python examples/cluster.py

Needs pip install "krepes[scale]". On one machine a cluster gains nothing: it shows that only the place changes.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

from krepes import KernelEmbedding
from krepes.engines import Dask


def main() -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, 6))
    with tempfile.TemporaryDirectory() as folder, Dask(n_workers=2, rows_per_part=2500) as engine:
        path = Path(folder) / "rows.parquet"  # every worker reads its own part of it
        pd.DataFrame(rows, columns=list("abcdef")).to_parquet(path)
        here = KernelEmbedding(n_landmarks=200, n_components=8, dtype="float64", random_state=0)
        there = clone(here).set_params(engine=engine)
        here.fit(path)
        there.fit(path)
        Z1, Z2 = here.transform(path), there.transform(path)
        written = there.write(path, Path(folder) / "features", rows_per_file=5000)  # by the workers
    print(f"{there.moments_.n:,.0f} rows in {len(rows) // 2500} parts")
    print(f"{written.n_rows:,} rows of features in {written.n_files} files")
    print(
        f"largest difference of the embeddings: {np.abs(Z1 - Z2).max() / np.abs(Z1).max():.0e} of their size"
    )


if __name__ == "__main__":  # workers are processes that import this file
    main()
