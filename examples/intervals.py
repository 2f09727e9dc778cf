"""Intervals and sets that hold the true value with a given confidence, and rows taken back."""

import numpy as np
from sklearn.datasets import load_digits, make_friedman1

from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor

# Intervals: the kernel ridge machine is fitted once, and checked on the rows that each of its folds has left out.
X, y = make_friedman1(1500, noise=1.0, random_state=0)
model = KernelRidgeRegressor(n_landmarks=200, random_state=0).fit(X[:500], y[:500])
for confidence in (0.8, 0.9, 0.95):
    low, high = model.predict_interval(X[500:], confidence).T
    inside = np.mean((low <= y[500:]) & (y[500:] <= high))
    print(f"confidence {confidence:.2f}: {inside:.3f} of new targets inside, width {np.mean(high - low):.2f}")

# Rows that nothing has seen give a guarantee.
low, high = model.predict_interval(X[700:], 0.9, calibration=(X[500:700], y[500:700])).T
print(f"with calibration rows: {np.mean((low <= y[700:]) & (y[700:] <= high)):.3f} inside")

# Sets of classes: one class where the case is clear, several where it is not.
# Rows are shuffled: the first are other writers' than the last, and intervals and sets are for rows of one kind.
images, digit = load_digits(return_X_y=True)
rows = np.random.default_rng(0).permutation(len(digit))
images, digit = images[rows], digit[rows]
kind = KernelRidgeClassifier(random_state=0).fit(images[:300], digit[:300])
chosen = kind.predict_set(images[300:], confidence=0.98)
inside = chosen[np.arange(len(chosen)), digit[300:]].mean()
print(f"sets: {inside:.3f} hold the digit; sizes 0, 1, 2, ...: {np.bincount(chosen.sum(axis=1)).tolist()}")

# Rows can be taken back, unless they are landmarks. What may still depend on them is said.
gone = np.setdiff1d(np.arange(20), model.landmark_indices_)
left = model.forget(X[gone], y[gone], rows=gone)
print(
    f"{len(gone)} rows forgotten; {model.n_samples_seen_} are left. May depend on them still: {', '.join(left)}"
)
