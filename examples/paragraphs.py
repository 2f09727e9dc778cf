"""Running text: to which topic of Python's own help does a paragraph belong?"""

import re
from pydoc_data.topics import topics

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from krepes.kernels import NGrams
from krepes.machines import KernelRidgeClassifier

TOPICS = [
    "debugger",
    "string-methods",
    "typesmapping",
    "formatstrings",
    "specialnames",
    "class",
    "exceptions",
    "import",
]


def paragraphs(topic: str) -> list[str]:
    """Paragraphs of at least 80 letters without headings and indentation."""
    parts = (re.sub(r"\s+", " ", part).strip() for part in topics[topic].split("\n\n"))
    return sorted({part for part in parts if len(re.sub(r"[^a-z]", "", part.lower())) >= 80})


texts = {topic: paragraphs(topic) for topic in TOPICS}
X = [text for topic in TOPICS for text in texts[topic]]
y = np.repeat(TOPICS, [len(texts[topic]) for topic in TOPICS])
print(
    f"{len(X)} paragraphs of {len(TOPICS)} topics; the largest has {max(map(len, texts.values())) / len(X):.0%}"
)

models = {
    "words, logistic regression": make_pipeline(CountVectorizer(), LogisticRegression(max_iter=1000)),
    "NGrams()": KernelRidgeClassifier(kernel=NGrams(), random_state=0),
    'NGrams(weighting="tfidf")': KernelRidgeClassifier(kernel=NGrams(weighting="tfidf"), random_state=0),
    "words and pairs of words, tfidf": KernelRidgeClassifier(
        kernel=NGrams(lengths=(1, 2), weighting="tfidf"), random_state=0
    ),
    "words and characters": KernelRidgeClassifier(
        kernel=NGrams(weighting="tfidf") + NGrams("char", (2, 5), weighting="tfidf"), random_state=0
    ),
}
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
for name, model in models.items():
    print(f"{name:36s} accuracy {model.fit(X_train, y_train).score(X_test, y_test):.1%}")
