"""The speed of sketching a stream of rows, beside that of reading them.

    python benchmarks/alignment_sketch.py [--rows 1000000]

512 float32 numbers per row, in blocks that are together far larger than the caches; the plain pass sums all numbers
of the same blocks.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from recording import record

from krepes.alignment import SketchedCKA

WIDTH, BUCKETS, BLOCK = 512, 256, 65_536


def speed(n_rows: int) -> None:
    rng = np.random.default_rng(0)
    blocks = [
        rng.standard_normal((BLOCK, WIDTH), dtype=np.float32) for _ in range(4)
    ]  # 512 MB, far above the caches
    sketch = SketchedCKA(BUCKETS).update({"x": blocks[0][:1000]})
    plain = sketched = 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, first in enumerate(range(0, n_rows, BLOCK)):
        X = blocks[number % len(blocks)][: n_rows - first]
        start = time.perf_counter()
        X.sum()
        middle = time.perf_counter()
        sketch.update({"x": X}, first_row=first)
        plain, sketched = plain + middle - start, sketched + time.perf_counter() - middle
    size = 4e-9 * n_rows * WIDTH
    figures = {
        "rows": n_rows,
        "plain pass: GB/s": round(size / plain, 2),
        "sketch: GB/s": round(size / sketched, 2),
        "sketch / plain": round(plain / sketched, 3),
        "table: MB": round(sketch.sketches["x"].table.nbytes / 1e6, 1),
        "memory added: MB": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3, 1),
    }
    record("alignment_sketch_speed", figures)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    speed(parser.parse_args().rows)


if __name__ == "__main__":
    main()
