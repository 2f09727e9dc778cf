"""Sets: from which distribution were some points drawn? All four have mean 0 and variance 1 in both coordinates."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from krepes.kernels import MeanEmbedding
from krepes.machines import KernelRidgeClassifier

rng = np.random.default_rng(0)
DRAWS = {
    "bell": lambda n: rng.normal(size=(n, 2)),
    "square": lambda n: rng.uniform(-np.sqrt(3), np.sqrt(3), size=(n, 2)),
    "peaked": lambda n: rng.laplace(scale=np.sqrt(0.5), size=(n, 2)),
    "ring": lambda n: np.sqrt(2) * (v := rng.normal(size=(n, 2))) / np.linalg.norm(v, axis=1, keepdims=True),
}
y = np.array([list(DRAWS)[i % 4] for i in range(500)])
X = [DRAWS[name](int(rng.integers(10, 40))) for name in y]  # sets of 10 to 39 points

train, test = train_test_split(np.arange(len(X)), train_size=200, stratify=y, random_state=0)


def moments(order: int) -> np.ndarray:
    """Means of the powers of both coordinates, up to an order."""
    return np.array([np.concatenate([(points**p).mean(axis=0) for p in range(1, order + 1)]) for points in X])


for order in (2, 4):
    features = moments(order)
    baseline = LogisticRegression(C=100.0, max_iter=1000).fit(features[train], y[train])
    print(
        f"{f'moments up to order {order}, logistic':44s} accuracy {baseline.score(features[test], y[test]):.1%}"
    )
for kernel in (MeanEmbedding(), MeanEmbedding(lengthscale="median")):
    model = KernelRidgeClassifier(kernel=kernel, random_state=0).fit([X[i] for i in train], y[train])
    print(f"{kernel!s:44s} accuracy {model.score([X[i] for i in test], y[test]):.1%}")
