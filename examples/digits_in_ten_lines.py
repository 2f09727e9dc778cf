"""
Digits with few labels
======================

Learn a representation of images without labels, then see how much it helps when only a few images are labelled.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe

images, y = load_digits().images / 16, load_digits().target
train, test, y_train, y_test = train_test_split(images, y, random_state=0, stratify=y)

# %%
# Both models see all training images and no label. The first learns that a digit that is moved or scaled a little
# stays the same digit; kernel PCA does not know this.
model = KernelEmbedding(n_components=16, random_state=0).fit(train)
kernel_pca = KernelEmbedding(n_components=16, loss="kernel_pca", random_state=0).fit(train)
representations = {
    "raw pixels": lambda X: X.reshape(len(X), -1),
    "kernel PCA": kernel_pca.transform,
    "krepes": model.transform,
}

# %%
# A linear classifier judges each representation by the labels of the first images.
n_labels = [50, 134, 400]
scores = {name: [] for name in representations}
for name, transform in representations.items():
    Z_train, Z_test = transform(train), transform(test)
    for n in n_labels:
        result = linear_probe(Z_train[:n], y_train[:n], Z_test, y_test)
        scores[name].append(100 * result.accuracy)
    print(f"{name:11s} {n_labels[1]} labels: {scores[name][1]:.1f} % right")

# %%
# The fewer the labels, the more the representation matters.
plt.style.use("tableau-colorblind10")
figure, axis = plt.subplots(figsize=(5.5, 4), layout="constrained")
for (name, values), colour in zip(scores.items(), ("C3", "C0", "C1")):
    axis.plot(n_labels, values, "o-", color=colour, linewidth=2, label=name)
axis.set_xscale("log", base=2)
axis.set_xticks(n_labels, n_labels)
axis.set(xlabel="labelled images", ylabel="test accuracy, %")
axis.legend(frameon=False)
plt.show()
