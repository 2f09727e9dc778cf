"""Prune a forest and two other ensembles: fewer members with new weights, chosen by rows that they have not seen."""

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
for name, ensemble in ensembles.items():
    ensemble.fit(X[train], y[train])
    # Bagging and forests know which rows each member has not seen; for boosting such rows are given.
    rows = held_out if name == "AdaBoost" else train
    pruned = prune_ensemble(ensemble, X[rows], y[rows])
    before, after = ensemble.score(X[test], y[test]), pruned.score(X[test], y[test])
    print(f"{name:14s} R² {before:.3f} with 100 members, {after:.3f} with {pruned.size_}; {pruned.savings_}")

print("\nThe last ensemble's heaviest members, and two that were dropped:")
rows = sorted(pruned.table_, key=lambda row: -row.weight)
for row in [*rows[:3], *rows[-2:]]:
    print(f"  {row.name:>3s}  weight {row.weight:.3f}  R² alone {row.score:.2f}  {row.reason}")
