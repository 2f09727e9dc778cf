"""n_components="auto" against every width of a grid, on twenty tables with labels on a tenth of the training rows.

    python benchmarks/auto_width.py                          20 splits of tables under 1000 rows, 5 of the others
    python benchmarks/auto_width.py --splits 3 --rows 2000

The oracle of a table is the width with the best mean accuracy on its test rows, which no rule can know. The protocol
and the probe are those of tables_battery.py. One fit for each split: the widths are refits.
"""

from __future__ import annotations

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pandas as pd
import tables_battery
from recording import data_file, record
from tables_battery import N_LANDMARKS, Split, n_splits

from krepes import KernelEmbedding

WIDTHS = (4, 8, 16, 32, 64, 128)


def run(job: tuple[str, int, int]) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    table, seed, tables_battery.MOST_ROWS = job
    split = Split(table, seed)

    def accuracy(model: KernelEmbedding) -> float:
        return split.probe(model.transform(split.train), model.transform(split.test))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelEmbedding("auto", n_landmarks=N_LANDMARKS, random_state=seed).fit(split.train)
        found = {str(h): accuracy(model.refit(n_components=h)) for h in WIDTHS}
        return {"table": table, "auto": accuracy(model), "chosen": model.n_components_, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description="The choice of the width.")
    parser.add_argument("--splits", type=int, default=None, help="of every table")
    parser.add_argument("--rows", type=int, default=6000, help="at most, of every table")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    tables = sorted(path.stem for path in data_file("tables").glob("*.parquet"))
    jobs = [
        (table, seed, options.rows) for table in tables for seed in range(n_splits(table, options.splits))
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        results = pd.DataFrame(pool.map(run, jobs))
    means = results.groupby("table").mean()
    widths = means[[str(h) for h in WIDTHS]]
    means["oracle"] = widths.idxmax(axis=1).astype(int)
    print(means.round(1).to_string())
    record(
        "auto_width",
        {
            "rows at most": options.rows,
            "splits": len(jobs),
            "accuracy, oracle": round(widths.max(axis=1).mean(), 2),
            "accuracy, auto": round(means["auto"].mean(), 2),
            "cost of auto in points": round((widths.max(axis=1) - means["auto"]).mean(), 2),
            **{f"cost of {h}": round((widths.max(axis=1) - widths[h]).mean(), 2) for h in widths},
            "mean width, oracle": round(means["oracle"].mean(), 1),
            "mean width, auto": round(means["chosen"].mean(), 1),
        },
    )


if __name__ == "__main__":
    main()
