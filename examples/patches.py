"""
Pictures by their patches
=========================

Few labels, the dictionary of patches, and where in a picture a score comes from.
"""

import numpy as np
from sklearn.datasets import load_digits

from krepes import KernelEmbedding
from krepes.explain import class_direction, position_maps
from krepes.features import learn_patches
from krepes.kernels import Patches
from krepes.machines import KernelRidgeClassifier

digits = load_digits()
X, y = digits.images[:1200], digits.target[:1200]
X_test, y_test = digits.images[1200:], digits.target[1200:]

# What patches look like is learned from all pictures; labels are needed for fifty.
patches = Patches(n_patches=128, kernel="gaussian").fitted(X)
learned = learn_patches(X, Patches(n_patches=128, kernel="gaussian"), n_components=32)
for name, kernel in (("pixels", "gaussian"), ("patches", patches), ("learned patches", learned)):
    model = KernelRidgeClassifier(kernel=kernel, random_state=0).fit(X[:50], y[:50])
    print(f"{name}: {100 * model.score(X_test, y_test):.1f} % with 50 labels")

# Without labels, views of the pictures say whether patches are worth it.
print(KernelEmbedding(16, n_landmarks=200, random_state=0).fit(X).choice_)

# Where the score of a class comes from: every position has its part, and the parts add up.
model = KernelRidgeClassifier(kernel=patches, random_state=0).fit(X[:300], y[:300])
direction = class_direction(model, 3, against=8)
maps = position_maps(model, X_test[y_test == 3][:1], direction)
score = (model.decision_function(X_test[y_test == 3][:1]) @ direction).item()
print(f"3 rather than 8: {score:.4f}, the sum of the map is {maps.scores[0]:.4f}")
for line, pixels in zip(maps.values[0], X_test[y_test == 3][0]):
    signs = "".join("+" if part > 0 else "-" for part in line)
    print("".join(" .:*#"[int(np.ceil(pixel / 4))] for pixel in pixels), " ", signs)

# The dictionary: whitened patches of 3 x 3 pixels.
entries = patches.layers_[0].dictionary_.reshape(-1, 3, 3)
print(f"{len(entries)} entries; the first one:\n{np.array2string(entries[0].numpy(), precision=2)}")
