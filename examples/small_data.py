"""A few hundred rows, fifteen labels: an exact contrastive model, its lengthscale by leave-one-out, and a bound.

python examples/small_data.py
"""

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from krepes import KernelEmbedding
from krepes.evaluation import choose_bandwidth, contrastive_bound
from krepes.kernels import Gaussian

rng = np.random.default_rng(0)


def circles(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy points of two circles, each drawn on its own."""
    y, angle = rng.integers(2, size=n), rng.uniform(0, 2 * np.pi, size=n)
    return (1 - 0.5 * y[:, None]) * np.c_[np.cos(angle), np.sin(angle)] + 0.08 * rng.normal(size=(n, 2)), y


def alike(X: np.ndarray) -> np.ndarray:
    """The rows turned about the centre, which changes no class: positives."""
    turn = rng.uniform(-np.pi, np.pi, size=len(X))
    cos, sin = np.cos(turn), np.sin(turn)
    return np.c_[cos * X[:, 0] - sin * X[:, 1], sin * X[:, 0] + cos * X[:, 1]]


X, y = circles(300)
train, labelled, test = slice(0, 165), slice(150, 165), slice(165, 300)  # 5 % have labels
triplets = {"positives": alike(X[train]), "negatives": X[rng.integers(165, size=165)]}

model = KernelEmbedding(2, kernel="gaussian", loss="simple_contrastive", n_landmarks=None, random_state=0)
lengthscales = np.geomspace(0.1, 10, 9)  # by default 15 from 0.01 to 100
few = np.where(np.arange(165) < 150, np.nan, y[train])  # the other labels are missing
choice = choose_bandwidth(model, X[train], few, bandwidths=lengthscales, **triplets)
print(
    f"lengthscale {choice.bandwidth:.2g}: {100 * np.nanmax(choice.accuracies):.0f} % of the labels, each left out"
)

Z = choice.model.transform(X)
for name, rows in (("the two coordinates", X), ("the representation", Z)):
    neighbours = KNeighborsClassifier(3).fit(rows[labelled], y[labelled])
    print(f"3 neighbours on {name}: {100 * neighbours.score(rows[test], y[test]):.0f} % of the test rows")

# A bound needs independent triplets, and a lengthscale that was not chosen by them. Landmarks may be fewer.
anchors, negatives = circles(2000)[0], circles(2000)[0]
positives = alike(anchors)
fixed = KernelEmbedding(2, kernel=Gaussian(0.5), loss="simple_contrastive", n_landmarks=200, random_state=0)
fixed.fit(anchors, positives=positives, negatives=negatives)
bound = contrastive_bound(fixed, anchors, positives, negatives, delta=0.05)
print(
    f"loss {bound.empirical:.2f}; on new triplets at most {bound.total:.2f} with probability 95 % "
    f"(complexity {bound.complexity:.2f}, deviation {bound.deviation:.2f})"
)
