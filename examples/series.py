"""Time series of unequal length: shapes that are stretched at random, by alignment kernels and by summaries."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from krepes.kernels import GlobalAlignment, RandomWarping
from krepes.machines import KernelRidgeClassifier

rng = np.random.default_rng(0)


def warped_shape(kind: int) -> np.ndarray:
    """A bump, a double bump or a rise and fall, of 30 to 40 steps, its time stretched at random, with noise."""
    n = rng.integers(30, 41)
    time = np.cumsum(rng.gamma(0.6, size=n))
    time = time / time[-1]
    bumps = [(0.3, 0.7, 0.0), (0.3, 0.7, 1.0), (0.3, 0.7, -1.0)][kind]
    shape = np.exp(-(((time - bumps[0]) / 0.1) ** 2)) + bumps[2] * np.exp(-(((time - bumps[1]) / 0.1) ** 2))
    return shape * rng.choice([-1, 1]) + 0.2 * rng.normal(size=n)


kinds = rng.integers(0, 3, size=300)
series = [warped_shape(kind) for kind in kinds]
train, test = slice(0, 150), slice(150, None)


def summary(x: np.ndarray) -> list[float]:
    """What a bag of features knows: level, spread, extremes, roughness, length."""
    return [
        x.mean(),
        x.std(),
        x.min(),
        x.max(),
        np.abs(np.diff(x)).mean(),
        *np.quantile(x, [0.25, 0.5, 0.75]),
        len(x),
    ]


baseline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
baseline.fit([summary(x) for x in series[train]], kinds[train])
score = baseline.score([summary(x) for x in series[test]], kinds[test])
print(f"summaries and logistic regression   {100 * score:.0f} %")
for kernel in (GlobalAlignment(), GlobalAlignment("0.5 median"), RandomWarping()):
    machine = KernelRidgeClassifier(kernel=kernel, n_landmarks=100, random_state=0)
    score = machine.fit(series[train], kinds[train]).score(series[test], kinds[test])
    print(f"{kernel!r:35} {100 * score:.0f} %")
