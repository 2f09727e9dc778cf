"""
A large table in cells
======================

Where the target changes within short distances, landmarks are too few. Cells compare a row with its neighbourhood.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from krepes.machines import Cells, KernelRidgeRegressor

rng = np.random.default_rng(0)
X = rng.uniform(size=(6000, 4))
y = np.sin(12 * X[:, 0] + 12 * X[:, 1]) * np.sin(20 * X[:, 0]) + X[:, 2] + 0.2 * rng.normal(size=6000)
train, test = slice(5000), slice(5000, None)

# %%
# The same kernel for both; only what rows are compared with differs.
given = {"kernel": "gaussian", "n_landmarks": 200, "random_state": 0}
machines = {}
for name, local in (("landmarks", False), ("cells", Cells(size=400))):
    start = time.perf_counter()
    machine = KernelRidgeRegressor(**given, local=local).fit(X[train], y[train])
    machines[name], score = machine, machine.score(X[test], y[test])
    print(
        f"{name:<10} R² {score:.3f}, held out: {machine.held_out_score_}, {time.perf_counter() - start:.1f} s"
    )

# %%
# What was chosen: a weight for each column, from the gradients in the cells. The last column is noise.
plan = machine.local_
print(f"metric {plan.metric}, penalty {plan.penalty:.2g}, {[tree.n_cells for tree in plan.partitions]} cells")
weights = np.asarray(machine.column_importances(n_folds=0).shares)
print("shares of the columns:", np.round(weights, 3))

# %%
# Intervals from the errors of rows left out of their cells.
low, high = machine.predict_interval(X[test], confidence=0.9).T
print(f"inside the intervals: {np.mean((low <= y[test]) & (y[test] <= high)):.3f}")

# %%
# Rows added and taken back: only their cells are solved again.
before = machine.predict(X[test])
machine.partial_fit(X[test], y[test])
left = machine.forget(X[test], y[test], rows=np.arange(5000, 6000))
print("as before:", np.allclose(machine.predict(X[test]), before, atol=1e-4))
print("still depends on the rows:", "; ".join(left))

# %%
# A slice through the table: the truth, and what both machines make of it.
plt.style.use("tableau-colorblind10")
line = np.full((400, 4), 0.5)
line[:, 0] = np.linspace(0, 1, 400)
figure, axis = plt.subplots(figsize=(6.5, 3.5), layout="constrained")
truth = np.sin(12 * line[:, 0] + 12 * line[:, 1]) * np.sin(20 * line[:, 0]) + line[:, 2]
axis.plot(line[:, 0], truth, color="C2", linewidth=5, label="truth")
for (name, machine), colour, style in zip(machines.items(), ("C0", "C1"), ("--", "-")):
    axis.plot(line[:, 0], machine.predict(line), style, color=colour, linewidth=2, label=name)
axis.set(xlabel="first column, the others at 0.5", ylabel="target")
figure.legend(loc="outside upper center", ncols=3, frameon=False)
plt.show()
