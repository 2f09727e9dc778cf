"""Tangent kernels three ways: per-sample gradients, factors, sketch. One block of 256 samples and 500 landmarks.

    python benchmarks/tangent_kernel.py [--networks resmlp-1 resmlp-4 convnet] [--rows 256] [--landmarks 500]

Every way runs in a process of its own: time from the networks' inputs to the block of kernel values, both sides
included, and the growth of the process's peak resident size. "full" is torch.func's vmap of grad, in the batches that
served it best here (1 GiB), with the landmarks' gradients kept; the others are the library's defaults. Errors are
relative Frobenius norms against "full".
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from recording import record

CHILD = """
import resource, sys, time
import numpy as np, torch
torch.set_num_threads(2)
from krepes.kernels import EmpiricalNTK, empirical_ntk
from krepes.networks import ConvNet, ResMLP
name, method, path, n_rows, n_landmarks = sys.argv[1:]
if method == "full":
    empirical_ntk.BATCH_BYTES = 2**30
network = ConvNet() if name == "convnet" else ResMLP(n_tokens=int(name.split("-")[1]))
shape = (32, 32, 3) if name == "convnet" else (54,)
generator = torch.Generator().manual_seed(0)
X, Y = (torch.randn(int(n), *shape, generator=generator) for n in (n_rows, n_landmarks))
kernel = EmpiricalNTK(network, seed=0, method=method).fitted(X)
kernel.against(Y[:2])(X[:2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
block = kernel.against(Y)
middle = time.perf_counter()
K = block(X)
end = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
np.save(path, K.numpy())
print(middle - start, end - middle, peak / 1024, kernel._scalar.n_parameters)
"""
METHODS = ("full", "factored", "sketch")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", nargs="+", default=["resmlp-1", "resmlp-4", "convnet"])
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--landmarks", type=int, default=500)
    args = parser.parse_args()
    figures: dict = {"rows": args.rows, "landmarks": args.landmarks}
    with tempfile.TemporaryDirectory() as folder:
        for network in args.networks:
            found = {method: measured(network, method, Path(folder), args) for method in METHODS}
            figures[f"{network}: parameters"] = int(found["full"][3])
            for method, (landmarks, block, peak, _, K) in found.items():
                figures[f"{network}, {method}: seconds for the landmarks"] = round(landmarks, 3)
                figures[f"{network}, {method}: seconds for the block"] = round(block, 3)
                figures[f"{network}, {method}: peak MB"] = round(peak, 1)
                if method != "full":
                    full = found["full"]
                    error = np.linalg.norm(K - full[4]) / np.linalg.norm(full[4])
                    figures[f"{network}, {method}: relative error"] = float(f"{error:.2g}")
                    speedup = (full[0] + full[1]) / (landmarks + block)
                    figures[f"{network}, {method}: times faster than full"] = round(speedup, 1)
                    figures[f"{network}, {method}: full's memory over its"] = round(full[2] / max(peak, 1), 1)
    record("tangent_kernel", figures)


def measured(network: str, method: str, folder: Path, args: argparse.Namespace) -> tuple:
    """(seconds for landmarks, seconds for the block, peak MB, parameters, block)."""
    path = folder / f"{network}.{method}.npy"
    command = [sys.executable, "-c", CHILD, network, method, str(path), str(args.rows), str(args.landmarks)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return *(float(value) for value in output.split()), np.load(path)


if __name__ == "__main__":
    main()
