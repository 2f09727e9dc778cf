"""Any objects, any kernel: words compared by the letter pairs and triples that they share."""

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from krepes import KernelEmbedding, load

TEXT = """gradient gradients graduate kernel kernels colonel matrix matrices mattress vector vectors victor
tensor tensors sensor sensors landmark landmarks landscape postmark embedding embeddings bedding wedding"""
WORDS = TEXT.split()

# A word becomes a unit vector: the counts of its pairs and triples of letters.
pieces = HashingVectorizer(analyzer="char", ngram_range=(2, 3), alternate_sign=False)


def shared_pieces(left: list[str], right: list[str]) -> np.ndarray:
    """The cosine of the counts, shape (len(left), len(right)): an inner product, so a kernel."""
    return (pieces.transform(left) @ pieces.transform(right).T).toarray()


# Objects have no augmentation that krepes could know, so: kernel PCA, or pairs of your own (positives=).
model = KernelEmbedding(8, kernel=shared_pieces, loss="kernel_pca", n_landmarks=20, random_state=0).fit(WORDS)


def directions(words: list[str]) -> np.ndarray:
    """Representations as unit vectors."""
    Z = model.transform(words)
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


for word in ("kernels", "sensor", "bedding", "eigenvector"):  # the last one is new
    similarity = directions(WORDS) @ directions([word])[0]
    nearest = [WORDS[i] for i in np.argsort(-similarity) if WORDS[i] != word][:3]
    print(f"{word:12s} coverage {model.coverage([word])[0]:.2f}, near {', '.join(nearest)}")

# A file cannot hold a function: it is given again at loading, and checked.
model.save("words.krepes", overwrite=True)
same = load("words.krepes", kernel=shared_pieces)
print("landmarks:", ", ".join(same.landmarks_[:5]), "...")
