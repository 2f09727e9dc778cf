"""
Intervals and sets you can rely on
==================================

Ask for a confidence, and get intervals that hold the true number, or sets that hold the true class, that often.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_friedman1

from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor

# %%
# Intervals come from the errors of rows that were left out, so that one fit is enough.
X, y = make_friedman1(1500, noise=1.0, random_state=0)
model = KernelRidgeRegressor(n_landmarks=200, random_state=0).fit(X[:500], y[:500])
for confidence in (0.8, 0.9, 0.95):
    low, high = model.predict_interval(X[500:], confidence).T
    inside = np.mean((low <= y[500:]) & (y[500:] <= high))
    print(f"confidence {confidence:.2f}: {inside:.3f} inside, width {np.mean(high - low):.2f}")

# %%
# Fifty new rows with their intervals at 0.9. About one true value in ten may be outside.
plt.style.use("tableau-colorblind10")
low, high = model.predict_interval(X[500:550], 0.9).T
order = np.argsort(low + high)
low, high, truth = low[order], high[order], y[500:550][order]
outside = (truth < low) | (truth > high)
figure, axis = plt.subplots(figsize=(6.5, 3.5), layout="constrained")
axis.vlines(np.arange(50), low, high, color="C4", linewidth=4, label="interval")
axis.plot(np.flatnonzero(~outside), truth[~outside], "o", color="C3", markersize=4, label="true value")
axis.plot(np.flatnonzero(outside), truth[outside], "X", color="C5", markersize=8, label="true value, outside")
axis.set(xlabel="row, sorted by prediction", ylabel="target")
axis.legend(frameon=False)
plt.show()

# %%
# A set has one class where the case is clear, and several where it is not. Rows must be of one kind, so they are
# shuffled: the first digits are from other writers than the last.
images, digit = load_digits(return_X_y=True)
rows = np.random.default_rng(0).permutation(len(digit))
images, digit = images[rows], digit[rows]
kind = KernelRidgeClassifier(random_state=0).fit(images[:300], digit[:300])
sets = kind.predict_set(images[300:], confidence=0.98)
print(f"{sets[np.arange(len(sets)), digit[300:]].mean():.3f} of the sets hold the digit")

figure, axes = plt.subplots(1, 6, figsize=(7, 1.7), layout="constrained")
for axis, row in zip(axes, np.argsort(-sets.sum(axis=1), kind="stable")[:6]):
    axis.imshow(images[300 + row].reshape(8, 8), cmap="gray_r")
    axis.set(xticks=[], yticks=[], xlabel=" or ".join(map(str, np.flatnonzero(sets[row]))))
plt.show()
