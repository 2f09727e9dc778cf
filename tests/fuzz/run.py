"""Fuzz krepes: odd inputs, forged files, killed fits, threads, loaders. Prints what it counted; 1 if anything failed.

python tests/fuzz/run.py                              everything, about ten minutes on two cores
python tests/fuzz/run.py --cases 500 --files 0 --kills 0 --threads 0 --loaders 0 --only cka
python tests/fuzz/run.py --messages                   also every error message that was counted as clear
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def main() -> int:
    os.environ |= dict.fromkeys(THREADS, "1")  # before numpy: a fork of a process with threads may hang
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder, whose names are others' too
    from fuzz.campaign import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
