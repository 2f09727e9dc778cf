"""
Waves that begin at any phase
=============================

Learn a representation of series without labels that does not mind a shift in time, then use a hundred labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from krepes import KernelEmbedding
from krepes.kernels import RandomWarping

rng = np.random.default_rng(0)


def wave(kind: int) -> np.ndarray:
    """About three periods of a sine, square, triangle or saw tooth, (60, 2); the second channel lags behind."""
    cycles = np.linspace(0, rng.uniform(2.5, 3.5), 60) + rng.uniform()
    part = np.stack([cycles % 1, (cycles - 0.25) % 1], axis=1)
    square, triangle = np.where(part < 0.5, 0.8, -0.8), 4 * abs(part - 0.5) - 1
    return [np.sin(2 * np.pi * part), square, triangle, 2 * part - 1][kind] + 0.4 * rng.normal(size=(60, 2))


kinds = rng.integers(0, 4, size=700)
series = np.stack([wave(kind) for kind in kinds])  # (700, 60, 2)
labelled, test = slice(0, 100), slice(300, None)
columns = series.reshape(700, -1)

# %%
# Classifiers of the raw columns cannot know that a shifted wave is the same wave.
svm = make_pipeline(StandardScaler(), SVC(C=10)).fit(columns[labelled], kinds[labelled])
scores = {"raw, support vectors": 100 * svm.score(columns[test], kinds[test])}

# %%
# ``preprocess="series"`` makes views that are shifted and stretched a little. Random warping aligns series instead.
warping = {"kernel": RandomWarping(n_series=64), "loss": "kernel_pca"}
representations = {"raw, linear": columns}
for name, params in {
    "kernel PCA": {"loss": "kernel_pca"},
    "views of series": {},
    "random warping": warping,
}.items():
    model = KernelEmbedding(32, preprocess="series", n_landmarks=200, random_state=0, **params)
    representations[name] = model.fit_transform(series)
for name, Z in representations.items():
    probe = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-2, 4, 13)))
    scores[name] = 100 * probe.fit(Z[labelled], kinds[labelled]).score(Z[test], kinds[test])

# %%
# One saw tooth and one triangle, and how often each method is right.
plt.style.use("tableau-colorblind10")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(series[np.flatnonzero(kinds == 3)[0], :, 0] + 3, color="C0", label="saw tooth")
left.plot(series[np.flatnonzero(kinds == 2)[0], :, 0], color="C1", label="triangle")
left.set(xlabel="step", ylabel="first channel", yticks=[])
left.legend(frameon=False, loc="center right")
right.bar_label(right.barh(list(scores), list(scores.values()), color="C4"), fmt="%.0f %%", padding=3)
right.invert_yaxis()
right.set(xlabel="test accuracy, %", xlim=(0, 100))
plt.show()
