"""Large tables: kernel machines in cells and with landmarks beside boosting, forests, neighbours, xRFM and Nyström.

    python benchmarks/large_tables.py covertype covertype2       seven classes; class 2 against the rest
    python benchmarks/large_tables.py higgs adult letter magic   other classes
    python benchmarks/large_tables.py elevation length friedman1 friedman2 friedman3      numbers
    python benchmarks/large_tables.py growth                     seconds, memory and size, 10^5 to 5 * 10^6 rows
    python benchmarks/large_tables.py coverage                   intervals, sets and calibration, small subsets
    python benchmarks/large_tables.py directions cells centres --most-rows 100000      settings of cells, on CoverType
    python benchmarks/large_tables.py length friedman1 --models "krepes process,krepes process cells"     variances

Data sets are described in large_data.py, models in table_models.py. Every model runs in a process of its own, one after
the other, on all cores; its peak memory holds the data, too, whose share is beside it. Accuracy and log loss, or R^2
and the root mean squared error, are of rows that no model has seen. "Of all cores" are seconds of computation during
the fit, which a busy machine changes less than seconds by the clock. Where a run of all models is too long, `--models`
measures some and `--add` keeps the others.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from large_data import CLASSES, NUMBERS, load
from recording import record, recorded
from scipy.stats import norm
from table_models import MODELS, PROCESS, missing_package, model_of, rows_for

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
DATA = (*CLASSES, *NUMBERS)
STUDIES = {
    "directions": [f"krepes cells directions={each}" for each in ("pairs", "columns", "leading")],
    "centres": ["krepes cells", *(f"krepes cells centres={m}" for m in (50, 200, 500))],
    "cells": [  # one setting at a time; the defaults are size=2000 n_partitions=2 n_cells=6
        "krepes cells",
        *(f"krepes cells size={size}" for size in (500, 1000, 4000)),
        *(f"krepes cells n_partitions={p}" for p in (1, 4)),
        *(f"krepes cells n_cells={n}" for n in (2, 4, 12)),
    ],
}
OWN_PROCESS = "--in-own-process"
Figures = dict[str, Any]


# In a process of its own


def peak_mb() -> int:
    """Of this program alone: on Linux, ru_maxrss is at least the size of the process that started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024)


def one_model(name: str, data: str, most_rows: int | None, test_rows: int, xrfm_rows: int) -> Figures:
    """Fit and test one model."""
    package = missing_package(name)
    if package is not None:
        return {"not measured": f"{package} is not installed"}
    table = rows_for(name, load(data, most_rows, test_rows))
    classes, before = table.has_classes, peak_mb()
    start, computed = time.perf_counter(), time.process_time()
    model = model_of(name, classes, xrfm_rows).fit(table.X, table.y)
    fitted, computed = time.perf_counter(), time.process_time() - computed
    probable = classes and hasattr(model, "predict_proba")
    found = model.predict_proba(table.X_test) if probable else model.predict(table.X_test)
    ended = time.perf_counter()
    figures = {"rows": len(table.y), "test rows": len(table.y_test), **scores(found, table.y_test, classes)}
    if name.startswith(PROCESS):
        mean, std = model.predict(table.X_test, return_std=True, include_noise=True)
        figures["log density"] = round(float(norm.logpdf(table.y_test, mean, std).mean()), 4)
    if name == "nearest neighbour":
        figures.pop("log loss", None)  # of one neighbour, without meaning
    figures |= {
        "seconds of fit": round(fitted - start, 1),
        "of all cores": round(computed, 1),
        "seconds of prediction": round(ended - fitted, 2),
        "peak MB": peak_mb(),
        "MB before the fit": before,
    }
    if name.startswith("krepes"):
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model.krepes", sums=False)
            figures["model MB"] = round((Path(folder) / "model.krepes").stat().st_size / 1e6, 1)
    plan = getattr(model, "local_", None)
    return figures if plan is None else figures | {"built on": plan.kind, "comparison": str(plan)}


def scores(found: Any, y: Any, classes: bool) -> Figures:
    """Of probabilities (n, c), codes or numbers."""
    import numpy as np
    from sklearn.metrics import balanced_accuracy_score, log_loss, r2_score

    found = np.asarray(found)
    if not classes:
        rmse = float(np.sqrt(np.mean(np.square(found - y))))
        return {"R2": round(r2_score(y, found), 4), "RMSE": float(f"{rmse:.4g}")}
    codes = found if found.ndim == 1 else found.argmax(axis=1)
    figures = {
        "accuracy": round(100 * float(np.mean(codes == y)), 2),
        "balanced accuracy": round(100 * balanced_accuracy_score(y, codes), 2),
    }
    if found.ndim == 2:
        figures["log loss"] = round(log_loss(y, found, labels=range(found.shape[1])), 4)
    return figures


