"""Learn a representation of handwritten digits without labels; then see what 10 % of the labels are worth."""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from krepes import KernelEmbedding

digits = load_digits()
X_train, X_test, y_train, y_test = train_test_split(digits.images, digits.target, random_state=0)
labelled = slice(0, len(X_train) // 10)

model = KernelEmbedding(n_components=64, random_state=0).fit(X_train)
for name, train, test in [
    ("raw pixels", X_train.reshape(len(X_train), -1) / 16, X_test.reshape(len(X_test), -1) / 16),
    ("krepes", model.transform(X_train), model.transform(X_test)),
]:
    probe = LogisticRegression(C=100, max_iter=2000).fit(train[labelled], y_train[labelled])
    print(f"{name:12s} accuracy {probe.score(test, y_test):.3f}")
