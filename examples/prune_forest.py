"""
Prune a forest
==============

Most members of an ensemble are not needed. Keep some, give them new weights, and see what is lost or gained.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import AdaBoostRegressor, BaggingRegressor, RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor

from krepes.alignment import prune_ensemble

X, y = make_friedman1(2000, noise=1.0, random_state=0)
train, held_out, test = slice(0, 800), slice(800, 1200), slice(1200, None)
ensembles = {
    "forest": RandomForestRegressor(100, random_state=0),
    "10 neighbours": BaggingRegressor(KNeighborsRegressor(10), 100, max_samples=0.5, random_state=0),
    "AdaBoost": AdaBoostRegressor(n_estimators=100, random_state=0),
}

# %%
# Members are judged by rows that they have not seen. Forests and bagging know these rows; boosting is given some.
pruned = {}
for name, ensemble in ensembles.items():
    ensemble.fit(X[train], y[train])
    rows = held_out if name == "AdaBoost" else train
    pruned[name] = prune_ensemble(ensemble, X[rows], y[rows])
    before, after = ensemble.score(X[test], y[test]), pruned[name].score(X[test], y[test])
    print(f"{name:14s} R² {before:.3f} with 100 members, {after:.3f} with {pruned[name].size_}")

# %%
# Which members stay? Not simply the best ones: a member must add something that the others do not know.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for axis, (name, ensemble) in zip(axes, pruned.items()):
    score, weight = np.array([(member.score, member.weight) for member in ensemble.table_]).T
    axis.scatter(score[weight == 0], weight[weight == 0], s=18, color="C2", label="dropped")
    axis.scatter(score[weight > 0], weight[weight > 0], s=30, color="C0", label="kept")
    axis.set(title=f"{name}: {ensemble.size_} of 100", xlabel="R² of the member alone")
axes[0].set_ylabel("new weight")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
plt.show()
