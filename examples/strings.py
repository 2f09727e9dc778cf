"""
Words as they are
=================

Compare strings by the letters that they share, without making columns of numbers first.
"""

import matplotlib.pyplot as plt
import numpy as np

from krepes import KernelEmbedding
from krepes.kernels import NGrams

TEXT = """gradient gradients graduate kernel kernels colonel matrix matrices mattress vector vectors victor
tensor tensors sensor sensors landmark landmarks landscape postmark embedding embeddings bedding wedding"""
WORDS = TEXT.split()

# %%
# ``NGrams`` counts shared pairs and triples of letters. Strings have no augmentation that krepes could know, so the
# loss is kernel PCA; pairs of your own (``positives=``) are the other way.
pieces = NGrams("char", lengths=(2, 3))
model = KernelEmbedding(8, kernel=pieces, loss="kernel_pca", n_landmarks=20, random_state=0).fit(WORDS)


def directions(model: KernelEmbedding, words: list[str]) -> np.ndarray:
    """Representations as unit vectors."""
    Z = model.transform(words)
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


for word in ("kernels", "bedding", "eigenvector"):  # the last one is new
    similarity = directions(model, WORDS) @ directions(model, [word])[0]
    nearest = [WORDS[i] for i in np.argsort(-similarity) if WORDS[i] != word][:3]
    print(f"{word:12s} is near {', '.join(nearest)}")

# %%
# Any function of two lists can be a kernel if it is an inner product. This one counts shared letters.


def letters_in_common(left: list[str], right: list[str]) -> np.ndarray:
    return np.array([[len(set(a) & set(b)) for b in right] for a in left], dtype=float)


own = KernelEmbedding(8, kernel=letters_in_common, loss="kernel_pca", n_landmarks=20, random_state=0).fit(
    WORDS
)

# %%
# Cosines of the representations. Pieces of words find the families; letters alone see likeness nearly everywhere.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), sharey=True, layout="constrained")
for axis, name, fitted in zip(axes, ("pairs and triples of letters", "letters in common"), (model, own)):
    Z = directions(fitted, WORDS)
    image = axis.imshow(Z @ Z.T, cmap="Blues", vmin=0, vmax=1)
    axis.set_title(name)
    axis.set_xticks([])
axes[0].set_yticks(range(len(WORDS)), WORDS, fontsize=8)
figure.colorbar(image, label="cosine", shrink=0.8)
plt.show()
