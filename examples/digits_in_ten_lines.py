"""Learn a representation of handwritten digits without labels; then see what 10 % of the labels are worth."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe

images, y = load_digits().images / 16, load_digits().target
train, test, y_train, y_test = train_test_split(images, y, random_state=0, stratify=y)
n_labels = len(train) // 10  # the first tenth has labels; the models never see any

model = KernelEmbedding(n_components=16, random_state=0).fit(train)  # image views, one pass, a closed form
kernel_pca = KernelEmbedding(n_components=16, loss="kernel_pca", random_state=0).fit(train)  # no views

for name, transform in [
    ("raw pixels", lambda X: X.reshape(len(X), -1)),
    ("kernel PCA", kernel_pca.transform),
    ("krepes", model.transform),
]:
    result = linear_probe(transform(train[:n_labels]), y_train[:n_labels], transform(test), y_test)
    print(f"{name:12s} {result}")
