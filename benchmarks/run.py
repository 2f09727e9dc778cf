"""Run every benchmark, one after the other, and write the table of their figures.

python benchmarks/run.py [NAME ...]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMANDS = {
    "moment_pass": ["moment_pass.py"],
    "peak_memory": ["peak_memory.py"],
    "latency": ["latency.py"],
    "against_scikit_learn": ["against_scikit_learn.py"],
    "against_adam": ["against_adam.py"],
    "gauss_newton": ["gauss_newton.py"],
    "mnist": ["mnist.py"],
    "covertype": ["tables.py", "covertype"],
    "sparse_text": ["sparse_text.py"],
    "adult": ["tables.py", "adult"],
    "alignment_sketch": ["alignment_sketch.py"],
    "rank_models": ["rank_models.py"],
    "pre_images": ["pre_images.py"],
    "small_data": ["small_data.py"],
    "tangent_kernel": ["tangent_kernel.py"],
    "tangent_covertype_factored": ["tangent_covertype.py", "factored"],
    "tangent_covertype_sketch": ["tangent_covertype.py", "sketch"],
    "clustering_family": ["clustering_family.py", "table", "--seconds", "7200"],
    "clustering_hopkins": ["clustering_family.py", "hopkins", "--seconds", "7200"],
    "clustering_counts": ["clustering_family.py", "counts", "--seconds", "7200"],
    "clustering_toy": ["subspace_clustering.py", "toy"],
    "clustering_faces": ["subspace_clustering.py", "faces"],
    "clustering_large": ["subspace_clustering.py", "large"],
    "clustering_table": ["subspace_clustering.py", "table", "--seconds", "7200"],
}


def main() -> None:
    names = sys.argv[1:] or list(COMMANDS)
    unknown = [name for name in names if name not in COMMANDS]
    if unknown:
        sys.exit(f"Unknown: {', '.join(unknown)}. Benchmarks: {', '.join(COMMANDS)}.")
    for name in names:
        print(f"\n== {name}", flush=True)
        script, *arguments = COMMANDS[name]
        subprocess.run([sys.executable, str(HERE / script), *arguments], check=False)


if __name__ == "__main__":
    main()
