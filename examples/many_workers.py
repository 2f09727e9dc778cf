"""Moments add up: two workers see a part of the data each, and their models merge into the model of all."""

import numpy as np
from sklearn.datasets import load_digits

from krepes import KernelEmbedding, load

X = load_digits().images / 16

# One model fixes what all must share: scales, kernel, landmarks, views. A sample of the rows is enough.
KernelEmbedding(16, n_landmarks=200, random_state=0).partial_fit(X[:400]).save("base.krepes", overwrite=True)


def work(first: int, last: int) -> str:
    """What runs on another machine, with its own rows and the file of the base."""
    part = load("base.krepes").empty_copy()
    part.partial_fit(X[first:last], first_row=first)  # where the part lies: it keys the random views
    part.save(f"part-{first}.krepes", overwrite=True)
    return f"part-{first}.krepes"


files = [work(0, 900), work(900, len(X))]
merged = load(files[0]).merge(load(files[1]))

alone = load("base.krepes").empty_copy().partial_fit(X)
difference = np.abs(merged.transform(X) - alone.transform(X)).max()
print(f"{merged.n_samples_seen_} rows seen; merged and single model differ by {difference:.1e}")
print(f"another loss, without the data: {merged.refit(loss='barlow_twins').transform(X).shape}")
