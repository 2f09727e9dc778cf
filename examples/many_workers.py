"""Moments add up: two workers see half of the data each, and their models merge into the model of all."""

import numpy as np
from sklearn.datasets import load_digits

from krepes import KernelEmbedding

X = load_digits().data / 16
base = KernelEmbedding(16, n_landmarks=200, random_state=0).partial_fit(X[:400])  # fixes kernel and landmarks

workers = [base.empty_copy() for _ in range(2)]
workers[0].partial_fit(X[:900], first_row=0)
workers[1].partial_fit(X[900:], first_row=900)
merged = workers[0].merge(workers[1])

alone = base.empty_copy().partial_fit(X)
difference = np.abs(merged.transform(X) - alone.transform(X)).max()
print(f"{merged.n_samples_seen_} rows seen; merged and single model differ by {difference:.1e}")
