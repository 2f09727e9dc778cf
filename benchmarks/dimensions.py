"""Tables of odd dimensions: 100 000 columns, columns of 10 000 categories, one column, few rows. Time and peak memory.

    python benchmarks/dimensions.py [wide] [short] [categories] [column]

The default model, `KernelEmbedding(random_state=0)`, is fitted on generated data and transforms them. Every case has a
process of its own with one thread for computing, whose peak resident size is read at its end; `MB before` is what it
had when the data were there and nothing was fitted. Times are those of the processor, which other work on the machine
changes little. Files are written to the folder of temporary files first, outside the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from recording import record

CASES = {
    "wide": [
        "array 200 100000",
        "frame 200 100000",
        "parquet 200 100000",
        "csv 200 100000",
    ],
    "short": ["frame 5 100000", "csv 5 100000"],
    "categories": ["categories-frame 100000 20", "categories-csv 100000 20"],
    "column": ["array 100000 1", "frame 100000 1", "csv 100000 1"],
}
CHILD = """
import json, resource, sys, time, warnings
import numpy as np, pandas as pd, torch
import krepes
from krepes import KernelEmbedding
warnings.simplefilter("ignore")
kind, n, d, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
rng = np.random.default_rng(0)
if kind.startswith("categories"):
    levels = np.array([f"item {i:05d}" for i in range(10_000)])
    data = pd.DataFrame({f"c{j}": levels[rng.integers(0, 10_000, n)] for j in range(d)})
    kind = kind.removeprefix("categories-")
else:
    data = rng.normal(size=(n, d))
    if kind != "array":
        data = pd.DataFrame(data, columns=[f"x{j}" for j in range(d)])
if sys.argv[5] == "write":
    getattr(data, f"to_{kind}")(f"{folder}/data.{kind}", index=False)
    sys.exit()
if kind in ("csv", "parquet"):
    data = f"{folder}/data.{kind}"
peak = lambda: round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
before, start = peak(), time.process_time()
model = KernelEmbedding(random_state=0).fit(data)
fitted = time.process_time()
rows = sum(len(Z) for Z in model.iter_transform(data))
done = time.process_time()
assert rows == n
print(json.dumps({"CPU seconds of fit": round(fitted - start, 1), "of transform": round(done - fitted, 1),
                  "peak MB": peak(), "MB before": before, "columns": model.space_.width, "rank": model.rank_}))
"""


def measured(case: str) -> dict[str, float]:
    """The figures of one case, from a process that has nothing else to do."""
    kind, *size = case.split()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", CHILD, kind, *size, folder]
        if kind.endswith(("csv", "parquet")):
            subprocess.run([*command, "write"], env=environment, check=True)
        found = subprocess.run(
            [*command, "fit"], env=environment, capture_output=True, text=True, check=False
        )
        if found.returncode:
            sys.exit(found.stderr)
        bytes_on_disk = sum(file.stat().st_size for file in Path(folder).iterdir())
    figures = json.loads(found.stdout.splitlines()[-1])
    return figures | ({"MB of file": round(bytes_on_disk / 1e6)} if bytes_on_disk else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *CASES], default=[])
    parts = parser.parse_args().parts or list(CASES)
    figures = {}
    for case in [case for part in parts for case in CASES[part]]:
        figures[case] = measured(case)
        print(case, figures[case], flush=True)
    record("dimensions" if len(parts) == len(CASES) else f"dimensions_{'_'.join(parts)}", figures)


if __name__ == "__main__":
    main()
