"""
A table as one finds it
=======================

Gaps, categories, an id and a label among the columns: see what becomes of each, and spot a row like no other.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from krepes import KernelEmbedding, TableEncoder

rng = np.random.default_rng(0)
table = load_breast_cancer(as_frame=True).frame
table["patient_id"] = [f"P{i:04d}" for i in range(len(table))]
table["size"] = np.where(table.pop("mean area") > 650, "large", "small")
table["mean texture"] = table["mean texture"].mask(rng.random(len(table)) < 0.05)

# %%
# The encoder decides by itself: numbers are scaled, categories become indicators, gaps are filled and marked, an id is
# left out. The label must be named, so that it is no feature.
encoder = TableEncoder(label="target")
for column, role, detail, _ in encoder.fit(table).describe():
    if column in ("mean radius", "mean texture", "size", "patient_id", "target"):
        print(f"{column:13s} {role:9s} {detail}")

# %%
# Learn from 400 rows without labels. Coverage says how well the landmarks describe a row: an odd row stands out.
train, test = np.split(rng.permutation(len(table)), [400])
model = KernelEmbedding(2, preprocess=encoder, random_state=0).fit(table.iloc[train])
odd = table.iloc[[0]].copy()
odd["worst radius"] = 10 * table["worst radius"].max()
usual = model.coverage(table.iloc[test])
print(f"coverage: {usual.mean():.2f} on average, {model.coverage(odd)[0]:.2f} for the odd row")

# %%
# Two components of the test rows. The classes come apart, though the model has seen no label.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
Z, target = model.transform(table.iloc[test]), table["target"].iloc[test].to_numpy()
for value, name, colour, marker in ((1, "benign", "C0", "o"), (0, "malignant", "C1", "^")):
    axes[0].scatter(*Z[target == value].T, s=22, color=colour, marker=marker, label=name)
axes[0].set(xlabel="component 0", ylabel="component 1")
axes[0].legend(frameon=False)
axes[1].hist(usual, bins=20, range=(0, 1), color="C4")
axes[1].axvline(model.coverage(odd)[0], color="C1", linewidth=3, label="the odd row")
axes[1].set(xlabel="coverage", ylabel="test rows")
axes[1].legend(frameon=False)
plt.show()
