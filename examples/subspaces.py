"""Cluster points on three planes that share a direction, and watch the metric that separates them being learned."""

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from krepes.clustering import SubspaceClustering, plot_iterations, within_share
from krepes.kernels import Polynomial

rng = np.random.default_rng(0)
y = np.repeat([0, 1, 2], 60)
directions = np.array([[1.0, 1.3], [1.3, 1.0], [2.3, 0.4]])[y]
X = np.hstack([rng.normal(size=(180, 1)) * directions, 0.05 * rng.normal(size=(180, 3))])

quadratic = Polynomial(degree=2, offset=0.0)
common = {"kernel": quadratic, "truncation": None, "random_state": 0}
for name, parameters in {"data as given": {"projection": None}, "learned metric": {}}.items():
    model = SubspaceClustering(3, **common, **parameters).fit(X)
    share, score = (
        within_share(model.affinity_matrix_, y),
        normalized_mutual_info_score(y, model.labels_),
    )
    print(f"{name:16s} affinity within clusters {share:.2f}, NMI {score:.2f} (iteration {model.n_iter_})")

plot_iterations(model, X, y, axes=(0, 1)).savefig("subspaces.png", dpi=100)
print("figure: subspaces.png")
