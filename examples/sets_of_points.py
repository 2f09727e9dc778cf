"""
Rows that are sets of points
============================

From which distribution was a set drawn? A kernel compares whole sets, of any size and in any order.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from krepes.kernels import MeanEmbedding
from krepes.machines import KernelRidgeClassifier

# %%
# Four distributions with mean 0 and variance 1 in both coordinates; sets of 10 to 39 points.
rng = np.random.default_rng(0)
DRAWS = {
    "bell": lambda n: rng.normal(size=(n, 2)),
    "square": lambda n: rng.uniform(-np.sqrt(3), np.sqrt(3), size=(n, 2)),
    "peaked": lambda n: rng.laplace(scale=np.sqrt(0.5), size=(n, 2)),
    "ring": lambda n: np.sqrt(2) * (v := rng.normal(size=(n, 2))) / np.linalg.norm(v, axis=1, keepdims=True),
}
y = np.array([list(DRAWS)[i % 4] for i in range(500)])
X = [DRAWS[name](int(rng.integers(10, 40))) for name in y]
train, test = train_test_split(np.arange(len(X)), train_size=200, stratify=y, random_state=0)

# %%
# Moments need somebody who knows that order four is the right one. The kernel compares all moments at once.


def moments(order: int) -> np.ndarray:
    """Means of the powers of both coordinates, up to an order."""
    return np.array([np.concatenate([(points**p).mean(axis=0) for p in range(1, order + 1)]) for points in X])


for order in (2, 4):
    features = moments(order)
    baseline = LogisticRegression(C=100.0, max_iter=1000).fit(features[train], y[train])
    print(f"moments up to order {order}: {baseline.score(features[test], y[test]):.1%} right")
for kernel in (MeanEmbedding(), MeanEmbedding(lengthscale="median")):
    model = KernelRidgeClassifier(kernel=kernel, random_state=0).fit([X[i] for i in train], y[train])
    print(f"{kernel}: {model.score([X[i] for i in test], y[test]):.1%} right")

# %%
# A set of each kind, over many points of the same distribution.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 4, figsize=(9, 2.7), sharex=True, sharey=True, layout="constrained")
for axis, (name, draw) in zip(axes, DRAWS.items()):
    axis.scatter(*draw(1000).T, s=3, color="C2")
    axis.scatter(*draw(30).T, s=25, color="C0")
    axis.set(title=name, xlabel="x", xlim=(-3, 3), ylim=(-3, 3), aspect="equal")
axes[0].set_ylabel("y")
plt.show()
