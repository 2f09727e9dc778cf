"""Which representation to start from? Rank candidates by a few labels, before anything is trained on them."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from krepes import KernelEmbedding
from krepes.alignment import plot_transferability, transferability
from krepes.regression import LeaveOneOutRidge

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
labelled, others = np.arange(300), np.arange(300, len(X))

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(64, 256), nn.ReLU())  # untrained
model = KernelEmbedding(n_components=32, loss="kernel_pca", n_landmarks=300, random_state=0).fit(X[others])
candidates = {
    "pixels": X,
    "row sums": X.reshape(-1, 8, 8).sum(axis=2),
    "kernel PCA": model.transform(X),
    "random network": network(torch.from_numpy(X)).detach().numpy(),
    "noise": np.random.default_rng(0).normal(size=(len(X), 32)),
}

found = transferability({name: Z[labelled] for name, Z in candidates.items()}, y[labelled])
print(found)

print("\naccuracy of ridge regression on the other rows")
for name in found.ranking:
    ridge = LeaveOneOutRidge().fit(candidates[name][labelled], np.eye(10)[y[labelled]])
    accuracy = np.mean(ridge.predict(candidates[name][others]).argmax(axis=1) == y[others])
    print(f"{name:16s} {accuracy:.3f}")

plot_transferability(found).savefig("models.png", dpi=100)
print("figure: models.png")
