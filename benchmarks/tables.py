"""CoverType and Adult from Parquet, through the command line, by the paper's protocol.

    python benchmarks/tables.py covertype|adult [--repeats 5]

CoverType: the npz is converted to Parquet with a column `split` (10 % of the rows for testing, drawn once); labels
on 10 % of the rest. Adult: the original train and test parts; labels on 10 % of the training part. Raw encoded
columns, kernel PCA on the same landmarks, gradient boosting, a random forest and an SVM stand beside the
representation, with the same labels. The model sees no label, and no test row.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from recording import clock, data_file, record


def covertype(folder: Path) -> tuple[Path, str]:
    data = np.load(data_file("covtype.npz"))
    names = [str(name) for name in data["feature_names"]]
    X, y = data["X"], data["y"]
    split = np.where(np.random.default_rng(0).random(len(X)) < 0.1, "test", "train")
    columns = {name: X[:, j] for j, name in enumerate(names)}
    path = folder / "covertype.parquet"
    pq.write_table(pa.table({**columns, "cover": y, "split": split}), path, row_group_size=50_000)
    return path, "cover"


def adult(folder: Path) -> tuple[Path, str]:
    return data_file("adult.parquet"), "income"


def training_part(path: Path, folder: Path) -> Path:
    """The rows of the training part: the model must not see the others, labelled or not."""
    table = pq.read_table(path)
    part = folder / "train.parquet"
    pq.write_table(table.filter(pc.equal(table["split"], "train")), part, row_group_size=50_000)
    return part


def krepes(*arguments: str) -> str:
    command = [sys.executable, "-m", "krepes", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=("covertype", "adult"))
    parser.add_argument("--components", type=int, default=None)
    parser.add_argument("--landmarks", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--fraction", type=float, default=0.1)
    args = parser.parse_args()
    components = args.components or {"covertype": 250, "adult": 64}[args.name]
    figures: dict = {"landmarks": args.landmarks, "components": components}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, label = {"covertype": covertype, "adult": adult}[args.name](folder)
        train = training_part(path, folder)
        model, results = folder / "model.krepes", folder / "results.json"
        common = ["--label", label, "--exclude", "split", "--n-landmarks", str(args.landmarks)]
        with clock(figures, "seconds of fit"):
            krepes("fit", str(train), "-o", str(model), *common, "--n-components", str(components))
        with clock(figures, "seconds of evaluate"):
            krepes(
                *("evaluate", str(model), str(path), "--split", "split", "-o", str(results), "--baselines"),
                *("--label-fraction", str(args.fraction), "--repeats", str(args.repeats)),
            )
        for kind, row in json.loads(results.read_text()).items():
            figures[f"{kind}: accuracy %"] = round(100 * row["accuracy"], 2)
            figures[f"{kind}: balanced accuracy %"] = round(100 * row["balanced_accuracy"], 2)
            figures[f"{kind}: labels"] = row["n_labels"]
            if args.repeats > 1:
                deviation = float(np.std(row["accuracies"], ddof=1))
                figures[f"{kind}: deviation over label draws"] = round(100 * deviation, 2)
    record(args.name, figures)


if __name__ == "__main__":
    main()
