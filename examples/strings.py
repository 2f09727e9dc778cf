"""Words as they are: a kernel on strings, a model file, and a function of your own as a kernel."""

import numpy as np

from krepes import KernelEmbedding, load
from krepes.kernels import NGrams

TEXT = """gradient gradients graduate kernel kernels colonel matrix matrices mattress vector vectors victor
tensor tensors sensor sensors landmark landmarks landscape postmark embedding embeddings bedding wedding"""
WORDS = TEXT.split()

# Words are compared by the pairs and triples of letters that they share. Objects have no augmentation that krepes
# could know, so: kernel PCA, or pairs of your own (positives=).
pieces = NGrams("char", lengths=(2, 3))
model = KernelEmbedding(8, kernel=pieces, loss="kernel_pca", n_landmarks=20, random_state=0).fit(WORDS)


def directions(words: list[str]) -> np.ndarray:
    """Representations as unit vectors."""
    Z = model.transform(words)
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


for word in ("kernels", "sensor", "bedding", "eigenvector"):  # the last one is new
    similarity = directions(WORDS) @ directions([word])[0]
    nearest = [WORDS[i] for i in np.argsort(-similarity) if WORDS[i] != word][:3]
    print(f"{word:12s} coverage {model.coverage([word])[0]:.2f}, near {', '.join(nearest)}")

model.save("words.krepes", overwrite=True)  # kernel and landmarks, as text and numbers
print("landmarks:", ", ".join(load("words.krepes").landmarks_[:5]), "...")


def letters_in_common(left: list[str], right: list[str]) -> np.ndarray:
    """Any function of two lists is a kernel, if it is an inner product; here of indicator vectors of letters."""
    return np.array([[len(set(a) & set(b)) for b in right] for a in left], dtype=float)


own = KernelEmbedding(8, kernel=letters_in_common, loss="kernel_pca", n_landmarks=20, random_state=0).fit(
    WORDS
)
own.save("letters.krepes", overwrite=True)
same = load(
    "letters.krepes", kernel=letters_in_common
)  # a file cannot hold a function: it is given again, and checked
print("a function of one's own:", same.transform(["eigenvector"]).shape)
