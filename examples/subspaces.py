"""
Clusters on subspaces
=====================

Three lines share most of their direction, so that no distance separates them. A learned metric does.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from krepes.clustering import SubspaceClustering, within_share
from krepes.kernels import Polynomial

rng = np.random.default_rng(0)
y = np.repeat([0, 1, 2], 60)
directions = np.array([[1.0, 1.3], [1.3, 1.0], [2.3, 0.4]])[y]
X = np.hstack([rng.normal(size=(180, 1)) * directions, 0.05 * rng.normal(size=(180, 3))])

# %%
# A row belongs with the rows that express it best. ``projection=None`` takes the columns as they are; by default the
# columns are weighted and turned until rows of one cluster express each other.
models = {}
for name, parameters in {"data as given": {"projection": None}, "learned metric": {}}.items():
    kernel = Polynomial(degree=2, offset=0.0)
    model = SubspaceClustering(3, kernel=kernel, truncation=None, random_state=0, **parameters).fit(X)
    models[name] = model
    share = within_share(model.affinity_matrix_, y)
    score = normalized_mutual_info_score(y, model.labels_)
    print(f"{name:15s} affinity within clusters {share:.2f}, agreement with the truth (NMI) {score:.2f}")

# %%
# The data, and how strongly rows express each other. Rows are sorted by their true line: three blocks are wanted.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for line, colour, marker in zip(range(3), ("C0", "C1", "C3"), "os^"):
    axes[0].scatter(*X[y == line, :2].T, s=14, color=colour, marker=marker)
axes[0].set(title="three lines", xlabel="first column", ylabel="second column")
for axis, (name, model) in zip(axes[1:], models.items()):
    axis.imshow(np.sqrt(model.affinity_matrix_), cmap="Blues")
    axis.set(title=name, xlabel="row", xticks=[0, 60, 120], yticks=[0, 60, 120])
axes[1].set_ylabel("row")
plt.show()
