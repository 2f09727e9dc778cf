"""Any objects, any kernel: words compared by the letter pairs that they share."""

from collections import Counter
from itertools import pairwise

import numpy as np

from krepes import KernelEmbedding

WORDS = """gradient gradients graduate kernel kernels colonel matrix matrices mattress vector vectors victor
tensor tensors sensor sensors landmark landmarks landscape postmark embedding embeddings bedding wedding""".split()


def bigrams(word: str) -> Counter:
    return Counter(pairwise(word))


def shared_bigrams(left: list[str], right: list[str]) -> np.ndarray:
    """A positive semi-definite kernel: the inner product of bigram counts."""
    counts = [bigrams(word) for word in right]
    return np.array([[sum(c[b] * bigrams(word)[b] for b in c) for c in counts] for word in left], dtype=float)


model = KernelEmbedding(4, kernel=shared_bigrams, loss="kernel_pca", n_landmarks=20, random_state=0).fit(WORDS)
Z = model.transform(WORDS)
Z /= np.linalg.norm(Z, axis=1, keepdims=True)
for word in ("kernels", "sensor", "bedding"):
    nearest = np.argsort(-Z @ Z[WORDS.index(word)])[1:4]
    print(f"{word:10s} is near {', '.join(WORDS[i] for i in nearest)}")
