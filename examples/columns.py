"""One table with numbers, a category and free text: a kernel for each, beside one kernel for the encoded table."""

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import HashingVectorizer

from krepes.kernels import ColumnKernel, Custom, Gaussian, Gower, Laplacian
from krepes.machines import KernelRidgeClassifier

rng = np.random.default_rng(0)
n = 600
mood = rng.integers(0, 2, n)  # 1: content
words = [["slow", "broken", "rude", "cold"], ["quick", "lovely", "kind", "warm"]]
filler = ["the", "room", "staff", "food", "was", "and", "we", "on", "monday", "stay"]


def review(mood: int) -> str:
    """Six words that say nothing, and one that does, mostly."""
    telling = rng.choice(words[mood if rng.random() < 0.85 else 1 - mood])
    return " ".join(rng.permutation([*rng.choice(filler, 6), telling]))


table = pd.DataFrame(
    {
        "nights": rng.poisson(2 + mood, n) + 1.0,
        "price": rng.lognormal(4.5 - 0.3 * mood, 0.4, n),
        "city": np.where(rng.random(n) < 0.3 + 0.3 * mood, "Bonn", "Essen"),
        "review": [review(each) for each in mood],
    }
)
table.loc[rng.random(n) < 0.1, "price"] = np.nan
train, test = table[:300], table[300:]

count = HashingVectorizer(alternate_sign=False, n_features=2**12)


def shared_words(left: list[str], right: list[str]) -> np.ndarray:
    """The cosine of word counts: an inner product, so a kernel."""
    return (count.transform(left) @ count.transform(right).T).toarray()


kernels = {
    "one Gaussian, encoded table": Gaussian(),  # near-unique text is left out
    "one Gower kernel, same columns": Gower(),
    "text alone": ColumnKernel({"review": Custom(shared_words)}),
    "a kernel for each, summed": ColumnKernel(
        {"nights, price": Gaussian(), "city": Laplacian(norm=1), "review": Custom(shared_words)}
    ),
    "a kernel for each, multiplied": ColumnKernel(
        {"nights, price, city": Gower("4 median"), "review": Custom(shared_words)}, combine="product"
    ),
}
for name, kernel in kernels.items():
    machine = KernelRidgeClassifier(kernel=kernel, input_metric=None, random_state=0).fit(train, mood[:300])
    print(f"{name:32} {100 * machine.score(test, mood[300:]):.0f} %")
