"""
A table and a column to predict
===============================

Train a classifier on a table with one call, check it on rows kept apart, and see which columns it uses.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier

from krepes.machines import KernelRidgeClassifier

table = load_breast_cancer(as_frame=True).frame
rows = np.random.default_rng(0).permutation(len(table))
train, test = table.iloc[rows[:100]], table.iloc[rows[100:]]

# %%
# The target is named by its column, which is never a feature. Kernel, lengthscale, weights of the columns and penalty
# are chosen from the 100 rows.
machine = KernelRidgeClassifier(random_state=0).fit(train, "target")
print(f"kernel {machine.kernel_.kernel}, metric {machine.metric_}, penalty {machine.penalty_:.2g}")
print("expected, from rows left out:", machine.held_out_score_)

# %%
# Was the estimate right, and what would gradient boosting have done?
boosting = HistGradientBoostingClassifier(min_samples_leaf=5, random_state=0)
boosting.fit(train.drop(columns="target"), train["target"])
print(f"test accuracy     {machine.score(test, test['target']):.3f}")
print(f"gradient boosting {boosting.score(test.drop(columns='target'), test['target']):.3f}")

# %%
# Which columns count?
importances = machine.column_importances()
print("\n".join(str(importances).splitlines()[:5]))

plt.style.use("tableau-colorblind10")
top = importances.order[:8][::-1]
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.barh(
    [importances.names[j] for j in top],
    100 * importances.shares[top],
    color="C4",
    xerr=100 * importances.errors[top],
)
axis.set(xlabel="share of the metric, %, with its standard error")
plt.show()
