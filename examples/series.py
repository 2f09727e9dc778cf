"""
Time series of unequal length
=============================

Shapes that are stretched in time: a kernel that aligns series tells them apart, summary statistics do not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from krepes.kernels import GlobalAlignment, RandomWarping
from krepes.machines import KernelRidgeClassifier

rng = np.random.default_rng(0)
SECOND = [0.0, 1.0, -1.0]  # height of the second bump


def warped_shape(kind: int) -> np.ndarray:
    """A bump, a double bump or a rise and fall, of 30 to 40 steps, its time stretched at random, with noise."""
    n = rng.integers(30, 41)
    time = np.cumsum(rng.gamma(0.6, size=n))
    time = time / time[-1]
    shape = np.exp(-(((time - 0.3) / 0.1) ** 2)) + SECOND[kind] * np.exp(-(((time - 0.7) / 0.1) ** 2))
    return shape * rng.choice([-1, 1]) + 0.2 * rng.normal(size=n)


def summary(x: np.ndarray) -> list[float]:
    """Level, spread, extremes, roughness, quartiles, length."""
    rough, quartiles = np.abs(np.diff(x)).mean(), np.quantile(x, [0.25, 0.5, 0.75])
    return [x.mean(), x.std(), x.min(), x.max(), rough, *quartiles, len(x)]


kinds = rng.integers(0, 3, size=300)
series = [warped_shape(kind) for kind in kinds]
train, test = slice(0, 150), slice(150, None)

# %%
# A list of arrays is all that the kernels need. Lengths may differ.
baseline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
baseline.fit([summary(x) for x in series[train]], kinds[train])
scores = {"nine summaries": 100 * baseline.score([summary(x) for x in series[test]], kinds[test])}
for kernel in (GlobalAlignment(), GlobalAlignment("0.5 median"), RandomWarping()):
    machine = KernelRidgeClassifier(kernel=kernel, n_landmarks=100, random_state=0)
    scores[repr(kernel)] = 100 * machine.fit(series[train], kinds[train]).score(series[test], kinds[test])
for name, score in scores.items():
    print(f"{name:42s} {score:.0f} %")

# %%
# Three series of each kind, one above the other. They may be upside down, and their time runs unevenly.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 3, figsize=(8, 3.4), sharey=True, layout="constrained")
for kind, (axis, name) in enumerate(zip(axes, ("one bump", "two bumps", "rise and fall"))):
    for place, row in enumerate(np.flatnonzero(kinds == kind)[:3]):
        axis.plot(series[row] + 2.5 * place, color=("C0", "C1", "C3")[place], linewidth=2)
    axis.set(title=name, xlabel="step", yticks=[])
axes[0].set_ylabel("value")
plt.show()
