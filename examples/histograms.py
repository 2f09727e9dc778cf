"""Histograms of pixel intensities: kernels of counts beside a Gaussian kernel and logistic regression."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from krepes.kernels import ChiSquared, Gaussian, Intersection
from krepes.machines import KernelRidgeClassifier

digits = load_digits()
# In each quarter of an image: how many of its 16 pixels have which intensity, in 6 bins.
quarters = digits.images.reshape(-1, 2, 4, 2, 4).swapaxes(2, 3).reshape(len(digits.images), 4, 16)
counts = np.stack([(quarters // 3 == level).sum(2) for level in range(6)], axis=2)
counts = counts.reshape(len(quarters), 24).astype(float)

train, test = slice(0, 600), slice(600, None)

linear = LogisticRegression(max_iter=5000).fit(counts[train], digits.target[train])
print(f"logistic regression   {100 * linear.score(counts[test], digits.target[test]):.1f} %")
for kernel in (Gaussian(), Intersection(), ChiSquared(additive=True), ChiSquared()):
    machine = KernelRidgeClassifier(kernel=kernel, input_metric=None, preprocess=None, random_state=0)
    score = machine.fit(counts[train], digits.target[train]).score(counts[test], digits.target[test])
    print(f"{kernel!r:25} {100 * score:.1f} %")
