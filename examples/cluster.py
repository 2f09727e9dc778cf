"""
The same fit on a Dask cluster
==============================

Give a model an engine and its passes run in the workers of a cluster. The result is the same; only the place changes.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone

from krepes import KernelEmbedding
from krepes.engines import Dask

# %%
# Two workers on this machine stand for a cluster; ``Dask("tcp://host:8786")`` connects to a real one. Workers are
# processes that import this file, which is why the fit is in a function.


def fit_here_and_there(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Representations of the rows: fitted in this process, and in the workers."""
    with tempfile.TemporaryDirectory() as folder, Dask(n_workers=2, rows_per_part=2500) as engine:
        path = Path(folder) / "rows.parquet"  # every worker reads its own part of it
        pd.DataFrame(rows, columns=list("abcdef")).to_parquet(path)
        here = KernelEmbedding(2, n_landmarks=200, dtype="float64", random_state=0)
        there = clone(here).set_params(engine=engine).fit(path)
        written = there.write(path, Path(folder) / "features", rows_per_file=5000)  # by the workers
        print(f"{written.n_rows:,} rows of features in {written.n_files} files")
        return here.fit(path).transform(path), there.transform(path)


# %%
# Both fits, their largest difference, and a picture of both.
if __name__ == "__main__":
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, size=20_000)
    rows = np.stack([np.cos(k * angle) for k in range(1, 7)], axis=1)
    Z_here, Z_there = fit_here_and_there(rows)
    print(f"largest difference: {np.abs(Z_here - Z_there).max() / np.abs(Z_here).max():.0e} of their size")

    figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), sharex=True, sharey=True, layout="constrained")
    for axis, Z, name in zip(axes, (Z_here, Z_there), ("in this process", "in two workers")):
        axis.scatter(*Z[::10].T, s=4, c=angle[::10], cmap="cividis")
        axis.set(title=name, xlabel="component 0")
    axes[0].set_ylabel("component 1")
    plt.show()
