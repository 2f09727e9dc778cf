"""
From numbers back to images
===========================

Rebuild digits from 16 numbers each, and learn which of the rebuilt images can be trusted.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from krepes import KernelEmbedding
from krepes.kernels import Gaussian

train, test = train_test_split(load_digits().data, random_state=0)  # 64 pixels each
model = KernelEmbedding(16, loss="kernel_pca", kernel=Gaussian("4 median"), random_state=0).fit(train)
model.fit_inverse(train)  # optional: without it, the inverse is learned from the landmarks
pca = PCA(16).fit(train)

# %%
# How much of the difference to the mean digit is lost? With noise in the images, the kernel loses less than PCA.


def share_lost(decoded: np.ndarray) -> float:
    """Squared error as a share of the squared error of the mean digit."""
    return np.square(test - decoded).sum() / np.square(test - train.mean(0)).sum()


noisy = test + np.random.default_rng(0).normal(0, 3, test.shape)
for name, rows in (("clean", test), ("noisy", noisy)):
    by_pca = pca.inverse_transform(pca.transform(rows))
    by_krepes, error = model.reconstruct(rows, return_error=True)
    lost = f"PCA loses {share_lost(by_pca):.3f}, krepes {share_lost(by_krepes):.3f}"
    print(f"{name} images: {lost}; {error.trusted.mean():.1%} trusted")

# %%
# Each rebuilt row comes with an expected error and an upper limit. Far from all data, nothing is trusted.
rebuilt, error = model.reconstruct(test, return_error=True)
print(f"errors below their upper limit: {(error.actual <= error.upper).mean():.0%}")
_, far = model.inverse_transform(10 * model.transform(test[:1]), return_error=True)
print(f"a representation ten times too long is trusted: {bool(far.trusted[0])}")

# %%
# The four images that the model is most sure of, and the four that it doubts most, with the errors that it expects.
order = error.expected.argsort()
figure, axes = plt.subplots(2, 8, figsize=(8, 2.7), layout="constrained")
for column, row in zip(axes.T, [*order[:4], *order[-4:]]):
    for axis, image in zip(column, (test[row], rebuilt[row])):
        axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        axis.set(xticks=[], yticks=[])
    column[1].set_xlabel(f"{error.expected[row]:.2f}", fontsize=11)
    column[0].set_title("sure" if row in order[:4] else "in doubt", fontsize=11)
axes[0, 0].set_ylabel("original")
axes[1, 0].set_ylabel("rebuilt")
plt.show()
