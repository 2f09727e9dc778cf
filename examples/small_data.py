"""
Fifteen labels are enough
=========================

Tell the model which rows mean the same, and let fifteen labels choose the lengthscale.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from krepes import KernelEmbedding
from krepes.evaluation import choose_bandwidth

rng = np.random.default_rng(0)


def circles(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy points of two circles."""
    y, angle = rng.integers(2, size=n), rng.uniform(0, 2 * np.pi, size=n)
    return (1 - 0.5 * y[:, None]) * np.c_[np.cos(angle), np.sin(angle)] + 0.08 * rng.normal(size=(n, 2)), y


def turned(X: np.ndarray) -> np.ndarray:
    """The rows turned about the centre by random angles, which changes no class."""
    angle = rng.uniform(-np.pi, np.pi, size=len(X))
    cos, sin = np.cos(angle), np.sin(angle)
    return np.c_[cos * X[:, 0] - sin * X[:, 1], sin * X[:, 0] + cos * X[:, 1]]


X, y = circles(300)
train, labelled, test = slice(0, 165), slice(150, 165), slice(165, 300)

# %%
# Positives are rows that should be alike, negatives are any rows. All rows are landmarks, so the model is exact.
triplets = {"positives": turned(X[train]), "negatives": X[rng.integers(165, size=165)]}
model = KernelEmbedding(2, kernel="gaussian", loss="simple_contrastive", n_landmarks=None, random_state=0)
known = np.where(np.arange(165) < 150, np.nan, y[train])  # 150 labels are missing
choice = choose_bandwidth(model, X[train], known, bandwidths=np.geomspace(0.1, 10, 9), **triplets)
print(
    f"lengthscale {choice.bandwidth:.2g}: {100 * np.nanmax(choice.accuracies):.0f} % of labels left out are found"
)

# %%
# Three nearest neighbours among the labelled rows, before and after.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for axis, name, rows in zip(axes, ("data", "representation"), (X, choice.model.transform(X))):
    neighbours = KNeighborsClassifier(3).fit(rows[labelled], y[labelled])
    score = 100 * neighbours.score(rows[test], y[test])
    print(f"3 neighbours on the {name}: {score:.0f} % right")
    for circle, colour in ((0, "C0"), (1, "C1")):
        axis.scatter(*rows[test][y[test] == circle].T, s=12, color=colour, alpha=0.6)
        axis.scatter(*rows[labelled][y[labelled] == circle].T, s=60, color=colour, edgecolor="black")
    axis.set(title=f"{name}: {score:.0f} % right", xlabel="first column", ylabel="second column")
plt.show()
