"""A table with missing values, categories, an id and a label: what becomes of it, and an honest comparison."""

import numpy as np
from sklearn.datasets import load_breast_cancer

from krepes import KernelEmbedding, TableEncoder, load
from krepes.evaluation import plan_protocol

# A table as one finds it: numbers with gaps, a category, an id, and the label among the columns.
rng = np.random.default_rng(0)
table = load_breast_cancer(as_frame=True).frame
table["patient_id"] = [f"P{i:04d}" for i in range(len(table))]
table["size"] = np.where(table.pop("mean area") > 650, "large", "small")
table["mean texture"] = table["mean texture"].mask(rng.random(len(table)) < 0.05)

encoder = TableEncoder(label="target")
for column, role, detail, _ in encoder.fit(table).describe():
    if column in ("mean radius", "mean texture", "size", "patient_id", "target"):
        print(f"{column:13s} {role:9s} {detail}")

rows = rng.permutation(len(table))
train, test = rows[:400], rows[400:]
model = KernelEmbedding(8, preprocess=encoder, random_state=0).fit(table.iloc[train])
kernel_pca = KernelEmbedding(8, loss="kernel_pca", preprocess=encoder, random_state=0).fit(table.iloc[train])

# Labels on a tenth of the training rows. On a table this small the columns themselves are hard to beat.
plan = plan_protocol(table["target"], train, test, label_fraction=0.1, n_repeats=5)
for name, transform in [
    ("encoded columns", encoder.transform),
    ("kernel PCA", kernel_pca.transform),
    ("krepes", model.transform),
]:
    print(f"{name:16s} {plan.run(transform(table)[plan.rows])}")

# A row like no other is found without labels: the landmarks do not span it.
odd = table.iloc[[0]].copy()
odd["worst radius"] = 10 * table["worst radius"].max()
usual = model.coverage(table.iloc[test]).mean()
print(f"coverage {usual:.2f} of the test rows, {model.coverage(odd)[0]:.2f} of an odd row")

model.save("cancer.krepes", overwrite=True)  # encoder, landmarks (real rows!), coefficients, moments
print("same after loading:", np.array_equal(load("cancer.krepes").transform(odd), model.transform(odd)))
