"""A loss of your own: a function of two views' embeddings, trained on batches of samples."""

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import log_softmax, softmax

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.solvers import SGD

images, y = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8) / 16


def soft_clusters(Z1, Z2):
    """Components are clusters: both views of a digit agree on theirs, and all clusters are used."""
    agreement = -(softmax(Z1.detach() / 0.5, 1) * log_softmax(Z2, 1)).sum(1).mean()
    usage = softmax(Z2, 1).mean(0)
    return {"agreement": agreement, "balance": (usage * usage.log()).sum()}


model = KernelEmbedding(
    32, loss=soft_clusters, n_landmarks=300, regularization=1e-4, solver=SGD(max_epochs=30), random_state=0
).fit(images[:1500])
print(
    {
        name: round(value, 3)
        for name, value in model.history_[-1].items()
        if name in ("agreement", "balance", "total")
    }
)

labelled = torch.randperm(1500, generator=torch.Generator().manual_seed(0))[:150].numpy()
for name, Z in (("raw pixels", images.reshape(len(images), -1)), ("own loss", model.transform(images))):
    print(name, linear_probe(Z[labelled], y[labelled], Z[1500:], y[1500:], random_state=0))
