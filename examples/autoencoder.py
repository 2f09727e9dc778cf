"""A kernel autoencoder: compress rows to a few numbers, rebuild them, and remove noise.

python examples/autoencoder.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_wine

from krepes import KernelAutoencoder

# Noisy images of digits in, clean ones out.
images = load_digits().images / 16.0
noisy = images + np.random.default_rng(0).normal(scale=0.3, size=images.shape)
model = KernelAutoencoder(16, n_landmarks=300, random_state=0).fit(noisy[:1000], targets=images[:1000])
before = np.square(noisy[1000:] - images[1000:]).mean()
after = np.square(model.reconstruct(noisy[1000:]) - images[1000:]).mean()
print(f"mean squared error of new images: {before:.3f} noisy, {after:.3f} reconstructed")

# A table comes back in its own columns and units, categories included.
wine = load_wine(as_frame=True)
frame: pd.DataFrame = wine.data[["alcohol", "color_intensity", "proline"]].assign(
    grape=np.array(["barolo", "grignolino", "barbera"])[wine.target]
)
table = KernelAutoencoder(3, random_state=0).fit(frame)
print(frame.iloc[[0, 80]])
print(table.reconstruct(frame.iloc[[0, 80]]).to_pandas().round(2))
