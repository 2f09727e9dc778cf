"""The demo's second part: a machine that predicts a column of a small table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from krepes.cli.terminal import line
from krepes.report.machine_card import plain_kernel

N_SHOWN = 3


def show_machine(table: Path, output: Path, seed: int, overwrite: bool) -> dict[str, Any]:
    """Train on half of scikit-learn's wines, test on the others, and leave the table and the machine."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv
    from sklearn.datasets import load_wine

    from krepes.base.files import atomic_path
    from krepes.machines import KernelRidgeClassifier
    from krepes.report.words import component_words

    data = load_wine()
    cultivar = data.target_names[data.target]
    wines = pa.table([*data.data.T, cultivar.tolist()], names=[*data.feature_names, "cultivar"])
    with atomic_path(table, overwrite=overwrite) as temporary:
        csv.write_csv(wines, temporary, csv.WriteOptions(quoting_style="none"))
    train = np.random.default_rng(seed).permutation(len(wines)) < len(wines) // 2
    start = time.perf_counter()
    machine = KernelRidgeClassifier(random_state=seed).fit(
        wines, "cultivar", sample_weight=train.astype(float)
    )
    seconds = time.perf_counter() - start
    accuracy = float((machine.predict(wines.filter(~train)) == cultivar[~train]).mean())
    found = machine.column_importances()
    machine.save(output, overwrite=overwrite)
    first = ", ".join(f"{found.names[j]} {found.words(j)}" for j in found.order[:N_SHOWN])
    line(
        f"A machine for a table: trained on {train.sum()} of {len(wines)} wines, in {seconds:.1f} s, it predicts the "
        f"cultivar of the\nothers with an accuracy of {100 * accuracy:.1f} %. Chosen by rows left out: "
        f"{component_words(plain_kernel(machine))}.\nThe columns that count most: {first}.\n"
    )
    return {"accuracy": accuracy, "n_train": int(train.sum()), "seconds": seconds, "columns": found.names}
