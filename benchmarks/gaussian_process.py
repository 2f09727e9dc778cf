"""Gaussian processes and their uncertainty, beside GPyTorch's SVGP and scikit-learn's, on tables with a numeric target.

python benchmarks/gaussian_process.py                             3 splits, 400 to 20 000 rows to learn from
python benchmarks/gaussian_process.py --splits 1 --sizes 400      a look

Negative log likelihood per row (in units of the standardised target; lower is better), RMSE (in the same units), R^2,
how many targets lie in 90 % intervals, and seconds of fit and prediction. scikit-learn's, which takes n^3 time for
every step, sees up to 2000 rows. GPyTorch is not a dependency: `pip install gpytorch`; without it, it is left
out with a message. Every result is kept in results/gaussian_process_runs.csv at once, and a second run continues there.

Friedman's three functions with noise have as many rows as are asked for, diabetes has 442, the tables their own number.
SVGP has 500 inducing points, at most half as many as rows, lengthscales for each column, a Matern 5/2 kernel, and Adam
with batches of 256 for 100 epochs, at least 2000 and at most 20 000 steps, from a rate of 0.03: as in GPyTorch's
tutorial, but longer (1000 steps from 0.01 had not converged with 400 rows; 4000 from 0.01 end where these do).
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from recording import HERE, data_file, record
from scipy.stats import norm
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.gaussian_process import GaussianProcessRegressor as TheirRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from krepes.machines import GaussianProcessRegressor, KernelRidgeRegressor

try:
    import gpytorch
except ImportError:
    gpytorch = None

RUNS = HERE / "results" / "gaussian_process_runs.csv"
TEST_ROWS, SKLEARN_ROWS = 2000, 2000
SIZES = (400, 2000, 20_000)
KEYS = ["data", "n", "model", "seed"]
Moments = tuple[np.ndarray, np.ndarray]  # mean and standard deviation of new targets


def first_column(table: str) -> Moments:
    """The first column of a table as the target, the other numeric ones as features."""
    frame = pd.read_parquet(data_file(f"tables/{table}.parquet")).drop(columns="target")
    numbers = frame.select_dtypes("number").to_numpy(float)
    return numbers[:, 1:], numbers[:, 0]


DATA: dict[str, Callable[[int], Moments]] = {
    "diabetes": lambda n: load_diabetes(return_X_y=True),
    "Friedman 1": lambda n: make_friedman1(n, noise=1.0, random_state=0),
    "Friedman 2": lambda n: make_friedman2(n, noise=100.0, random_state=0),
    "Friedman 3": lambda n: make_friedman3(n, noise=0.1, random_state=0),
    "magic": lambda n: first_column("magic"),
    "phoneme": lambda n: first_column("phoneme"),
}


def krepes(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Moments:
    model = GaussianProcessRegressor(random_state=seed, preprocess=None).fit(X, y)
    return model.predict(new, return_std=True, include_noise=True)


def ridge(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Moments:
    """With one deviation for all rows: that of the errors of rows left out."""
    model = KernelRidgeRegressor(random_state=seed, preprocess=None).fit(X, y)
    errors = model.targets_.decoded(np.asarray(model.held_out_.y)) - model.held_out_predictions_
    return model.predict(new), np.full(len(new), np.sqrt(np.mean(errors**2)))


def scikit_learn(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Moments:
    prior = ConstantKernel() * Matern(np.ones(X.shape[1]), nu=2.5) + WhiteKernel()
    model = TheirRegressor(prior, normalize_y=True, random_state=seed).fit(X, y)
    return model.predict(new, return_std=True)


def svgp(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Moments:
    torch.manual_seed(seed)
    X, y, new = (torch.from_numpy(a).float() for a in (X, y, new))
    d, n = X.shape[1], len(X)

    class Process(gpytorch.models.ApproximateGP):
        def __init__(self, points: torch.Tensor):
            free = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            strategy = gpytorch.variational.VariationalStrategy(
                self, points, free, learn_inducing_locations=True
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            kernel = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=d)
            kernel.lengthscale = d**0.5
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, x: torch.Tensor) -> object:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Process(X[torch.randperm(n)[: min(500, n // 2)]].clone())
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = 0.1
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
    steps = int(np.clip(100 * n // 256, 2000, 20_000))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.03)
    decay = torch.optim.lr_scheduler.MultiStepLR(optimizer, [int(0.75 * steps), int(0.9 * steps)], gamma=0.1)
    for _ in range(steps):
        rows = torch.randint(n, (min(n, 256),))
        optimizer.zero_grad()
        loss = -bound(model(X[rows]), y[rows])
        loss.backward()
        optimizer.step()
        decay.step()
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        found = [likelihood(model(part)) for part in new.split(1000)]
    mean, variance = (torch.cat(list(parts)).numpy() for parts in zip(*((f.mean, f.variance) for f in found)))
    return mean.astype(float), np.sqrt(variance.astype(float))


MODELS = {
    "krepes": krepes,
    "krepes ridge": ridge,
    "GPyTorch SVGP": svgp,
    "scikit-learn": scikit_learn,
}


def scores(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, float]:
    return {
        "NLL": float(-norm.logpdf(y, mean, std).mean()),
        "RMSE": float(np.sqrt(np.mean((y - mean) ** 2))),
        "R2": float(1 - np.mean((y - mean) ** 2) / np.var(y)),
        "coverage": float(np.mean(np.abs(y - mean) < norm.ppf(0.95) * std)),
    }


def one_run(data: str, n: int, model: str, seed: int) -> dict[str, object]:
    """Rows and targets standardised by those that are learned from, for all models alike."""
    X, y = DATA[data](n + TEST_ROWS)
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = np.split(order, [min(n, int(0.7 * len(X)))])
    test = test[:TEST_ROWS]
    shift, scale = X[train].mean(0), X[train].std(0) + 1e-12
    X, y = (X - shift) / scale, (y - y[train].mean()) / y[train].std()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, std = MODELS[model](X[train], y[train], X[test], seed)
    seconds = time.perf_counter() - start
    return {
        "data": data,
        "n": n,
        "model": model,
        "seed": seed,
        **scores(y[test], mean, std),
        "seconds": seconds,
    }


def wanted(options: argparse.Namespace) -> list[tuple[str, int, str, int]]:
    """What is to be run; sizes that a table does not have are left out."""
    most = {"diabetes": 400, "magic": 13_000, "phoneme": 3700}
    jobs = []
    for seed in range(options.splits):
        for n in options.sizes:
            for data in options.data.split(","):
                if n > SIZES[0] and n > 1.6 * most.get(data, n):
                    continue
                for model in options.models.split(","):
                    if model == "scikit-learn" and n > SKLEARN_ROWS:
                        continue
                    if model == "GPyTorch SVGP" and gpytorch is None:
                        continue
                    jobs.append((data, n, model, seed))
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(description="Gaussian processes on six data sets.")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="rows to learn from")
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas")
    parser.add_argument("--data", default=",".join(DATA), help="names, separated by commas")
    parser.add_argument("--output", type=Path, default=RUNS)
    options = parser.parse_args()
    if gpytorch is None:
        print("GPyTorch is not installed, and left out: pip install gpytorch.", file=sys.stderr)
    runs = pd.read_csv(options.output) if options.output.exists() else pd.DataFrame(columns=KEYS)
    done = set(runs[KEYS].itertuples(index=False, name=None))
    for data, n, model, seed in wanted(options):
        if (data, n, model, seed) in done:
            continue
        result = one_run(data, n, model, seed)
        print(" ".join(f"{v:.3f}" if isinstance(v, float) else str(v) for v in result.values()), flush=True)
        options.output.parent.mkdir(exist_ok=True)
        pd.DataFrame([result]).to_csv(
            options.output, mode="a", header=not options.output.exists(), index=False
        )
    runs = pd.read_csv(options.output)
    figures = {}
    for measure in ("NLL", "RMSE", "R2", "coverage", "seconds"):
        table = runs.pivot_table(index=["n", "data"], columns="model", values=measure, sort=False)
        print(f"\n{measure}\n{table.round(3).to_string()}")
        figures |= {
            f"{measure}, {data}, {n} rows: {model}": round(float(value), 4)
            for (n, data), row in table.iterrows()
            for model, value in row.items()
            if np.isfinite(value)
        }
    record("gaussian_process", figures)


if __name__ == "__main__":
    main()
