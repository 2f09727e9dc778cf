"""Where benchmark figures go: one JSON file per script, with machine, commit, versions and command."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DATA = HERE.parent.parent / "shared" / "data"


def data_file(name: str) -> Path:
    """A real data set, or a clear end where it is absent."""
    path = DATA / name
    if not path.exists():
        sys.exit(f"This benchmark needs {name}; give the folder that holds the data sets in {DATA}.")
    return path


@contextmanager
def clock(figures: dict[str, Any], name: str) -> Iterator[None]:
    """Store the seconds that a block takes."""
    start = time.perf_counter()
    yield
    figures[name] = round(time.perf_counter() - start, 3)


def machine() -> dict[str, Any]:
    import numpy
    import sklearn
    import torch

    import krepes

    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scikit-learn": sklearn.__version__,
        "krepes": krepes.__version__,
        "commit": _commit(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _commit() -> str:
    result = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False
    )
    return result.stdout.strip() or "unknown"


def recorded(name: str) -> dict[str, Any]:
    """Figures of an earlier run."""
    path = HERE / "results" / f"{name}.json"
    return json.loads(path.read_text())["figures"] if path.exists() else {}


def record(name: str, figures: dict[str, Any], shown: bool = True) -> None:
    """Print the figures, unless a table has shown them, and keep them in results/NAME.json."""
    command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    content = {"command": command, "machine": machine(), "figures": figures}
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    for key, value in figures.items() if shown else ():
        print(f"{key:48s} {value}")