def one_growth(name: str, path: str) -> Figures:
    """Fit from a file, save, and test on new rows."""
    import numpy as np
    import pandas as pd
    from large_growth import NAMES, generated

    start = time.perf_counter()
    model = model_of(name, False, 0).fit(path, "y")
    seconds, peak = time.perf_counter() - start, peak_mb()
    X, y = generated(20_000, np.random.default_rng(1))
    start = time.perf_counter()
    found = model.predict(pd.DataFrame(X, columns=NAMES))
    figures = {
        "seconds of fit": round(seconds, 1),
        "peak MB": peak,
        **scores(found, y, False),
        "seconds of 20,000 predictions": round(time.perf_counter() - start, 2),
    }
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.krepes")
        figures["model MB"] = round((Path(folder) / "model.krepes").stat().st_size / 1e6, 1)
    return figures


TASKS = {"model": one_model, "growth": one_growth}


# One process after the other


def in_own_process(task: str, limit: float, **arguments: Any) -> Figures:
    """What a function of this file finds in a process of its own, or why it found nothing."""
    given = json.dumps({"task": task, **arguments})
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    try:
        done = subprocess.run(
            [sys.executable, __file__, OWN_PROCESS, given],
            capture_output=True,
            text=True,
            timeout=limit or None,
            check=False,
        )
    except subprocess.TimeoutExpired:
        computed = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        return {"not measured": f"not done after {limit:g} seconds, {computed:.0f} of all cores"}
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        return {"not measured": said[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def compared(data: str, names: list[str], options: argparse.Namespace) -> Figures:
    """Every model on one data set."""
    found: Figures = {}
    for name in names:
        found[name] = in_own_process(
            "model",
            options.limit,
            name=name,
            data=data,
            most_rows=options.most_rows,
            test_rows=options.test_rows,
            xrfm_rows=options.xrfm_rows,
        )
        print(f"{data}: {name}: {shown(found[name])}", flush=True)
    return found


def shown(figures: Figures) -> str:
    """One line, and the comparison below it."""
    line = ", ".join(f"{key} {value}" for key, value in figures.items() if key != "comparison")
    return line + "".join(f"\n    {each}" for each in figures.get("comparison", "").splitlines())


def table_of(found: Figures) -> str:
    """All models below each other."""
    done = {name: figures for name, figures in found.items() if "not measured" not in figures}
    keys = list(dict.fromkeys(key for each in done.values() for key in each if key != "comparison"))
    if not done:
        return "nothing was measured"
    wide = [max(len(key), *(len(str(each.get(key, ""))) for each in done.values())) for key in keys]
    first = max(map(len, done))
    lines = [" " * first + "".join(f"  {key:>{w}}" for key, w in zip(keys, wide))]
    for name, each in done.items():
        lines.append(
            f"{name:<{first}}" + "".join(f"  {each.get(key, '')!s:>{w}}" for key, w in zip(keys, wide))
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Large tables.")
    parser.add_argument("what", nargs="+", choices=[*DATA, *STUDIES, "growth", "coverage"])
    parser.add_argument("--models", default=None, help="names, separated by commas; all by default")
    parser.add_argument("--most-rows", type=int, default=None, help="to learn from; all by default")
    parser.add_argument("--test-rows", type=int, default=20_000, help="at most")
    parser.add_argument("--xrfm-rows", type=int, default=15_000, help="that xRFM learns from, at most")
    parser.add_argument("--growth-rows", type=int, nargs="+", default=[10**5, 10**6, 5 * 10**6])
    parser.add_argument("--splits", type=int, default=50, help="of coverage")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=0, help="seconds for one model; none by default")
    parser.add_argument("--add", action="store_true", help="keep the recorded figures of other models")
    options = parser.parse_args()
    os.environ |= dict.fromkeys(THREADS, str(options.threads))
    for what in options.what:
        if what == "coverage":
            from large_coverage import coverage

            found = coverage(options.splits)
        elif what == "growth":
            from large_growth import growth

            names = (options.models or "krepes cells").split(",")
            found = growth(names, options.growth_rows, options.limit, in_own_process)
        else:
            names = STUDIES.get(what) or (options.models or ",".join(MODELS)).split(",")
            found = compared(what if what in DATA else "covertype", names, options)
            print(f"\n{what}\n{table_of(found)}\n", flush=True)
        suffix = f"_{options.most_rows}" if options.most_rows and what in DATA else ""
        name = f"large_tables_{what}{suffix}"
        record(name, recorded(name) | found if options.add else found, shown=what not in (*DATA, *STUDIES))


if __name__ == "__main__":
    if sys.argv[1:2] == [OWN_PROCESS]:
        task = json.loads(sys.argv[2])
        print(json.dumps(TASKS[task.pop("task")](**task)))
    else:
        main()
