"""
Write your own loss
===================

A loss is a function of the representations of two views. This one makes every component a cluster.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from torch.nn.functional import log_softmax, softmax

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.solvers import SGD

images, y = load_digits().images / 16, load_digits().target

# %%
# ``Z1`` and ``Z2`` are tensors with one row per image. The sum of what the function returns is made small: both views
# of a digit should agree on a cluster, and all clusters should be used.


def soft_clusters(Z1, Z2):
    agreement = -(softmax(Z1.detach() / 0.5, 1) * log_softmax(Z2, 1)).sum(1).mean()
    usage = softmax(Z2, 1).mean(0)
    return {"agreement": agreement, "balance": (usage * usage.log()).sum()}


solver = SGD(max_epochs=30)
model = KernelEmbedding(
    32, loss=soft_clusters, n_landmarks=300, regularization=1e-4, solver=solver, random_state=0
)
Z = model.fit(images[:1500]).transform(images)
print({name: round(model.history_[-1][name], 2) for name in ("agreement", "balance")})

# %%
# Did it learn anything? A linear classifier with 150 labels, tested on the last images.
labelled = np.random.default_rng(0).permutation(1500)[:150]
for name, rows in (("raw pixels", images.reshape(len(images), -1)), ("own loss", Z)):
    result = linear_probe(rows[labelled], y[labelled], rows[1500:], y[1500:], random_state=0)
    print(f"{name:11s} {100 * result.accuracy:.1f} % right")

# %%
# The mean image of each cluster: the loss has found digits, and different ways to write them.
cluster = Z.argmax(axis=1)
figure, axes = plt.subplots(4, 8, figsize=(7, 3.6), layout="constrained")
for number, axis in enumerate(axes.flat):
    if (cluster == number).any():
        axis.imshow(images[cluster == number].mean(axis=0), cmap="gray_r")
    axis.set_axis_off()
plt.show()
