"""A table and a column to predict: trained in one call, tested on rows kept apart, explained, saved."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier

from krepes import load
from krepes.explain import target_direction, top_attribution
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor

# Classes: 100 labels. The target is named by its column, which is never a feature.
table = load_breast_cancer(as_frame=True).frame
rows = np.random.default_rng(0).permutation(len(table))
train, test = table.iloc[rows[:100]], table.iloc[rows[100:]]
machine = KernelRidgeClassifier(random_state=0).fit(train, "target")
print("held out:", machine.held_out_score_)
print(f"test accuracy {machine.score(test, test['target']):.3f}")
boosting = HistGradientBoostingClassifier(min_samples_leaf=5, random_state=0)
boosting.fit(train.drop(columns="target"), train["target"])
print(f"gradient boosting {boosting.score(test.drop(columns='target'), test['target']):.3f}")

# What was chosen, and which columns count.
print(f"{machine.kernel_.kernel}, metric: {machine.metric_}, penalty {machine.penalty_:.2g}")
print("\n".join(str(machine.column_importances()).splitlines()[:5]))

# A quantity, with intervals that hold it nine times in ten.
table = load_diabetes(as_frame=True).frame
train, test = table[:300], table[300:]
machine = KernelRidgeRegressor(random_state=0).fit(train, "target")
low, high = machine.predict_interval(test, confidence=0.9).T
inside = np.mean((low <= test["target"]) & (test["target"] <= high))
print(f"R² {machine.score(test, test['target']):.3f}, {inside:.2f} of the targets inside")

# Which patients a prediction is made of, in the unit of the target.
top = top_attribution(machine, test.iloc[[0]], target_direction(machine), n_top=3)
for row, value in zip(top.rows[0], top.values[0]):
    print(f"patient {row}, target {train['target'][row]:.0f}: adds {value:+.1f}")

machine.save("diabetes.krepes", overwrite=True)  # landmarks and kept rows: real rows of the data
print("same after loading:", np.allclose(load("diabetes.krepes").predict(test), machine.predict(test)))
