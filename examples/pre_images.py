"""Rebuild handwritten digits from 16 numbers each, say how far to trust them, and take noise out of them."""

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


def share_lost(decoded: np.ndarray) -> float:
    """Squared error as a share of that of the mean digit."""
    return np.square(test - decoded).sum() / np.square(test - train.mean(0)).sum()


rows, error = model.reconstruct(test, return_error=True)
print(f"lost by PCA          {share_lost(pca.inverse_transform(pca.transform(test))):.3f}")
print(f"lost by krepes       {share_lost(rows):.3f}")

print(f"errors below upper   {(error.actual <= error.upper).mean():.2f}")
doubtful, sure = error.expected.argsort()[[-1, 0]]
print(f"digit {doubtful}: error {error.actual[doubtful]:.2f}, expected {error.expected[doubtful]:.2f}")
print(f"digit {sure}: error {error.actual[sure]:.2f}, expected {error.expected[sure]:.2f}")

noisy = test + np.random.default_rng(0).normal(0, 3, test.shape)
print(f"noise                {share_lost(noisy):.3f}")
print(f"denoised by PCA      {share_lost(pca.inverse_transform(pca.transform(noisy))):.3f}")
denoised, estimate = model.reconstruct(noisy, return_error=True)
print(f"denoised by krepes   {share_lost(denoised):.3f}, {estimate.trusted.mean():.0%} of the rows trusted")

_, far = model.inverse_transform(10 * model.transform(test[:1]), return_error=True)
print(f"a representation far from all that was seen is trusted: {bool(far.trusted[0])}")
