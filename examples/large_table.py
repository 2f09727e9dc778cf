"""A table whose target changes within short distances: landmarks and cells compared, rows added and taken back."""

import time

import numpy as np

from krepes.machines import Cells, KernelRidgeRegressor

rng = np.random.default_rng(0)
X = rng.uniform(size=(6000, 4))
y = np.sin(12 * X[:, 0] + 12 * X[:, 1]) * np.sin(20 * X[:, 0]) + X[:, 2] + 0.2 * rng.normal(size=6000)
train, test = slice(5000), slice(5000, None)

# The same kernel for both; only what rows are compared with differs.
given = {"kernel": "gaussian", "n_landmarks": 200, "random_state": 0}
for name, local in (("landmarks", False), ("cells", Cells(size=400))):
    start = time.perf_counter()
    machine = KernelRidgeRegressor(**given, local=local).fit(X[train], y[train])
    score = machine.score(X[test], y[test])
    print(
        f"{name:<10} R² {score:.3f}, held out: {machine.held_out_score_}, {time.perf_counter() - start:.1f} s"
    )

# What was chosen: a weight for each column, from the gradients in the cells. The last column is noise.
plan = machine.local_
print(f"metric {plan.metric}, penalty {plan.penalty:.2g}, {[tree.n_cells for tree in plan.partitions]} cells")
weights = np.asarray(machine.column_importances(n_folds=0).shares)
print("shares of the columns:", np.round(weights, 3))

# Intervals from the errors of rows left out of their cells.
low, high = machine.predict_interval(X[test], confidence=0.9).T
print(f"inside the intervals: {np.mean((low <= y[test]) & (y[test] <= high)):.3f}")

# Rows added and taken back: only their cells are solved again.
before = machine.predict(X[test])
machine.partial_fit(X[test], y[test])
left = machine.forget(X[test], y[test], rows=np.arange(5000, 6000))
print("as before:", np.allclose(machine.predict(X[test]), before, atol=1e-4))
print("still depends on the rows:", "; ".join(left))
