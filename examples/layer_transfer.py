"""A network learns the digits 0 to 4; all its layers, not only the last, then tell 5 to 9 apart from ten examples each.

Run: python examples/layer_transfer.py
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from krepes.alignment import LayerTransferClassifier
from krepes.regression import LeaveOneOutRidge

X, y = load_digits(return_X_y=True)
images = torch.tensor(X / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)

# 1. A network for the first five digits.
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

# 2. Ten labelled examples of each other digit; half of the others have no label, half are for testing.
rng = np.random.default_rng(0)
labelled = np.concatenate(
    [rng.choice(np.flatnonzero(y == digit), 10, replace=False) for digit in range(5, 10)]
)
rest = rng.permutation(np.setdiff1d(np.flatnonzero(y >= 5), labelled))
unlabelled, test = np.array_split(rest, 2)

# 3. The network's outputs for the old digits know little about the new ones.
with torch.no_grad():
    top = network(images).numpy()
ridge = LeaveOneOutRidge().fit(top[labelled], np.eye(10)[y[labelled]])
print(f"top layer          {np.mean(ridge.predict(top[test]).argmax(1) == y[test]):.3f}")

# 4. All layers, with positions kept, and the rows without labels.
model = LayerTransferClassifier(network, pool=False, random_state=0).fit(images[labelled], y[labelled])
print(f"layers that align  {model.score(images[test], y[test]):.3f}")
model.fit(images[labelled], y[labelled], X_unlabelled=images[unlabelled])
print(f"and unlabelled     {model.score(images[test], y[test]):.3f}\n")
print(model.summary())
