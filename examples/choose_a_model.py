"""
Which representation to start from?
===================================

Rank representations by a few labels, in a second, before you train anything on them.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from krepes import KernelEmbedding
from krepes.alignment import transferability
from krepes.regression import LeaveOneOutRidge

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
labelled, others = np.arange(300), np.arange(300, len(X))

# %%
# Five candidates, from useful to useless.
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

# %%
# The scores come from 300 labels. None of them trains a classifier.
found = transferability({name: Z[labelled] for name, Z in candidates.items()}, y[labelled])
print(found)

# %%
# Was the ranking right? Now a classifier is trained on each, and tested on the other 1497 images.
accuracy = {}
for name in found.names:
    ridge = LeaveOneOutRidge().fit(candidates[name][labelled], np.eye(10)[y[labelled]])
    accuracy[name] = 100 * np.mean(ridge.predict(candidates[name][others]).argmax(axis=1) == y[others])

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 2, figsize=(7, 3), sharey=True, layout="constrained")
axes[0].barh(found.names, found.scores["logme"], color="C4")
axes[0].set(xlabel="LogME of 300 labels")
axes[1].barh(found.names, list(accuracy.values()), color="C1")
axes[1].set(xlabel="accuracy on other images, %")
plt.show()
