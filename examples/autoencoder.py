"""
Remove noise from images
========================

A kernel autoencoder learns to rebuild clean images from noisy ones, through 16 numbers for each image.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from krepes import KernelAutoencoder

images = load_digits().images / 16
noisy = images + np.random.default_rng(0).normal(scale=0.3, size=images.shape)
train, test = slice(0, 1000), slice(1000, None)

# %%
# ``targets=`` are the images that should come out. Without it, a model learns to give back what it was given.
model = KernelAutoencoder(16, n_landmarks=300, random_state=0).fit(noisy[train], targets=images[train])
rebuilt = model.reconstruct(noisy[test])

for name, found in (("noisy", noisy[test]), ("rebuilt", rebuilt)):
    print(f"mean squared error, {name:8s} {np.square(found - images[test]).mean():.3f}")

# %%
# Ten images that the model has not seen, with noise, without it, and as they were.
rows = {"noisy": noisy[test], "rebuilt": rebuilt, "original": images[test]}
figure, axes = plt.subplots(3, 10, figsize=(8, 2.7), layout="constrained")
for line, (name, found) in zip(axes, rows.items()):
    for axis, image in zip(line, found[20:30]):
        axis.imshow(image, cmap="gray_r", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name, fontsize=12)
plt.show()
