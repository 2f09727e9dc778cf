"""
Learn from all layers of a network
==================================

A network was trained on the digits 0 to 4. Its inner layers, not its outputs, help to tell 5 to 9 apart.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from krepes.alignment import LayerTransferClassifier
from krepes.regression import LeaveOneOutRidge

X, y = load_digits(return_X_y=True)
images = torch.tensor(X / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)

# %%
# First a network that knows the digits 0 to 4.
torch.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten(),
    nn.Linear(64 * 16, 32), nn.ReLU(), nn.Linear(32, 5),
)  # fmt: skip
first = np.flatnonzero(y < 5)
optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
for _ in range(4):
    for rows in np.array_split(first, len(first) // 32):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images[rows]), torch.tensor(y[rows])).backward()
        optimizer.step()

# %%
# Ten labelled images of each new digit. The others are divided: half without labels, half for the test.
rng = np.random.default_rng(0)
labelled = np.concatenate(
    [rng.choice(np.flatnonzero(y == digit), 10, replace=False) for digit in range(5, 10)]
)
unlabelled, test = np.array_split(rng.permutation(np.setdiff1d(np.flatnonzero(y >= 5), labelled)), 2)

with torch.no_grad():
    top = network(images).numpy()
ridge = LeaveOneOutRidge().fit(top[labelled], np.eye(10)[y[labelled]])
print(f"outputs only         {np.mean(ridge.predict(top[test]).argmax(1) == y[test]):.3f} right")
model = LayerTransferClassifier(network, pool=False, random_state=0).fit(images[labelled], y[labelled])
print(f"layers that align    {model.score(images[test], y[test]):.3f}")
model.fit(images[labelled], y[labelled], X_unlabelled=images[unlabelled])
print(f"and unlabelled rows  {model.score(images[test], y[test]):.3f}")

# %%
# How well each layer fits the new labels, and the layers that were used.
plt.style.use("tableau-colorblind10")
names = [layer.layer for layer in model.alignments_]
colours = ["C1" if layer.weight > 0 else "C2" for layer in model.alignments_]
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.bar(names, [layer.alignment for layer in model.alignments_], color=colours)
axis.set(xlabel="layer, from input to output (orange: used)", ylabel="alignment with the labels")
plt.show()
