"""Series that begin at a random phase: four wave forms in two noisy channels, told apart with few labels."""

import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from krepes import KernelEmbedding
from krepes.kernels import RandomWarping

rng = np.random.default_rng(0)
STEPS = 60


def wave(kind: int) -> np.ndarray:
    """About three periods of a sine, a square, a triangle or a saw tooth, (t, 2); the second channel lags behind."""
    cycles = np.linspace(0, rng.uniform(2.5, 3.5), STEPS) + rng.uniform()
    channels = []
    for lag in (0.0, 0.25):
        part = (cycles - lag) % 1
        forms = [
            np.sin(2 * np.pi * part),
            np.where(part < 0.5, 0.8, -0.8),
            4 * abs(part - 0.5) - 1,
            2 * part - 1,
        ]
        channels.append(forms[kind])
    return np.stack(channels, axis=1) + 0.4 * rng.normal(size=(STEPS, 2))


kinds = rng.integers(0, 4, size=700)
series = np.stack([wave(kind) for kind in kinds])  # (700, 60, 2)
labelled, test = slice(0, 100), slice(300, None)
columns = series.reshape(len(series), -1)


def score(features: np.ndarray) -> float:
    """Accuracy of a linear classifier with 100 labels, in per cent."""
    probe = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-2, 4, 13)))
    return 100 * probe.fit(features[labelled], kinds[labelled]).score(features[test], kinds[test])


svm = make_pipeline(StandardScaler(), SVC(C=10)).fit(columns[labelled], kinds[labelled])
print(f"raw columns, linear classifier       {score(columns):.0f} %")
print(f"raw columns, support vector machine  {100 * svm.score(columns[test], kinds[test]):.0f} %")
for name, params in {
    "kernel PCA": {"loss": "kernel_pca"},
    "krepes, views of series": {},
    "krepes, random warping": {"kernel": RandomWarping(n_series=64), "loss": "kernel_pca"},
}.items():
    model = KernelEmbedding(32, preprocess="series", n_landmarks=200, random_state=0, **params).fit(series)
    print(f"{name:36} {score(model.transform(series)):.0f} %")
