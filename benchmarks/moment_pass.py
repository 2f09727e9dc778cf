"""The moment pass against the machine's own matrix product rate, and the solve after it.

    python benchmarks/moment_pass.py [--rows 60000] [--landmarks 2000]

Flops of kernel blocks, projection and symmetric moments are counted once: for V views of n rows,
V n (2 m (d + 2) + 2 m r) for kernel and projection, and (V + 1) n r^2 for the sums. The pass with exact
views has V = 2 projections (the expected feature and one drawn view) and 2 n r^2 for the sums.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import torch
from recording import record

from krepes.base.split import ByFold, Split
from krepes.engines import Local
from krepes.features import FeatureSpace, MomentPass
from krepes.kernels import Gaussian
from krepes.losses import BarlowTwins, SpectralContrastive, VICReg
from krepes.solvers import choose_solver
from krepes.views import Tabular


def sgemm_rate(size: int = 2048, repeats: int = 12) -> float:
    """Best flops per second of a float32 product of this size, by torch."""
    A, B = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        A @ B
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def timed_pass(space: FeatureSpace, views: Tabular, X: torch.Tensor, exact: bool):
    space = replace(space, views=views, exact_views=exact)
    start = time.perf_counter()
    moments = Local().reduce(MomentPass(space), space.reader(X))
    return moments, time.perf_counter() - start


def fold_ratio(space: FeatureSpace, views: Tabular, X: torch.Tensor, repeats: int = 3) -> float:
    """Time of the pass that keeps five folds apart, relative to the one that does not; the two take turns."""
    space, best = replace(space, views=views, exact_views=True), {False: float("inf"), True: float("inf")}
    for by_fold in (False, True) * repeats:
        moments = MomentPass(space)
        start = time.perf_counter()
        Local().reduce(Split(moments, ByFold(5), 5) if by_fold else moments, space.reader(X))
        best[by_fold] = min(best[by_fold], time.perf_counter() - start)
    return best[True] / best[False]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--landmarks", type=int, default=2000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(args.rows, args.features, generator=generator)
    views = Tabular(noise=0.1).fitted(X[:10_000], generator)
    space = FeatureSpace.on(Gaussian(1.5), X[: args.landmarks].clone())
    features = space.features
    n, m, r, d, V = args.rows, args.landmarks, features.rank, args.features, views.n_views
    before = sgemm_rate()
    figures: dict = {"rows": n, "landmarks": m, "rank": r}
    for name, exact, grams in (("sampled views", False, V + 1), ("exact views", True, V)):
        moments, seconds = timed_pass(space, views, X, exact)
        flops = n * (V * (2 * m * (d + 2) + 2 * m * r) + grams * r**2)
        rate = max(before, sgemm_rate())
        figures[f"{name}: seconds"] = round(seconds, 2)
        figures[f"{name}: rows per second"] = round(n / seconds)
        figures[f"{name}: fraction of sgemm"] = round(flops / seconds / rate, 3)
    figures["sgemm GFLOP/s"] = round(rate / 1e9, 1)
    figures["with 5 folds, exact views: times the seconds without"] = round(fold_ratio(space, views, X), 3)
    for loss in (SpectralContrastive(), BarlowTwins(), VICReg()):
        start = time.perf_counter()
        lam = 0.01 * moments.S.trace().item() / r
        solution = choose_solver(loss).solve(loss, moments, 256, lam, generator)
        spent = time.perf_counter() - start
        figures[f"solve {loss.name}, h=256: seconds"] = round(spent, 2)
        figures[f"solve {loss.name}: iterations"] = solution.n_iter
        figures[f"solve {loss.name}: fraction of the pass"] = round(spent / seconds, 3)
    record("moment_pass", figures)


if __name__ == "__main__":
    main()
